//! Where periods start: golden vectors, and what holds for all of them.

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use proptest::prelude::*;
use subscription_core::plans::CycleUnit;
use subscription_core::{
    BillingCycle, Field, NewSubscription, Schedule, SubscriptionChanges, Timestamp,
};
use test_support::service_world::{ServiceWorld, at, of};

#[test]
fn golden_vectors() {
    let cases: [(&str, &str, &[&str]); 10] = [
        ("2025-01-31", "monthly", &["2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31"]),
        ("2024-01-31", "monthly", &["2024-02-29", "2024-03-31", "2024-04-30"]),
        ("2024-02-29", "yearly", &["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]),
        ("2025-11-30", "quarterly", &["2026-02-28", "2026-05-30", "2026-08-30", "2026-11-30"]),
        ("2025-08-31", "semiannual", &["2026-02-28", "2026-08-31"]),
        ("2025-12-31", "bimonthly", &["2026-02-28", "2026-04-30", "2026-06-30", "2026-08-31"]),
        ("2024-02-29", "biennial", &["2026-02-28", "2028-02-29"]),
        ("2025-02-27", "daily", &["2025-02-28", "2025-03-01"]),
        ("2024-12-25", "biweekly", &["2025-01-08", "2025-01-22"]),
        ("2025-01-31", "P18M", &["2026-07-31", "2028-01-31", "2029-07-31"]),
    ];
    for (anchor, cycle, expected) in cases {
        let schedule = Schedule::new(at(&format!("{anchor}T10:20:30.123456Z")), of(cycle));

        let starts = (1..).map_while(|k| schedule.start_of(k)).map(|start| start.to_string());
        let expected: Vec<_> =
            expected.iter().map(|day| format!("{day}T10:20:30.123456Z")).collect();

        assert_eq!(starts.take(expected.len()).collect::<Vec<_>>(), expected, "{anchor} {cycle}");
    }
}

#[test]
fn what_is_paid_once_has_one_period_without_end() {
    let schedule = Schedule::new(at("2025-01-31T00:00:00.000000Z"), BillingCycle::ONE_TIME);

    let period = schedule.period_at(at("2999-01-01T00:00:00.000000Z")).unwrap();

    assert_eq!((period.number, period.ends_at), (0, None));
    assert_eq!(schedule.start_of(1), None);
    assert_eq!(
        schedule.next_after(at("2024-01-01T00:00:00.000000Z")),
        Some(at("2025-01-31T00:00:00.000000Z"))
    );
}

#[test]
fn periods_end_with_the_year_9999() {
    for cycle in ["daily", "weekly", "monthly", "yearly", "P36500D", "P100Y"] {
        let schedule = Schedule::new(at("9999-12-31T23:00:00.000000Z"), of(cycle));

        let period = schedule.period_at(Timestamp::MAX).unwrap();

        assert_eq!((period.number, period.ends_at), (0, None), "{cycle}");
        assert_eq!(schedule.start_of(u32::MAX), None, "{cycle}");
    }
}

#[tokio::test]
async fn a_subscription_renews_at_its_anchors_day_though_months_are_short() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;

    let mut renewals = vec![subscription.renews_at.unwrap()];
    for _ in 0..3 {
        let current = world.service.subscription(subscription.id).await.unwrap();
        let next = current.schedule().next_after(current.renews_at.unwrap()).unwrap();
        let changes =
            SubscriptionChanges { renews_at: next.into(), ..SubscriptionChanges::default() };
        let renewed = world.service.update_subscription(subscription.id, changes).await;
        renewals.push(renewed.unwrap().renews_at.unwrap());
    }

    let expected = ["2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31"];
    assert_eq!(renewals, expected.map(|day| at(&format!("{day}T00:00:00Z"))));
}

#[tokio::test]
async fn a_renewal_off_the_grid_moves_the_anchor_and_one_on_it_does_not() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let renew_at = async |day: &str| {
        let renews_at = Field::Value(at(&format!("{day}T00:00:00Z")));
        let changes = SubscriptionChanges { renews_at, ..SubscriptionChanges::default() };
        world.service.update_subscription(subscription.id, changes).await.unwrap()
    };
    let after = |day: &str, renewed: &subscription_core::Subscription| {
        renewed.schedule().next_after(at(&format!("{day}T00:00:00Z"))).unwrap()
    };

    let on_grid = renew_at("2025-04-30").await;
    assert_eq!(after("2025-04-30", &on_grid), at("2025-05-31T00:00:00.000000Z"));

    let off_grid = renew_at("2025-05-15").await;
    assert_eq!(after("2025-05-15", &off_grid), at("2025-06-15T00:00:00.000000Z"));
}

#[tokio::test]
async fn a_trial_of_another_length_anchors_the_periods_at_its_end() {
    let world = ServiceWorld::new();

    let trial = world
        .subscription(|new: &mut NewSubscription| {
            new.renews_at = at("2025-02-14T00:00:00.000000Z").into();
        })
        .await;

    assert_eq!(trial.starts_at, at("2025-01-31T00:00:00.000000Z"));
    assert_eq!(trial.schedule().start_of(1), Some(at("2025-03-14T00:00:00.000000Z")));
}

