//! Properties of every discount, and of every sequence of acts on a subscription that has one.

use std::time::Duration;

use proptest::prelude::*;
use rust_decimal::Decimal;
use subscription_core::billing::Policy;
use subscription_core::plans::Reduction;
use subscription_core::{
    Action, Amount, Currency, Effective, Field, NewDiscount, Plan, PlanChange, Quantity,
    SubscriptionChanges,
};
use test_support::billing::life::other_plan;
use test_support::billing::{Life, amounts, invariants};
use test_support::service_world::{at, of};

const CURRENCIES: [&str; 4] = ["JPY", "USD", "BHD", "CLF"];
const CYCLES: [&str; 4] = ["daily", "P10D", "monthly", "quarterly"];
const START: &str = "2026-01-31T10:00:00Z";

/// An amount of a number of smallest units.
fn units(units: u64, currency: &str) -> String {
    let digits = of::<Currency>(currency).digits();
    Decimal::from_i128_with_scale(units.into(), digits).to_string()
}

fn percentage(hundredths: u64) -> Reduction {
    Reduction::Percent(of(&format!("{}.{:02}", hundredths / 100, hundredths % 100)))
}

/// An act on a subscription.
#[derive(Debug, Clone)]
enum Act {
    Give { is_percent: bool, number: u64, periods: Option<u32> },
    Remove,
    Seats(u64),
    UnproratedSeats(u64),
    Plan { price: u64, cycle: &'static str, at_end: bool },
    Price(u64),
    Pause,
    Cancel,
    Resume,
}

fn act() -> impl Strategy<Value = Act> {
    let periods = proptest::option::of(1..4_u32);
    prop_oneof![
        3 => (any::<bool>(), 1..10_000_u64, periods)
            .prop_map(|(is_percent, number, periods)| Act::Give { is_percent, number, periods }),
        1 => Just(Act::Remove),
        4 => (1..9_u64).prop_map(Act::Seats),
        1 => (1..9_u64).prop_map(Act::UnproratedSeats),
        2 => (0..20_000_u64, prop::sample::select(&CYCLES[..]), any::<bool>())
            .prop_map(|(price, cycle, at_end)| Act::Plan { price, cycle, at_end }),
        1 => (0..20_000_u64).prop_map(Act::Price),
        1 => Just(Act::Pause),
        1 => Just(Act::Cancel),
        2 => Just(Act::Resume),
    ]
}

fn discount(is_percent: bool, number: u64, periods: Option<u32>, currency: &str) -> NewDiscount {
    let off = if is_percent {
        percentage(number)
    } else {
        Reduction::Amount(of(&units(number, currency)))
    };
    NewDiscount { off, periods }
}

/// Runs an act. A refusal changes nothing.
fn run(life: &mut Life, act: &Act, currency: &str) {
    let seats = |count| PlanChange::to_quantity(Quantity::new(count).unwrap());
    let acted = match act {
        Act::Give { is_percent, number, periods } => {
            let given = discount(*is_percent, *number, *periods, currency);
            life.act(Action::GiveDiscount(given)).map(drop)
        }
        Act::Remove => life.act(Action::RemoveDiscount).map(drop),
        Act::Seats(count) => life.change_plan(None, &seats(*count)).map(drop),
        Act::UnproratedSeats(count) => {
            life.change_plan(None, &seats(*count).unprorated()).map(drop)
        }
        Act::Plan { price, cycle, at_end } => {
            let plan = other_plan(&units(*price, currency), currency, cycle);
            let change = PlanChange::to_plan(plan.id);
            let change = if *at_end { change.at_period_end() } else { change };
            life.change_plan(Some(&plan), &change).map(drop)
        }
        Act::Price(price) => {
            let price = Field::Value(of(&units(*price, currency)));
            life.update(SubscriptionChanges { price, ..Default::default() }).map(drop)
        }
        Act::Pause => {
            let effective = Some(Effective::PeriodEnd);
            life.act(Action::Pause { effective, resumes_at: None }).map(drop)
        }
        Act::Cancel => life.act(Action::Cancel(Some(Effective::PeriodEnd))).map(drop),
        Act::Resume => life.act(Action::Resume).map(drop),
    };
    drop(acted);
    life.pay();
}

proptest! {
    /// It takes off at least 0 and at most the price, as many digits as the currency has, and never more off less.
    #[test]
    fn a_reduction_is_within_the_price_and_monotone(
        hundredths in 1..=10_000_u64,
        amount in 1..1_000_000_u64,
        gross in 0..99_999_999_999_999_u64,
        more in 0..1_000_000_u64,
        code in prop::sample::select(&CURRENCIES[..]),
    ) {
        let currency = of::<Currency>(code);
        let price: Amount = of(&units(gross, code));
        let dearer: Amount = of(&units(gross + more, code));
        for off in [percentage(hundredths), Reduction::Amount(of(&units(amount, code)))] {
            let reduction = off.of(price, currency);
            prop_assert_eq!(reduction.fraction_digits(), currency.digits());
            prop_assert!(!reduction.value().is_sign_negative());
            prop_assert!(reduction.value() <= price.value());
            prop_assert!(reduction.value() <= off.of(dearer, currency).value());
            let model = amounts::reduction(off, price.value(), currency.digits());
            prop_assert_eq!(reduction.value(), model);
        }
        let less = percentage(hundredths.div_ceil(2)).of(price, currency);
        prop_assert!(less.value() <= percentage(hundredths).of(price, currency).value());
    }

    #[test]
    fn every_life_with_a_discount_holds_what_must_always_hold(
        price in prop_oneof![1 => Just(0), 6 => 1..20_000_u64],
        quantity in 1..5_u64,
        code in prop::sample::select(&CURRENCIES[..]),
        cycle in prop::sample::select(&CYCLES[..]),
        credit in prop_oneof![3 => Just(0), 1 => 0..30_000_u64],
        trial in any::<bool>(),
        first in (any::<bool>(), 1..10_000_u64, proptest::option::of(1..4_u32)),
        acts in proptest::collection::vec((0..3_000_u64, act()), 0..10),
    ) {
        let (is_percent, number, periods) = first;
        let id = test_support::billing::life::plan(of("monthly"), None).id;
        let plan = Plan { id, ..other_plan(&units(price, code), code, cycle) };
        let mut life = Life::of_plan(Policy::default(), &plan, at(START), |new| {
            new.discount = Some(discount(is_percent, number, periods, code));
            new.quantity = Some(Quantity::new(quantity).unwrap());
            new.credit = Some(of(&units(credit, code)));
            new.trial_ends_at = trial.then(|| at("2026-02-14T00:00:00Z")).into();
        })
        .unwrap();
        life.pay();
        for (hours, act) in &acts {
            let until = life.now.saturating_add(Duration::from_hours(*hours));
            while let Some(next) = life.next_due().filter(|next| *next <= until) {
                life.advance_to(next);
                life.pay();
            }
            life.advance_to(until);
            run(&mut life, act, code);
        }
        prop_assert!(invariants::all(&life).is_ok(), "{}", invariants::all(&life).unwrap_err());
    }
}
