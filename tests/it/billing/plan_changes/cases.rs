//! Each case of the settlement: what is credited and charged, and which period runs afterwards.

use subscription_core::events::Change;
use subscription_core::payments::PaymentKind;
use subscription_core::{
    Action, Effective, LineKind, ManagedBy, PaymentStatus, Plan, PlanChange, Proration,
    SubscriptionChanges, SubscriptionStatus,
};
use test_support::billing::Life;
use test_support::billing::life::other_plan;
use test_support::service_world::{at, of};

use super::{
    HALF, START, ahead, life, line, money, monthly, paying_until, period, seats, sound, to_plan,
};

use PaymentStatus::{Canceled, Failed, Refunded, Succeeded};
use SubscriptionStatus::{Active, OnTrial, PastDue, Pending};

#[test]
fn the_same_cycle_keeps_the_period_and_asks_for_the_rest_of_it() {
    let mut life = monthly("10");
    life.until(HALF);
    let (from, to) = (life.subscription.subscription_plan_id, other_plan("20", "USD", "monthly"));

    to_plan(&mut life, &to);

    assert_eq!(period(&life.subscription), "2026-04-01, 2026-05-01, -");
    assert_eq!(life.subscription.subscription_plan_id, to.id);
    assert_eq!((life.subscription.price(), life.status()), (Some(of("20")), Active));
    assert_eq!(life.subscription.billing.as_ref().unwrap().period_value, of("20.00"));
    let write = life.writes.last().unwrap();
    assert_eq!(write.change, Change::PlanChanged { from_plan: from, to_plan: to.id });
    let ask = write.ask.as_ref().unwrap();
    assert_eq!(
        (ask.kind, ask.amount, ask.value),
        (PaymentKind::Proration, of("5.00"), of("20.00"))
    );
    assert_eq!((ask.period_start, ask.period_end), (at(HALF), Some(at("2026-05-01T00:00:00Z"))));
    assert_eq!((ask.due_at, ask.currency), (at(HALF), of("USD")));
    life.pay();
    paying_until(&mut life, "2026-05-01T00:00:00Z");
    assert_eq!(life.amounts(), ["10.00", "5.00", "20.00"]);
    sound(&life);
}

#[test]
fn another_cycle_or_a_free_plan_before_it_starts_a_period_with_the_change() {
    // The plans before and after, the amounts, what comes, and the period with its anchor.
    let cases = [
        (
            ("12", "monthly"),
            ("120", "yearly"),
            [
                "6.00, 120.00, 114.00",
                "0.00, 2027-04-16, 120.00",
                "2026-04-16, 2027-04-16, 2026-04-16",
            ],
        ),
        (
            ("120", "yearly"),
            ("12", "monthly"),
            [
                "115.07, 12.00, 0.00",
                "103.07, 2026-05-16, 0.00",
                "2026-04-16, 2026-05-16, 2026-04-16",
            ],
        ),
        (
            ("0", "monthly"),
            ("10", "monthly"),
            ["0.00, 10.00, 10.00", "0.00, 2026-05-16, 10.00", "2026-04-16, 2026-05-16, 2026-04-16"],
        ),
        (
            ("10", "monthly"),
            ("0", "monthly"),
            ["5.00, 0.00, 0.00", "5.00, 2026-05-01, 0.00", "2026-04-01, 2026-05-01, -"],
        ),
        (
            ("0", "monthly"),
            ("0", "yearly"),
            ["0.00, 0.00, 0.00", "0.00, 2027-04-16, 0.00", "2026-04-16, 2027-04-16, 2026-04-16"],
        ),
        (
            ("0", "monthly"),
            ("0", "monthly"),
            ["0.00, 0.00, 0.00", "0.00, 2026-05-01, 0.00", "2026-04-01, 2026-05-01, -"],
        ),
        (
            ("30", "one_time"),
            ("10", "monthly"),
            ["0.00, 10.00, 10.00", "0.00, 2026-05-16, 10.00", "2026-04-16, 2026-05-16, 2026-04-16"],
        ),
        (
            ("10", "monthly"),
            ("30", "one_time"),
            ["5.00, 30.00, 25.00", "0.00, -, -", "2026-04-16, -, 2026-04-16"],
        ),
        (
            ("30", "one_time"),
            ("50", "one_time"),
            ["0.00, 50.00, 50.00", "0.00, -, -", "2026-04-16, -, 2026-04-16"],
        ),
    ];
    for ((price, cycle), (to_price, to_cycle), expected) in cases {
        let mut life = life((price, "USD", cycle), START, |_| {});
        life.until(HALF);

        let quote = to_plan(&mut life, &other_plan(to_price, "USD", to_cycle));

        let found = [money(&quote), ahead(&quote), period(&life.subscription)];
        assert_eq!(found, expected, "{price} {cycle} to {to_price} {to_cycle}");
        assert_eq!(
            (quote.period_start, quote.period_end),
            (life.subscription.current_period_start(), life.subscription.renews_at)
        );
        life.pay();
        paying_until(&mut life, "2028-01-01T00:00:00Z");
        sound(&life);
    }
}

