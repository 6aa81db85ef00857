//! Subscriptions through the service.

use std::time::Duration;

use subscription_core::store::{PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    BillingCycle, Error, ErrorKind, Field, NewSubscription, PlanChanges, PlanId,
    SubscriptionChanges, SubscriptionStatus, Version,
};
use test_support::service_world::{ServiceWorld, at, faults, of, wrong};
use uuid::Uuid;

const DAY: Duration = Duration::from_hours(24);

fn changes(change: impl FnOnce(&mut SubscriptionChanges)) -> SubscriptionChanges {
    let mut changes = SubscriptionChanges::default();
    change(&mut changes);
    changes
}

#[tokio::test]
async fn a_new_subscription_takes_what_it_lacks_from_its_plan_and_the_clock() {
    let world = ServiceWorld::new();

    let subscription = world.subscription(|_| {}).await;

    let expected = serde_json::json!({
        "id": subscription.id,
        "user_id": subscription.user_id,
        "subscription_plan_id": subscription.subscription_plan_id,
        "external_subscription_id": null,
        "billing_cycle": "monthly",
        "managed_by": "caller",
        "quantity": 1,
        "price": null,
        "currency": null,
        "credit": null,
        "discount": null,
        "status": "active",
        "is_active": true,
        "blocked": false,
        "renews_at": "2025-02-28T00:00:00.000000Z",
        "starts_at": "2025-01-31T00:00:00.000000Z",
        "ends_at": null,
        "current_period_start": "2025-01-31T00:00:00.000000Z",
        "current_period_end": "2025-02-28T00:00:00.000000Z",
        "trial_ends_at": null,
        "resumes_at": null,
        "past_due_since": null,
        "next_action_at": null,
        "scheduled_change": null,
        "manage_url": null,
        "metadata": null,
        "created_at": "2025-01-31T00:00:00.000000Z",
        "updated_at": "2025-01-31T00:00:00.000000Z",
        "version": 1,
    });
    assert_eq!(serde_json::to_value(&*subscription).unwrap(), expected);
    assert_eq!(world.service.subscription(subscription.id).await.unwrap(), subscription);
}

#[tokio::test]
async fn one_that_starts_later_is_pending_and_one_paid_once_never_renews() {
    let world = ServiceWorld::new();

    let later =
        world.subscription(|new| new.starts_at = Some(at("2025-03-01T00:00:00.000000Z"))).await;
    let once = world.subscription(|new| new.billing_cycle = Some(BillingCycle::ONE_TIME)).await;
    let never = world.subscription(|new| new.renews_at = Field::Null).await;

    assert_eq!((later.status, later.is_active), (SubscriptionStatus::Pending, false));
    assert_eq!(later.renews_at, Some(at("2025-04-01T00:00:00.000000Z")));
    assert_eq!((once.status, once.renews_at), (SubscriptionStatus::Active, None));
    assert_eq!((never.billing_cycle, never.renews_at), (BillingCycle::MONTHLY, None));
}

#[tokio::test]
async fn it_is_active_by_its_status() {
    let world = ServiceWorld::new();
    for status in SubscriptionStatus::all() {
        let subscription = world.subscription(|new| new.status = Some(status)).await;

        let grants = ["on_trial", "active", "past_due", "cancelled"].contains(&status.as_str());
        assert_eq!(subscription.is_active, grants, "{status}");
    }
}

