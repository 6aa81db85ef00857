//! Discounts: worked lives with the amounts that they charge, and what gives or ends a discount.

use rust_decimal::Decimal;
use subscription_core::billing::{Activation, Policy};
use subscription_core::plans::Reduction;
use subscription_core::{
    Action, Amount, Conflict, Effective, Error, Field, LineKind, NewDiscount, NewSubscription,
    PaymentStatus, Plan, PlanChange, Quantity, Quote, SeededRandomness, SubscriptionChanges,
    SubscriptionStatus, UserId,
};
use test_support::billing::life::other_plan;
use test_support::billing::{Life, invariants};
use test_support::service_world::{at, of};

const START: &str = "2026-04-01T00:00:00Z";
const FOR_EVER: Option<u32> = None;

fn percent(percent: &str, periods: impl Into<Option<u32>>) -> NewDiscount {
    NewDiscount { off: Reduction::Percent(of(percent)), periods: periods.into() }
}

fn amount(amount: &str, periods: impl Into<Option<u32>>) -> NewDiscount {
    NewDiscount { off: Reduction::Amount(of(amount)), periods: periods.into() }
}

/// A subscription to a plan for this price in USD that pays for its first period.
fn life(
    price: &str,
    cycle: &str,
    start: &str,
    discount: impl Into<Option<NewDiscount>>,
    change: impl FnOnce(&mut NewSubscription),
) -> Life {
    // Another id than that of the plan it changes to.
    let id = test_support::billing::life::plan(cycle.parse().unwrap(), None).id;
    let plan = Plan { id, ..other_plan(price, "USD", cycle) };
    let discount = discount.into();
    let mut life = Life::of_plan(Policy::default(), &plan, at(start), |new| {
        new.discount = discount;
        change(new);
    })
    .unwrap();
    life.pay();
    life
}

/// A monthly subscription of 1 April.
fn monthly(price: &str, discount: impl Into<Option<NewDiscount>>) -> Life {
    life(price, "monthly", START, discount, |_| {})
}

fn paying_until(life: &mut Life, day: &str) {
    while let Some(next) = life.next_due().filter(|next| *next <= at(day)) {
        life.advance_to(next);
        life.pay();
    }
    life.until(day);
}

fn seats(count: u64) -> PlanChange {
    PlanChange::to_quantity(Quantity::new(count).unwrap())
}

/// Changes to a plan for this price, pays, and returns the quote in words.
fn to_plan(life: &mut Life, price: &str, cycle: &str) -> String {
    let plan = other_plan(price, "USD", cycle);
    let quote = life.change_plan(Some(&plan), &PlanChange::to_plan(plan.id)).unwrap();
    life.pay();
    words(&quote)
}

fn to_seats(life: &mut Life, count: u64) -> String {
    let quote = life.change_plan(None, &seats(count)).unwrap();
    life.pay();
    words(&quote)
}

/// The lines, the amount due, the credit that was added, and whether the discount ended.
fn words(quote: &Quote) -> String {
    let mut words: Vec<_> =
        quote.lines.iter().map(|line| format!("{} {}", line.kind, line.amount)).collect();
    words.push(format!("due {}", quote.amount_due));
    if quote.credit_after.value() > quote.credit_before.value() {
        words.push(format!("credit {}", quote.credit_after));
    }
    words.extend(quote.ends_discount.then(|| "ended".to_owned()));
    words.join(", ")
}

/// The payments for periods with the days of their periods, without prorations.
fn charged(life: &Life) -> String {
    let periods = life.payments.iter().filter(|payment| payment.whole_start().is_some());
    let periods = periods.map(|payment| {
        format!("{} {}", &payment.period_start().unwrap().to_string()[5..10], payment.amount)
    });
    periods.collect::<Vec<_>>().join(", ")
}

trait WholeStart {
    fn whole_start(&self) -> Option<subscription_core::Timestamp>;
}

