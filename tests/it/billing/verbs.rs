//! The verbs on a subscription of the clock: every verb from every status.

use subscription_core::billing::Policy;
use subscription_core::events::Change;
use subscription_core::subscriptions::{ScheduledChange, Terms};
use subscription_core::{
    Action, Conflict, Effective, Error, ManagedBy, PaymentStatus, StepKind, Subscription,
    SubscriptionStatus, Timestamp,
};
use test_support::billing::{By, Life};
use test_support::service_world::{at, faults, of, wrong};

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

const NOW: &str = "2026-03-10T00:00:00Z";
const RENEWAL: &str = "2026-04-01T00:00:00Z";

const CANCEL: Action = Action::Cancel(None);
const CANCEL_NOW: Action = Action::Cancel(Some(Effective::Now));
const CANCEL_LATER: Action = Action::Cancel(Some(Effective::PeriodEnd));
const PAUSE: Action = Action::Pause { effective: None, resumes_at: None };
const PAUSE_NOW: Action = Action::Pause { effective: Some(Effective::Now), resumes_at: None };

/// A monthly subscription in a status, ten days into its period.
fn life(status: SubscriptionStatus) -> Life {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.status = Some(status);
        new.renews_at = at(RENEWAL).into();
    });
    if status != Pending {
        life.until(NOW);
    }
    life
}

fn pause_until(effective: Option<Effective>, resumes_at: Timestamp) -> Action {
    Action::Pause { effective, resumes_at: Some(resumes_at) }
}

/// The status after a verb, `same` if it changed nothing, or the code of the refusal.
fn outcome(life: &mut Life, action: Action) -> String {
    match life.act(action) {
        Ok(true) => life.status().to_string(),
        Ok(false) => "same".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn every_verb_from_every_status() {
    const REFUSED: &str = "invalid_transition";
    let verbs = [CANCEL, CANCEL_NOW, CANCEL_LATER, Action::Resume, PAUSE, PAUSE_NOW];
    // Active and on trial stay so when a pause is scheduled.
    let table = [
        (OnTrial, ["cancelled", "expired", "cancelled", "same", "on_trial", "paused"]),
        (Active, ["cancelled", "expired", "cancelled", "same", "active", "paused"]),
        (PastDue, ["expired", "expired", "cancelled", "same", REFUSED, REFUSED]),
        (Unpaid, ["expired", "expired", REFUSED, REFUSED, REFUSED, REFUSED]),
        (Paused, ["expired", "expired", "cancelled", "active", "same", "same"]),
        (Cancelled, ["same", "expired", "same", "active", REFUSED, REFUSED]),
        (Expired, ["same", "same", REFUSED, REFUSED, REFUSED, REFUSED]),
    ];
    for (status, expected) in table {
        for (verb, expected) in verbs.into_iter().zip(expected) {
            assert_eq!(outcome(&mut life(status), verb), expected, "{verb:?} in {status}");
        }
    }
}

#[test]
fn one_that_waits_to_start_can_only_be_cancelled_now() {
    let waiting =
        || Life::new("monthly", "2026-03-01T00:00:00Z", |new| new.starts_at = Some(at(NOW)));

    for (verb, expected) in [
        (CANCEL, "expired"),
        (CANCEL_NOW, "expired"),
        (CANCEL_LATER, "invalid_transition"),
        (Action::Resume, "invalid_transition"),
        (PAUSE, "invalid_transition"),
        (PAUSE_NOW, "invalid_transition"),
    ] {
        assert_eq!(outcome(&mut waiting(), verb), expected, "{verb:?}");
    }
    let mut cancelled = waiting();
    cancelled.act(CANCEL).unwrap();
    assert_eq!(cancelled.subscription.ends_at, Some(at(NOW)), "not before its start");
}

#[test]
fn a_cancelled_one_ends_with_its_period_and_is_not_asked_again() {
    let mut life = life(Active);
    life.act(CANCEL).unwrap();
    assert_eq!(life.subscription.ends_at, Some(at(RENEWAL)));
    assert_eq!(life.subscription.next_action_at(), Some(at(RENEWAL)));

    life.until(RENEWAL);

    assert_eq!((life.status(), life.payments.len()), (Expired, 0));
    assert_eq!(life.subscription.next_action_at(), None);
}

#[test]
fn an_end_that_comes_first_stays_when_it_is_cancelled() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.ends_at = Some(at("2026-03-20T00:00:00Z"));
    });

    life.act(CANCEL).unwrap();

    assert_eq!(life.subscription.ends_at, Some(at("2026-03-20T00:00:00Z")));
}

#[test]
fn cancel_now_cancels_what_is_open_and_leaves_what_is_in_progress() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});
    life.until(RENEWAL);
    life.report(0, PaymentStatus::Processing);

    life.act(CANCEL_NOW).unwrap();

    let statuses: Vec<_> = life.payments.iter().map(|payment| payment.status).collect();
    assert_eq!(statuses, [PaymentStatus::Processing, PaymentStatus::Canceled]);
    assert_eq!((life.status(), life.subscription.ends_at), (Expired, Some(at(RENEWAL))));
    assert_eq!(
        (life.subscription.past_due_since(), life.subscription.next_action_at()),
        (None, None)
    );
}