#[tokio::test]
async fn what_is_cancelled_grants_access_until_its_end_without_being_written() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let cancel = SubscriptionChanges::status(SubscriptionStatus::Cancelled);

    let cancelled = world.service.update_subscription(subscription.id, cancel).await.unwrap();
    assert_eq!((cancelled.ends_at, cancelled.is_active), (subscription.renews_at, true));

    world.clock.set(at("2025-02-27T23:59:59.999999Z"));
    assert!(world.service.subscription(subscription.id).await.unwrap().is_active);

    world.clock.set(at("2025-02-28T00:00:00.000000Z"));
    let ended = world.service.subscription(subscription.id).await.unwrap();
    assert_eq!((ended.is_active, ended.version), (false, cancelled.version));
    for (is_active, expected) in [(true, 0), (false, 1)] {
        let filter = SubscriptionFilter::default().with_is_active(is_active);
        let query = SubscriptionQuery::default().with_filter(filter);
        let page = world.service.subscriptions(query).await.unwrap();
        assert_eq!(page.items.len(), expected, "is_active {is_active}");
        assert!(page.items.iter().all(|found| found.is_active == is_active));
    }
}

#[tokio::test]
async fn ends_follow_the_status() {
    use SubscriptionStatus::{Active, Cancelled, Expired};
    let world = ServiceWorld::new();
    let now = world.service.now();
    let later = now.saturating_add(90 * DAY);
    let earlier = at("2025-01-01T00:00:00.000000Z");
    let cases: [(SubscriptionStatus, Field<_>, Option<_>); 6] = [
        (Cancelled, Field::Absent, Some(at("2025-02-28T00:00:00.000000Z"))),
        (Cancelled, Field::Value(later), Some(later)),
        (Expired, Field::Absent, Some(now)),
        (Expired, Field::Value(later), Some(now)),
        (Expired, Field::Value(earlier), Some(earlier)),
        (Active, Field::Value(later), Some(later)),
    ];
    for (status, ends_at, expected) in cases {
        let subscription = world
            .subscription(|new| {
                new.status = Some(SubscriptionStatus::OnTrial);
                new.starts_at = Some(earlier);
                new.renews_at = at("2025-02-28T00:00:00.000000Z").into();
            })
            .await;
        let step = SubscriptionChanges { ends_at, ..SubscriptionChanges::status(status) };

        let next = world.service.update_subscription(subscription.id, step).await.unwrap();

        assert_eq!(next.ends_at, expected, "{status} {ends_at:?}");
    }
}

#[tokio::test]
async fn one_without_renewal_that_is_cancelled_ends_now_and_one_that_never_began_ends_as_it_begins()
{
    let world = ServiceWorld::new();
    let once = world.subscription(|new| new.billing_cycle = Some(BillingCycle::ONE_TIME)).await;
    let later =
        world.subscription(|new| new.starts_at = Some(at("2025-03-01T00:00:00.000000Z"))).await;

    let cancel = SubscriptionChanges::status(SubscriptionStatus::Cancelled);
    let cancelled = world.service.update_subscription(once.id, cancel).await.unwrap();
    let expire = SubscriptionChanges::status(SubscriptionStatus::Expired);
    let expired = world.service.update_subscription(later.id, expire).await.unwrap();

    assert_eq!((cancelled.ends_at, cancelled.is_active), (Some(world.service.now()), false));
    assert_eq!(expired.ends_at, Some(later.starts_at));
}

#[tokio::test]
async fn one_that_ended_and_expires_keeps_its_end() {
    let world = ServiceWorld::new();
    let subscription =
        world.subscription(|new| new.status = Some(SubscriptionStatus::Cancelled)).await;
    world.clock.advance(300 * DAY);

    let expire = SubscriptionChanges::status(SubscriptionStatus::Expired);
    let expired = world.service.update_subscription(subscription.id, expire).await.unwrap();

    assert_eq!(expired.ends_at, subscription.ends_at);
}

#[tokio::test]
async fn a_block_outlasts_changes_of_status_until_it_is_lifted() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let update =
        async |changes| world.service.update_subscription(subscription.id, changes).await.unwrap();

    let blocked = update(changes(|c| c.is_active = Some(false))).await;
    let past_due = update(SubscriptionChanges::status(SubscriptionStatus::PastDue)).await;
    let lifted = update(changes(|c| c.is_active = Some(true))).await;
    let paused = update(SubscriptionChanges::status(SubscriptionStatus::Paused)).await;
    let resumed = update(SubscriptionChanges::status(SubscriptionStatus::Active)).await;

    let active = [blocked, past_due, lifted, paused, resumed].map(|s| s.is_active);
    assert_eq!(active, [false, false, true, false, true]);
}