#[test]
fn a_change_at_the_very_start_is_paid_in_full_and_at_the_very_end_not_at_all() {
    let to = other_plan("20", "USD", "monthly");

    let first = monthly("10").quote(Some(&to), &PlanChange::to_plan(to.id)).unwrap();
    let yearly = other_plan("100", "USD", "yearly");
    let mut at_start = monthly("10");
    let other_cycle = to_plan(&mut at_start, &yearly);

    assert_eq!(money(&first), "10.00, 20.00, 10.00");
    assert_eq!(money(&other_cycle), "10.00, 100.00, 90.00");
    assert_eq!(period(&at_start.subscription), "2026-04-01, 2027-04-01, -");
    sound(&at_start);
    let mut apart = monthly("10");
    apart.now = at("2026-05-01T00:00:00Z");
    let last = apart.quote(Some(&to), &PlanChange::to_plan(to.id)).unwrap();
    assert_eq!(money(&last), "0.00, 0.00, 0.00");
    apart.now = at("2026-03-01T00:00:00Z");
    let early = apart.quote(Some(&to), &PlanChange::to_plan(to.id)).unwrap();
    assert_eq!(money(&early), "10.00, 20.00, 10.00", "a part is at most the whole");
}

#[test]
fn a_part_of_a_second_does_not_count() {
    let to = other_plan("20", "USD", "daily");
    let daily = life(("86400", "USD", "daily"), START, |_| {});
    for (now, credit) in
        [("2026-04-01T12:00:00Z", "43200.00"), ("2026-04-01T12:00:00.000001Z", "43199.00")]
    {
        let quote = subscription_core::billing::quote(
            &daily.subscription,
            &daily.plan,
            Some(&to),
            &PlanChange::to_plan(to.id),
            at(now),
        );

        assert_eq!(line(&quote.unwrap(), &[LineKind::Unused]), credit, "{now}");
    }
}

#[test]
fn credit_that_covers_the_change_leaves_the_rest_of_it() {
    // The credit, the amount due, the credit that is left, and the next amount.
    for (credit, due, left, next) in [
        ("14.99", "0.01", "0.00", "20.00"),
        ("15.00", "0.00", "0.00", "20.00"),
        ("15.01", "0.00", "0.01", "19.99"),
        ("99.00", "0.00", "84.00", "0.00"),
    ] {
        let begin = |new: &mut subscription_core::NewSubscription| new.credit = Some(of(credit));
        let mut life = life(("10", "USD", "monthly"), START, begin);
        life.until(HALF);

        let quote = to_plan(&mut life, &other_plan("20", "USD", "monthly"));

        assert_eq!((quote.amount_due, quote.credit_after), (of(due), of(left)), "{credit}");
        assert_eq!(quote.next_amount, Some(of(next)));
        assert_eq!(life.writes.last().unwrap().ask.is_some(), due != "0.00");
        sound(&life);
    }
}

