//! Changes of plan at the end of the period.

use subscription_core::events::Change;
use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{Action, Field, Plan, PlanChange, SubscriptionChanges, SubscriptionStatus};
use test_support::billing::life::other_plan;
use test_support::billing::{By, Life};
use test_support::service_world::{at, of, wrong};

use super::{HALF, START, ahead, life, money, monthly, paying_until, period, seats, sound};

use SubscriptionStatus::{Active, Expired, OnTrial};

/// Schedules a change to a plan for the end of the period.
fn schedule(life: &mut Life, plan: &Plan) -> subscription_core::Quote {
    life.change_plan(Some(plan), &PlanChange::to_plan(plan.id).at_period_end()).unwrap()
}

#[test]
fn it_costs_nothing_now_and_the_price_of_now_then() {
    let mut life = monthly("10");
    life.until(HALF);
    let to = other_plan("20", "USD", "monthly");
    let from = life.subscription.subscription_plan_id;

    let quote = schedule(&mut life, &to);

    assert_eq!(
        (money(&quote), ahead(&quote)),
        ("-, -, 0.00".into(), "0.00, 2026-05-01, 20.00".into())
    );
    assert_eq!(life.subscription.subscription_plan_id, from);
    assert_eq!(life.subscription.price(), Some(of("10")));
    let scheduled = Some(ScheduledChange::ChangePlan(quote.terms()));
    assert_eq!(life.subscription.scheduled_change(), scheduled);
    assert!(matches!(life.writes.last().unwrap().change, Change::Updated { .. }));
    // The price was fixed: the change needs the plan no more.
    paying_until(&mut life, "2026-05-01T00:00:00Z");
    assert_eq!(life.amounts(), ["10.00", "20.00"]);
    assert_eq!(life.subscription.subscription_plan_id, to.id);
    assert_eq!(life.subscription.scheduled_change(), None);
    assert_eq!(
        life.steps()[1..],
        ["2026-05-01 plan_changed", "2026-05-01 period_started"],
        "after the reminder"
    );
    let changed = life.writes.iter().rev().nth(1).unwrap();
    assert_eq!(changed.change, Change::PlanChanged { from_plan: from, to_plan: to.id });
    assert!(changed.ask.is_none() && matches!(changed.by, By::Step(..)));
    sound(&life);
}

