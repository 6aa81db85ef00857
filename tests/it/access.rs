//! Access follows time: from the start of a subscription until its end, in every status, and under no
//! block.

use std::sync::Arc;

use subscription_core::store::{SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Field, ManualClock, Phase, Subscription, SubscriptionChanges, SubscriptionId,
    SubscriptionService, SubscriptionStatus, Timestamp,
};
use test_support::service_world::{ServiceWorld, at, faults, wrong};

const GRANTING: [SubscriptionStatus; 4] = [
    SubscriptionStatus::OnTrial,
    SubscriptionStatus::Active,
    SubscriptionStatus::PastDue,
    SubscriptionStatus::Cancelled,
];

fn changes(change: impl FnOnce(&mut SubscriptionChanges)) -> SubscriptionChanges {
    let mut changes = SubscriptionChanges::default();
    change(&mut changes);
    changes
}

async fn update(
    world: &ServiceWorld,
    id: SubscriptionId,
    change: impl FnOnce(&mut SubscriptionChanges),
) -> Arc<Subscription> {
    world.service.update_subscription(id, changes(change)).await.unwrap()
}

/// Whether a subscription grants access, asked in every way that there is.
async fn grants(service: &SubscriptionService, id: SubscriptionId) -> bool {
    let shown = service.subscription(id).await.unwrap();
    let entitled = service.entitlement(shown.user_id).await.unwrap().has_access();
    assert_eq!(entitled, shown.is_active, "{shown:?}");
    for (user_id, is_active) in
        [(None, true), (None, false), (Some(shown.user_id), true), (Some(shown.user_id), false)]
    {
        let filter = SubscriptionFilter::default().with_user_id(user_id).with_is_active(is_active);
        let query = SubscriptionQuery::default().with_filter(filter);
        let page = service.subscriptions(query.clone()).await.unwrap();
        let listed = page.items.iter().any(|found| found.id == id);
        assert_eq!(listed, shown.is_active == is_active, "{query:?}: {shown:?}");
    }
    shown.is_active
}

#[tokio::test]
async fn an_end_ends_access_in_every_status() {
    for status in GRANTING {
        let world = ServiceWorld::new();
        let end = at("2025-02-10T00:00:00Z");
        let held = world
            .subscription(|new| {
                new.status = Some(status);
                new.ends_at = Some(end);
            })
            .await;

        let before = grants(&world.service, held.id).await;
        world.clock.set(end);
        let after = grants(&world.service, held.id).await;

        assert_eq!((before, after), (true, false), "{status}");
        assert_eq!(held.phase_at(end), Phase::Over);
    }
}

#[tokio::test]
async fn nothing_grants_access_before_its_start() {
    for status in GRANTING {
        let world = ServiceWorld::new();
        let start = at("2025-02-10T00:00:00Z");
        let held = world
            .subscription(|new| {
                new.status = Some(status);
                new.starts_at = Some(start);
            })
            .await;

        let before = grants(&world.service, held.id).await;
        world.clock.set(start);
        let after = grants(&world.service, held.id).await;

        assert_eq!((before, after), (false, true), "{status}");
    }
}

#[tokio::test]
async fn what_ended_long_ago_was_never_active() {
    let world = ServiceWorld::new();

    let trial = world
        .subscription(|new| {
            new.status = Some(SubscriptionStatus::OnTrial);
            new.starts_at = Some(at("2024-01-01T00:00:00Z"));
            new.ends_at = Some(at("2024-01-15T00:00:00Z"));
        })
        .await;

    assert!(!trial.is_active);
    assert!(!grants(&world.service, trial.id).await);
}

#[tokio::test]
async fn an_end_may_be_moved_while_the_status_goes_on() {
    let world = ServiceWorld::new();
    let held = world.subscription(|new| new.ends_at = Some(at("2025-02-01T00:00:00Z"))).await;
    world.clock.set(at("2025-02-02T00:00:00Z"));
    assert!(!grants(&world.service, held.id).await);

    let extended =
        update(&world, held.id, |c| c.ends_at = Field::Value(at("2025-03-01T00:00:00Z"))).await;

    assert!(extended.is_active);
    assert!(grants(&world.service, held.id).await);
}

#[tokio::test]
async fn what_is_over_gets_no_end_in_the_future() {
    let world = ServiceWorld::new();
    let later = at("2099-01-01T00:00:00Z");
    let expired = world.subscription(|new| new.status = Some(SubscriptionStatus::Expired)).await;
    let cancelled =
        world.subscription(|new| new.status = Some(SubscriptionStatus::Cancelled)).await;
    world.clock.set(at("2025-06-01T00:00:00Z"));

    for held in [&expired, &cancelled] {
        let future = changes(|c| c.ends_at = Field::Value(later));
        let refused = world.service.update_subscription(held.id, future).await;
        let comes_back = SubscriptionChanges::status(SubscriptionStatus::Active);
        let back = world.service.update_subscription(held.id, comes_back).await;

        assert_eq!(faults(refused), ["ends_at out_of_range"], "{}", held.status);
        assert_eq!(wrong(back).1, "invalid_transition", "{}", held.status);
    }
    let earlier = at("2025-02-01T00:00:00Z");
    let corrected = update(&world, expired.id, |c| c.ends_at = Field::Value(earlier)).await;
    assert_eq!(corrected.ends_at, Some(earlier));
}

