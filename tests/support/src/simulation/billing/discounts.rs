//! Invariants of amounts and discounts. Each is a function that checks the life of one subscription.

use rust_decimal::Decimal;
use subscription_core::billing::Policy;
use subscription_core::events::Change;
use subscription_core::plans::Reduction;
use subscription_core::{
    Currency, Discount, LineKind, ManagedBy, Payment, PaymentStatus, Subscription,
    SubscriptionStatus, Timestamp,
};

use super::executions::{Execution, Meanwhile};
use super::invariants::ensure;
use super::life::{Life, PeriodStart as _, Written, is_awaited};
use crate::billing::amounts::{
    Charged, adds_up, credit, is_free_by, keeps_discount, line, of_change, of_next_period,
    of_period, off_by, rows, sum, unused,
};

/// The charge that a version must make.
#[derive(Debug)]
enum Expected {
    /// This charge for a new period, or for a change of plan that settles the running period.
    Charge(Charged),
    /// A payment that callers imported pays for the new period, so nothing is charged and no discount is used.
    PaidAlready,
    /// The version neither starts a period nor settles one.
    Nothing,
}

fn execution_of<'l>(life: &'l Life, after: &Written) -> Option<&'l Execution> {
    let version = Some(after.subscription.version);
    life.executions.iter().find(|execution| execution.written == version)
}

/// The charge of a version, computed from the version before it.
fn expected(life: &Life, before: Option<&Written>, after: &Written) -> Expected {
    let next = &after.subscription;
    let charge = |charged: Option<Charged>| charged.map_or(Expected::Nothing, Expected::Charge);
    if after.changes_plan() {
        let settled = before.zip(execution_of(life, after));
        let settled = settled.filter(|(before, it)| it.settles(&before.subscription));
        let terms = next.terms();
        return charge(settled.and_then(|(before, execution)| {
            of_change(&before.subscription, &terms?, execution.at)
        }));
    }
    if !after.starts_period(before) {
        return Expected::Nothing;
    }
    if after.asked().is_none() && after.has_payment {
        return Expected::PaidAlready;
    }
    if let Some(before) = before {
        return charge(of_next_period(&before.subscription));
    }
    // The credit before a creation is the credit that is left, and what the first payment has used.
    let lines = after.asked().and_then(|payment| payment.lines()).unwrap_or_default();
    let had = credit(next) + line(&rows(&lines), LineKind::Balance);
    charge(next.terms().map(|terms| of_period(&terms, next.discount().map(unused), had)))
}

/// Every version with the version before it.
fn steps(life: &Life) -> impl Iterator<Item = (Option<&Written>, &Written)> {
    let before = std::iter::once(None).chain(life.versions.iter().map(Some));
    before.zip(&life.versions)
}

/// The lines of every payment add up to its amount, and those of a quote to the amount due. A model derives each line
/// from the version before it.
pub(super) fn lines_add_up(life: &Life, _: &Policy) -> Result<(), String> {
    for payment in life.payments.values().flatten() {
        if let Some(lines) = payment.lines() {
            ensure(sum(&rows(&lines)) == payment.amount.value(), || {
                format!("{lines:?} do not add up to {}", payment.amount)
            })?;
        }
    }
    for execution in &life.executions {
        if let Some(Ok(quote)) = &execution.preview {
            ensure(adds_up(quote), || format!("the lines of {quote:?} do not add up"))?;
        }
    }
    for (before, after) in steps(life) {
        let version = after.subscription.version;
        let waits = after.begins_to_wait(before);
        let expected = match (waits, before) {
            (Some((terms, payment)), Some(before)) => {
                of_change(&before.subscription, &terms, payment.at)
                    .map_or(Expected::Nothing, Expected::Charge)
            }
            _ => expected(life, before, after),
        };
        if let (Expected::Charge(charged), Some(execution)) = (&expected, execution_of(life, after))
            && let Some(Ok(quote)) = &execution.preview
            && execution.meanwhile == Meanwhile::Nothing
            && after.changes_plan()
        {
            ensure(rows(&quote.lines) == charged.lines, || {
                format!("version {version}: quoted {:?}, not {charged:?}", quote.lines)
            })?;
        }
        let asked = after.asked().and_then(|payment| payment.asked.as_ref());
        let Some(basis) = asked.and_then(|asked| asked.basis.as_ref()) else { continue };
        let Expected::Charge(charged) = expected else {
            return Err(format!("version {version}: {basis:?} for nothing"));
        };
        let lines = rows(&basis.lines());
        let terms = waits.map(|(terms, _)| terms).or_else(|| after.subscription.terms());
        let terms = terms.ok_or("no terms")?;
        ensure(lines == charged.lines, || {
            format!("version {version}: {lines:?}, not {:?}", charged.lines)
        })?;
        let of_terms = basis.plan == terms.subscription_plan_id
            && basis.price.value() == terms.price.value()
            && basis.quantity == terms.quantity.get()
            && basis.discount == off_by(&lines, charged.discount);
        ensure(of_terms, || format!("version {version}: {basis:?} is not of {terms:?}"))?;
    }
    Ok(())
}

