//! Steps that are due at one moment: which one is taken first.

use subscription_core::billing::{Policy, step};
use subscription_core::subscriptions::{ScheduledChange, Terms};
use subscription_core::{
    BillingCycle, BillingState, StepKind, Subscription, SubscriptionStatus, Timestamp,
};
use test_support::billing::Life;
use test_support::service_world::{at, of};

use StepKind::{
    DunningEnded, Ended, Lapsed, Paused, PeriodStarted, PlanChanged, Reminded, Resumed, Started,
};
use SubscriptionStatus as Is;

/// A step of each rank, in the order of the ranks.
const RANKS: [StepKind; 8] =
    [Ended, Started, PlanChanged, PeriodStarted, Resumed, Lapsed, DunningEnded, Reminded];

/// Each pair of ranks, a status in which at least one of them can be due, and the one that is taken. Where a
/// status allows only one of the two, the other is no candidate, although its moment is set.
const TIES: [(StepKind, StepKind, SubscriptionStatus, StepKind); 28] = [
    (Ended, Started, Is::Pending, Ended),
    (Ended, PlanChanged, Is::Active, Ended),
    (Ended, PeriodStarted, Is::Active, Ended),
    (Ended, Resumed, Is::Paused, Ended),
    (Ended, Lapsed, Is::Pending, Ended),
    (Ended, DunningEnded, Is::PastDue, Ended),
    (Ended, Reminded, Is::OnTrial, Ended),
    (Started, PlanChanged, Is::Pending, Started),
    (Started, PeriodStarted, Is::Pending, Started),
    (Started, Resumed, Is::Pending, Started),
    (Started, Lapsed, Is::Pending, Started),
    (Started, DunningEnded, Is::Pending, Started),
    (Started, Reminded, Is::Pending, Started),
    (PlanChanged, PeriodStarted, Is::OnTrial, PlanChanged),
    (PlanChanged, Resumed, Is::Active, PlanChanged),
    (PlanChanged, Lapsed, Is::Active, PlanChanged),
    (PlanChanged, DunningEnded, Is::Active, PlanChanged),
    (PlanChanged, Reminded, Is::Active, PlanChanged),
    (PeriodStarted, Resumed, Is::Active, PeriodStarted),
    (PeriodStarted, Lapsed, Is::OnTrial, PeriodStarted),
    (PeriodStarted, DunningEnded, Is::Active, PeriodStarted),
    (PeriodStarted, Reminded, Is::Active, PeriodStarted),
    (Resumed, Lapsed, Is::Paused, Resumed),
    (Resumed, DunningEnded, Is::Paused, Resumed),
    (Resumed, Reminded, Is::Paused, Resumed),
    (Lapsed, DunningEnded, Is::Pending, Lapsed),
    (Lapsed, Reminded, Is::Pending, Lapsed),
    (DunningEnded, Reminded, Is::PastDue, DunningEnded),
];

const T: &str = "2026-03-20T00:00:00Z";

fn billing(subscription: &mut Subscription) -> &mut BillingState {
    subscription.billing.as_mut().unwrap()
}

/// A subscription in a status for which these steps are due at one moment, if the status allows them.
fn due_for(status: SubscriptionStatus, kinds: [StepKind; 2]) -> Subscription {
    let mut one = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {}).subscription;
    let t: Timestamp = at(T);
    one.status = status;
    one.renews_at = Some(at("2026-04-20T00:00:00Z"));
    for kind in kinds {
        match kind {
            Ended => one.ends_at = Some(t),
            Started => {
                one.starts_at = t;
                billing(&mut one).current_period_start = None;
            }
            PlanChanged => {
                one.renews_at = Some(t);
                billing(&mut one).scheduled_change = Some(ScheduledChange::ChangePlan(Terms {
                    subscription_plan_id: one.subscription_plan_id,
                    billing_cycle: BillingCycle::YEARLY,
                    price: of("99"),
                    currency: of("EUR"),
                    quantity: subscription_core::Quantity::ONE,
                }));
            }
            PeriodStarted => one.renews_at = Some(t),
            Resumed => billing(&mut one).resumes_at = Some(t),
            Lapsed => billing(&mut one).lapses_at = Some(t),
            DunningEnded => billing(&mut one).dunning_ended_at = Some(t),
            // A reminder is due three days before the renewal, and never at it.
            Reminded if one.renews_at != Some(t) => {
                one.renews_at = Some(at("2026-03-23T00:00:00Z"));
            }
            Reminded => {}
            Paused | StepKind::PeriodsSkipped | StepKind::Corrected | StepKind::PaymentRetried => {
                panic!("{kind}")
            }
        }
    }
    if !kinds.contains(&Reminded) {
        billing(&mut one).reminded_for = one.renews_at;
    }
    one
}

