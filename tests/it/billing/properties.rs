//! Invariants of every life: random lives, whatever happens in them and however late the clock looks.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use subscription_core::billing::{Activation, AfterDunning, Policy};
use subscription_core::{
    Action, Amount, Bounded, Effective, Error, Field, NewSubscription, PaymentChanges,
    PaymentStatus, Plan, PlanChange, Quantity, Quote, StepKind, SubscriptionChanges,
    SubscriptionStatus, Timestamp,
};
use test_support::billing::life::other_plan;
use test_support::billing::{By, Life, days, hours, invariants};
use test_support::service_world::{at, of};

const START: &str = "2024-01-31T10:00:00Z";
const CYCLES: [&str; 8] =
    ["daily", "weekly", "P10D", "monthly", "monthly", "quarterly", "yearly", "one_time"];

/// How a life begins.
#[derive(Debug, Clone)]
struct Birth {
    cycle: &'static str,
    cents: u32,
    quantity: u64,
    credit_cents: u32,
    trial_days: Option<u64>,
    starts_in_days: u64,
    ends_in_days: Option<u64>,
}

/// The events of a life. Numbers choose among what is there.
#[derive(Debug, Clone)]
enum Act {
    Advance { hours: u64 },
    Cancel(Option<Effective>),
    Resume,
    Pause { effective: Option<Effective>, days: Option<u64> },
    Unschedule,
    Report { nth: usize, status: PaymentStatus },
    HardDecline { nth: usize },
    Price { cents: u32 },
    Quantity(u64),
    Credit { cents: u32 },
    Trial { days: u64 },
    ResumeIn { days: u64 },
    ChangePlan(NewTerms),
}

/// A change of plan. A price comes with a plan, and a plan with its cycle.
#[derive(Debug, Clone, Copy)]
struct NewTerms {
    cents: Option<u32>,
    cycle: Option<&'static str>,
    quantity: Option<u64>,
    at_end: bool,
    unprorated: bool,
}

fn new_terms() -> impl Strategy<Value = NewTerms> {
    (
        prop::option::weighted(0.7, prop_oneof![1 => Just(0_u32), 9 => 1..20_000_u32]),
        prop::option::weighted(0.4, prop::sample::select(&CYCLES[..])),
        prop::option::weighted(0.3, 1..20_u64),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(cents, cycle, quantity, at_end, unprorated)| NewTerms {
            cents,
            cycle,
            quantity,
            at_end,
            unprorated,
        })
}

impl NewTerms {
    fn apply(self, life: &mut Life) -> Result<Quote, Error> {
        let cycle = self.cycle.map_or(life.subscription.billing_cycle, of);
        let price = |count: u32| Plan { price: cents(count), ..other_plan("0", "USD", "monthly") };
        let to = self.cents.map(|count| Plan { billing_cycle: cycle, ..price(count) });
        let mut change = PlanChange::default();
        change.subscription_plan_id = to.as_ref().map(|plan| plan.id);
        change.billing_cycle = self.cycle.map(of);
        change.quantity = self.quantity.map(|count| Quantity::new(count).unwrap());
        change = if self.at_end { change.at_period_end() } else { change };
        change = if self.unprorated { change.unprorated() } else { change };
        life.change_plan(to.as_ref(), &change)
    }
}

fn cents(cents: u32) -> Amount {
    of(&format!("{}.{:02}", cents / 100, cents % 100))
}

fn births() -> impl Strategy<Value = Birth> {
    (
        prop::sample::select(&CYCLES[..]),
        prop_oneof![1 => Just(0_u32), 9 => 1..20_000_u32],
        1..20_u64,
        prop_oneof![2 => Just(0_u32), 1 => 1..100_000_u32],
        prop::option::weighted(0.4, 1..40_u64),
        prop_oneof![3 => Just(0_u64), 1 => 1..40_u64],
        prop::option::weighted(0.2, 41..400_u64),
    )
        .prop_map(
            |(cycle, cents, quantity, credit_cents, trial_days, starts_in_days, ends_in_days)| {
                Birth {
                    cycle,
                    cents,
                    quantity,
                    credit_cents,
                    trial_days,
                    starts_in_days,
                    ends_in_days,
                }
            },
        )
}