/// No report and no retry changes what an amount was computed from.
pub(super) fn basis_never_changes(life: &Life, _: &Policy) -> Result<(), String> {
    for versions in life.payments.values() {
        let of = |payment: &Payment| payment.asked.as_ref()?.basis.clone();
        let mut all = versions.iter().map(|payment| of(payment));
        let Some(first) = all.next() else { continue };
        if let Some(other) = all.find(|basis| *basis != first) {
            return Err(format!("{first:?} became {other:?}"));
        }
    }
    Ok(())
}

/// A discount counts the started periods that it has reduced, and nothing else. It never reduces a period that the
/// clock should have started before the discount was given.
pub(super) fn reduced_periods_are_counted(life: &Life, _: &Policy) -> Result<(), String> {
    let mut given_at = None;
    for (before, after) in steps(life) {
        let version = after.subscription.version;
        let was = before.and_then(|before| before.subscription.discount());
        let is = after.subscription.discount();
        if let Some(Discount { periods: Some(periods), used, .. }) = is {
            ensure(used <= periods, || format!("version {version}: {used} of {periods} used"))?;
        }
        // Another manager and another plan end a discount: `other_terms_end_it` checks when.
        let Some(discount) = is else { continue };
        if was.is_none() {
            // A subscription that was past due still starts the periods that it missed, and the discount may reduce
            // them.
            let runs = [SubscriptionStatus::Active, SubscriptionStatus::OnTrial];
            let runs = before.filter(|it| runs.contains(&it.subscription.status));
            given_at = runs.map(|_| after.event.at);
        }
        let starts = after.by_clock() && after.starts_period(before) && discount.applied;
        ensure(!starts || after.period_start() >= given_at, || {
            format!("version {version} reduces a period from before {given_at:?}")
        })?;
        let right = match expected(life, before, after) {
            Expected::Charge(charged) => charged.discount == is,
            Expected::PaidAlready => {
                was.map(|was| Discount { applied: false, ..was }) == Some(discount)
            }
            Expected::Nothing => was.unwrap_or(unused(discount)) == discount,
        };
        ensure(right, || format!("version {version}: {was:?} became {is:?}"))?;
    }
    Ok(())
}

/// Changes of plan give no more credit for a period than was paid for it in money and from the credit. Each change may
/// round in favor of the subscriber by the smallest unit.
pub(super) fn credit_within_paid(life: &Life, _: &Policy) -> Result<(), String> {
    // Payments that callers created or deleted are not known here.
    if !life.always_on_clock() {
        return Ok(());
    }
    let mut paid = Decimal::ZERO;
    let mut is_known = false;
    for (before, after) in life.pairs() {
        let had = credit(&before.subscription);
        let has = credit(&after.subscription);
        let awaited = before.awaited().map(|(_, payment)| payment);
        let is_its =
            |payment: &Payment| awaited.is_some_and(|awaited| is_awaited(payment, awaited));
        let mut asked = after.asked_amount();
        if after.begins_to_wait(Some(before)).is_some() {
            continue;
        }
        if after.changes_plan() {
            let execution = execution_of(life, after);
            let paid_now = after.payments.iter().find(|payment| is_its(payment));
            asked += paid_now.map_or(Decimal::ZERO, |payment| payment.amount.value());
            let settles =
                paid_now.is_some() || execution.is_some_and(|it| it.settles(&before.subscription));
            let digits = after.subscription.currency().map_or(0, Currency::digits);
            let used = (had - has).max(Decimal::ZERO);
            let given = (has - had).max(Decimal::ZERO);
            ensure(!is_known || given <= paid + Decimal::new(1, digits), || {
                format!("version {}: {given} for {paid}", after.subscription.version)
            })?;
            if settles {
                let restarts = after.period_start() != before.period_start();
                let value = after.subscription.billing.as_ref().map(|it| it.period_value.value());
                is_known |= restarts;
                paid = if restarts {
                    value.unwrap_or_default()
                } else {
                    paid + asked + used - given + Decimal::new(1, digits)
                };
            }
        } else if after.starts_period(Some(before)) {
            is_known = after.asked().is_some() || !after.has_payment;
            paid = asked + (had - has);
        } else {
            // The amount paid falls by the payments that were given back, less the credit that was taken back with
            // them.
            let back = after.payments.iter().filter(|payment| {
                matches!(payment.status, PaymentStatus::Refunded | PaymentStatus::Canceled)
                    && payment.period_start() >= before.period_start()
                    && !is_its(payment)
            });
            let back: Decimal = back.map(|payment| payment.amount.value()).sum();
            let taken = if back.is_zero() { Decimal::ZERO } else { had - has };
            paid = (paid + taken - back).max(Decimal::ZERO);
        }
    }
    Ok(())
}