#[test]
fn without_proration_the_new_price_counts_from_the_next_period_on() {
    let mut life = monthly("10");
    life.until(HALF);
    let to = other_plan("20", "USD", "monthly");

    let quote = life
        .change_plan(Some(&to), &PlanChange::to_plan(to.id).with_quantity(seats(2)).unprorated())
        .unwrap();

    assert_eq!(
        (money(&quote), ahead(&quote)),
        ("-, -, 0.00".into(), "0.00, 2026-05-01, 40.00".into())
    );
    assert_eq!(period(&life.subscription), "2026-04-01, 2026-05-01, -");
    assert_eq!(life.subscription.billing.as_ref().unwrap().period_value, of("10.00"));
    assert_eq!(life.subscription.subscription_plan_id, to.id);
    let changed = matches!(life.writes.last().unwrap().change, Change::PlanChanged { .. });
    assert!(changed);
    paying_until(&mut life, "2026-05-01T00:00:00Z");
    assert_eq!(life.amounts(), ["10.00", "40.00"]);
    sound(&life);
}

/// A trial of 14 days from 31 January.
fn trial(cycle: &str) -> Life {
    life(("10", "USD", cycle), "2026-01-31T00:00:00Z", |new| {
        new.trial_ends_at = at("2026-02-14T00:00:00Z").into();
    })
}

#[test]
fn a_trial_keeps_its_end_and_periods_of_the_new_cycle_are_counted_from_there() {
    // The cycle before and after, and the periods that are asked for.
    let cases = [
        ("monthly", "monthly", ["2026-02-14", "2026-03-14", "2026-04-14"]),
        ("monthly", "quarterly", ["2026-02-14", "2026-05-14", "2026-08-14"]),
        ("yearly", "weekly", ["2026-02-14", "2026-02-21", "2026-02-28"]),
        // The end of the trial lies on the grid of weeks, and not on that of months.
        ("weekly", "monthly", ["2026-02-14", "2026-03-14", "2026-04-14"]),
        // Weeks from the start hit the end of the trial: no other anchor is needed.
        ("one_time", "P2W", ["2026-02-14", "2026-02-28", "2026-03-14"]),
    ];
    for (from, to, expected) in cases {
        for unprorated in [false, true] {
            let mut life = trial(from);
            life.until("2026-02-05T00:00:00Z");
            let plan = other_plan("20", "USD", to);
            let change = PlanChange::to_plan(plan.id);
            let change = if unprorated { change.unprorated() } else { change };

            let quote = life.change_plan(Some(&plan), &change).unwrap();

            assert_eq!(money(&quote), "-, -, 0.00");
            assert_eq!(ahead(&quote), "0.00, 2026-02-14, 20.00");
            assert_eq!((life.status(), life.payments.len()), (OnTrial, 0));
            assert_eq!(life.subscription.current_period_start(), Some(at("2026-01-31T00:00:00Z")));
            paying_until(&mut life, "2026-09-01T00:00:00Z");
            assert_eq!(life.asked_days()[..3], expected, "{from} to {to}");
            assert_eq!(life.amounts()[0], "20.00");
            sound(&life);
        }
    }
}

#[test]
fn a_trial_that_changes_to_a_plan_paid_once_asks_once_at_its_end() {
    let mut life = trial("monthly");

    to_plan(&mut life, &other_plan("99", "USD", "one_time"));
    paying_until(&mut life, "2027-01-01T00:00:00Z");

    assert_eq!(
        (life.asked_days(), life.amounts()),
        (vec!["2026-02-14".into()], vec!["99.00".into()])
    );
    assert_eq!((life.status(), life.subscription.renews_at), (Active, None));
    sound(&life);
}

/// A subscription that starts on 16 April.
fn pending(cycle: &str, trial: bool) -> Life {
    life(("10", "USD", cycle), START, |new| {
        new.starts_at = Some(at(HALF));
        if trial {
            new.trial_ends_at = at("2026-04-30T00:00:00Z").into();
        }
    })
}

