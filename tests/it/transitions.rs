//! Every step from every state to every state.

use std::time::Duration;

use subscription_core::{
    BillingCycle, Conflict, Error, Field, NewSubscription, PaymentChanges, PaymentStatus, PlanId,
    SeededRandomness, Subscription, SubscriptionChanges, SubscriptionId, SubscriptionStatus,
    Timestamp, UserId,
};
use test_support::service_world::{ServiceWorld, at, of};

/// The contract's table, written out once more.
const SUBSCRIPTIONS: [(&str, &str); 8] = [
    ("pending", "on_trial active expired"),
    ("on_trial", "active past_due paused cancelled expired"),
    ("active", "past_due paused cancelled expired"),
    ("past_due", "active unpaid paused cancelled expired"),
    ("unpaid", "active cancelled expired"),
    ("paused", "on_trial active past_due cancelled expired"),
    ("cancelled", "active on_trial expired"),
    ("expired", ""),
];

const PAYMENTS: [(&str, &str); 8] = [
    ("pending", "processing succeeded failed canceled"),
    ("processing", "succeeded failed canceled"),
    ("succeeded", "partially_refunded refunded disputed failed"),
    ("failed", "pending processing succeeded canceled"),
    ("canceled", ""),
    ("partially_refunded", "refunded disputed"),
    ("refunded", ""),
    ("disputed", "succeeded partially_refunded refunded"),
];

fn names<S: ToString>(states: impl IntoIterator<Item = S>) -> Vec<String> {
    states.into_iter().map(|state| state.to_string()).collect()
}

#[test]
fn the_tables_are_those_of_the_contract() {
    for (from, next) in SUBSCRIPTIONS {
        let from: SubscriptionStatus = of(from);
        assert_eq!(names(from.next()), names(next.split_whitespace()), "{from}");
    }
    for (from, next) in PAYMENTS {
        let from: PaymentStatus = of(from);
        assert_eq!(names(from.next()), names(next.split_whitespace()), "{from}");
    }
    assert_eq!(names(SubscriptionStatus::all()), names(SUBSCRIPTIONS.map(|(from, _)| from)));
    assert_eq!(names(PaymentStatus::all()), names(PAYMENTS.map(|(from, _)| from)));
}

#[tokio::test]
async fn all_64_steps_of_a_subscription() {
    let world = ServiceWorld::new();
    let mut steps = 0;
    for from in SubscriptionStatus::all() {
        for to in SubscriptionStatus::all() {
            let subscription = world
                .subscription(|new| {
                    new.status = Some(from);
                    new.trial_ends_at = at("2025-02-14T00:00:00Z").into();
                })
                .await;
            let changes = SubscriptionChanges::status(to);

            let result = world.service.update_subscription(subscription.id, changes).await;

            steps += 1;
            if from == to {
                assert_eq!(result.unwrap(), subscription, "{from} is no change");
            } else if from.next().contains(&to) {
                let next = result.unwrap();
                assert_eq!((next.status, next.version.get()), (to, 2), "{from} to {to}");
            } else {
                let Err(Error::Conflict(Conflict::Transition(refused))) = result else {
                    panic!("{from} to {to}: {result:?}");
                };
                assert_eq!((refused.from, refused.to), (from.as_str(), to.as_str()));
                assert_eq!(names(refused.allowed), names(from.next()), "{from} to {to}");
            }
        }
    }
    assert_eq!(steps, 64);
}

#[tokio::test]
async fn what_is_cancelled_comes_back_only_before_its_end() {
    let world = ServiceWorld::new();
    for to in [SubscriptionStatus::Active, SubscriptionStatus::OnTrial] {
        let subscription = world
            .subscription(|new| {
                new.status = Some(SubscriptionStatus::Cancelled);
                new.ends_at = Some(world.service.now().saturating_add(Duration::from_secs(1)));
            })
            .await;
        let step = async || {
            let changes = SubscriptionChanges::status(to);
            world.service.update_subscription(subscription.id, changes).await
        };

        world.clock.advance(Duration::from_secs(1));
        let Err(Error::Conflict(Conflict::Transition(too_late))) = step().await else { panic!() };
        world.clock.set(at("2025-01-31T00:00:00.000000Z"));
        let back = step().await.unwrap();

        assert_eq!(too_late.allowed, ["expired"], "{to}");
        assert_eq!((back.status, back.ends_at, back.is_active), (to, None, true), "{to}");
    }
}

#[tokio::test]
async fn what_is_paused_goes_back_to_its_trial_only_before_the_end_of_that() {
    let world = ServiceWorld::new();
    let trial_ends_at = at("2025-02-14T00:00:00Z");
    let paused = async |trial: Field<Timestamp>| {
        let paused = Some(SubscriptionStatus::Paused);
        world.subscription(|new| (new.status, new.trial_ends_at) = (paused, trial)).await
    };
    let (with_trial, without) = (paused(trial_ends_at.into()).await, paused(Field::Null).await);
    let back = async |subscription: &Subscription| {
        let changes = SubscriptionChanges::status(SubscriptionStatus::OnTrial);
        world.service.update_subscription(subscription.id, changes).await
    };

    let Err(Error::Conflict(Conflict::Transition(none))) = back(&without).await else { panic!() };
    world.clock.set(trial_ends_at);
    let too_late = back(&with_trial).await;
    world.clock.set(trial_ends_at.saturating_sub(Duration::from_secs(1)));
    let in_time = back(&with_trial).await;

    assert_eq!(none.allowed, ["active", "past_due", "cancelled", "expired"]);
    assert!(too_late.is_err());
    assert_eq!(in_time.unwrap().status, SubscriptionStatus::OnTrial);
}

#[test]
fn a_status_that_ends_a_subscription_gives_it_an_end_even_if_null_is_sent_again() {
    let now: Timestamp = "2025-01-31T00:00:00Z".parse().unwrap();
    let ids = SeededRandomness::new(1);
    let user = UserId::new(now, &ids).unwrap();
    let new = NewSubscription::new(user, PlanId::new(now, &ids).unwrap());
    let id = SubscriptionId::new(now, &ids).unwrap();
    let held = Subscription::create(new, BillingCycle::MONTHLY, id, now).unwrap();

    for (status, ends_at) in
        [(SubscriptionStatus::Cancelled, held.renews_at), (SubscriptionStatus::Expired, Some(now))]
    {
        let without_end =
            SubscriptionChanges { ends_at: Field::Null, ..SubscriptionChanges::status(status) };
        let over = held.change(without_end.clone(), now).unwrap().unwrap();

        assert_eq!(over.ends_at, ends_at, "{status}");
        assert_eq!(over.change(without_end, now), Ok(None), "{status}");
    }
}

#[tokio::test]
async fn all_64_steps_of_a_payment() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    for from in PaymentStatus::all() {
        for to in PaymentStatus::all() {
            let payment = world.payment(subscription.id, |new| new.status = Some(from)).await;

            let result = world.service.update_payment(payment.id, PaymentChanges::status(to)).await;

            if from == to {
                assert_eq!(result.unwrap(), payment, "{from} is no change");
            } else if from.next().contains(&to) {
                assert_eq!(result.unwrap().status, to, "{from} to {to}");
            } else {
                let Err(Error::Conflict(Conflict::Transition(refused))) = result else {
                    panic!("{from} to {to}: {result:?}");
                };
                assert_eq!(refused.record, "payment");
                assert_eq!(names(refused.allowed), names(from.next()), "{from} to {to}");
            }
        }
    }
}
