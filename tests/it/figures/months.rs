//! The part of an amount that falls on a month, and the months of a period.

use chrono::{Datelike as _, Days, NaiveDate};
use subscription_core::figures::{monthly, months_between, worth};
use subscription_core::{Payment, PaymentKind, Quantity, Schedule, SubscriptionId};
use test_support::service_world::{at, of};
use uuid::Uuid;

use super::{asked, moment, payment};

#[test]
fn an_amount_falls_on_a_month_by_the_length_of_its_cycle() {
    let cases = [
        // price, quantity, cycle, a month
        ("12.00", 1, "monthly", "12"),
        ("12.50", 3, "monthly", "37.5"),
        ("19.99", 1, "bimonthly", "9.995"),
        ("30", 1, "quarterly", "10"),
        ("19.99", 1, "P18M", "1.110556"),
        ("60", 1, "semiannual", "10"),
        ("100", 1, "yearly", "8.333333"),
        ("100", 1, "biennial", "4.166667"),
        ("19.99", 7, "P100Y", "0.116608"),
        ("10", 1, "weekly", "43.452381"),
        ("10", 1, "biweekly", "21.72619"),
        ("1", 1, "P3W", "1.448413"),
        ("19.99", 1, "P5200W", "0.016704"),
        ("1", 1, "daily", "30.416667"),
        ("1", 1, "P10D", "3.041667"),
        ("19.99", 1, "P36500D", "0.016658"),
        ("10", 1_000_000, "one_time", "0"),
        ("0", 5, "monthly", "0"),
        // Rounded once, half to even.
        ("0.000001", 1, "bimonthly", "0"),
        ("0.000003", 1, "bimonthly", "0.000002"),
        ("0.000005", 1, "bimonthly", "0.000002"),
        ("0.000005", 2, "P20M", "0"),
        // The largest of all.
        ("999999999999999.999999", 1_000_000, "daily", "30416666666666666666636.25"),
    ];
    for (price, quantity, cycle, expected) in cases {
        let month = monthly(of(price), Quantity::new(quantity).unwrap(), of(cycle));

        assert_eq!(month.to_string(), expected, "{price} x {quantity} {cycle}");
    }
}

#[test]
fn a_period_is_whole_months_if_one_day_of_the_month_fits_both_ends() {
    let cases = [
        // start, end, months; or the days of another period
        ("2025-01-31", "2025-02-28", Ok(1)),
        ("2025-02-28", "2025-03-31", Ok(1)),
        ("2025-02-28", "2025-03-28", Ok(1)),
        ("2025-02-28", "2025-03-30", Ok(1)),
        ("2025-01-29", "2025-02-28", Ok(1)),
        ("2025-01-28", "2025-02-28", Ok(1)),
        ("2025-01-27", "2025-02-28", Err(32)),
        ("2025-01-31", "2025-03-31", Ok(2)),
        ("2025-03-31", "2025-04-30", Ok(1)),
        ("2025-04-30", "2025-05-31", Ok(1)),
        ("2025-04-29", "2025-05-31", Err(32)),
        ("2025-02-01", "2025-03-01", Ok(1)),
        ("2024-02-29", "2025-02-28", Ok(12)),
        ("2024-02-29", "2025-03-01", Err(366)),
        ("2024-02-28", "2025-02-28", Ok(12)),
        ("2024-02-28", "2024-02-29", Err(1)),
        ("2025-12-31", "2026-02-28", Ok(2)),
        ("2025-01-01", "2125-01-01", Ok(1_200)),
        ("2025-01-01", "2025-01-08", Err(7)),
        ("2025-01-01", "2025-01-31", Err(30)),
        ("2025-01-31", "2025-02-28T00:00:00.000001Z", Err(28)),
    ];
    for (start, end, expected) in cases {
        let (start, end) = (moment(start), moment(end));

        let (months, by) = months_between(start, end);

        match expected {
            Ok(whole) => assert_eq!((months, by), (whole, 1), "{start} to {end}"),
            Err(days) => {
                // Days times 12 by 365, to the microsecond.
                let more = i128::from(end.micros() - start.micros()) - days * 86_400_000_000;
                assert!((0..2).contains(&more), "{start} to {end}");
                assert_eq!(months, (days * 86_400_000_000 + more) * 12, "{start} to {end}");
                assert_eq!(by, 365 * 86_400_000_000, "{start} to {end}");
            }
        }
    }
}

