//! A race of three operations on one external id: a webhook, the page after the checkout, and a caller who creates a
//! subscription. Only one record may be created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::providers::{
    EventFilter, HttpProviderApi, ObjectKind, ObjectRef, ProviderAccount, ProviderKind, Providers,
};
use subscription_core::store::{PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    BillingCycle, Clock as _, ManagedBy, ManualClock, NewPlan, NewSubscription, Plan, Slug, Store,
    SubscriptionService, SystemRandomness, UserId,
};
use tokio::task::JoinSet;

use crate::fake_provider::{Account, InProcess, KEY, PRICES, SECRET, Shared, shared};

/// Runs the race `rounds` times. Each process uses one of the stores.
pub async fn one_external_id(stores: &[Arc<dyn Store>], kind: ProviderKind, rounds: usize) {
    let clock = ManualClock::at("2025-06-01T10:00:00Z".parse().unwrap());
    let account = Account::new(kind, 1_748_772_000).into_shared();
    let services: Vec<_> = (0..3).map(|nth| service(&stores[nth % stores.len()], &clock)).collect();
    let slug = format!("race-{kind}").replace('_', "-").parse().unwrap();
    let mut plan =
        NewPlan::new("Pro".parse().unwrap(), slug, "19.99".parse().unwrap(), BillingCycle::MONTHLY);
    plan.currency = Some("USD".parse().unwrap());
    let plan = services[0].create_plan(plan).await.unwrap();
    for _ in 0..rounds {
        race(&services, &account, &clock, &plan).await;
    }
}

fn service(store: &Arc<dyn Store>, clock: &ManualClock) -> SubscriptionService {
    SubscriptionService::builder(Arc::clone(store))
        .clock(clock.clone())
        .pause(|span| Box::pin(tokio::time::sleep(span)))
        .build()
}

fn source() -> Slug {
    "shop".parse().unwrap()
}

fn process(service: &SubscriptionService, account: &Shared, plan: &Plan) -> Providers {
    let kind = shared(account).kind;
    let fetch = Arc::new(InProcess::new(Arc::clone(account)));
    let api = Arc::new(HttpProviderApi::new(kind, KEY.into(), fetch));
    let plans = BTreeMap::from([(PRICES[0].id(kind), plan.slug.clone())]);
    let source = ProviderAccount::new(source(), kind, vec![SECRET.into()], api);
    Providers::new(service.clone(), vec![source.with_any_user(true).with_plans(plans)])
}

async fn race(
    services: &[SubscriptionService],
    account: &Shared,
    clock: &ManualClock,
    plan: &Plan,
) {
    let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
    let (id, kind, webhooks) = {
        let mut account = shared(account);
        let customer = account.customer();
        let id = account.subscribe(&customer, Some(&user.to_string()), 0, None);
        (id, account.kind, std::mem::take(&mut account.outbox))
    };
    let external = crate::fake_provider::oracle::external_id(kind, &id);
    let (by_webhook, by_page) =
        (process(&services[0], account, plan), process(&services[1], account, plan));
    let mut tasks = JoinSet::new();
    for webhook in webhooks {
        let (providers, now) = (by_webhook.clone(), shared(account).now);
        tasks.spawn(async move {
            let webhook = webhook.signed(kind, SECRET, now);
            let signature = webhook.signature.as_bytes();
            providers.receive_webhook(&source(), &[signature], &webhook.body).await.unwrap();
            providers.advance(10).await.unwrap();
        });
    }
    let target = ObjectRef { kind: ObjectKind::Subscription, id: id.parse().unwrap() };
    let providers = by_page.clone();
    tasks.spawn(async move {
        providers.observe_now(&source(), &target, None).await.unwrap();
    });
    let (caller, external_id) = (services[2].clone(), external.parse().unwrap());
    let mut new = NewSubscription::new(user, plan.id);
    new.external_subscription_id = Some(external_id);
    new.managed_by = Some(ManagedBy::Caller);
    tasks.spawn(async move {
        // The record from the provider may have been created first.
        if let Err(refused) = caller.create_subscription(new).await {
            assert_eq!(refused.code(), "external_id_taken", "{refused:?}");
        }
    });
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }

    let open = async || {
        let object = EventFilter::default().with_object(id.parse().ok());
        let events = by_webhook.events(&object, None, PageLimit::MAX).await.unwrap().items;
        assert!(!events.is_empty());
        events.iter().any(|listed| !listed.event.status().is_finished())
    };
    while open().await {
        clock.advance(Duration::from_secs(1));
        by_webhook.advance(10).await.unwrap();
    }
    clock.advance(Duration::from_secs(1));
    let filter = SubscriptionFilter::default().with_user_id(user);
    let query = SubscriptionQuery::default().with_filter(filter);
    let found = services[0].subscriptions(query).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].external_subscription_id.as_ref().unwrap().as_str(), external);
    assert_eq!(found[0].managed_by, ManagedBy::Provider, "{found:?}");
}