fn policies() -> impl Strategy<Value = Policy> {
    (any::<bool>(), any::<bool>(), 0..5_u64, any::<bool>()).prop_map(
        |(expires, on_payment, max, reminds)| {
            let policy = Policy::default().with_missed_periods_max(Bounded::new(max).unwrap());
            let policy = if reminds { policy } else { policy.with_remind_before(None) };
            let policy =
                if expires { policy.with_after_dunning(AfterDunning::Expired) } else { policy };
            if on_payment { policy.with_activation(Activation::OnPayment) } else { policy }
        },
    )
}

fn effective() -> impl Strategy<Value = Option<Effective>> {
    prop::sample::select(vec![None, Some(Effective::Now), Some(Effective::PeriodEnd)])
}

fn acts() -> impl Strategy<Value = Act> {
    let statuses: Vec<_> = PaymentStatus::all().collect();
    prop_oneof![
        8 => (0..60 * 24_u64).prop_map(|hours| Act::Advance { hours }),
        1 => effective().prop_map(Act::Cancel),
        3 => Just(Act::Resume),
        2 => (effective(), prop::option::of(1..90_u64))
            .prop_map(|(effective, days)| Act::Pause { effective, days }),
        1 => Just(Act::Unschedule),
        6 => (0..9_usize).prop_map(|nth| Act::Report { nth, status: PaymentStatus::Succeeded }),
        4 => (0..9_usize).prop_map(|nth| Act::Report { nth, status: PaymentStatus::Failed }),
        2 => (0..9_usize, prop::sample::select(statuses))
            .prop_map(|(nth, status)| Act::Report { nth, status }),
        1 => (0..9_usize).prop_map(|nth| Act::HardDecline { nth }),
        1 => (0..20_000_u32).prop_map(|cents| Act::Price { cents }),
        1 => (1..20_u64).prop_map(Act::Quantity),
        1 => (0..50_000_u32).prop_map(|cents| Act::Credit { cents }),
        1 => (1..40_u64).prop_map(|days| Act::Trial { days }),
        1 => (1..40_u64).prop_map(|days| Act::ResumeIn { days }),
        5 => new_terms().prop_map(Act::ChangePlan),
    ]
}

impl Birth {
    fn begin(&self, policy: Policy) -> Life {
        let start = at(START).saturating_add(days(self.starts_in_days));
        let describe = |new: &mut NewSubscription| {
            new.price = Some(cents(self.cents));
            new.quantity = Some(Quantity::new(self.quantity).unwrap());
            new.credit = Some(cents(self.credit_cents));
            new.starts_at = Some(start);
            let after = |count: u64| start.saturating_add(days(count));
            new.trial_ends_at = self.trial_days.map(after).map_or(Field::Null, Field::Value);
            new.ends_at = self.ends_in_days.map(after);
        };
        Life::by(policy, self.cycle, START, describe).unwrap()
    }
}

/// Lets something happen; what is refused changes nothing.
fn happen(life: &mut Life, act: &Act) {
    let (now, before) = (life.now, life.subscription.clone());
    let later = |count: u64| now.saturating_add(days(count));
    let changes = SubscriptionChanges::default();
    let done = match *act {
        Act::Advance { hours: count } => {
            life.advance(hours(count));
            return;
        }
        Act::Cancel(effective) => life.act(Action::Cancel(effective)),
        Act::Resume => life.act(Action::Resume),
        Act::Pause { effective, days } => {
            life.act(Action::Pause { effective, resumes_at: days.map(later) })
        }
        Act::Unschedule => life.act(Action::Unschedule),
        Act::Report { nth, status } => {
            report(life, nth, PaymentChanges::status(status));
            return;
        }
        Act::HardDecline { nth } => {
            let next_attempt_at = Field::Null;
            let status = PaymentChanges::status(PaymentStatus::Failed);
            report(life, nth, PaymentChanges { next_attempt_at, ..status });
            return;
        }
        Act::Price { cents: count } => {
            life.update(SubscriptionChanges { price: cents(count).into(), ..changes })
        }
        Act::Quantity(count) => {
            let quantity = Some(Quantity::new(count).unwrap());
            life.update(SubscriptionChanges { quantity, ..changes })
        }
        Act::Credit { cents: count } => {
            life.update(SubscriptionChanges { credit: Some(cents(count)), ..changes })
        }
        Act::Trial { days } => {
            life.update(SubscriptionChanges { trial_ends_at: later(days).into(), ..changes })
        }
        Act::ResumeIn { days } => {
            life.update(SubscriptionChanges { resumes_at: later(days).into(), ..changes })
        }
        Act::ChangePlan(terms) => terms.apply(life).map(|_| true),
    };
    if done.is_err() {
        assert_eq!(life.subscription, before, "a refusal changes nothing");
    }
}