impl WholeStart for subscription_core::Payment {
    fn whole_start(&self) -> Option<subscription_core::Timestamp> {
        self.asked.as_ref()?.whole_period()
    }
}

/// The life holds what must always hold, and has charged this for its periods until a day.
#[track_caller]
fn charges(mut life: Life, until: &str, expected: &str) {
    paying_until(&mut life, until);
    assert_eq!(charged(&life), expected);
    invariants::all(&life).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn three_periods_are_reduced_and_the_fourth_is_not() {
    let life = life("19.99", "monthly", "2026-01-31T00:00:00Z", percent("20", 3), |_| {});
    charges(life, "2026-05-15T00:00:00Z", "01-31 15.99, 02-28 15.99, 03-31 15.99, 04-30 19.99");
}

#[test]
fn an_amount_is_taken_off_whatever_the_quantity() {
    let mut life = monthly("12.00", amount("5.00", FOR_EVER));
    life.until("2026-04-10T00:00:00Z");
    let quantity = Some(Quantity::new(3).unwrap());
    life.update(SubscriptionChanges { quantity, ..Default::default() }).unwrap();
    charges(life, "2026-06-15T00:00:00Z", "04-01 7.00, 05-01 31.00, 06-01 31.00");
}

#[test]
fn a_period_that_costs_nothing_has_no_payment() {
    for free in [percent("100", 1), amount("25.00", 1)] {
        charges(monthly("10.00", free), "2026-05-15T00:00:00Z", "05-01 10.00");
    }
}

#[test]
fn a_trial_uses_no_period() {
    let trial = |new: &mut NewSubscription| {
        new.trial_ends_at = at("2026-02-14T00:00:00Z").into();
    };
    let life = life("10.00", "monthly", "2026-01-31T00:00:00Z", percent("50", 2), trial);
    charges(life, "2026-04-20T00:00:00Z", "02-14 5.00, 03-14 5.00, 04-14 10.00");
}

#[test]
fn a_pause_uses_no_period() {
    let mut life = life("10.00", "monthly", "2026-01-31T00:00:00Z", percent("50", 3), |_| {});
    paying_until(&mut life, "2026-03-20T00:00:00Z");
    let resumes_at = Some(at("2026-06-10T00:00:00Z"));
    life.act(Action::Pause { effective: Some(Effective::PeriodEnd), resumes_at }).unwrap();
    charges(life, "2026-07-15T00:00:00Z", "01-31 5.00, 02-28 5.00, 06-10 5.00, 07-10 10.00");
}

#[test]
fn skipped_periods_use_none() {
    let mut life = life("1.00", "daily", START, percent("50", 3), |_| {});
    life.until("2026-04-09T12:00:00Z");
    assert!(life.steps().iter().any(|step| step.ends_with("periods_skipped")));
    let expected = "04-01 0.50, 04-06 0.50, 04-07 0.50, 04-08 1.00, 04-09 1.00";
    charges(life, "2026-04-09T13:00:00Z", expected);
}

#[test]
fn time_without_access_uses_no_period() {
    let mut life = life("10.00", "monthly", "2026-03-01T00:00:00Z", percent("50", 2), |_| {});
    life.until(START);
    while life.status() != SubscriptionStatus::Unpaid {
        match life.to_collect() {
            Some(nth) => life.report(nth, PaymentStatus::Failed),
            None => life.advance_to(life.next_due().unwrap()),
        }
    }
    life.until("2026-05-20T08:00:00Z");
    life.report(1, PaymentStatus::Succeeded);
    charges(life, "2026-05-25T00:00:00Z", "03-01 5.00, 04-01 5.00, 05-20 10.00");
}

#[test]
fn a_cancellation_that_is_undone_keeps_it() {
    let mut life = monthly("10.00", percent("50", 3));
    life.until("2026-04-20T00:00:00Z");
    life.act(Action::Cancel(None)).unwrap();
    life.until("2026-04-25T00:00:00Z");
    life.act(Action::Resume).unwrap();
    charges(life, "2026-07-15T00:00:00Z", "04-01 5.00, 05-01 5.00, 06-01 5.00, 07-01 10.00");
}

#[test]
fn one_that_is_given_later_begins_with_the_next_period() {
    let mut life = monthly("10.00", None);
    life.until("2026-04-11T00:00:00Z");
    life.act(Action::GiveDiscount(percent("50", 2))).unwrap();
    charges(life, "2026-07-15T00:00:00Z", "04-01 10.00, 05-01 5.00, 06-01 5.00, 07-01 10.00");
}

#[test]
fn another_plan_ends_it_at_once() {
    let mut dearer = monthly("10.00", percent("50", 1));
    dearer.until("2026-04-16T00:00:00Z");
    let quote = to_plan(&mut dearer, "20.00", "monthly");
    assert_eq!(quote, "change 10.00, unused 2.50, due 7.50, ended");
    charges(dearer, "2026-05-15T00:00:00Z", "04-01 5.00, 05-01 20.00");

    // A period that is free by its discount continues.
    let mut free = monthly("29.99", percent("100", 1));
    free.until("2026-04-11T00:00:00Z");
    assert_eq!(to_plan(&mut free, "9.99", "monthly"), "change 6.66, due 6.66, ended");
    charges(free, "2026-05-15T00:00:00Z", "05-01 9.99");

    let mut cheaper = monthly("29.99", percent("20", FOR_EVER));
    cheaper.until("2026-04-11T00:00:00Z");
    let quote = to_plan(&mut cheaper, "9.99", "monthly");
    assert_eq!(quote, "change 6.66, unused 15.99, due 0.00, credit 9.33, ended");
    charges(cheaper, "2026-06-15T00:00:00Z", "04-01 23.99, 05-01 0.66, 06-01 9.99");
}

#[test]
fn it_does_not_come_back_with_the_first_plan() {
    let mut life = monthly("10.00", percent("50", FOR_EVER));
    life.until("2026-04-16T00:00:00Z");
    let quote = to_plan(&mut life, "30.00", "monthly");
    assert_eq!(quote, "change 15.00, unused 2.50, due 12.50, ended");
    paying_until(&mut life, "2026-05-16T12:00:00Z");
    let first = life.plan.clone();
    let back = life.change_plan(Some(&first), &PlanChange::to_plan(first.id)).unwrap();
    assert_eq!(words(&back), "change 5.00, unused 15.00, due 0.00, credit 10.00");
    charges(life, "2026-07-15T00:00:00Z", "04-01 5.00, 05-01 30.00, 07-01 10.00");
}

#[test]
fn another_cycle_ends_it_and_starts_a_period() {
    let mut life = monthly("12.00", percent("50", 3));
    life.until("2026-04-11T00:00:00Z");
    let quote = to_plan(&mut life, "120.00", "yearly");
    assert_eq!(quote, "period 120.00, unused 4.00, due 116.00, ended");
    charges(life, "2027-04-15T00:00:00Z", "04-01 6.00, 04-11 120.00");
}

#[test]
fn more_seats_keep_it() {
    let three = |new: &mut NewSubscription| new.quantity = Some(Quantity::new(3).unwrap());
    let mut more = life("19.99", "monthly", START, percent("20", 2), three);
    more.until("2026-04-16T00:00:00Z");
    let quote = to_seats(&mut more, 5);
    assert_eq!(quote, "change 49.98, discount 10.00, unused 23.99, due 15.99");
    charges(more, "2026-06-15T00:00:00Z", "04-01 47.98, 05-01 79.96, 06-01 99.95");

    let mut free = monthly("10.00", amount("10.00", 1));
    free.until("2026-04-16T00:00:00Z");
    assert_eq!(to_seats(&mut free, 4), "change 20.00, discount 5.00, due 15.00");
    charges(free, "2026-05-15T00:00:00Z", "05-01 40.00");

    let mut up_and_down = monthly("9.99", percent("50", FOR_EVER));
    up_and_down.until("2026-04-11T00:00:00Z");
    let up = to_seats(&mut up_and_down, 3);
    assert_eq!(up, "change 19.98, discount 9.99, unused 3.33, due 6.66");
    up_and_down.until("2026-04-21T00:00:00Z");
    let down = to_seats(&mut up_and_down, 1);
    assert_eq!(down, "change 3.33, discount 1.67, unused 5.00, due 0.00, credit 3.34");
    charges(up_and_down, "2026-06-15T00:00:00Z", "04-01 4.99, 05-01 1.65, 06-01 4.99");
}

#[test]
fn the_credit_pays_what_the_discount_leaves() {
    let credit = |new: &mut NewSubscription| new.credit = Some(of("11.00"));
    let mut life = life("10.00", "monthly", START, percent("20", FOR_EVER), credit);
    paying_until(&mut life, "2026-05-15T00:00:00Z");
    let lines = life.payments.last().unwrap().lines().unwrap();
    let lines: Vec<_> = lines.iter().map(|line| format!("{} {}", line.kind, line.amount)).collect();
    assert_eq!(lines, ["period 10.00", "discount 2.00", "balance 3.00"]);
    charges(life, "2026-06-15T00:00:00Z", "05-01 5.00, 06-01 8.00");
}

#[test]
fn a_period_that_it_does_not_reduce_is_not_counted() {
    let mut life = monthly("0.00", percent("50", 1));
    life.until("2026-04-10T00:00:00Z");
    let price = Field::Value(of("20.00"));
    life.update(SubscriptionChanges { price, ..Default::default() }).unwrap();
    charges(life, "2026-06-15T00:00:00Z", "05-01 10.00, 06-01 20.00");
}

#[test]
fn one_that_is_removed_or_refunded_gives_no_credit() {
    let mut removed = monthly("10.00", percent("50", FOR_EVER));
    removed.until("2026-04-10T00:00:00Z");
    removed.act(Action::RemoveDiscount).unwrap();
    removed.until("2026-04-16T00:00:00Z");
    assert_eq!(to_seats(&mut removed, 2), "change 10.00, unused 2.50, due 7.50");
    charges(removed, "2026-05-15T00:00:00Z", "04-01 5.00, 05-01 20.00");

    let mut refunded = monthly("10.00", percent("50", 2));
    refunded.until("2026-04-10T00:00:00Z");
    refunded.report(0, PaymentStatus::Refunded);
    refunded.until("2026-04-16T00:00:00Z");
    assert_eq!(to_seats(&mut refunded, 2), "period 20.00, discount 10.00, due 10.00");
    charges(refunded, "2026-05-20T00:00:00Z", "04-01 5.00, 05-16 20.00");
}

#[test]
fn a_change_to_and_fro_at_one_moment_gains_nothing() {
    for price in ["9.99", "10.00", "0.01", "33.33"] {
        let mut life = monthly(price, percent("50", FOR_EVER));
        life.until("2026-04-11T07:31:07Z");
        for _ in 0..100 {
            to_seats(&mut life, 7);
            to_seats(&mut life, 1);
        }
        let paid = life.payments.iter().map(|payment| payment.amount.value());
        let credit = life.subscription.credit().unwrap().value();
        let half = of::<Amount>(price).value() / Decimal::TWO - Decimal::new(1, 2);
        assert!(paid.sum::<Decimal>() - credit >= half, "{price}");
        invariants::all(&life).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn there_is_one_discount_and_only_where_a_period_follows() {
    let mut held = monthly("10.00", percent("50", 1));
    let second = held.act(Action::GiveDiscount(percent("10", 1)));
    assert!(matches!(second, Err(Error::Conflict(Conflict::DiscountExists))), "{second:?}");
    held.act(Action::RemoveDiscount).unwrap();
    assert!(matches!(held.act(Action::RemoveDiscount), Err(Error::NotFound { .. })));
    let digits = held.act(Action::GiveDiscount(amount("1.001", 1)));
    assert!(matches!(digits, Err(Error::Invalid(_))), "{digits:?}");

    let mut once = life("10.00", "one_time", START, None, |_| {});
    let begun = once.act(Action::GiveDiscount(percent("50", 1)));
    assert!(matches!(begun, Err(Error::Conflict(Conflict::Transition(_)))), "{begun:?}");
    let policy = Policy::default().with_activation(Activation::OnPayment);
    let mut waiting = Life::by(policy, "one_time", START, |_| {}).unwrap();
    assert_eq!(waiting.status(), SubscriptionStatus::Pending);
    let begun = waiting.act(Action::GiveDiscount(percent("50", 1)));
    assert!(matches!(begun, Err(Error::Conflict(Conflict::Transition(_)))), "{begun:?}");
    let ahead = |new: &mut NewSubscription| new.starts_at = Some(at("2026-04-02T00:00:00Z"));
    let mut ahead = Life::by(Policy::default(), "one_time", START, ahead).unwrap();
    ahead.act(Action::GiveDiscount(percent("50", 1))).unwrap();
    charges(ahead, "2026-04-03T00:00:00Z", "04-02 5.00");
    held.act(Action::Cancel(Some(Effective::Now))).unwrap();
    let over = held.act(Action::GiveDiscount(percent("50", 1)));
    assert!(matches!(over, Err(Error::Conflict(Conflict::Transition(_)))), "{over:?}");
}

#[test]
fn a_quote_says_what_becomes_of_it() {
    let mut life = monthly("10.00", percent("50", 3));
    life.until("2026-04-16T00:00:00Z");

    let kept = life.quote(None, &seats(2)).unwrap();
    let later = other_plan("20.00", "USD", "monthly");
    let ended = life.quote(Some(&later), &PlanChange::to_plan(later.id).at_period_end()).unwrap();

    assert_eq!((kept.discount.unwrap().used, kept.ends_discount), (1, false));
    assert_eq!(kept.next_amount.unwrap().to_string(), "10.00");
    assert_eq!((ended.discount, ended.ends_discount), (None, true));
    assert_eq!(ended.next_amount.unwrap().to_string(), "20.00");
    let lines = kept.lines.iter().map(|line| line.kind).collect::<Vec<_>>();
    assert_eq!(lines, [LineKind::Change, LineKind::Discount, LineKind::Unused]);
}

/// The JSON of the input is its fingerprint under an idempotency key: a field that is not sent must not change it.
#[test]
fn an_input_without_a_discount_has_the_fingerprint_that_it_had() {
    let plan = test_support::billing::life::plan(of("monthly"), None).id;
    let user = UserId::new(at(START), &SeededRandomness::new(1)).unwrap();
    let new = NewSubscription::new(user, plan);
    let without = serde_json::to_value(&new).unwrap();
    assert_eq!(without.get("discount"), None);
    let with = NewSubscription { discount: Some(percent("50", 1)), ..new };
    assert!(serde_json::to_value(&with).unwrap().get("discount").is_some());
}

/// A later release may add fields. A field that is not there has its default.
#[test]
fn a_stored_discount_is_read_with_fields_of_a_later_release() {
    let text =
        r#"{"discount":{"off":{"percent":20.00},"periods":3,"used":1,"applied":true,"since":"x"}}"#;
    let read: subscription_core::BillingState = text.parse().unwrap();
    let discount = read.discount.unwrap();
    assert_eq!((discount.off, discount.periods_left()), (percent("20.00", 3).off, Some(2)));
    assert!(discount.applied);
}