/// By the words of the definition: a day of the month D is searched.
#[test]
fn every_period_of_fourteen_months_has_the_months_of_the_definition() {
    let first = NaiveDate::from_ymd_opt(2024, 1, 1).unwrap();
    let days: Vec<_> = first.iter_days().take(366 + 425).collect();
    let length =
        |day: &NaiveDate| (28..=31).rev().find(|last| day.with_day(*last).is_some()).unwrap();
    let facts: Vec<_> = days
        .iter()
        .map(|day| {
            (
                at(&format!("{day}T10:00:00Z")),
                day.year() * 12 + i32::try_from(day.month0()).unwrap(),
                day.day(),
                length(day),
            )
        })
        .collect();
    for start in 0..366 {
        for end in start + 1..start + 425 {
            let (from, start_month, start_day, start_length) = facts[start];
            let (to, end_month, end_day, end_length) = facts[end];
            let fits =
                |day: u32| start_day == day.min(start_length) && end_day == day.min(end_length);
            let whole = end_month > start_month && (1..=31).any(fits);

            let months = months_between(from, to);

            if whole {
                assert_eq!(months, (i128::from(end_month - start_month), 1), "{from} to {to}");
            } else {
                let day = 86_400_000_000;
                let days = i128::try_from(end - start).unwrap();
                assert_eq!(months, (days * day * 12, 365 * day), "{from} to {to}");
            }
        }
    }
}

#[test]
fn every_period_of_a_monthly_schedule_is_a_month() {
    let first = NaiveDate::from_ymd_opt(2024, 1, 1).unwrap();
    for cycle in ["monthly", "quarterly", "yearly", "P5M"] {
        for day in (0..366).map(|days| first.checked_add_days(Days::new(days)).unwrap()) {
            let schedule = Schedule::new(at(&format!("{day}T23:59:59.999999Z")), of(cycle));
            let starts: Vec<_> = (0..6).map(|number| schedule.start_of(number).unwrap()).collect();
            let expected = match cycle {
                "monthly" => 1,
                "quarterly" => 3,
                "yearly" => 12,
                _ => 5,
            };
            for pair in starts.windows(2) {
                assert_eq!(months_between(pair[0], pair[1]), (expected, 1), "{cycle} {pair:?}");
            }
        }
    }
}

#[test]
fn a_payment_is_worth_the_price_of_its_period_or_else_its_amount() {
    let some = SubscriptionId::from(Uuid::from_u128(1));
    let worth_of = |period, change: fn(&mut Payment)| {
        let mut payment = payment(1, some, period);
        change(&mut payment);
        worth(&payment).map(|worth| worth.to_string())
    };
    let month = ("2025-01-31", "2025-02-28");
    let expect = |text: &str| Some(text.to_owned());

    assert_eq!(worth_of(month, |_| {}), expect("10.00"));
    // Credit has paid a part; the rest of a period costs a part; the cycle says how long the whole is.
    assert_eq!(worth_of(month, |p| p.amount = of("3.00")), expect("10.00"));
    let upgrade = worth_of(("2025-02-14", "2025-02-28"), |p| {
        p.amount = of("5.00");
        asked(p).kind = PaymentKind::Proration;
        asked(p).value = of("240.00");
        asked(p).cycle = of("yearly");
    });
    assert_eq!(upgrade, expect("20.00"));
    // Mirrored and imported ones have their amount alone.
    let mirrored: fn(&mut Payment) = |p| asked(p).mirrored = true;
    let imported: fn(&mut Payment) = |p| asked(p).value = of("0");
    for lacks_value in [mirrored, imported] {
        assert_eq!(worth_of(month, lacks_value), expect("10.00"));
        assert_eq!(worth_of(("2024-02-29", "2025-02-28"), lacks_value), expect("0.833333"));
        assert_eq!(worth_of(("2025-01-01", "2025-01-08"), lacks_value), expect("43.452381"));
        assert_eq!(
            worth_of(("2025-01-01", "2025-01-01T12:00:00Z"), lacks_value),
            expect("608.333333")
        );
    }
    let net = |p: &mut Payment| {
        asked(p).kind = PaymentKind::Proration;
        asked(p).mirrored = true;
    };
    assert_eq!(worth_of(month, net), None);
    assert_eq!(worth_of(month, |p| asked(p).period_end = None), None);
    assert_eq!(worth_of(month, |p| p.asked = None), None);
    assert_eq!(worth_of(month, |p| asked(p).cycle = of("one_time")), expect("0.00"));
}
