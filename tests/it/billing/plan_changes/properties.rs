//! Properties of every quote and of every sequence of changes, over random money and random moments.

use std::time::Duration;

use proptest::prelude::*;
use rust_decimal::Decimal;
use subscription_core::billing::Policy;
use subscription_core::{
    Amount, Currency, LineKind, Plan, PlanChange, Quote, Subscription, Timestamp,
};
use test_support::billing::life::other_plan;
use test_support::billing::{Life, invariants};
use test_support::service_world::{at, of};

use super::{life, seats};

/// A currency of each number of digits.
const CURRENCIES: [&str; 4] = ["JPY", "USD", "BHD", "CLF"];
const CYCLES: [&str; 6] = ["daily", "P10D", "monthly", "quarterly", "yearly", "one_time"];
const START: &str = "2026-01-31T10:00:00Z";

/// A price of a number of smallest units.
fn price(units: u64, currency: &str) -> String {
    let digits = of::<Currency>(currency).digits();
    Decimal::from_i128_with_scale(units.into(), digits).to_string()
}

/// Prices: mostly ordinary, some free, some as dear as can be.
fn units() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 8 => 1..100_000_u64, 1 => 1..99_999_999_999_999_u64]
}

fn smallest(currency: Currency) -> Decimal {
    Decimal::new(1, currency.digits())
}

fn amount(quote: &Quote, kinds: &[LineKind]) -> Decimal {
    let lines = quote.lines.iter().filter(|line| kinds.contains(&line.kind));
    lines.map(|line| line.amount.value()).sum()
}

fn credit(quote: &Quote) -> Decimal {
    amount(quote, &[LineKind::Unused])
}

fn charge(quote: &Quote) -> Decimal {
    amount(quote, &[LineKind::Period, LineKind::Change])
}

fn period_value(subscription: &Subscription) -> Decimal {
    subscription.billing.as_ref().unwrap().period_value.value()
}

/// The moment at a share of the running period, in millionths.
fn moment(life: &Life, share: u64) -> Timestamp {
    let start = life.subscription.current_period_start().unwrap();
    let length = life.subscription.renews_at.map_or(86_400, |end| end.since(start).as_secs());
    start.saturating_add(Duration::from_secs(length * share / 1_000_000))
}

/// The quote of a change to a plan at a moment.
fn quote_at(life: &Life, to: &Plan, at: Timestamp) -> Quote {
    let change = PlanChange::to_plan(to.id);
    subscription_core::billing::quote(&life.subscription, &life.plan, Some(to), &change, at)
        .unwrap()
}

/// Checks the rules that hold for every quote of a subscription.
fn check(quote: &Quote, subscription: &Subscription) -> Result<(), TestCaseError> {
    let digits = quote.currency.digits();
    let amounts = quote.lines.iter().map(|line| line.amount);
    let amounts = amounts.chain([quote.amount_due, quote.credit_before, quote.credit_after]);
    for amount in amounts.chain(quote.next_amount) {
        prop_assert_eq!(amount.fraction_digits(), digits, "{:?}", quote);
        prop_assert!(!amount.value().is_sign_negative() || amount.value().is_zero());
    }
    let value = quote.price.times(quote.quantity.get()).unwrap().value();
    prop_assert!(credit(quote) <= period_value(subscription), "{:?}", quote);
    prop_assert!(charge(quote) <= value, "{:?}", quote);
    // A charge is credited, taken from the credit, or due.
    let (before, after) = (quote.credit_before.value(), quote.credit_after.value());
    let due = quote.amount_due.value();
    prop_assert_eq!(charge(quote) + after, credit(quote) + before + due, "{:?}", quote);
    prop_assert!(due.is_zero() || after.is_zero(), "credit is used before money is asked for");
    let next = quote.next_amount.map(Amount::value);
    let expected = (value - after).max(Decimal::ZERO);
    prop_assert!(next.is_none_or(|next| next == expected), "{:?}", quote);
    Ok(())
}