#[test]
fn a_cancellation_is_undone_before_its_end_unless_something_is_behind() {
    let mut undone = life(Active);
    undone.act(CANCEL).unwrap();
    undone.act(Action::Resume).unwrap();
    assert_eq!((undone.status(), undone.subscription.ends_at), (Active, None));

    let mut trial = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
    });
    trial.act(CANCEL).unwrap();
    assert_eq!(trial.subscription.ends_at, Some(at("2026-03-15T00:00:00Z")));
    trial.act(Action::Resume).unwrap();
    assert_eq!(trial.status(), OnTrial);

    let mut behind = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});
    behind.report(0, PaymentStatus::Failed);
    behind.act(CANCEL_LATER).unwrap();
    assert_eq!(wrong(behind.act(Action::Resume)).1, "payment_open");
    behind.report(0, PaymentStatus::Succeeded);
    assert_eq!(outcome(&mut behind, Action::Resume), "active");

    let mut over = life(Active);
    over.act(CANCEL).unwrap();
    let at_its_end = BillingAct::resume(&over.subscription, at(RENEWAL));
    assert_eq!(at_its_end, Err(vec!["expired"]));
}

/// A verb without a driver, which would take the due steps first.
struct BillingAct;

impl BillingAct {
    fn resume(one: &Subscription, now: Timestamp) -> Result<(), Vec<&'static str>> {
        use subscription_core::{Conflict, Error, Rules as _};
        let rules = subscription_core::billing::BillingRules::new(Policy::default());
        match rules.act(one, Action::Resume, now) {
            Err(Error::Conflict(Conflict::Transition(refused))) => Err(refused.allowed),
            other => other.map(drop).map_err(|error| panic!("{error}")),
        }
    }
}

#[test]
fn a_pause_is_scheduled_and_gives_no_time_back() {
    let mut life = life(Active);
    let resumes_at = at("2026-05-10T06:00:00Z");
    life.act(pause_until(None, resumes_at)).unwrap();
    let scheduled = ScheduledChange::Pause { resumes_at: Some(resumes_at) };
    assert_eq!(life.subscription.scheduled_change(), Some(scheduled));
    assert!(!life.act(pause_until(None, resumes_at)).unwrap(), "once more changes nothing");

    life.punctually_to(at("2026-05-10T06:00:00Z"));

    let steps: Vec<_> = life
        .writes
        .iter()
        .filter_map(|write| match write.by {
            By::Step(kind, _) => Some((kind, write.after.status)),
            By::Create | By::Update | By::Verb | By::PlanChange | By::Report => None,
        })
        .collect();
    let (resumed, period) = (StepKind::Resumed, StepKind::PeriodStarted);
    assert_eq!(steps, [(StepKind::Paused, Paused), (resumed, Active), (period, Active)]);
    assert_eq!(life.asked_days(), ["2026-05-10"]);
    assert_eq!(life.subscription.anchor_at, Some(resumes_at));
    assert_eq!(life.subscription.resumes_at(), None);
}

#[test]
fn a_subscriber_is_not_reminded_of_a_renewal_that_a_pause_prevents() {
    let mut life = life(Active);
    life.act(PAUSE).unwrap();

    life.punctually_to(at(RENEWAL));

    assert_eq!(life.steps(), ["2026-04-01 paused"]);
}

#[test]
fn resume_drops_a_scheduled_pause_and_unschedule_drops_any_change() {
    let mut resumed = life(Active);
    resumed.act(PAUSE).unwrap();
    resumed.act(Action::Resume).unwrap();
    assert_eq!(resumed.subscription.scheduled_change(), None);
    assert!(!resumed.act(Action::Resume).unwrap());

    let mut dropped = life(Active);
    dropped.act(PAUSE).unwrap();
    dropped.act(Action::Unschedule).unwrap();
    assert_eq!(dropped.subscription.scheduled_change(), None);
    assert_eq!(wrong(dropped.act(Action::Unschedule)).1, "not_found");
}

#[test]
fn a_pause_leaves_a_scheduled_change_of_plan_alone() {
    let change = ScheduledChange::ChangePlan(Terms {
        subscription_plan_id: life(Active).subscription.subscription_plan_id,
        billing_cycle: of("yearly"),
        price: of("99"),
        currency: of("USD"),
        quantity: subscription_core::Quantity::ONE,
    });
    let scheduled = || {
        let mut life = life(Active);
        life.subscription.billing.as_mut().unwrap().scheduled_change = Some(change);
        life
    };

    for verb in [PAUSE, PAUSE_NOW] {
        assert_eq!(wrong(scheduled().act(verb)).1, "change_scheduled");
    }
    let mut resumed = scheduled();
    assert!(!resumed.act(Action::Resume).unwrap());
    let mut cancelled = scheduled();
    cancelled.act(CANCEL).unwrap();
    assert_eq!(cancelled.subscription.scheduled_change(), None);
}

