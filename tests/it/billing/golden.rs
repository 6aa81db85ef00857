//! Lives whose outcome is known.

use subscription_core::billing::{Activation, Policy};
use subscription_core::events::Change;
use subscription_core::{
    Action, Effective, PaymentStatus, SubscriptionChanges, SubscriptionStatus,
};
use test_support::billing::{Life, days, hours, invariants};
use test_support::service_world::{at, of};

use PaymentStatus::{Failed, Processing, Succeeded};
use SubscriptionStatus::{Active, Expired, PastDue, Paused, Pending, Unpaid};

const PAUSE_NOW: Action = Action::Pause { effective: Some(Effective::Now), resumes_at: None };

fn sound(life: &Life) {
    invariants::all(life).unwrap_or_else(|broken| panic!("{broken}"));
}

/// Reports each payment as soon as it is to be collected, until a day.
fn paying_until(life: &mut Life, day: &str) {
    life.pay();
    while let Some(next) = life.next_due().filter(|next| *next <= at(day)) {
        life.advance_to(next);
        life.pay();
    }
    life.until(day);
}

#[test]
fn a_trial_of_14_days_reminds_three_days_before_and_counts_periods_from_its_end() {
    let mut life = Life::new("monthly", "2025-01-31T10:00:00Z", |new| {
        new.trial_ends_at = at("2025-02-14T10:00:00Z").into();
    });

    paying_until(&mut life, "2025-04-20T00:00:00Z");

    let starts: Vec<_> = life.payments.iter().map(|p| p.due_at().unwrap().to_string()).collect();
    let expected = ["2025-02-14", "2025-03-14", "2025-04-14"];
    assert_eq!(starts, expected.map(|day| format!("{day}T10:00:00.000000Z")));
    assert_eq!(life.steps()[..2], ["2025-02-11 reminded", "2025-02-14 period_started"]);
    let kinds: Vec<_> =
        life.payments.iter().map(|p| p.asked.as_ref().unwrap().kind.as_str()).collect();
    assert_eq!(kinds, ["initial", "renewal", "renewal"]);
    sound(&life);
}

#[test]
fn a_trial_of_a_month_keeps_the_grid() {
    let mut life = Life::new("monthly", "2025-01-31T00:00:00Z", |new| {
        new.trial_ends_at = at("2025-02-28T00:00:00Z").into();
    });

    paying_until(&mut life, "2025-04-01T00:00:00Z");

    assert_eq!(life.asked_days(), ["2025-02-28", "2025-03-31"]);
    sound(&life);
}

#[test]
fn five_failures_at_once_each_time_end_in_unpaid() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});
    let mut tried = Vec::new();

    while let Some(nth) = life.to_collect() {
        tried.push(life.payments[nth].due_at().unwrap().to_string()[..10].to_owned());
        assert_eq!(life.status(), if tried.len() == 1 { Active } else { PastDue });
        life.report(nth, Failed);
        if let Some(next) = life.payments[nth].next_attempt_at() {
            life.advance_to(next);
        }
    }

    assert_eq!(tried, ["2026-03-01", "2026-03-02", "2026-03-05", "2026-03-10", "2026-03-15"]);
    assert_eq!((life.status(), life.subscription.is_active), (Unpaid, false));
    assert_eq!(life.payments[0].attempt(), Some(5));
    sound(&life);
}

#[test]
fn a_week_that_failed_and_is_paid_on_day_10_is_followed_by_the_missed_period() {
    let mut life = Life::new("weekly", "2026-03-01T00:00:00Z", |_| {});
    life.report(0, Failed);
    life.until("2026-03-11T00:00:00Z");
    assert_eq!(life.payments.len(), 1, "no period starts while it is past due");

    life.report(0, Succeeded);

    assert_eq!(life.status(), Active);
    assert_eq!(life.payments[1].due_at(), Some(at("2026-03-08T00:00:00Z")));
    assert_eq!(life.payments[1].created_at, at("2026-03-11T00:00:00Z"));
    assert_eq!(life.subscription.renews_at, Some(at("2026-03-15T00:00:00Z")));
    sound(&life);
}

#[test]
fn an_unpaid_one_whose_period_is_over_restarts_when_it_is_paid() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});
    let hard = subscription_core::PaymentChanges {
        next_attempt_at: subscription_core::Field::Null,
        ..subscription_core::PaymentChanges::status(Failed)
    };
    life.report(0, hard);
    assert_eq!(life.status(), Unpaid);
    life.until("2026-04-20T08:00:00Z");

    life.report(0, Succeeded);

    assert_eq!(life.status(), Active);
    assert_eq!(life.subscription.anchor_at, Some(at("2026-04-20T08:00:00Z")));
    assert_eq!(life.asked_days(), ["2026-03-01", "2026-04-20"]);
    assert_eq!(life.subscription.renews_at, Some(at("2026-05-20T08:00:00Z")));
    sound(&life);
}