proptest! {
    #[test]
    fn parts_fall_with_time_and_two_of_them_sum_to_the_whole(
        currency in prop::sample::select(&CURRENCIES[..]),
        cycle in prop::sample::select(&CYCLES[..5]),
        from in units(),
        to in units(),
        mut shares in prop::array::uniform3(0..=1_000_000_u64),
    ) {
        let life = life((&price(from, currency), currency, cycle), START, |_| {});
        let to = other_plan(&price(to, currency), currency, cycle);
        let (whole, unit) = (period_value(&life.subscription), smallest(of(currency)));
        shares.sort_unstable();
        let quotes = shares.map(|share| quote_at(&life, &to, moment(&life, share)));

        for quote in &quotes {
            check(quote, &life.subscription)?;
            // The credit at the mirrored moment is what this one leaves of the whole.
            let start = life.subscription.current_period_start().unwrap();
            let end = life.subscription.renews_at.unwrap();
            let mirrored = start.saturating_add(end.since(quote.at));
            let used = credit(&quote_at(&life, &to, mirrored));
            prop_assert!((credit(quote) + used - whole).abs() <= unit, "{} {}", credit(quote), used);
        }
        prop_assert!(credit(&quotes[0]) >= credit(&quotes[1]));
        prop_assert!(credit(&quotes[1]) >= credit(&quotes[2]));
        if from > 0 {
            prop_assert!(charge(&quotes[0]) >= charge(&quotes[1]));
            prop_assert!(charge(&quotes[1]) >= charge(&quotes[2]));
        }
    }

    #[test]
    fn changes_telescope_within_one_smallest_unit_each(
        currency in prop::sample::select(&CURRENCIES[..]),
        cycle in prop::sample::select(&CYCLES[..5]),
        first in 1..1_000_000_u64,
        changes in prop::collection::vec((1..1_000_000_u64, 0..=1_000_000_u64), 1..12),
    ) {
        let mut life = life((&price(first, currency), currency, cycle), START, |_| {});
        let unit = smallest(of(currency));
        let mut changes = changes;
        changes.sort_unstable_by_key(|(_, share)| *share);
        let (mut net, mut exact, mut value) = (Decimal::ZERO, Decimal::ZERO, first);
        let (start, end) =
            (life.subscription.current_period_start().unwrap(), life.subscription.renews_at.unwrap());
        let whole = Decimal::from(end.since(start).as_secs());
        let moments: Vec<_> = changes.iter().map(|(_, share)| moment(&life, *share)).collect();

        for (nth, (units, _)) in changes.iter().enumerate() {
            let at = moments[nth];
            let to = other_plan(&price(*units, currency), currency, cycle);
            let rest = Decimal::from(end.since(at).as_secs());
            let quote = quote_at(&life, &to, at);
            check(&quote, &life.subscription)?;
            let changed = subscription_core::billing::change_plan(
                &life.subscription, &quote, &life.policy, at,
            );
            let Some(outcome) = changed else { continue };
            net += invariants::net(&quote);
            exact += (Decimal::from(*units) - Decimal::from(value)) * unit * rest / whole;
            value = *units;
            let asked = outcome.ask.as_ref().map_or(Decimal::ZERO, |ask| ask.amount.value());
            prop_assert_eq!(asked, quote.amount_due.value());
            let owed = outcome.subscription.credit().unwrap();
            prop_assert_eq!(owed, quote.credit_after);
            life.subscription = outcome.subscription;

            let most = unit * Decimal::from(nth + 1);
            prop_assert!((net - exact).abs() <= most, "{net} for {exact} after {nth} changes");
        }
        // The value of the period is that of the last plan.
        prop_assert_eq!(period_value(&life.subscription), Decimal::from(value) * unit);
    }

    #[test]
    fn every_quote_adds_up_and_is_executed(
        currency in prop::sample::select(&CURRENCIES[..]),
        (from, from_cycle, from_seats) in
            (units(), prop::sample::select(&CYCLES[..]), 1..100_u64),
        (to, to_cycle, to_seats) in (units(), prop::sample::select(&CYCLES[..]), 1..100_u64),
        owed in units(),
        share in 0..=1_000_000_u64,
        // Beyond its end a period has no rest.
        late in any::<bool>(),
    ) {
        prop_assume!([from, to].map(|units| units * 100 < 99_999_999_999_999) == [true, true]);
        let mut life = life((&price(from, currency), currency, from_cycle), START, |new| {
            new.quantity = Some(seats(from_seats));
        });
        life.subscription.billing.as_mut().unwrap().credit = of(&price(owed, currency));
        let at = moment(&life, share).saturating_add(Duration::from_secs(if late { 1 << 30 } else { 0 }));
        let to = other_plan(&price(to, currency), currency, to_cycle);
        let change = PlanChange::to_plan(to.id).with_quantity(seats(to_seats));

        let quote = subscription_core::billing::quote(
            &life.subscription, &life.plan, Some(&to), &change, at,
        ).unwrap();
        let outcome = subscription_core::billing::change_plan(
            &life.subscription, &quote, &life.policy, at,
        ).unwrap();

        check(&quote, &life.subscription)?;
        let ask = outcome.ask.as_ref();
        prop_assert_eq!(ask.map_or(Decimal::ZERO, |ask| ask.amount.value()), quote.amount_due.value());
        prop_assert_eq!(ask.is_some(), !quote.amount_due.value().is_zero());
        let after = outcome.subscription;
        prop_assert_eq!(after.credit(), Some(quote.credit_after));
        prop_assert_eq!((after.renews_at, after.quantity), (quote.renews_at, seats(to_seats)));
        prop_assert_eq!(after.current_period_start(), quote.period_start);
        let again = subscription_core::billing::quote(&after, &life.plan, Some(&to), &change, at);
        let again = subscription_core::billing::change_plan(&after, &again.unwrap(), &life.policy, at);
        prop_assert!(again.is_none(), "the same change once more is none");
    }

    #[test]
    fn a_price_times_a_quantity_costs_what_their_product_costs(
        currency in prop::sample::select(&CURRENCIES[..]),
        cycle in prop::sample::select(&CYCLES[..]),
        (from, to) in (0..100_000_u64, 0..100_000_u64),
        (from_seats, to_seats) in (1..1_000_u64, 1..1_000_u64),
        share in 0..=1_000_000_u64,
    ) {
        let quoted = |from: u64, from_seats, to: u64, to_seats| {
            let life = life((&price(from, currency), currency, cycle), START, |new| {
                new.quantity = Some(seats(from_seats));
            });
            let to = other_plan(&price(to, currency), currency, cycle);
            let change = PlanChange::to_plan(to.id).with_quantity(seats(to_seats));
            let at = moment(&life, share);
            let quote = subscription_core::billing::quote(
                &life.subscription, &life.plan, Some(&to), &change, at,
            ).unwrap();
            (quote.lines, quote.amount_due, quote.credit_after, quote.next_amount)
        };

        let apart = quoted(from, from_seats, to, to_seats);
        let product = quoted(from * from_seats, 1, to * to_seats, 1);

        prop_assert_eq!(apart, product);
    }
}

