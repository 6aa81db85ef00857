//! Changes of plan: what they cost, and what they do.

mod cases;
mod golden;
mod input;
mod properties;
mod refusals;
mod scheduled;

use subscription_core::billing::Policy;
use subscription_core::{
    Amount, LineKind, NewSubscription, Plan, PlanChange, Quantity, Quote, Subscription,
};
use test_support::billing::life::other_plan;
use test_support::billing::{Life, invariants};
use test_support::service_world::at;

const START: &str = "2026-04-01T00:00:00Z";
const HALF: &str = "2026-04-16T00:00:00Z";

/// The life of a paid subscription to a plan of this price, with what `change` makes of it.
fn life(
    (price, currency, cycle): (&str, &str, &str),
    start: &str,
    change: impl FnOnce(&mut NewSubscription),
) -> Life {
    // Another id than that of the plan it changes to.
    let id = test_support::billing::life::plan(cycle.parse().unwrap(), None).id;
    let plan = Plan { id, ..other_plan(price, currency, cycle) };
    let mut life = Life::of_plan(Policy::default(), &plan, at(start), change).unwrap();
    life.pay();
    life
}

/// A monthly subscription of 1 April for this price in USD.
fn monthly(price: &str) -> Life {
    life((price, "USD", "monthly"), START, |_| {})
}

/// Lives until a day, and pays what is asked for.
fn paying_until(life: &mut Life, day: &str) {
    while let Some(next) = life.next_due().filter(|next| *next <= at(day)) {
        life.advance_to(next);
        life.pay();
    }
    life.until(day);
}

fn seats(count: u64) -> Quantity {
    Quantity::new(count).unwrap()
}

/// Changes to a plan, at once and prorated.
fn to_plan(life: &mut Life, plan: &Plan) -> Quote {
    life.change_plan(Some(plan), &PlanChange::to_plan(plan.id)).unwrap()
}

/// The amount of the first line of one of these kinds.
fn line(quote: &Quote, kinds: &[LineKind]) -> String {
    let line = quote.lines.iter().find(|line| kinds.contains(&line.kind));
    let zero = Amount::ZERO.with_digits(quote.amount_due.fraction_digits());
    let amount = line.map(|line| line.amount).or((!quote.lines.is_empty()).then_some(zero));
    amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string())
}

/// Credit, charge and amount due of a quote.
fn money(quote: &Quote) -> String {
    let credit = line(quote, &[LineKind::Unused]);
    let charge = line(quote, &[LineKind::Period, LineKind::Change]);
    format!("{credit}, {charge}, {}", quote.amount_due)
}

/// Credit after, renewal and next amount of a quote.
fn ahead(quote: &Quote) -> String {
    let renews_at = quote.renews_at.map_or_else(|| "-".to_owned(), day);
    let next = quote.next_amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
    format!("{}, {renews_at}, {next}", quote.credit_after)
}

fn day(at: subscription_core::Timestamp) -> String {
    at.to_string()[..10].to_owned()
}

/// Start and end of the running period, and the anchor.
fn period(subscription: &Subscription) -> String {
    let bounds =
        [subscription.current_period_start(), subscription.renews_at, subscription.anchor_at];
    bounds.map(|at| at.map_or_else(|| "-".to_owned(), day)).join(", ")
}

fn sound(life: &Life) {
    invariants::all(life).unwrap_or_else(|broken| panic!("{broken}"));
}