/// Reports one of the last payments, if its lifecycle allows it.
fn report(life: &mut Life, nth: usize, changes: PaymentChanges) {
    let Some(nth) = life.payments.len().checked_sub(nth % life.payments.len().max(1) + 1) else {
        return;
    };
    let payment = life.payments.get(nth).unwrap();
    if payment.change(changes.clone(), life.now).is_ok() {
        life.report(nth, changes);
    }
}

fn sound(life: &Life) -> Result<(), TestCaseError> {
    invariants::all(life).map_err(|broken| TestCaseError::fail(broken.to_string()))
}

/// Lives in which nothing goes wrong would keep every invariant as well.
#[test]
fn random_lives_meet_every_step_and_every_status() {
    let mut runner = TestRunner::deterministic();
    let lives = (births(), policies(), prop::collection::vec(acts(), 60));
    let (mut steps, mut statuses) = (BTreeSet::new(), BTreeSet::new());
    let (mut changes, mut settled) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..200 {
        let (birth, policy, acts) = lives.new_tree(&mut runner).unwrap().current();
        let mut life = birth.begin(policy);

        for act in &acts {
            happen(&mut life, act);
        }

        for write in &life.writes {
            statuses.insert(write.after.status);
            if let Some((quote, before)) = write.quote.as_ref().zip(write.before.as_ref()) {
                changes.insert((before.status, quote.effective.as_str()));
                let begins = quote.period_start != before.current_period_start();
                let due = !quote.amount_due.value().is_zero();
                let owed = quote.credit_after.value() > quote.credit_before.value();
                settled.extend((!quote.lines.is_empty()).then_some((begins, due, owed)));
            }
            if let By::Step(kind, _) = write.by {
                steps.insert(kind);
            }
        }
    }

    // The policy of a life stays the same.
    let expected: BTreeSet<_> = StepKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, StepKind::Corrected | StepKind::PaymentRetried))
        .collect();
    assert_eq!(steps, expected);
    assert_eq!(statuses, SubscriptionStatus::all().collect());
    assert_eq!(changes.len(), 6, "{changes:?}");
    // With and without a new period: nothing, an amount or a credit.
    assert_eq!(settled.len(), 6, "{settled:?}");
}

type Asked = (Timestamp, Option<Timestamp>, String, Timestamp);

fn asked(life: &Life) -> Vec<Asked> {
    let asked = |payment: &subscription_core::Payment| {
        let asked = payment.asked.as_ref().unwrap();
        (asked.period_start, asked.period_end, payment.amount.to_string(), asked.due_at)
    };
    life.payments.iter().map(asked).collect()
}