#[test]
fn the_extremes_neither_panic_nor_overflow() {
    let prices = ["0", "0.01", "999999999.99", "999999999999999.99"];
    let starts =
        ["1970-01-01T00:00:00Z", START, "9998-12-31T23:59:59.999999Z", "9999-12-29T00:00:00Z"];
    let moments = [Timestamp::MIN, at("1970-01-01T00:00:01Z"), at(START), Timestamp::MAX];
    let mut quotes = 0;
    for (from, to) in prices.iter().flat_map(|from| prices.map(|to| (*from, to))) {
        for (start, cycle) in starts.iter().flat_map(|start| {
            ["daily", "P1000Y", "monthly", "one_time"].map(|cycle| (start, cycle))
        }) {
            let plan = other_plan(from, "USD", "daily");
            let Ok(life) = Life::of_plan(Policy::default(), &plan, at(start), |new| {
                new.billing_cycle = cycle.parse().ok();
            }) else {
                continue;
            };
            for (at, count) in moments.iter().flat_map(|at| [(at, 1), (at, 1_000_000)]) {
                for to_cycle in ["daily", "P1000Y"] {
                    let Ok(to_cycle) = to_cycle.parse() else { continue };
                    let to = Plan { billing_cycle: to_cycle, ..other_plan(to, "USD", "daily") };
                    let change = PlanChange::to_plan(to.id).with_quantity(seats(count));
                    let quote = subscription_core::billing::quote(
                        &life.subscription,
                        &life.plan,
                        Some(&to),
                        &change,
                        *at,
                    );
                    let fits = to.price.times(seats(count).get()).is_some();
                    assert_eq!(quote.is_ok(), fits, "{from} to {} x {count} at {at}", to.price);
                    let Ok(quote) = quote else { continue };
                    check(&quote, &life.subscription).unwrap();
                    quotes += 1;
                }
            }
        }
    }
    assert!(quotes > 1_000, "{quotes}");
}

#[test]
fn a_period_of_a_second_is_all_or_nothing() {
    let mut life = life(("10", "USD", "monthly"), START, |_| {});
    let to = other_plan("20", "USD", "monthly");
    let end = life.subscription.renews_at.unwrap();
    let before = |micros: u64| {
        let micros = end.micros() - i64::try_from(micros).unwrap();
        Timestamp::from_micros(micros).unwrap()
    };
    let billing = life.subscription.billing.as_mut().unwrap();
    billing.current_period_start = Some(before(1_000_000));

    let whole = quote_at(&life, &to, before(1_000_000));
    let rest = quote_at(&life, &to, before(999_999));
    // A period without a second has no parts.
    life.subscription.billing.as_mut().unwrap().current_period_start = Some(before(999_999));
    let none = quote_at(&life, &to, before(999_999));

    assert_eq!((credit(&whole), charge(&whole)), (Decimal::TEN, Decimal::from(20)));
    assert_eq!((credit(&rest), charge(&rest)), (Decimal::ZERO, Decimal::ZERO));
    assert_eq!(super::money(&none), "0.00, 0.00, 0.00");
}