#[test]
fn the_same_cycle_keeps_the_anchor_and_another_one_moves_it() {
    // The start is the 31st, so that an anchor on 28 February is another one.
    let cases = [
        ("monthly", "2026-02-28, 2026-03-31, -", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("P30D", "2026-02-28, 2026-03-30, 2026-02-28", ["2026-01-31", "2026-02-28", "2026-03-30"]),
        (
            "yearly",
            "2026-02-28, 2027-02-28, 2026-02-28",
            ["2026-01-31", "2026-02-28", "2027-02-28"],
        ),
    ];
    for (cycle, expected, days) in cases {
        let mut life = life(("10", "USD", "monthly"), "2026-01-31T00:00:00Z", |_| {});
        schedule(&mut life, &other_plan("20", "USD", cycle));

        paying_until(&mut life, "2026-02-28T00:00:00Z");

        assert_eq!(period(&life.subscription), expected);
        paying_until(&mut life, "2027-03-01T00:00:00Z");
        assert_eq!(life.asked_days()[..3], days, "{cycle}");
        sound(&life);
    }
}

#[test]
fn a_plan_that_is_paid_once_is_asked_for_once_at_the_renewal() {
    let mut life = monthly("10");
    let quote = schedule(&mut life, &other_plan("99", "USD", "one_time"));
    assert_eq!(ahead(&quote), "0.00, 2026-05-01, 99.00");

    paying_until(&mut life, "2027-05-01T00:00:00Z");

    assert_eq!(life.amounts(), ["10.00", "99.00"]);
    assert_eq!(
        (life.status(), period(&life.subscription)),
        (Active, "2026-05-01, -, 2026-05-01".into())
    );
    sound(&life);
}

#[test]
fn a_trial_changes_at_its_end_and_one_that_has_not_started_after_its_first_period() {
    let mut trial = life(("10", "USD", "monthly"), START, |new| {
        new.trial_ends_at = at(HALF).into();
    });
    let mut pending = life(("10", "USD", "monthly"), START, |new| new.starts_at = Some(at(HALF)));
    let to = other_plan("20", "USD", "yearly");

    let of_trial = schedule(&mut trial, &to);
    let of_pending = schedule(&mut pending, &to);

    assert_eq!((trial.status(), ahead(&of_trial)), (OnTrial, "0.00, 2026-04-16, 20.00".into()));
    paying_until(&mut trial, "2027-05-01T00:00:00Z");
    assert_eq!(trial.asked_days(), ["2026-04-16", "2027-04-16"]);
    assert_eq!(trial.amounts(), ["20.00", "20.00"]);
    assert_eq!(of_pending.renews_at, Some(at("2026-05-16T00:00:00Z")));
    paying_until(&mut pending, "2027-06-01T00:00:00Z");
    assert_eq!(pending.asked_days(), ["2026-04-16", "2026-05-16", "2027-05-16"]);
    assert_eq!(pending.amounts(), ["10.00", "20.00", "20.00"]);
    sound(&trial);
    sound(&pending);
}

#[test]
fn the_next_amount_of_one_that_has_not_started_is_what_its_first_period_leaves() {
    let mut life = life(("10", "USD", "monthly"), START, |new| {
        new.starts_at = Some(at(HALF));
        new.credit = Some(of("13.00"));
    });

    let quote = schedule(&mut life, &other_plan("20", "USD", "monthly"));
    paying_until(&mut life, "2026-05-16T00:00:00Z");

    assert_eq!(ahead(&quote), "13.00, 2026-05-16, 17.00");
    assert_eq!(
        (life.amounts(), life.asked_days()),
        (vec!["17.00".into()], vec!["2026-05-16".into()])
    );
    let only_one = |new: &mut subscription_core::NewSubscription| {
        new.starts_at = Some(at(HALF));
        new.ends_at = Some(at("2026-05-16T00:00:00Z"));
    };
    let mut only_one = super::life(("10", "USD", "monthly"), START, only_one);
    let quote = schedule(&mut only_one, &other_plan("20", "USD", "monthly"));
    assert_eq!(quote.next_amount, None, "it ends before the change");
    sound(&life);
}

#[test]
fn another_currency_starts_with_the_period_and_its_digits() {
    let credit = |new: &mut subscription_core::NewSubscription| new.credit = Some(of("10.00"));
    let mut life = life(("10", "USD", "monthly"), START, credit);
    assert_eq!(life.subscription.credit(), Some(of("0.00")));

    let quote = schedule(&mut life, &other_plan("1500", "JPY", "monthly"));
    paying_until(&mut life, "2026-05-01T00:00:00Z");

    assert_eq!(
        (quote.credit_before, quote.amount_due, quote.next_amount),
        (of("0"), of("0"), Some(of("1500")))
    );
    assert_eq!(
        (life.amounts(), life.subscription.currency()),
        (vec!["1500".into()], Some(of("JPY")))
    );
    assert_eq!(life.payments[0].currency, of("JPY"));
    // An update checks the digits of the credit.
    let quantity = Some(seats(2));
    life.update(SubscriptionChanges { quantity, ..Default::default() }).unwrap();
    assert_eq!(life.subscription.credit(), Some(of("0")));
    sound(&life);
}

#[test]
fn credit_is_not_carried_into_another_currency() {
    let mut life = monthly("10");
    let owed =
        |credit: &str| SubscriptionChanges { credit: Some(of(credit)), ..Default::default() };
    schedule(&mut life, &other_plan("20", "USD", "yearly"));
    life.update(owed("5.00")).unwrap();
    life.update(owed("0.00")).unwrap();
    life.act(Action::Unschedule).unwrap();
    schedule(&mut life, &other_plan("1500", "JPY", "monthly"));

    let refused = life.update(owed("5.00"));

    assert_eq!(wrong(refused).1, "change_scheduled");
    let price = Field::Value(of("11"));
    life.update(SubscriptionChanges { price, ..owed("0") }).unwrap();
    sound(&life);
}

#[test]
fn an_end_beats_it_and_a_cancellation_hides_it_until_it_is_undone() {
    let mut ending = life(("10", "USD", "monthly"), START, |new| {
        new.ends_at = Some(at("2026-05-01T00:00:00Z"));
    });
    let quote = schedule(&mut ending, &other_plan("20", "USD", "monthly"));
    assert_eq!(quote.next_amount, None);
    paying_until(&mut ending, "2026-06-01T00:00:00Z");
    assert_eq!((ending.status(), ending.amounts()), (Expired, vec!["10.00".into()]));

    let mut cancelled = monthly("10");
    schedule(&mut cancelled, &other_plan("20", "USD", "monthly"));
    cancelled.act(Action::Cancel(None)).unwrap();
    assert_eq!(cancelled.subscription.scheduled_change(), None);
    let plan = cancelled.subscription.scheduled_plan_id();
    assert!(plan.is_some(), "its plan is not deleted meanwhile");
    cancelled.act(Action::Unschedule).unwrap_err();
    cancelled.act(Action::Resume).unwrap();
    paying_until(&mut cancelled, "2026-05-01T00:00:00Z");
    assert_eq!(cancelled.amounts(), ["10.00", "20.00"]);
    sound(&ending);
    sound(&cancelled);
}

#[test]
fn a_clock_that_is_late_changes_first_and_then_asks_for_every_period() {
    let mut life = life(("10", "USD", "daily"), START, |_| {});
    schedule(&mut life, &other_plan("20", "USD", "weekly"));

    life.until("2026-04-20T00:00:00Z");

    assert_eq!(life.asked_days(), ["2026-04-01", "2026-04-02", "2026-04-09", "2026-04-16"]);
    assert_eq!(life.amounts(), ["10.00", "20.00", "20.00", "20.00"]);
    sound(&life);
}