#[tokio::test]
async fn an_anchor_that_was_moved_keeps_its_day_though_months_are_short() {
    let world = ServiceWorld::new();
    let subscription = world
        .subscription(|new: &mut NewSubscription| {
            new.starts_at = Some(at("2025-01-10T00:00:00.000000Z"));
            new.renews_at = at("2025-01-31T00:00:00.000000Z").into();
        })
        .await;

    let february = at("2025-02-28T00:00:00.000000Z");
    let renew =
        SubscriptionChanges { renews_at: february.into(), ..SubscriptionChanges::default() };
    let renewed = world.service.update_subscription(subscription.id, renew).await.unwrap();

    assert_eq!(renewed.schedule().next_after(february), Some(at("2025-03-31T00:00:00.000000Z")));
}

#[tokio::test]
async fn a_new_start_is_a_new_grid() {
    let world = ServiceWorld::new();
    let subscription = world
        .subscription(|new: &mut NewSubscription| {
            new.renews_at = at("2025-02-14T00:00:00.000000Z").into();
        })
        .await;

    let starts_at = at("2025-01-14T00:00:00.000000Z");
    let earlier =
        SubscriptionChanges { starts_at: Some(starts_at), ..SubscriptionChanges::default() };
    let moved = world.service.update_subscription(subscription.id, earlier).await.unwrap();

    assert_eq!(subscription.schedule().start_of(0), subscription.renews_at);
    assert_eq!(moved.schedule().start_of(0), Some(starts_at));
}

fn moments() -> impl Strategy<Value = Timestamp> {
    (0..4_102_444_800_000_000_i64).prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn cycles() -> impl Strategy<Value = BillingCycle> {
    let unit = prop_oneof![
        Just(CycleUnit::Day),
        Just(CycleUnit::Week),
        Just(CycleUnit::Month),
        Just(CycleUnit::Year)
    ];
    (unit, 1..=40_u16).prop_map(|(unit, count)| BillingCycle::every(count, unit).unwrap())
}

fn days_in_month(moment: DateTime<Utc>) -> u32 {
    let first = NaiveDate::from_ymd_opt(moment.year(), moment.month(), 1).unwrap();
    let next = first + chrono::Months::new(1);
    u32::try_from((next - first).num_days()).unwrap()
}

proptest! {
    #[test]
    fn periods_tile(anchor in moments(), cycle in cycles(), k in 0..40_u32, part in 0..1_000_i64) {
        let schedule = Schedule::new(anchor, cycle);
        let (start, end) = (schedule.start_of(k).unwrap(), schedule.start_of(k + 1).unwrap());

        let inside = start.micros() + (end.micros() - start.micros() - 1) * part / 1_000;
        let last = Timestamp::from_micros(end.micros() - 1).unwrap();

        for moment in [start, Timestamp::from_micros(inside).unwrap(), last] {
            let period = schedule.period_at(moment).unwrap();
            prop_assert_eq!((period.number, period.starts_at, period.ends_at), (k, start, Some(end)));
            prop_assert_eq!(schedule.next_after(moment), Some(end));
        }
        prop_assert!(schedule.starts_at(start));
        prop_assert!(!schedule.starts_at(last));
    }

    #[test]
    fn periods_strictly_increase(anchor in moments(), cycle in cycles(), k in 0..100_u32) {
        let schedule = Schedule::new(anchor, cycle);

        prop_assert!(schedule.start_of(k).unwrap() < schedule.start_of(k + 1).unwrap());
    }

    #[test]
    fn nothing_is_before_the_anchor(anchor in moments(), cycle in cycles()) {
        let before = Timestamp::from_micros(anchor.micros().saturating_sub(1).max(0)).unwrap();
        prop_assume!(before < anchor);
        let schedule = Schedule::new(anchor, cycle);

        prop_assert_eq!(schedule.period_at(before), None);
        prop_assert_eq!(schedule.next_after(before), Some(anchor));
    }

    #[test]
    fn the_day_is_the_anchors_or_the_months_last(anchor in moments(), months in 1..40_u16, k in 0..60_u32) {
        let cycle = BillingCycle::every(months, CycleUnit::Month).unwrap();
        let anchor_day = DateTime::<Utc>::from(anchor).day();

        let start: DateTime<Utc> = Schedule::new(anchor, cycle).start_of(k).unwrap().into();

        prop_assert_eq!(start.day(), anchor_day.min(days_in_month(start)));
        prop_assert_eq!(start.time(), DateTime::<Utc>::from(anchor).time());
    }

    #[test]
    fn so_many_jumps_are_one_long_jump(anchor in moments(), months in 1..20_u16, k in 1..30_u16) {
        let short = BillingCycle::every(months, CycleUnit::Month).unwrap();
        let long = BillingCycle::every(months * k, CycleUnit::Month).unwrap();

        prop_assert_eq!(
            Schedule::new(anchor, short).start_of(u32::from(k)),
            Schedule::new(anchor, long).start_of(1)
        );
    }
}
