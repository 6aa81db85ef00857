//! A century of periods, computed a second time from the calendar.

use chrono::{Months, NaiveDate, TimeDelta};
use subscription_core::Timestamp;
use subscription_core::billing::{Policy, steps};
use test_support::billing::Life;
use test_support::service_world::at;

/// A cycle, and the start of its nth period after a day.
type Cycle = (&'static str, fn(NaiveDate, u32) -> NaiveDate);

fn months(day: NaiveDate, count: u32) -> NaiveDate {
    day + Months::new(count)
}

fn plus_days(day: NaiveDate, count: u32) -> NaiveDate {
    day + TimeDelta::days(count.into())
}

const CYCLES: [Cycle; 10] = [
    ("daily", |day, nth| plus_days(day, nth)),
    ("weekly", |day, nth| plus_days(day, 7 * nth)),
    ("biweekly", |day, nth| plus_days(day, 14 * nth)),
    ("P30D", |day, nth| plus_days(day, 30 * nth)),
    ("monthly", |day, nth| months(day, nth)),
    ("bimonthly", |day, nth| months(day, 2 * nth)),
    ("quarterly", |day, nth| months(day, 3 * nth)),
    ("semiannual", |day, nth| months(day, 6 * nth)),
    ("yearly", |day, nth| months(day, 12 * nth)),
    ("P18M", |day, nth| months(day, 18 * nth)),
];

/// The periods of a century; of cycles shorter than a month, those of three years.
fn count(cycle: &str) -> usize {
    match cycle {
        "daily" => 3 * 365,
        "weekly" => 3 * 52,
        "biweekly" => 3 * 26,
        "P30D" => 3 * 12,
        "monthly" => 1_200,
        "bimonthly" => 600,
        "quarterly" => 400,
        "semiannual" => 200,
        "yearly" => 100,
        _ => 66,
    }
}

#[test]
fn periods_do_not_drift_in_a_century_from_any_day_of_a_month() {
    let policy = Policy::default().with_remind_before(None);
    for day in 1..=31 {
        let first = NaiveDate::from_ymd_opt(2024, 1, day).unwrap();
        let now = format!("{first}T10:20:30.123456Z");
        for (cycle, start_of) in CYCLES {
            let life = Life::by(policy.clone(), cycle, &now, |_| {}).unwrap();

            let steps = steps(life.subscription, &policy, Timestamp::MAX).take(count(cycle));

            let mut number = 0;
            for step in steps {
                number += 1;
                let ask = step.outcome.ask.unwrap();
                let (start, end) = (start_of(first, number), start_of(first, number + 1));
                let moment = |day: NaiveDate| at(&format!("{day}T10:20:30.123456Z"));
                let found = (ask.period_start, ask.period_end, ask.due_at);
                let expected = (moment(start), Some(moment(end)), moment(start));
                assert_eq!(found, expected, "{cycle} from {first}, period {number}");
            }
            assert_eq!(usize::try_from(number), Ok(count(cycle)));
        }
    }
}