#[test]
fn one_that_has_not_started_keeps_its_start_and_asks_for_the_new_price_then() {
    // The cycle before and after, a trial, what the quote says, and the payments that are asked for.
    let cases = [
        ("monthly", "monthly", false, "0.00, 2026-05-16, 20.00", ["2026-04-16", "2026-05-16"]),
        ("monthly", "yearly", false, "0.00, 2027-04-16, 20.00", ["2026-04-16", "2027-04-16"]),
        ("one_time", "weekly", false, "0.00, 2026-04-23, 20.00", ["2026-04-16", "2026-04-23"]),
        ("monthly", "monthly", true, "0.00, 2026-04-30, 20.00", ["2026-04-30", "2026-05-30"]),
        ("monthly", "yearly", true, "0.00, 2026-04-30, 20.00", ["2026-04-30", "2027-04-30"]),
    ];
    for (from, to, trial, expected, days) in cases {
        let mut life = pending(from, trial);

        let quote = to_plan(&mut life, &other_plan("20", "USD", to));

        assert_eq!((money(&quote), ahead(&quote)), ("-, -, 0.00".into(), expected.into()));
        assert_eq!((quote.period_start, quote.period_end), (None, None));
        assert_eq!((life.status(), life.subscription.starts_at), (Pending, at(HALF)));
        paying_until(&mut life, "2027-05-01T00:00:00Z");
        assert_eq!(life.asked_days()[..2], days, "{from} to {to}");
        assert_eq!(life.amounts()[0], "20.00");
        sound(&life);
    }
    let mut once = pending("monthly", false);
    let quote = to_plan(&mut once, &other_plan("20", "USD", "one_time"));
    assert_eq!(ahead(&quote), "0.00, -, 20.00");
    paying_until(&mut once, "2027-05-01T00:00:00Z");
    assert_eq!(once.asked_days(), ["2026-04-16"]);
    sound(&once);
}

#[test]
fn the_next_amount_is_there_if_something_is_asked_for_again() {
    let to = other_plan("20", "USD", "monthly");
    let change = PlanChange::to_plan(to.id);
    let ending = |end: &str, trial: bool| {
        life(("10", "USD", "monthly"), START, |new| {
            new.ends_at = Some(at(end));
            if trial {
                new.trial_ends_at = at("2026-04-30T00:00:00Z").into();
            }
        })
    };
    let cases = [
        (ending("2026-05-01T00:00:00Z", false), None),
        (ending("2026-05-01T00:00:01Z", false), Some(of("20.00"))),
        (ending("2026-04-30T00:00:00Z", true), None),
        (ending("2026-05-30T00:00:00Z", true), Some(of("20.00"))),
    ];
    for (life, expected) in cases {
        let quote = life.quote(Some(&to), &change).unwrap();
        assert_eq!(quote.next_amount, expected, "{:?}", life.subscription.ends_at);
    }

    // One that starts later has its first period ahead, even if that is the only one.
    let only_one = life(("10", "USD", "monthly"), START, |new| {
        new.starts_at = Some(at(HALF));
        new.ends_at = Some(at("2026-05-16T00:00:00Z"));
    });
    let quote = only_one.quote(Some(&to), &change).unwrap();
    assert_eq!(quote.next_amount, Some(of("20.00")));
}

#[test]
fn a_named_plan_brings_its_price_and_cycle_and_without_one_both_stay() {
    let mut life = monthly("10");
    let dearer = Plan { id: life.plan.id, ..other_plan("12", "USD", "yearly") };
    life.until(HALF);

    let seats_only = life.quote(None, &PlanChange::to_quantity(seats(2))).unwrap();
    let own = life.quote(Some(&dearer), &PlanChange::to_plan(dearer.id)).unwrap();
    let own_cycle = PlanChange::to_plan(dearer.id).with_billing_cycle(of("monthly"));
    let own_cycle = life.quote(Some(&dearer), &own_cycle).unwrap();
    let cycle_only = PlanChange::default().with_billing_cycle(of("yearly"));
    let cycle_only = life.quote(None, &cycle_only).unwrap();

    let terms = |quote: &subscription_core::Quote| {
        let terms = quote.terms();
        assert_eq!(terms.subscription_plan_id, life.plan.id);
        format!("{} {} x {}", terms.billing_cycle, terms.price, terms.quantity)
    };
    assert_eq!(terms(&seats_only), "monthly 10 x 2");
    assert_eq!(terms(&own), "yearly 12 x 1");
    assert_eq!(terms(&own_cycle), "monthly 12 x 1");
    assert_eq!(terms(&cycle_only), "yearly 10 x 1");
    assert_eq!(money(&own_cycle), "5.00, 6.00, 1.00");
}

