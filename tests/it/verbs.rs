//! Cancelling and resuming: what they set, what they refuse, and what they leave alone.

use subscription_core::events::Actor;
use subscription_core::{
    Action, Conflict, Error, Field, Subscription, SubscriptionChanges, SubscriptionStatus,
};
use test_support::service_world::{ServiceWorld, at, of, wrong};

const RENEWAL: &str = "2025-02-28T00:00:00Z";

/// The states that a refused verb names as allowed.
fn allowed(refused: Result<impl std::fmt::Debug, Error>) -> Vec<&'static str> {
    let error = refused.unwrap_err();
    let Error::Conflict(Conflict::Transition(refused)) = error else { panic!("{error:?}") };
    refused.allowed
}

#[tokio::test]
async fn what_is_cancelled_goes_on_until_the_end_of_its_period() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;

    let cancelled = world.service.cancel(held.id).await.unwrap();

    let expected = Subscription {
        status: SubscriptionStatus::Cancelled,
        ends_at: Some(at(RENEWAL)),
        version: held.version.next(),
        ..(*held).clone()
    };
    assert_eq!(*cancelled, expected);
    assert!(cancelled.is_active);
    world.clock.set(at(RENEWAL));
    assert!(!world.service.subscription(held.id).await.unwrap().is_active);
}

#[tokio::test]
async fn an_end_that_is_set_stays_and_a_renewal_that_has_passed_is_no_end() {
    let world = ServiceWorld::new();
    let fixed = at("2026-01-01T00:00:00Z");
    let ending = world.subscription(|new| new.ends_at = Some(fixed)).await;
    let overdue = world.subscription(|_| {}).await;
    let one_time = world.subscription(|new| new.renews_at = Field::Null).await;
    let now = at("2025-03-05T00:00:00Z");
    world.clock.set(now);

    for (held, ends_at) in [(ending, fixed), (overdue, now), (one_time, now)] {
        let cancelled = world.service.cancel(held.id).await.unwrap();
        assert_eq!(cancelled.ends_at, Some(ends_at));
    }
}

#[tokio::test]
async fn a_cancellation_is_undone_before_it_takes_effect() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    world.service.cancel(held.id).await.unwrap();
    world.clock.set(at("2025-02-27T23:59:59.999999Z"));

    let resumed = world.service.resume(held.id).await.unwrap();

    assert_eq!((resumed.status, resumed.ends_at), (SubscriptionStatus::Active, None));
    assert_eq!(resumed.renews_at, held.renews_at);
    world.service.cancel(held.id).await.unwrap();
    world.clock.set(at(RENEWAL));
    assert_eq!(allowed(world.service.resume(held.id).await), ["expired"]);
}

#[tokio::test]
async fn a_verb_that_is_repeated_changes_nothing() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;

    assert_eq!(world.service.resume(held.id).await.unwrap(), held);
    let cancelled = world.service.cancel(held.id).await.unwrap();
    world.clock.set(at("2025-02-10T00:00:00Z"));
    assert_eq!(world.service.cancel(held.id).await.unwrap(), cancelled);
    world.clock.set(at("2025-03-10T00:00:00Z"));
    let ended = world.service.cancel(held.id).await.unwrap();

    assert_eq!((ended.version, ended.ends_at), (cancelled.version, cancelled.ends_at));
    let events = world.events().await;
    assert_eq!(events.iter().filter(|name| *name == "subscription.status_changed").count(), 1);
}

#[tokio::test]
async fn each_status_allows_its_verbs_and_no_others() {
    use SubscriptionStatus::{Active, Cancelled, Paused};
    for status in SubscriptionStatus::all() {
        let world = ServiceWorld::new();
        let held = world.subscription(|new| new.status = Some(status)).await;
        let may_end = status == Cancelled || status.next().contains(&Cancelled);

        // A user may undo a cancellation that was the user's, not a pause.
        for (action, is_allowed) in [
            (Action::Uncancel, status == Active),
            (Action::Resume, matches!(status, Active | Cancelled | Paused)),
        ] {
            let resumed = world.service.act(held.id, action).await;
            if is_allowed {
                assert_eq!(resumed.unwrap().status, Active, "{status}");
                continue;
            }
            let states = allowed(resumed);
            let expected = status.next().iter().filter(|next| **next != Active);
            let expected: Vec<_> = expected.map(|next| next.as_str()).collect();
            assert_eq!(states, expected, "{action:?} {status}");
        }
        let cancelled = world.service.cancel(held.id).await;
        assert_eq!(cancelled.is_ok(), may_end, "{status}");
        if let Err(refused) = cancelled {
            assert_eq!(refused.code(), "invalid_transition", "{status}");
        }
    }
}

#[tokio::test]
async fn a_block_outlasts_both_verbs() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let block = SubscriptionChanges { is_active: Some(false), ..SubscriptionChanges::default() };
    world.service.update_subscription(held.id, block).await.unwrap();

    world.service.cancel(held.id).await.unwrap();
    let resumed = world.service.resume(held.id).await.unwrap();

    assert!(resumed.blocked && !resumed.is_active);
}

#[tokio::test]
async fn a_user_changes_their_own_subscriptions_and_the_event_names_them() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let theirs = world.service.by(Actor::User(held.user_id));
    let stranger = world.user();

    for refused in [
        theirs.act_of(stranger, held.id, Action::Cancel(None)).await,
        theirs.act_of(stranger, held.id, Action::Resume).await,
        theirs
            .act_of(held.user_id, of("01940000-0000-7000-8000-000000000000"), Action::Cancel(None))
            .await,
    ] {
        assert_eq!(wrong(refused).1, "not_found");
    }
    assert_eq!(world.service.subscription(held.id).await.unwrap(), held);
    theirs.act_of(held.user_id, held.id, Action::Cancel(None)).await.unwrap();
    theirs.act_of(held.user_id, held.id, Action::Resume).await.unwrap();

    let events = world.service.events(2, subscription_core::store::PageLimit::MAX).await.unwrap();
    let told =
        events.iter().map(|recorded| (recorded.event.name(), recorded.event.actor.to_string()));
    let user = format!("user:{}", held.user_id);
    let changed = ("subscription.status_changed".to_owned(), user);
    assert_eq!(told.collect::<Vec<_>>(), [changed.clone(), changed]);
}