#[test]
fn missed_periods_are_asked_for_up_to_the_maximum() {
    // The cycle, the hours until the clock looks, and what it asks for after the first payment.
    let cases = [
        ("daily", 24 * 4, None, 4),
        ("daily", 24 * 6, Some("2026-03-02 periods_skipped"), 4),
        ("P30D", 24 * (30 + 70), None, 3),
        ("P30D", 24 * (30 + 370), Some("2026-03-31 periods_skipped"), 4),
    ];
    for (cycle, late, skipped, payments) in cases {
        let mut life = Life::new(cycle, "2026-03-01T00:00:00Z", |_| {});

        life.advance(hours(late));

        assert_eq!(life.payments.len() - 1, payments, "{cycle} {late}");
        let steps = life.steps();
        let found = steps.iter().find(|step| step.ends_with("periods_skipped"));
        assert_eq!(found.map(String::as_str), skipped, "{cycle} {late}");
        sound(&life);
    }
}

#[test]
fn periods_after_the_end_are_not_missed() {
    let mut life = Life::new("daily", "2026-03-01T00:00:00Z", |new| {
        new.ends_at = Some(at("2026-03-04T00:00:00Z"));
    });

    life.advance(days(30));

    assert_eq!(life.asked_days(), ["2026-03-01", "2026-03-02", "2026-03-03"]);
    assert_eq!(
        (life.status(), life.subscription.ends_at),
        (Expired, Some(at("2026-03-04T00:00:00Z")))
    );
    sound(&life);
}

#[test]
fn only_cycles_of_four_weeks_or_more_are_reminded_of() {
    let cycles = ["daily", "weekly", "P27D", "P3W", "P28D", "P4W", "monthly", "yearly"];
    let reminded = cycles.map(|cycle| {
        let mut life = Life::new(cycle, "2026-03-01T00:00:00Z", |_| {});
        let renewal = life.subscription.renews_at.unwrap();
        life.punctually_to(renewal);
        life.steps()[0].ends_with("reminded")
    });

    assert_eq!(reminded, [false, false, false, false, true, true, true, true]);
}

#[test]
fn the_events_of_reminders_and_of_a_start_that_waits_say_what_comes() {
    let [start, end] = ["2026-03-05T00:00:00Z", "2026-04-05T00:00:00Z"].map(at);
    let mut trial = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.trial_ends_at = start.into();
    });
    trial.punctually_to(end);
    let events: Vec<_> = trial.writes.iter().skip(1).map(|write| &write.change).collect();
    assert_eq!(*events[0], Change::TrialWillEnd { trial_ends_at: start });
    assert_eq!(*events[2], Change::RenewalUpcoming { renews_at: end });
    let period_end = Some(at("2026-05-05T00:00:00Z"));
    assert_eq!(*events[3], Change::PeriodStarted { period_start: end, period_end });

    let policy = Policy::default().with_activation(Activation::OnPayment);
    let later = |new: &mut subscription_core::NewSubscription| new.starts_at = Some(start);
    let mut waiting = Life::by(policy, "monthly", "2026-03-01T00:00:00Z", later).unwrap();
    waiting.advance_to(start);
    let period_started = Change::PeriodStarted { period_start: start, period_end: Some(end) };
    assert_eq!((waiting.status(), &waiting.writes[1].change), (Pending, &period_started));
}

#[test]
fn an_end_at_the_renewal_is_not_reminded_of_and_one_after_it_is() {
    for (end, expected) in [
        ("2026-04-01T00:00:00Z", vec!["2026-04-01 ended"]),
        (
            "2026-04-01T00:00:01Z",
            vec!["2026-03-29 reminded", "2026-04-01 period_started", "2026-04-01 ended"],
        ),
    ] {
        let mut life =
            Life::new("monthly", "2026-03-01T00:00:00Z", |new| new.ends_at = Some(at(end)));

        life.punctually_to(at("2026-04-02T00:00:00Z"));

        assert_eq!(life.steps(), expected);
    }
}

#[test]
fn the_event_of_skipped_periods_has_their_number() {
    for (cycle, late, expected) in [("daily", 6, 2), ("P30D", 400, 9)] {
        let mut life = Life::new(cycle, "2026-03-01T00:00:00Z", |_| {});

        life.advance(days(late));

        let counts: Vec<_> = life
            .writes
            .iter()
            .filter_map(|write| {
                let Change::PeriodsSkipped { count } = write.change else { return None };
                Some(count)
            })
            .collect();
        assert_eq!(counts, [expected], "{cycle}");
    }
}

#[test]
fn days_that_failed_and_are_paid_on_day_10_are_asked_for_from_day_7_on() {
    let mut life = Life::new("daily", "2026-03-01T00:00:00Z", |_| {});
    life.report(0, Failed);
    life.until("2026-03-11T00:00:00Z");

    life.report(0, Succeeded);

    let days = ["2026-03-01", "2026-03-08", "2026-03-09", "2026-03-10", "2026-03-11"];
    assert_eq!(life.asked_days(), days);
    sound(&life);
}

