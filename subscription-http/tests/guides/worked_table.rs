//! The worked table of the guide to plan changes, computed by the billing itself.

use std::sync::Arc;

use libtest_mimic::Failed;
use subscription_core::billing::{Billing, Policy};
use subscription_core::store::PaymentQuery;
use subscription_core::{
    LineKind, ManualClock, MemoryStore, NewPlan, NewSubscription, PaymentChanges, PaymentStatus,
    Plan, PlanChange, Quantity, SubscriptionId, SubscriptionService, Timestamp, UserId,
};

use crate::page::read;

const PAGE: &str = "docs/plan-changes.md";
const START: &str = "2026-04-01";
const USER: &str = "8f14e45f-ceea-467f-ab3c-2d9c5b1a4e77";

pub(crate) fn run() -> Result<(), Failed> {
    let page = read(PAGE);
    let (_, table) = page.split_once("\n| change | from |").ok_or("there is no worked table")?;
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with("| ")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut wrong = Vec::new();
    for row in &rows {
        let computed = runtime.block_on(computed(row))?;
        if computed != **row {
            wrong.push(format!("{row}\nmust be\n{computed}"));
        }
    }
    if wrong.is_empty() && rows.len() > 9 {
        return Ok(());
    }
    Err(format!("{PAGE}: {} rows\n{}", rows.len(), wrong.join("\n")).into())
}

/// A row with the amounts of the billing. The cells up to the date are the input.
async fn computed(row: &str) -> Result<String, Failed> {
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    let [_, case, from, to, on, .., listed, _] = *cells else { return Err(row.into()) };
    let clock = ManualClock::at(midnight(START)?);
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let ((from_plan, few), (to_plan, many)) =
        (plan(&billing, "from", from).await?, plan(&billing, "to", to).await?);
    let new = NewSubscription::new(USER.parse::<UserId>()?, from_plan.id);
    let new = NewSubscription { quantity: Some(few), ..new };
    let id = billing.service().create_subscription(new).await?.id;
    pay(&billing, id).await?;

    clock.set(midnight(on)?);
    let mut wanted = PlanChange::to_plan(to_plan.id).with_quantity(many);
    if case.contains("`proration: none`") {
        wanted = wanted.unprorated();
    }
    if case.contains("`effective: period_end`") {
        wanted = wanted.at_period_end();
    }
    let quote = billing.preview_plan_change(id, &wanted).await?;
    let changed = billing.change_plan(id, &wanted.as_quoted(&quote)).await?;
    let zero = quote.credit_before.to_string();
    let paid = pay(&billing, id).await?.unwrap_or_else(|| zero.clone());
    assert_eq!(paid, quote.amount_due.to_string(), "{row}");
    let credit = changed.credit().unwrap_or_default();
    assert_eq!(credit.value(), quote.credit_after.value(), "{row}");

    let mut asked = Vec::new();
    for _ in listed.split(", ") {
        let subscription = billing.service().subscription(id).await?;
        clock.set(subscription.renews_at.ok_or("it renews")?);
        while billing.advance(200).await?.more {}
        asked.push(pay(&billing, id).await?.unwrap_or_else(|| zero.clone()));
    }
    let line = |kinds: &[LineKind]| {
        let line = quote.lines.iter().find(|line| kinds.contains(&line.kind));
        let none = if quote.lines.is_empty() { "–" } else { zero.as_str() };
        line.map_or_else(|| none.to_owned(), |line| line.amount.to_string())
    };
    let next = quote.renews_at.ok_or("it renews")?.to_string();
    let next: String = next.chars().take(START.len()).collect();
    let credit = line(&[LineKind::Unused]);
    let charge = line(&[LineKind::Period, LineKind::Change]);
    let (left, asked) = (quote.credit_after, asked.join(", "));
    Ok(format!(
        "| {case} | {from} | {to} | {on} | {credit} | {charge} | {paid} | {left} | {next} | {asked} |"
    ))
}

fn midnight(day: &str) -> Result<Timestamp, Failed> {
    Ok(format!("{day}T00:00:00Z").parse()?)
}

/// The plan and the quantity of a text such as `10.00 USD monthly × 3`.
async fn plan(billing: &Billing, slug: &str, terms: &str) -> Result<(Arc<Plan>, Quantity), Failed> {
    let words: Vec<_> = terms.split_whitespace().collect();
    let [price, currency, cycle, quantity @ ..] = words.as_slice() else {
        return Err(terms.into());
    };
    let quantity = quantity.last().map_or(Ok(Quantity::ONE), |number| number.parse())?;
    let new = NewPlan::new(slug.parse()?, slug.parse()?, price.parse()?, cycle.parse()?);
    let new = NewPlan { currency: Some(currency.parse()?), ..new };
    Ok((billing.service().create_plan(new).await?, quantity))
}

/// Pays the payment that is asked for, if there is one, and returns its amount.
async fn pay(billing: &Billing, id: SubscriptionId) -> Result<Option<String>, Failed> {
    let payments = billing.service().payments(PaymentQuery::of(id)).await?.items;
    let mut open = payments.iter().filter(|payment| payment.status == PaymentStatus::Pending);
    let Some(payment) = open.next() else { return Ok(None) };
    assert!(open.next().is_none(), "two payments are asked for");
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    billing.service().update_payment(payment.id, paid).await?;
    Ok(Some(payment.amount.to_string()))
}