#[tokio::test]
async fn sending_back_what_was_read_changes_nothing() {
    let world = ServiceWorld::new();
    for status in SubscriptionStatus::all() {
        let subscription = world.subscription(|new| new.status = Some(status)).await;
        let mut json = serde_json::to_value(&*subscription).unwrap();
        for server_field in [
            "id",
            "blocked",
            "discount",
            "current_period_start",
            "current_period_end",
            "past_due_since",
            "next_action_at",
            "scheduled_change",
            "manage_url",
            "created_at",
            "updated_at",
            "version",
        ] {
            json.as_object_mut().unwrap().remove(server_field);
        }

        let same = SubscriptionChanges::from_json(json.to_string().as_bytes()).unwrap();
        let read = world.service.update_subscription(subscription.id, same).await.unwrap();

        assert_eq!(read, subscription, "{status}");
    }
}

#[tokio::test]
async fn access_cannot_be_forced_on_where_the_status_grants_none() {
    let world = ServiceWorld::new();
    for status in SubscriptionStatus::all() {
        let subscription = world.subscription(|new| new.status = Some(status)).await;
        let on = changes(|c| c.is_active = Some(true));

        let result = world.service.update_subscription(subscription.id, on).await;

        if subscription.is_active {
            assert_eq!(result.unwrap(), subscription, "{status}");
        } else {
            assert_eq!(faults(result), ["is_active not_allowed_value"], "{status}");
        }
    }
}

#[tokio::test]
async fn times_before_the_start_are_refused_together_and_blamed_on_what_was_sent() {
    let world = ServiceWorld::new();
    let subscription =
        world.subscription(|new| new.ends_at = Some(at("2025-06-30T00:00:00.000000Z"))).await;
    let update = async |changes| world.service.update_subscription(subscription.id, changes).await;
    let early = at("2024-01-01T00:00:00.000000Z");

    let both = update(changes(|c| {
        c.ends_at = early.into();
        c.renews_at = early.into();
    }))
    .await;
    let renewal = update(changes(|c| c.renews_at = early.into())).await;
    let end = update(changes(|c| c.ends_at = early.into())).await;
    let start = update(changes(|c| c.starts_at = Some(at("2026-01-01T00:00:00.000000Z")))).await;

    assert_eq!(faults(both), ["renews_at out_of_range", "ends_at out_of_range"]);
    assert_eq!(faults(renewal), ["renews_at out_of_range"]);
    assert_eq!(faults(end), ["ends_at out_of_range"]);
    assert_eq!(faults(start), ["starts_at out_of_range", "starts_at out_of_range"]);
}

#[tokio::test]
async fn an_unknown_plan_is_told_beside_the_other_faults() {
    let world = ServiceWorld::new();
    let mut new = NewSubscription::new(world.user(), PlanId::from(Uuid::max()));
    new.status = Some(SubscriptionStatus::Paused);
    new.is_active = Some(true);

    let refused = world.service.create_subscription(new).await;

    assert_eq!(
        faults(refused),
        ["subscription_plan_id unknown_reference", "is_active not_allowed_value"]
    );
    let subscription = world.subscription(|_| {}).await;
    let moved = changes(|c| c.subscription_plan_id = Some(PlanId::from(Uuid::max())));
    let refused = world.service.update_subscription(subscription.id, moved).await;
    assert_eq!(faults(refused), ["subscription_plan_id unknown_reference"]);
}

