//! The clock leaves alone what callers manage.

use std::sync::Arc;
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{EventQuery, PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Clock as _, ManagedBy, NewPlan, NewSubscription, Subscription, SubscriptionService,
    SubscriptionStatus, UserId,
};
use test_support::service_world::{ServiceWorld, new_plan, of};
use uuid::Uuid;

const RECORDS: u128 = 10_000;

async fn last_event(service: &SubscriptionService) -> u64 {
    service.event_page(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().last
}

async fn all(service: &SubscriptionService) -> Vec<Arc<Subscription>> {
    let filter = SubscriptionFilter::default();
    let mut query = SubscriptionQuery::default().with_filter(filter).with_limit(PageLimit::MAX);
    let mut all = Vec::new();
    loop {
        let page = service.subscriptions(query.clone()).await.unwrap();
        all.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn a_year_of_the_clock_changes_nothing_that_callers_manage() {
    let world = ServiceWorld::new();
    let billing = Billing::new(world.service.clone(), Policy::default());
    let service = billing.service();
    let billed = NewPlan { currency: Some(of("USD")), ..new_plan("billed") };
    let billed = service.create_plan(billed).await.unwrap().id;
    let plain = service.create_plan(new_plan("plain")).await.unwrap().id;
    for nth in 0..RECORDS {
        let to = if nth % 2 == 0 { billed } else { plain };
        let mut new = NewSubscription::new(UserId::from(Uuid::from_u128(nth + 1)), to);
        new.status = SubscriptionStatus::all().nth(nth as usize % 9);
        // On a plan with a currency, it is the caller's if they say so, or if it has an external id.
        match nth % 4 {
            0 => new.managed_by = Some(ManagedBy::Caller),
            2 => new.external_subscription_id = Some(of(&format!("ext-{nth}"))),
            _ => {}
        }
        service.create_subscription(new).await.unwrap();
    }
    let (records, feed) = (all(service).await, last_event(service).await);
    assert_eq!(records.len() as u128, RECORDS);

    for _ in 0..365 {
        world.clock.advance(Duration::from_hours(24));
        let advanced = billing.advance(1_000).await.unwrap();
        assert_eq!((advanced.steps, advanced.next_at), (0, None));
    }

    assert_eq!(last_event(service).await, feed);
    // The service without billing shows the same records, as of now.
    assert_eq!(all(service).await, all(&world.service).await);
    let stored = |all: Vec<Arc<Subscription>>| -> Vec<_> {
        all.iter().map(|one| one.as_of(world.clock.now())).collect()
    };
    assert_eq!(stored(all(service).await), stored(records));
}
