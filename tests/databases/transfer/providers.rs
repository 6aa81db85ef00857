//! Events, links and the progress of syncs move with the records, and are followed where they arrive.

use std::sync::Arc;
use std::time::Duration;

use subscription_core::providers::{
    HttpProviderApi, ProviderAccount, ProviderKind, Providers, Received, SyncKind,
};
use subscription_core::store::transfer::ImportOptions;
use subscription_core::store::{
    Collection, Document, DocumentFilter, DocumentQuery, PageLimit, StoreExt as _,
    SubscriptionQuery,
};
use subscription_core::{
    BillingCycle, Clock as _, ManualClock, NewPlan, Slug, Store, SubscriptionService,
    SystemRandomness, UserId,
};
use test_support::fake_provider::{
    Account, InProcess, KEY, PRICES, SECRET, Shared, Webhook, shared,
};
use test_support::trials;
use test_support::trials::Trial;

use super::Movable;
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![the_documents_of_providers_move_from_file_to_file]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![the_documents_of_providers_move_from_a_file_to_a_server_and_back]
}

async fn the_documents_of_providers_move_from_file_to_file() {
    moved(Arc::new(sqlite::fresh().await), Arc::new(sqlite::fresh().await)).await;
}

async fn the_documents_of_providers_move_from_a_file_to_a_server_and_back() {
    moved(Arc::new(sqlite::fresh().await), Arc::new(postgres::fresh().await)).await;
    moved(Arc::new(postgres::fresh().await), Arc::new(sqlite::fresh().await)).await;
}

/// A source whose records are in a store.
struct Shop {
    providers: Providers,
    service: SubscriptionService,
    clock: ManualClock,
    account: Shared,
}

fn name() -> Slug {
    "shop".parse().unwrap()
}

impl Shop {
    fn over(store: Arc<dyn Store>, account: &Shared, clock: &ManualClock) -> Self {
        let service = SubscriptionService::builder(store).clock(clock.clone()).build();
        let kind = shared(account).kind;
        let fetch = Arc::new(InProcess::new(Arc::clone(account)));
        let api = Arc::new(HttpProviderApi::new(kind, KEY.into(), fetch));
        let source =
            ProviderAccount::new(name(), kind, vec![SECRET.into()], api).with_any_user(true);
        let source = source.with_plans([(PRICES[0].id(kind), "pro".parse().unwrap())].into());
        let providers = Providers::new(service.clone(), vec![source]);
        Self { providers, service, clock: clock.clone(), account: Arc::clone(account) }
    }

    async fn plan(&self) {
        let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
        let mut plan = NewPlan::new(name, slug, "19.99".parse().unwrap(), BillingCycle::MONTHLY);
        plan.currency = Some("USD".parse().unwrap());
        self.service.create_plan(plan).await.unwrap();
    }

    /// Delivers all webhooks of the account, and applies them.
    async fn follow(&self) {
        let (kind, now, outbox) = {
            let mut account = shared(&self.account);
            (account.kind, account.now, std::mem::take(&mut account.outbox))
        };
        for event in outbox {
            let webhook = event.signed(kind, SECRET, now);
            self.receive_webhook(&webhook).await;
        }
        for _ in 0..20 {
            self.providers.advance(100).await.unwrap();
            self.clock.advance(Duration::from_secs(1));
        }
    }

    async fn receive_webhook(&self, webhook: &Webhook) {
        let signature = webhook.signature.as_bytes();
        let taken =
            self.providers.receive_webhook(&name(), &[signature], &webhook.body).await.unwrap();
        assert_eq!(taken, Received::Stored);
    }

    async fn statuses(&self) -> Vec<String> {
        let all = self.service.subscriptions(SubscriptionQuery::default()).await.unwrap().items;
        let mut all: Vec<_> = all.iter().map(|of| of.status.to_string()).collect();
        all.sort();
        all
    }
}

/// The documents of a collection.
async fn documents(store: &dyn Store, collection: &'static str) -> Vec<Document> {
    let query = DocumentQuery::new(Collection::named(collection), DocumentFilter::All);
    let query = query.with_limit(PageLimit::MAX);
    let found = store.list_as::<Document>(query).await.unwrap().items;
    found.iter().map(|document| Document::clone(document)).collect()
}

async fn moved<H: Movable + 'static, A: Movable + 'static>(home: Arc<H>, away: Arc<A>) {
    let clock = ManualClock::at("2025-06-01T10:00:00Z".parse().unwrap());
    let account = Account::new(ProviderKind::Stripe, 1_748_772_000).into_shared();
    let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
    let (known, unknown) = {
        let mut account = shared(&account);
        let (known, unknown) = (account.customer(), account.customer());
        let id = account.subscribe(&known, Some(&user.to_string()), 0, None);
        account.invoice(&id, "subscription_create", true);
        account.subscribe(&unknown, None, 0, None);
        (id, unknown)
    };
    let at_home = Shop::over(Arc::<H>::clone(&home), &account, &clock);
    at_home.plan().await;
    at_home.follow().await;
    let unreadable = br#"{"id":"evt_1","type":"invoice.paid","livemode":false}"#.to_vec();
    at_home
        .receive_webhook(&Webhook::of(ProviderKind::Stripe, SECRET, 1_748_772_000, unreadable))
        .await;
    at_home.providers.sync_page(&name(), SyncKind::All, false).await.unwrap();
    assert_eq!(at_home.statuses().await, ["active"]);

    away.move_in_with(&home.moved_out().await, ImportOptions::default().for_any_user())
        .await
        .unwrap();

    for collection in ["provider_event", "provider_link", "provider_progress"] {
        let before = documents(&*home, collection).await;
        assert!(!before.is_empty(), "{collection}");
        assert_eq!(documents(&*away, collection).await, before);
    }
    let at_away = Shop::over(Arc::<A>::clone(&away), &account, &clock);
    shared(&account).change(&known, |of| of.status = "past_due");
    at_away.providers.bind_customer(&name(), &unknown.parse().unwrap(), user).await.unwrap();
    at_away.follow().await;
    assert_eq!(at_away.statuses().await, ["active", "past_due"]);
}