#[test]
fn what_fails_while_paused_is_past_due_when_resumed_and_the_new_period_waits_for_it() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});
    life.act(PAUSE_NOW).unwrap();
    life.report(0, Failed);
    assert_eq!(life.status(), Paused);
    life.until("2026-04-10T12:00:00Z");
    life.act(Action::Resume).unwrap();
    assert_eq!((life.status(), life.payments.len()), (PastDue, 1));
    life.until("2026-04-12T00:00:00Z");

    life.report(0, Succeeded);

    assert_eq!(life.status(), Active);
    assert_eq!(life.subscription.anchor_at, Some(at("2026-04-10T12:00:00Z")));
    assert_eq!(life.asked_days(), ["2026-03-01", "2026-04-10"]);
    sound(&life);
}

#[test]
fn a_silent_collector_changes_nothing() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |_| {});

    life.punctually_to(at("2027-03-01T00:00:00Z"));

    assert_eq!((life.status(), life.payments.len()), (Active, 13));
    assert!(life.payments.iter().all(|payment| payment.status == PaymentStatus::Pending));
    sound(&life);
}

#[test]
fn a_quantity_that_changes_holds_from_the_next_period_on() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.quantity = Some(subscription_core::Quantity::new(3).unwrap());
    });
    let quantity = Some(subscription_core::Quantity::new(5).unwrap());
    life.update(SubscriptionChanges { quantity, ..Default::default() }).unwrap();

    life.until("2026-04-01T00:00:00Z");

    assert_eq!(life.amounts(), ["30.00", "50.00"]);
    sound(&life);
}

#[test]
fn one_that_waits_for_its_payment_lapses_after_23_hours_and_not_during_a_debit() {
    let policy = || Policy::default().with_activation(Activation::OnPayment);
    let waiting = || Life::by(policy(), "monthly", "2026-03-01T00:00:00Z", |_| {}).unwrap();

    let mut silent = waiting();
    assert_eq!((silent.status(), silent.payments.len()), (Pending, 1));
    silent.until("2026-03-01T22:59:59Z");
    assert_eq!(silent.status(), Pending);
    silent.until("2026-03-01T23:00:00Z");
    assert_eq!((silent.status(), silent.payments[0].status), (Expired, PaymentStatus::Canceled));

    let mut debit = waiting();
    debit.report(0, Processing);
    debit.until("2026-03-08T00:00:00Z");
    assert_eq!(debit.status(), Pending);
    debit.report(0, Succeeded);
    assert_eq!((debit.status(), debit.subscription.is_active), (Active, true));

    let mut bounced = waiting();
    bounced.report(0, Processing);
    bounced.until("2026-03-08T00:00:00Z");
    bounced.report(0, Failed);
    assert_eq!(bounced.status(), Expired, "the 23 hours are over");

    let mut declined = waiting();
    declined.report(0, Failed);
    assert_eq!((declined.status(), declined.payments[0].next_attempt_at()), (Pending, None));
    declined.advance(hours(22));
    declined.report(0, Succeeded);
    assert_eq!(declined.status(), Active);

    for life in [silent, debit, bounced, declined] {
        sound(&life);
    }
}

#[test]
fn credit_is_used_before_money_is_asked_for() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.credit = Some(of("23.35"));
    });

    life.punctually_to(at("2026-06-01T00:00:00Z"));

    assert_eq!(life.asked_days(), ["2026-05-01", "2026-06-01"]);
    assert_eq!(life.amounts(), ["6.65", "10.00"]);
    assert_eq!(life.subscription.credit().unwrap().value(), rust_decimal::Decimal::ZERO);
    sound(&life);
}

#[test]
fn what_is_paid_once_asks_once() {
    let mut life = Life::new("one_time", "2026-03-01T00:00:00Z", |_| {});

    life.advance(days(4_000));

    assert_eq!((life.status(), life.payments.len()), (Active, 1));
    assert_eq!((life.subscription.renews_at, life.subscription.next_action_at()), (None, None));
    sound(&life);
}

#[test]
fn a_trial_that_must_not_convert_ends_without_a_payment() {
    let mut life = Life::new("monthly", "2026-03-01T00:00:00Z", |new| {
        new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
        new.ends_at = Some(at("2026-03-15T00:00:00Z"));
    });

    life.punctually_to(at("2026-05-01T00:00:00Z"));

    assert_eq!((life.status(), life.payments.len()), (Expired, 0));
    assert_eq!(life.steps(), ["2026-03-12 reminded", "2026-03-15 ended"]);
    sound(&life);
}

#[test]
fn periods_end_with_the_year_9999() {
    let mut life = Life::new("monthly", "9999-11-30T12:00:00Z", |_| {});

    life.punctually_to(subscription_core::Timestamp::MAX);

    assert_eq!(life.asked_days(), ["9999-11-30", "9999-12-30"]);
    assert_eq!(life.subscription.renews_at, None);
    sound(&life);
}