proptest! {
    #[test]
    fn random_lives_keep_every_invariant(
        birth in births(),
        policy in policies(),
        acts in prop::collection::vec(acts(), 1..60),
    ) {
        let mut life = birth.begin(policy);
        sound(&life)?;

        for act in &acts {
            happen(&mut life, act);
            sound(&life)?;
        }
    }

    #[test]
    fn late_is_punctual(
        birth in births(),
        paid in any::<bool>(),
        until in 1..800_u64,
        splits in prop::collection::vec(1..60 * 24_u64, 1..40),
    ) {
        let policy = Policy::default().with_missed_periods_max(Bounded::new(366).unwrap());
        let end = at(START).saturating_add(days(until.min(366)));
        let drive = |steps: &mut dyn Iterator<Item = u64>| {
            let mut life = birth.begin(policy.clone());
            for step in steps {
                let next = life.now.saturating_add(hours(step)).min(end);
                life.advance_to(next);
                if paid {
                    life.pay();
                }
            }
            life.advance_to(end);
            life
        };

        let at_once = drive(&mut std::iter::empty());

        for late in [
            drive(&mut std::iter::repeat_n(24, 366)),
            drive(&mut std::iter::repeat_n(11 * 24, 34)),
            drive(&mut splits.iter().copied()),
        ] {
            prop_assert_eq!(asked(&late), asked(&at_once));
            prop_assert_eq!(late.status(), at_once.status());
            prop_assert_eq!(late.subscription.renews_at, at_once.subscription.renews_at);
        }
    }

    #[test]
    fn a_price_times_a_quantity_asks_what_their_product_asks(
        birth in births(),
        acts in prop::collection::vec(acts(), 1..40),
    ) {
        let factor = u32::try_from(birth.quantity).unwrap();
        // A change of price is one to its product; the quantity stays.
        let of_product = |act: &Act, factor: u32| {
            if let Act::ChangePlan(terms) = *act {
                let cents = terms.cents.map(|cents| cents * factor);
                return Act::ChangePlan(NewTerms { cents, quantity: None, ..terms });
            }
            act.clone()
        };
        let priced = |act: &&Act| !matches!(act, Act::Price { .. } | Act::Quantity(_));
        let product = birth.cents * factor;
        let whole = Birth { cents: product, quantity: 1, ..birth.clone() };
        let (mut apart, mut whole) =
            (birth.begin(Policy::default()), whole.begin(Policy::default()));

        for act in acts.iter().filter(priced) {
            happen(&mut apart, &of_product(act, 1));
            happen(&mut whole, &of_product(act, factor));
        }

        prop_assert_eq!(asked(&apart), asked(&whole));
    }

    #[test]
    fn the_next_amount_of_a_quote_is_asked_for_next(
        birth in births(),
        wait in 0..40 * 24_u64,
        terms in new_terms(),
    ) {
        let mut life = birth.begin(Policy::default());
        life.advance(hours(wait));
        life.pay();
        let waits = life.status() == SubscriptionStatus::Pending && birth.trial_days.is_none();
        let Ok(quote) = terms.apply(&mut life) else { return Ok(()) };
        let is_first = waits && life.subscription.scheduled_change().is_none();
        let next = if is_first { Some(life.subscription.starts_at) } else { quote.renews_at };
        let before = life.writes.len();

        life.punctually_to(next.unwrap_or(life.now.saturating_add(days(400))));

        let begins = |by| {
            let By::Step(kind, at) = by else { return false };
            matches!(kind, StepKind::Started | StepKind::PeriodStarted) && Some(at) == next
        };
        let begun = life.writes[before..].iter().find(|write| begins(write.by));
        let amount = |ask: &subscription_core::PaymentRequest| ask.amount.value();
        let asked = begun.map(|write| write.ask.as_ref().map_or_else(Default::default, amount));
        prop_assert_eq!(quote.next_amount.map(Amount::value), asked, "{:?}", quote);
        sound(&life)?;
    }

    #[test]
    fn silence_changes_nothing(birth in births(), gaps in prop::collection::vec(1..60_u64, 1..30)) {
        let mut life = birth.begin(Policy::default());
        for gap in gaps {
            life.advance(days(gap));
            let status = life.status();
            let expected = match life.now {
                now if birth.ends_in_days.is_some_and(|end| {
                    now >= life.subscription.starts_at.saturating_add(days(end))
                }) => SubscriptionStatus::Expired,
                now if now < life.subscription.starts_at => SubscriptionStatus::Pending,
                now if life.subscription.trial_ends_at().is_some_and(|end| now < end) => {
                    SubscriptionStatus::OnTrial
                }
                _ => SubscriptionStatus::Active,
            };
            prop_assert_eq!(status, expected);
        }
    }

    #[test]
    fn the_timeline_is_what_happens_if_all_is_paid(
        birth in births(),
        on_payment in any::<bool>(),
        scheduled in prop::option::of(new_terms()),
    ) {
        let activation = if on_payment { Activation::OnPayment } else { Activation::AtStart };
        let policy = Policy::default().with_activation(activation);
        let mut life = birth.begin(policy.clone());
        // A change that is refused is not scheduled.
        scheduled.map(|terms| NewTerms { at_end: true, ..terms }.apply(&mut life));
        let end = at(START).saturating_add(days(120));
        let foretold: Vec<_> =
            subscription_core::billing::steps(life.subscription.clone(), &policy, end)
                .map(|step| format!("{} {}", &step.at.to_string()[..10], step.kind))
                .collect();
        let before = life.steps().len();

        life.pay();
        while let Some(next) = life.next_due().filter(|next| *next <= end) {
            life.advance_to(next);
            life.pay();
        }

        prop_assert_eq!(&life.steps()[before..], &foretold);
    }
}