#[tokio::test]
async fn what_is_over_keeps_its_end_when_it_is_cleared_or_sent_back() {
    let world = ServiceWorld::new();
    let early = world
        .subscription(|new| {
            new.status = Some(SubscriptionStatus::Cancelled);
            new.ends_at = Some(at("2025-02-05T00:00:00Z"));
        })
        .await;
    let never_begun =
        world.subscription(|new| new.starts_at = Some(at("2040-01-01T00:00:00Z"))).await;
    let never_begun =
        update(&world, never_begun.id, |c| c.status = Some(SubscriptionStatus::Expired)).await;
    world.clock.set(at("2025-02-10T00:00:00Z"));

    let cleared = update(&world, early.id, |c| c.ends_at = Field::Null).await;
    let sent_back =
        update(&world, never_begun.id, |c| c.ends_at = never_begun.ends_at.into()).await;

    assert_eq!((cleared.ends_at, cleared.is_active), (early.ends_at, false));
    assert_eq!(sent_back, never_begun);
}

#[tokio::test]
async fn what_is_blocked_before_it_begins_stays_blocked_once_it_has() {
    let world = ServiceWorld::new();
    let start = at("2025-02-10T00:00:00Z");
    let held = world
        .subscription(|new| {
            new.status = Some(SubscriptionStatus::Active);
            new.starts_at = Some(start);
            new.is_active = Some(false);
        })
        .await;

    world.clock.set(start);

    assert!(held.blocked);
    assert!(!grants(&world.service, held.id).await);
}

#[tokio::test]
async fn what_is_cancelled_after_its_renewal_ends_now() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let now = at("2025-03-10T00:00:00Z");
    world.clock.set(now);

    let cancelled =
        update(&world, held.id, |c| c.status = Some(SubscriptionStatus::Cancelled)).await;

    assert_eq!((cancelled.ends_at, cancelled.is_active), (Some(now), false));
}

#[tokio::test]
async fn a_block_is_seen_and_lifted_in_any_status() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;

    let blocked = update(&world, held.id, |c| c.is_active = Some(false)).await;
    let paused = update(&world, held.id, |c| c.status = Some(SubscriptionStatus::Paused)).await;
    let lifted = update(&world, held.id, |c| c.is_active = Some(true)).await;
    let resumed = update(&world, held.id, |c| c.status = Some(SubscriptionStatus::Active)).await;

    let seen = [&blocked, &paused, &lifted, &resumed].map(|held| (held.blocked, held.is_active));
    assert_eq!(seen, [(true, false), (true, false), (false, false), (false, true)]);
    assert_eq!(serde_json::to_value(&*paused).unwrap()["blocked"], true);
}

#[tokio::test]
async fn access_is_not_asked_for_where_there_is_neither_block_nor_access() {
    let world = ServiceWorld::new();
    let waiting = world
        .subscription(|new| {
            new.status = Some(SubscriptionStatus::Active);
            new.starts_at = Some(at("2025-03-01T00:00:00Z"));
        })
        .await;
    let ended = world.subscription(|new| new.ends_at = Some(world.service.now())).await;
    let paused = world.subscription(|new| new.status = Some(SubscriptionStatus::Paused)).await;

    for (held, why) in [
        (waiting, "it has not begun"),
        (ended, "it has ended"),
        (paused, "paused grants no access"),
    ] {
        let on = changes(|c| c.is_active = Some(true));
        let refused = world.service.update_subscription(held.id, on).await.unwrap_err();

        assert!(refused.to_string().contains(why), "{refused}");
    }
}

/// Two instances over one store whose clocks are ten minutes apart: what the faster one wrote as begun
/// has begun for the slower one too.
#[tokio::test]
async fn a_subscription_that_has_begun_for_one_instance_has_begun_for_one_that_is_behind() {
    let world = ServiceWorld::new();
    let store = Arc::new(subscription_core::MemoryStore::default());
    let clock = |now: Timestamp| ManualClock::at(now);
    let (noon, before) = (at("2025-01-31T12:00:00Z"), at("2025-01-31T11:50:00Z"));
    let ahead = SubscriptionService::builder(Arc::clone(&store)).clock(clock(noon)).build();
    let behind = SubscriptionService::builder(store).clock(clock(before)).build();
    let plan = ahead.create_plan(test_support::service_world::new_plan("pro")).await.unwrap();
    let new = subscription_core::NewSubscription::new(world.user(), plan.id);

    let held = ahead.create_subscription(new).await.unwrap();

    assert!(grants(&ahead, held.id).await);
    assert!(grants(&behind, held.id).await);
    let touched = changes(|c| c.external_subscription_id = Field::Value("sub_1".parse().unwrap()));
    let touched = behind.update_subscription(held.id, touched).await.unwrap();
    assert_eq!((touched.is_active, touched.updated_at), (true, noon));
    assert!(grants(&behind, held.id).await);
}

#[tokio::test]
async fn a_payment_that_failed_can_be_asked_for_again() {
    use subscription_core::{PaymentChanges, PaymentStatus};
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let failed = world.payment(held.id, |new| new.status = Some(PaymentStatus::Failed)).await;

    let again = PaymentChanges::status(PaymentStatus::Pending);
    let again = world.service.update_payment(failed.id, again).await.unwrap();

    assert_eq!(again.status, PaymentStatus::Pending);
}