#[test]
fn a_change_to_the_terms_it_has_writes_nothing() {
    // The same price in other digits is the same price.
    let own = |life: &Life| Plan { price: of("10.0"), ..life.plan.clone() };
    let changes = [
        PlanChange::default(),
        PlanChange::default().unprorated(),
        PlanChange::default().at_period_end(),
    ];
    let lives: [fn() -> Life; 4] = [
        || monthly("10"),
        || trial("monthly"),
        || pending("monthly", false),
        || life(("10", "USD", "one_time"), START, |_| {}),
    ];
    for begin in lives {
        for change in &changes {
            let mut life = begin();
            if change.effective == Effective::PeriodEnd && life.subscription.renews_at.is_none() {
                continue;
            }
            let (own, writes) = (own(&life), life.writes.len());
            let mut change = change.clone();
            change.subscription_plan_id = Some(own.id);

            let quote = life.change_plan(Some(&own), &change).unwrap();

            assert_eq!((money(&quote), life.writes.len()), ("-, -, 0.00".into(), writes));
            let same = life.change_plan(None, &PlanChange::to_quantity(seats(1))).unwrap();
            assert_eq!((money(&same), life.writes.len()), ("-, -, 0.00".into(), writes));
        }
    }
}

#[test]
fn terms_that_are_not_paid_for_yet_are_settled_by_a_prorated_change_alone() {
    let more_seats = || {
        let mut life = monthly("10");
        let quantity = Some(seats(3));
        life.update(SubscriptionChanges { quantity, ..Default::default() }).unwrap();
        life.until(HALF);
        life
    };
    let change = PlanChange::to_quantity(seats(3));

    let mut settled = more_seats();
    let quote = settled.change_plan(None, &change).unwrap();
    let mut left = more_seats();
    left.change_plan(None, &change.clone().unprorated()).unwrap();
    left.change_plan(None, &change.at_period_end()).unwrap();

    assert_eq!(money(&quote), "5.00, 15.00, 10.00");
    assert_eq!(settled.writes.len(), left.writes.len() + 1);
    sound(&settled);
}

#[test]
fn a_period_that_was_refunded_gives_no_credit_and_starts_anew() {
    let mut life = monthly("10");
    life.report(0, Refunded);
    life.until(HALF);

    let quote = to_plan(&mut life, &other_plan("20", "USD", "monthly"));

    assert_eq!(money(&quote), "0.00, 20.00, 20.00");
    assert_eq!(period(&life.subscription), "2026-04-16, 2026-05-16, 2026-04-16");
    sound(&life);
}

#[test]
fn terms_that_it_has_already_are_left_alone_also_in_a_period_that_was_refunded() {
    let mut life = monthly("10");
    life.report(0, Refunded);
    life.until(HALF);
    let writes = life.writes.len();

    let quote = life.change_plan(None, &PlanChange::to_quantity(seats(1))).unwrap();

    assert_eq!((money(&quote), life.writes.len()), ("-, -, 0.00".into(), writes));
}

#[test]
fn a_payment_of_a_change_that_is_forgiven_or_refunded_takes_its_own_value_alone() {
    for reports in [&[Failed, Canceled][..], &[Succeeded, Refunded]] {
        let mut life = monthly("9.99");
        life.until("2026-04-11T00:00:00Z");
        to_plan(&mut life, &other_plan("29.99", "USD", "monthly"));
        assert_eq!(life.amounts(), ["9.99", "13.33"]);

        for status in reports {
            life.report(1, *status);
        }

        let value = life.subscription.billing.as_ref().unwrap().period_value;
        assert_eq!(value, of("9.99"), "{reports:?}");
        let back = to_plan(&mut life, &other_plan("9.99", "USD", "monthly"));
        assert_eq!(money(&back), "6.66, 6.66, 0.00");
        assert_eq!(period(&life.subscription), "2026-04-01, 2026-05-01, -");
    }
}

#[test]
fn a_refund_of_the_period_leaves_the_value_of_a_later_change() {
    let mut life = monthly("10");
    life.until(HALF);
    to_plan(&mut life, &other_plan("20", "USD", "monthly"));
    life.report(1, Succeeded);

    life.report(0, Refunded);

    // The second half was changed for 5.00, as much as 10.00 for the whole.
    let value = life.subscription.billing.as_ref().unwrap().period_value;
    assert_eq!(value, of("10.00"));
}

