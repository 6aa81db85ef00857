//! The plans, the source and the workers of a run, and its records, read page by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subscription_core::providers::{
    EventFilter, ListedEvent, PauseMeans, ProviderAccount, ProviderKind, Providers,
};
use subscription_core::store::{PageLimit, SubscriptionQuery};
use subscription_core::{
    Amount, BillingCycle, Clock as _, ManualClock, NewPlan, PlanId, Slug, Store, Subscription,
    SubscriptionService,
};

use super::worker::{Common, Worker};
use crate::fake_provider::{Event, ONE_TIME, PRICES, hex, shared};
use crate::rng::Rng;

pub(super) fn source() -> Slug {
    "shop".parse().unwrap()
}

pub(super) fn seconds(clock: &ManualClock) -> i64 {
    let micros = clock.now().since("1970-01-01T00:00:00.000000Z".parse().unwrap());
    i64::try_from(micros.as_secs()).unwrap()
}

pub(super) fn started(common: &Common, rng: &Rng, pause: PauseMeans) -> Worker {
    let kind = shared(&common.account).kind;
    Worker::start(common, rng, |source: ProviderAccount| {
        // Two prices are mapped by the settings, the other prices by the variants and the product of a plan.
        let plans = PRICES[..2].iter().map(|price| (price.id(kind), price.slug.parse().unwrap()));
        source.with_pause(pause).with_any_user(true).with_plans(plans.collect())
    })
}

/// The key of an event: the id from the provider, or the hash of the body.
pub(super) fn key(kind: ProviderKind, event: &Event) -> String {
    match kind {
        ProviderKind::Stripe => {
            let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
            body["id"].as_str().unwrap().to_owned()
        }
        ProviderKind::LemonSqueezy => hex(&Sha256::digest(&event.body)),
    }
}

/// Creates a plan for each price except the last. Returns the ids of the plans by slug.
pub(super) async fn plans(
    store: Arc<dyn Store>,
    clock: &ManualClock,
    kind: ProviderKind,
) -> BTreeMap<&'static str, PlanId> {
    let service = SubscriptionService::builder(store).clock(clock.clone()).build();
    let mut plans = BTreeMap::new();
    for (nth, price) in PRICES[..=ONE_TIME].iter().enumerate() {
        let cycle = match price.months {
            0 => BillingCycle::ONE_TIME,
            12 => "yearly".parse().unwrap(),
            _ => BillingCycle::MONTHLY,
        };
        let amount: Amount = price.decimal(price.amount).parse().unwrap();
        let slug = price.slug.parse().unwrap();
        let mut plan = NewPlan::new(price.slug.parse().unwrap(), slug, amount, cycle);
        plan.currency = Some(price.currency.parse().unwrap());
        match nth {
            0 | 1 => {}
            2 => plan.variants = vec![price.id(kind).parse().unwrap()],
            _ => plan.product_id = Some(price.product(kind).parse().unwrap()),
        }
        plans.insert(price.slug, service.create_plan(plan).await.unwrap().id);
    }
    plans
}

/// Reads all events, page by page.
pub(super) async fn listed(providers: &Providers) -> Vec<ListedEvent> {
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let page = providers.events(&EventFilter::default(), after, PageLimit::MAX).await.unwrap();
        events.extend(page.items);
        after = page.next;
        if after.is_none() {
            return events;
        }
    }
}

pub(super) async fn all_subscriptions(service: &SubscriptionService) -> Vec<Arc<Subscription>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let mut query = SubscriptionQuery::default().with_limit(PageLimit::MAX);
        query.after = after;
        let page = service.subscriptions(query).await.unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}
