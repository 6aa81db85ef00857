//! Pure functions that decide which record an object is about, and which values the object gives our records.

use std::sync::Arc;

use super::plans::Plans;
use crate::payments::{ObservedPayment, ObservedPeriod, PaymentKind};
use crate::plans::{BillingCycle, Plan};
use crate::providers::inbox::documents::Link;
use crate::providers::{
    EventStatus, FoundInvoice, FoundItem, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, ProviderAccount, ProviderKind, Reason,
};
use crate::subscriptions::{
    ManagedBy, ObservedSubscription, Quantity, Renewal, Schedule, Subscription,
};
use crate::values::{Amount, Currency, Href, HttpsUrl};

/// The record that an object is about; `None` if a new record must be made.
///
/// `linked` is the record that the link names. `found` is the record that has the object's external id.
pub(crate) fn record_of(
    link: Option<&Link>,
    linked: Option<Arc<Subscription>>,
    found: Option<Arc<Subscription>>,
) -> Result<Option<Arc<Subscription>>, EventStatus> {
    let attaches = link.is_none_or(|link| link.attach);
    let record = if link.is_some() { linked.or(found.filter(|_| attaches)) } else { found };
    match record.as_ref().map(|record| record.managed_by) {
        Some(ManagedBy::Provider) => Ok(record),
        _ if !attaches => Err(EventStatus::ignored(Reason::Detached)),
        Some(ManagedBy::Clock) => Err(EventStatus::waiting(Reason::ManagedByClock)),
        Some(ManagedBy::Caller) | None => Ok(record),
    }
}

/// The state of a subscription at its provider, for our record.
pub(crate) fn subscription(
    found: &FoundSubscription,
    item: &FoundItem,
    plan: &Plan,
    source: &ProviderAccount,
) -> ObservedSubscription {
    let (price, currency) = match (item.price, source.kind) {
        (Some((price, currency)), _) => (Some(price), Some(currency)),
        (None, ProviderKind::LemonSqueezy) => price_of(plan),
        (None, ProviderKind::Stripe) => (None, None),
    };
    ObservedSubscription {
        external_subscription_id: found.external_id.clone(),
        subscription_plan_id: plan.id,
        billing_cycle: item.billing_cycle.unwrap_or(plan.billing_cycle),
        status: found.status,
        starts_at: found.starts_at,
        ends_at: item.ends_at,
        renews_at: item.renews_at,
        trial_ends_at: found.trial_ends_at,
        resumes_at: found.resumes_at,
        current_period_start: item.period_start,
        quantity: item.quantity,
        price,
        currency,
        manage_url: manage_url(found.manage_url.as_ref(), source),
    }
}

/// The state of the subscription that is created in this service for an order.
pub(crate) fn order(
    found: &FoundOrder,
    plan: &Plan,
    source: &ProviderAccount,
) -> ObservedSubscription {
    let (price, currency) = price_of(plan);
    ObservedSubscription {
        external_subscription_id: found.external_id.clone(),
        subscription_plan_id: plan.id,
        billing_cycle: BillingCycle::ONE_TIME,
        status: found.status,
        starts_at: found.created_at,
        ends_at: None,
        renews_at: Renewal::None,
        trial_ends_at: None,
        resumes_at: None,
        current_period_start: None,
        quantity: Quantity::ONE,
        price,
        currency,
        manage_url: manage_url(None, source),
    }
}

fn price_of(plan: &Plan) -> (Option<Amount>, Option<Currency>) {
    (plan.currency.map(|_| plan.price), plan.currency)
}

fn manage_url(found: Option<&Href>, source: &ProviderAccount) -> Option<HttpsUrl> {
    found.or(source.manage_url.as_ref()).and_then(|url| url.as_str().parse().ok())
}

/// The state of a payment at its provider.
pub(crate) fn payment(found: &FoundPayment, period: Option<ObservedPeriod>) -> ObservedPayment {
    ObservedPayment {
        external_payment_id: found.external_id.clone(),
        amount: found.amount,
        currency: found.currency,
        status: found.status,
        period,
    }
}

/// The period that the payment of an order pays for. It has no end.
pub(crate) fn period_of_order(order: &FoundOrder, value: Amount) -> ObservedPeriod {
    ObservedPeriod {
        kind: PaymentKind::Initial,
        start: order.created_at,
        end: None,
        cycle: BillingCycle::ONE_TIME,
        value,
    }
}

/// The period that a payment of an invoice pays for. `None` if the purpose of the invoice is unknown, or if the invoice
/// names no period of the subscription's plan.
pub(crate) fn period(
    invoice: &FoundInvoice,
    payment: &FoundPayment,
    subscription: &Subscription,
    plans: &Plans<'_>,
) -> Option<ObservedPeriod> {
    let kind = invoice.kind?;
    let cycle = subscription.billing_cycle;
    let (start, end) = match &invoice.periods {
        FoundPeriods::Lines(lines) => {
            let is_of_plan = |plan: &Arc<Plan>| plan.id == subscription.subscription_plan_id;
            let mut lines = lines.iter();
            let line = lines.find(|(sold, ..)| plans.of(sold).is_ok_and(is_of_plan))?;
            (line.1, Some(line.2))
        }
        FoundPeriods::CycleFrom(_) if kind == PaymentKind::Proration => return None,
        FoundPeriods::CycleFrom(start) => (*start, Schedule::new(*start, cycle).start_of(1)),
    };
    let price = subscription.price().filter(|_| subscription.currency() == Some(payment.currency));
    let value = price.and_then(|price| price.times(subscription.quantity.get()));
    Some(ObservedPeriod { kind, start, end, cycle, value: value.unwrap_or(payment.amount) })
}