#[test]
fn credit_that_paid_for_a_new_period_outlasts_the_refund_of_its_payment() {
    let mut life = monthly("12");
    life.until("2026-04-11T00:00:00Z");
    let quote = to_plan(&mut life, &other_plan("120", "USD", "yearly"));
    assert_eq!(money(&quote), "8.00, 120.00, 112.00");
    life.report(1, Succeeded);

    life.report(1, Refunded);

    let value = life.subscription.billing.as_ref().unwrap().period_value;
    assert_eq!(value, of("8.00"));
}

#[test]
fn a_change_applies_at_once_and_is_past_due_if_its_payment_fails() {
    let mut life = monthly("10");
    life.until(HALF);
    to_plan(&mut life, &other_plan("20", "USD", "monthly"));

    life.report(1, Failed);

    assert_eq!((life.status(), life.subscription.price()), (PastDue, Some(of("20"))));
    life.report(1, Succeeded);
    assert_eq!(life.status(), Active);
    paying_until(&mut life, "2026-06-01T00:00:00Z");
    assert_eq!(life.amounts(), ["10.00", "5.00", "20.00", "20.00"]);
    sound(&life);
}

#[test]
fn the_year_9999_and_periods_without_an_end_are_no_trouble() {
    let mut life = life(("10", "USD", "monthly"), "9999-11-10T00:00:00Z", |_| {});
    paying_until(&mut life, "9999-12-10T00:00:00Z");
    assert_eq!(life.subscription.renews_at, None, "it has no next period");
    life.until("9999-12-20T00:00:00Z");

    let quote = to_plan(&mut life, &other_plan("20", "USD", "monthly"));

    assert_eq!((money(&quote), ahead(&quote)), ("0.00, 20.00, 20.00".into(), "0.00, -, -".into()));
    let daily = life.quote(None, &PlanChange::default().with_billing_cycle(of("daily"))).unwrap();
    assert_eq!(ahead(&daily), "0.00, 9999-12-21, 20.00");
    sound(&life);
}

#[test]
fn a_subscription_of_a_caller_is_quoted_by_its_own_or_its_plans_price() {
    let to = other_plan("20", "USD", "monthly");
    let by_caller = |price: Option<&str>| {
        let mut life = life(("10", "USD", "monthly"), START, |new| {
            new.managed_by = Some(ManagedBy::Caller);
            new.price = price.map(of);
            new.quantity = Some(seats(2));
        });
        life.until(HALF);
        life
    };
    for (price, expected) in [(None, "10.00, 20.00, 10.00"), (Some("12"), "12.00, 20.00, 8.00")] {
        let life = by_caller(price);

        let quote = life.quote(Some(&to), &PlanChange::to_plan(to.id)).unwrap();

        assert_eq!(money(&quote), expected);
        assert_eq!(ahead(&quote), "0.00, 2026-05-01, 40.00");
        assert_eq!(quote.period_start, Some(at(START)));
    }
    let one = by_caller(None).quote(None, &PlanChange::to_quantity(seats(1))).unwrap();
    assert_eq!((money(&one), one.price), ("10.00, 5.00, 0.00".into(), of("10")));
    let same = by_caller(None).quote(None, &PlanChange::to_quantity(seats(2))).unwrap();
    assert_eq!(money(&same), "-, -, 0.00");
    // A price of the caller may have more digits than the currency of the plan.
    let fine = by_caller(Some("0.333333")).quote(None, &PlanChange::to_quantity(seats(4))).unwrap();
    assert_eq!(
        (money(&fine), ahead(&fine)),
        ("0.34, 0.66, 0.32".into(), "0.00, 2026-05-01, 1.33".into())
    );
}

#[test]
fn a_cancelled_change_of_mind_loses_nothing() {
    let mut life = monthly("10");
    life.until(HALF);
    to_plan(&mut life, &other_plan("4", "USD", "monthly"));
    assert_eq!(life.subscription.credit(), Some(of("3.00")));

    life.act(Action::Cancel(None)).unwrap();
    life.act(Action::Resume).unwrap();
    paying_until(&mut life, "2026-06-01T00:00:00Z");

    assert_eq!(life.amounts(), ["10.00", "1.00", "4.00"]);
    assert_eq!(PlanChange::default().proration, Proration::Prorated);
    sound(&life);
}