impl Written {
    fn period_start(&self) -> Option<Timestamp> {
        self.subscription.period_start()
    }
}

/// The facts about the running period that are known from its beginning.
#[derive(Debug, Default, Clone, Copy)]
struct Running {
    /// The discount that has reduced the running period.
    reduced_by: Option<Discount>,
    /// True if the running period is free because of this discount.
    is_free: bool,
}

/// A period that is free by its discount is not restarted by a change of plan with the same billing cycle.
pub(super) fn free_by_discount_continues(life: &Life, _: &Policy) -> Result<(), String> {
    let mut running = Running::default();
    for (before, after) in steps(life) {
        let is = &after.subscription;
        let expected = expected(life, before, after);
        if after.changes_plan() {
            let Some(Written { subscription: was, .. }) = before else { continue };
            let same_cycle = was.billing_cycle == is.billing_cycle && was.renews_at.is_some();
            let restarts = was.period_start() != is.period_start();
            let settles = matches!(expected, Expected::Charge(_));
            ensure(!(settles && running.is_free && same_cycle && restarts), || {
                format!("version {} restarts a free period", is.version)
            })?;
        }
        running = match expected {
            Expected::PaidAlready => Running::default(),
            Expected::Charge(charged) => {
                let starts = before.is_none_or(|it| it.period_start() != is.period_start());
                let counted = charged.discount.filter(|it| it.applied);
                let reduced_by = if starts { counted } else { running.reduced_by };
                free(reduced_by, before, is)
            }
            Expected::Nothing => free(running.reduced_by, before, is),
        };
    }
    Ok(())
}

/// The running period after a version that keeps or loses the discount.
fn free(reduced_by: Option<Discount>, before: Option<&Written>, is: &Subscription) -> Running {
    let kept = is.discount().is_some() && is.managed_by == ManagedBy::Clock;
    let reduced_by = reduced_by.filter(|_| kept);
    // An update of price or quantity is for the next period. An amount is then compared with another price.
    let terms = is.terms();
    let updated = before.is_some_and(|before| before.subscription.terms() != terms);
    let is_free = reduced_by.zip(terms).is_some_and(|(discount, terms)| {
        let percent = matches!(discount.off, Reduction::Percent(_));
        (percent || !updated) && is_free_by(discount, &terms)
    });
    Running { reduced_by: reduced_by.filter(|_| is_free || !updated), is_free }
}

/// A discount ends exactly with another plan, billing cycle or currency, at once or as scheduled, unless it is removed
/// or used up, or another manager takes the subscription over.
pub(super) fn other_terms_end_it(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let was = &before.subscription;
        let is = &after.subscription;
        let Some(discount) = was.discount() else { continue };
        let by_clock = was.managed_by == ManagedBy::Clock && is.managed_by == ManagedBy::Clock;
        let Some((old, new)) = was.terms().zip(is.terms()).filter(|_| by_clock) else { continue };
        let is_removed = matches!(&after.event.change, Change::Updated { fields }
            if fields.iter().any(|field| field == "discount")
                && !fields.iter().any(|field| field == "scheduled_change"));
        let is_dropped = matches!(expected(life, Some(before), after),
            Expected::Charge(charged) if charged.discount.is_none());
        let is_used_up = discount.periods_left() == Some(0) && is_dropped;
        let ends = is.discount().is_none();
        let must_end = !keeps_discount(&old, &new);
        ensure(!must_end || ends, || {
            format!("version {} has other terms, and keeps {discount:?}", is.version)
        })?;
        ensure(!ends || must_end || is_removed || is_used_up, || {
            format!("version {} lost {discount:?}", is.version)
        })?;
    }
    Ok(())
}