#[test]
fn of_two_steps_at_one_moment_the_lower_rank_is_taken() {
    let policy = Policy::default();
    let mut pairs = RANKS
        .iter()
        .enumerate()
        .flat_map(|(nth, a)| RANKS[nth + 1..].iter().map(move |b| (*a, *b)));
    for (a, b, status, taken) in TIES {
        assert_eq!(pairs.next(), Some((a, b)), "every pair in its order");
        let one = due_for(status, [a, b]);

        let step = step(&one, &policy, at(T)).unwrap();

        assert_eq!((step.kind, step.at), (taken, at(T)), "{a} and {b} in {status}");
    }
    assert_eq!(pairs.next(), None);
}

#[test]
fn a_scheduled_pause_has_the_rank_of_a_change_of_plan() {
    let policy = Policy::default();
    let mut one = due_for(Is::OnTrial, [PeriodStarted, PeriodStarted]);
    billing(&mut one).scheduled_change = Some(ScheduledChange::Pause { resumes_at: None });

    let paused = step(&one, &policy, at(T)).unwrap();
    one.ends_at = Some(at(T));
    let ended = step(&one, &policy, at(T)).unwrap();

    assert_eq!((paused.kind, paused.outcome.subscription.status), (Paused, Is::Paused));
    assert_eq!(paused.outcome.ask, None);
    assert_eq!((ended.kind, ended.outcome.subscription.status), (Ended, Is::Expired));
}

#[test]
fn the_earlier_step_comes_first_whatever_its_rank() {
    let mut one = due_for(Is::Active, [Ended, Reminded]);
    one.ends_at = Some(at("2026-03-24T00:00:00Z"));

    let steps: Vec<_> =
        subscription_core::billing::steps(one, &Policy::default(), at("2026-03-24T00:00:00Z"))
            .map(|step| step.kind)
            .collect();

    assert_eq!(steps, [Reminded, PeriodStarted, Ended]);
}

#[test]
fn a_changed_plan_starts_its_period_at_the_same_moment() {
    let one = due_for(Is::Active, [PlanChanged, PeriodStarted]);

    let steps: Vec<_> = subscription_core::billing::steps(one, &Policy::default(), at(T)).collect();

    assert_eq!(
        steps.iter().map(|step| step.kind).collect::<Vec<_>>(),
        [PlanChanged, PeriodStarted]
    );
    let ask = steps[1].outcome.ask.as_ref().unwrap();
    assert_eq!((ask.amount.to_string(), ask.currency.code()), ("99.00".to_owned(), "EUR"));
    assert_eq!((ask.period_start, ask.period_end), (at(T), Some(at("2027-03-20T00:00:00Z"))));
}

#[test]
fn a_moment_that_no_step_is_due_at_is_corrected() {
    let mut one = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {}).subscription;
    billing(&mut one).next_action_at = Some(at("2026-03-05T00:00:00Z"));
    let policy = Policy::default();

    assert_eq!(step(&one, &policy, at("2026-03-04T00:00:00Z")), None);
    let corrected = step(&one, &policy, at("2026-03-06T00:00:00Z")).unwrap();

    assert_eq!(corrected.kind, StepKind::Corrected);
    assert_eq!(corrected.at, at("2026-03-05T00:00:00Z"));
    let after = &corrected.outcome.subscription;
    assert_eq!(after.next_action_at(), Some(at("2026-03-29T00:00:00Z")));
    assert_eq!(corrected.outcome.change, one.change_to(after));
    assert_eq!(step(after, &policy, at("2026-03-06T00:00:00Z")), None);
}
