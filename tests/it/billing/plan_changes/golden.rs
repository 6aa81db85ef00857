//! Amounts that are known, digit for digit.

use subscription_core::{Field, PlanChange, SubscriptionChanges};
use test_support::billing::Life;
use test_support::billing::life::other_plan;
use test_support::service_world::of;

use super::{HALF, START, ahead, life, money, monthly, paying_until, seats, sound, to_plan};

/// A life, the moment of a change, the price and the cycle of the new plan, the amounts and what comes.
type Case =
    (fn() -> Life, &'static str, (&'static str, &'static str, &'static str), [&'static str; 2]);

const CASES: [Case; 11] = [
    (
        || monthly("10"),
        HALF,
        ("20", "USD", "monthly"),
        ["5.00, 10.00, 5.00", "0.00, 2026-05-01, 20.00"],
    ),
    (
        || life(("10", "USD", "monthly"), START, |new| new.credit = Some(of("12.00"))),
        HALF,
        ("20", "USD", "monthly"),
        ["5.00, 10.00, 3.00", "0.00, 2026-05-01, 20.00"],
    ),
    (
        || monthly("9.99"),
        "2026-04-11T00:00:00Z",
        ("29.99", "USD", "monthly"),
        ["6.66, 19.99, 13.33", "0.00, 2026-05-01, 29.99"],
    ),
    (
        || monthly("29.99"),
        "2026-04-11T00:00:00Z",
        ("9.99", "USD", "monthly"),
        ["19.99, 6.66, 0.00", "13.33, 2026-05-01, 0.00"],
    ),
    (
        || life(("1000", "JPY", "monthly"), "2026-01-31T00:00:00Z", |_| {}),
        "2026-02-18T00:00:00Z",
        ("3000", "JPY", "monthly"),
        ["357, 1071, 714", "0, 2026-02-28, 3000"],
    ),
    (
        || life(("4.500", "BHD", "monthly"), "2026-01-31T00:00:00Z", |_| {}),
        "2026-03-15T13:37:42Z",
        ("12.750", "BHD", "monthly"),
        ["2.240, 6.347, 4.107", "0.000, 2026-03-31, 12.750"],
    ),
    (
        || monthly("19.99"),
        "2026-04-30T23:59:59Z",
        ("49.99", "USD", "monthly"),
        ["0.00, 0.00, 0.00", "0.00, 2026-05-01, 49.99"],
    ),
    (
        || monthly("12"),
        "2026-04-11T00:00:00Z",
        ("120", "USD", "yearly"),
        ["8.00, 120.00, 112.00", "0.00, 2027-04-11, 120.00"],
    ),
    (
        || {
            let mut life = monthly("10");
            let price = Field::Value(of("100"));
            life.update(SubscriptionChanges { price, ..Default::default() }).unwrap();
            life
        },
        HALF,
        ("10", "USD", "monthly"),
        ["5.00, 5.00, 0.00", "0.00, 2026-05-01, 10.00"],
    ),
    (
        || {
            let start = "2026-01-01T00:00:00Z";
            life(("999999999999999.99", "USD", "yearly"), start, |_| {})
        },
        "2026-01-01T00:00:01Z",
        ("0", "USD", "yearly"),
        ["999999968290208.01, 0.00, 0.00", "999999968290208.01, 2027-01-01, 0.00"],
    ),
    // Four digits, the most that a currency has.
    (
        || life(("1.0001", "CLF", "monthly"), START, |_| {}),
        HALF,
        ("3.0003", "CLF", "monthly"),
        ["0.5000, 1.5002, 1.0002", "0.0000, 2026-05-01, 3.0003"],
    ),
];

#[test]
fn golden_amounts() {
    for (begin, at, (price, currency, cycle), expected) in CASES {
        let mut life = begin();
        paying_until(&mut life, at);

        let quote = to_plan(&mut life, &other_plan(price, currency, cycle));

        assert_eq!([money(&quote), ahead(&quote)], expected, "to {price} {currency} at {at}");
        sound(&life);
    }
}

#[test]
fn a_downgrade_is_credited_to_the_periods_that_follow() {
    let mut life = monthly("29.99");
    life.until("2026-04-11T00:00:00Z");
    to_plan(&mut life, &other_plan("9.99", "USD", "monthly"));

    paying_until(&mut life, "2026-05-01T00:00:00Z");
    assert_eq!(life.payments.len(), 1, "nothing is asked for on 1 May");
    paying_until(&mut life, "2026-07-01T00:00:00Z");

    assert_eq!(life.amounts(), ["29.99", "6.65", "9.99"]);
    assert_eq!(life.asked_days(), ["2026-04-01", "2026-06-01", "2026-07-01"]);
    sound(&life);
}

#[test]
fn two_changes_in_a_year_credit_the_value_of_the_last_one() {
    let mut life = life(("499", "USD", "yearly"), "2026-01-01T00:00:00Z", |_| {});
    life.until("2026-04-01T00:00:00Z");

    let first = to_plan(&mut life, &other_plan("998", "USD", "yearly"));
    life.pay();
    life.until("2026-07-01T00:00:00Z");
    let second = to_plan(&mut life, &other_plan("1497", "USD", "yearly"));

    assert_eq!(money(&first), "375.96, 751.92, 375.96");
    assert_eq!(money(&second), "503.10, 754.65, 251.55");
    assert_eq!(life.amounts(), ["499.00", "375.96", "251.55"]);
    sound(&life);
}

#[test]
fn seats_are_multiplied_before_they_are_rounded() {
    // Price, seats before and after, the amounts and the credit.
    let cases = [
        ("10", 3, 5, "15.00, 25.00, 10.00", "0.00, 2026-05-01, 50.00"),
        ("10", 5, 3, "25.00, 15.00, 0.00", "10.00, 2026-05-01, 20.00"),
        // 0.075 and 0.125: halves are rounded to even.
        ("0.05", 3, 5, "0.08, 0.12, 0.04", "0.00, 2026-05-01, 0.25"),
    ];
    for (price, before, after, expected, next) in cases {
        let begin =
            |count| life((price, "USD", "monthly"), START, |new| new.quantity = Some(seats(count)));
        let mut life = begin(before);
        life.until(HALF);

        let quote = life.change_plan(None, &PlanChange::to_quantity(seats(after))).unwrap();

        assert_eq!((money(&quote), ahead(&quote)), (expected.to_owned(), next.to_owned()));
        assert_eq!(life.subscription.quantity, seats(after));
        sound(&life);
    }
}

#[test]
fn the_json_of_a_quote() {
    let mut life = monthly("9.99");
    life.until("2026-04-11T00:00:00Z");
    let to = other_plan("29.99", "USD", "monthly");

    let quote = life.quote(Some(&to), &PlanChange::to_plan(to.id)).unwrap();

    let expected = format!(
        concat!(
            r#"{{"at":"2026-04-11T00:00:00.000000Z","effective":"now","subscription_plan_id":"{}","#,
            r#""billing_cycle":"monthly","quantity":1,"price":29.99,"#,
            r#""period_start":"2026-04-01T00:00:00.000000Z","period_end":"2026-05-01T00:00:00.000000Z","#,
            r#""lines":[{{"kind":"change","amount":19.99}},{{"kind":"unused","amount":6.66}}],"#,
            r#""amount_due":13.33,"currency":"USD","credit_before":0.00,"credit_after":0.00,"#,
            r#""renews_at":"2026-05-01T00:00:00.000000Z","next_amount":29.99,"discount":null,"#,
            r#""ends_discount":false}}"#
        ),
        to.id
    );
    assert_eq!(serde_json::to_string(&quote).unwrap(), expected);
}