#[test]
fn a_pause_ends_after_it_begins_and_what_is_paid_once_has_no_end_of_a_period() {
    for (effective, day) in [(None, RENEWAL), (Some(Effective::Now), NOW)] {
        let refused = life(Active).act(pause_until(effective, at(day)));
        assert_eq!(faults(refused), ["resumes_at out_of_range"]);
    }
    let mut once = Life::new("one_time", "2026-03-01T00:00:00Z", |_| {});
    assert_eq!(faults(once.act(PAUSE)), ["effective not_allowed_value"]);
    assert_eq!(outcome(&mut once, PAUSE_NOW), "paused");
    assert_eq!(outcome(&mut once, Action::Resume), "active");
    assert_eq!(once.payments.len(), 1);
}

#[test]
fn a_pause_again_moves_only_its_end() {
    let mut life = life(Active);
    life.act(PAUSE_NOW).unwrap();
    let end = at("2026-03-20T00:00:00Z");

    assert!(life.act(pause_until(Some(Effective::Now), end)).unwrap());
    assert!(!life.act(PAUSE_NOW).unwrap());

    assert_eq!((life.status(), life.subscription.resumes_at()), (Paused, Some(end)));
    let last = life.writes.last().unwrap();
    assert!(
        matches!(&last.change, Change::Updated { fields } if fields.iter().any(|it| it == "resumes_at"))
    );
}

#[test]
fn a_trial_that_was_paused_goes_on_or_begins_to_be_paid() {
    let trial = || {
        let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
            new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
        });
        life.act(PAUSE_NOW).unwrap();
        life
    };

    let mut early = trial();
    early.until("2026-03-10T00:00:00Z");
    assert_eq!(outcome(&mut early, Action::Resume), "on_trial");
    assert_eq!(early.subscription.renews_at, Some(at("2026-03-15T00:00:00Z")));

    let mut late = trial();
    late.until("2026-03-20T00:00:00Z");
    assert_eq!(outcome(&mut late, Action::Resume), "active");
    assert_eq!(late.asked_days(), ["2026-03-20"]);
    assert_eq!(late.payments[0].asked.as_ref().unwrap().kind.as_str(), "initial");
}

#[test]
fn one_that_is_resumed_at_its_renewal_counts_periods_from_there() {
    let mut life = Life::new("monthly", "2026-01-31T00:00:00Z", |_| {});
    life.act(PAUSE_NOW).unwrap();
    life.until("2026-02-28T00:00:00Z");

    life.act(Action::Resume).unwrap();

    assert_eq!(life.subscription.renews_at, Some(at("2026-03-28T00:00:00Z")));
    assert_eq!(life.asked_days(), ["2026-01-31", "2026-02-28"]);
}

#[test]
fn verbs_on_others_are_those_of_their_manager() {
    let with = |managed_by| {
        let mut life = life(Active);
        life.subscription.managed_by = managed_by;
        life
    };

    assert_eq!(outcome(&mut with(ManagedBy::Caller), CANCEL), "cancelled");
    for verb in [CANCEL, Action::Resume, PAUSE, Action::Unschedule] {
        assert_eq!(wrong(with(ManagedBy::Provider).act(verb)).1, "managed_by_provider");
    }
}

#[test]
fn a_trial_that_is_resumed_at_its_very_end_is_over() {
    for (now, expected) in [("2026-03-14T23:59:59Z", OnTrial), ("2026-03-15T00:00:00Z", Active)] {
        let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
            new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
        });
        life.act(PAUSE_NOW).unwrap();
        life.until(now);

        life.act(Action::Resume).unwrap();

        let resumed = life.writes.iter().rfind(|write| write.by == By::Verb).unwrap();
        assert_eq!(resumed.after.status, expected, "{now}");
    }
}

#[test]
fn a_cancelled_one_that_is_resumed_when_its_trial_is_over_is_active() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.status = Some(Cancelled);
        new.trial_ends_at = at(NOW).into();
        new.ends_at = Some(at(RENEWAL));
    });
    life.until(NOW);

    life.act(Action::Resume).unwrap();

    assert_eq!(life.status(), Active);
}

#[test]
fn a_refusal_names_the_states_that_it_may_take_instead() {
    let allowed = |mut life: Life, action| match life.act(action) {
        Err(Error::Conflict(Conflict::Transition(refused))) => refused.allowed,
        other => panic!("{other:?}"),
    };
    let mut over = life(Cancelled);
    over.now = at(RENEWAL);

    assert_eq!(allowed(life(Unpaid), CANCEL_LATER), ["active", "expired"]);
    assert_eq!(allowed(life(Cancelled), PAUSE), ["active", "on_trial", "expired"]);
    assert_eq!(allowed(over, Action::Resume), ["expired"]);
}