#[tokio::test]
async fn a_retired_plan_takes_nobody_new_and_keeps_who_it_has() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let plan = world.service.plan_by_id(subscription.subscription_plan_id).await.unwrap();
    let retire = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
    world.service.update_plan(&plan.slug, retire).await.unwrap();
    let other = world.subscription(|_| {}).await;

    let new = NewSubscription::new(world.user(), plan.id);
    let created = world.service.create_subscription(new).await;
    let moved = changes(|c| c.subscription_plan_id = Some(plan.id));
    let moved_there = world.service.update_subscription(other.id, moved.clone()).await;
    let stays = world.service.update_subscription(subscription.id, moved).await;
    let paused = SubscriptionChanges::status(SubscriptionStatus::Paused);
    let goes_on = world.service.update_subscription(subscription.id, paused).await;

    assert_eq!(wrong(created), (ErrorKind::Conflict, "plan_inactive"));
    assert_eq!(wrong(moved_there), (ErrorKind::Conflict, "plan_inactive"));
    assert_eq!(stays.unwrap(), subscription);
    assert_eq!(goes_on.unwrap().status, SubscriptionStatus::Paused);
}

#[tokio::test]
async fn an_external_id_is_taken_until_it_is_given_up() {
    let world = ServiceWorld::new();
    let holder = world.subscription(|new| new.external_subscription_id = Some(of("sub_1"))).await;
    let other = world.subscription(|_| {}).await;
    let take = || changes(|c| c.external_subscription_id = Field::Value(of("sub_1")));

    let refused = world.service.update_subscription(other.id, take()).await;
    let Err(Error::Conflict(conflict)) = &refused else { panic!("{refused:?}") };
    assert!(conflict.to_string().contains(&holder.id.to_string()), "{conflict}");
    assert_eq!(wrong(refused), (ErrorKind::Conflict, "external_id_taken"));

    let give_up = changes(|c| c.external_subscription_id = Field::Null);
    world.service.update_subscription(holder.id, give_up).await.unwrap();
    world.service.update_subscription(other.id, take()).await.unwrap();
}

#[tokio::test]
async fn events_tell_of_every_change_once() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let id = subscription.id;
    let update = async |changes| world.service.update_subscription(id, changes).await;

    update(SubscriptionChanges::status(SubscriptionStatus::Paused)).await.unwrap();
    update(SubscriptionChanges::status(SubscriptionStatus::Paused)).await.unwrap();
    update(changes(|c| c.user_id = Some(world.user()))).await.unwrap();
    update(SubscriptionChanges::status(SubscriptionStatus::Pending)).await.unwrap_err();
    world.service.delete_subscription_if(id, Version::from(3)).await.unwrap();

    assert_eq!(
        world.events().await,
        [
            "plan.created",
            "subscription.created",
            "subscription.status_changed",
            "subscription.updated",
            "subscription.deleted",
        ]
    );
    let events = world.service.events(1, PageLimit::MAX).await.unwrap();
    let versions: Vec<_> = events.iter().map(|e| (e.sequence, e.event.version.get())).collect();
    assert_eq!(versions, [(2, 1), (3, 2), (4, 3), (5, 4)]);
    let change = serde_json::to_value(&events[1].event).unwrap();
    assert_eq!(
        change,
        serde_json::json!({
            "id": events[1].event.id,
            "at": "2025-01-31T00:00:00.000000Z",
            "subject": {"kind": "subscription", "id": id},
            "version": 2,
            "change": "subscription_status_changed",
            "from": "active",
            "to": "paused",
            "actor": "library",
        })
    );
    world.service.forget_events(3).await.unwrap();
    assert_eq!(world.events().await, ["subscription.updated", "subscription.deleted"]);
}

#[tokio::test]
async fn a_deleted_subscription_is_gone() {
    let world = ServiceWorld::new();
    let id = world.subscription(|_| {}).await.id;

    world.service.delete_subscription(id).await.unwrap();

    assert_eq!(wrong(world.service.subscription(id).await).0, ErrorKind::NotFound);
    assert_eq!(wrong(world.service.delete_subscription(id).await).0, ErrorKind::NotFound);
    let page = world.service.subscriptions(SubscriptionQuery::default()).await.unwrap();
    assert!(page.items.is_empty());
}
