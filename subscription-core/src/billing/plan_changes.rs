//! The methods of `Billing` for changes of plan: the preview, and the execution of the same quote.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::proration::{by_user, change_plan, quote};
use super::runner::Billing;
use crate::error::{Conflict, Error};
use crate::payments::{Payment, PaymentKind, PaymentStatus};
use crate::plans::Plan;
use crate::service::{Created, RuleDecision};
use crate::store::{ChangeSet, Guard, Idempotency};
use crate::subscriptions::{
    AgreedQuote, Effective, Managed, ManagedBy, PlanChange, Quote, Subscription, SubscriptionStatus,
};
use crate::values::{Amount, FaultCode, SubscriptionId, Timestamp, Version};

/// How long a caller can agree to a quote, counted from the moment of the quote.
const QUOTE_HOLDS: Duration = Duration::from_mins(15);

/// The input of a request to change a plan. Its hash is stored with the idempotency key, and detects another request
/// with the same key.
#[derive(Serialize)]
struct Request<'r> {
    id: SubscriptionId,
    change_plan: &'r PlanChange,
}

/// # Changes of plan
impl Billing {
    /// Computes the cost of a change of plan: at this moment or, if the change has an agreed quote, at the moment of that
    /// quote. Nothing is written.
    ///
    /// If callers manage the subscription, this service charges nothing. The quote then has the amounts that it would
    /// charge if the clock managed the subscription.
    pub async fn preview_plan_change(
        &self,
        id: SubscriptionId,
        change: &PlanChange,
    ) -> Result<Quote, Error> {
        let mut subscription = self.service.subscription(id).await?;
        let now = self.service.now();
        let mut asks = false;
        let mut payments = None;
        // Due steps are applied first, because the execution of the change takes them first too.
        while let Some(step) = self.service.rules().step(&subscription, now) {
            let mut outcome = step.outcome;
            if let Some(start) = outcome.charged_period(&subscription) {
                let payments = match &payments {
                    Some(payments) => payments,
                    None => payments.insert(self.service.periods_of(id).await?),
                };
                if payments.iter().any(|payment| payment.claimed_period() == Some(start)) {
                    outcome = outcome.unasked(&subscription);
                }
                asks |= outcome.ask.is_some();
            }
            subscription = Arc::new(outcome.subscription);
        }
        Ok(self.quoted(&subscription, asks, change, now).await?.0)
    }

    /// Changes the plan, the billing cycle or the quantity of a subscription that the clock manages. Fails with
    /// [`Conflict::QuoteChanged`] if the [`AgreedQuote`] of the change has expired or differs from the present quote,
    /// or if a subscriber sends the change without an [`AgreedQuote`].
    pub async fn change_plan(
        &self,
        id: SubscriptionId,
        change: &PlanChange,
    ) -> Result<Arc<Subscription>, Error> {
        Ok(self.change_plan_once(id, None::<Version>, change, None::<Idempotency>).await?.record)
    }

    /// Changes the plan of a subscription if it is still at `version`, and only once for each [`Idempotency`]. If
    /// `version` is `None`, every version is accepted; without an [`Idempotency`], each call is a change of its own.
    pub async fn change_plan_once(
        &self,
        id: SubscriptionId,
        version: impl Into<Option<Version>> + Send,
        change: &PlanChange,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Subscription>, Error> {
        let request = Request { id, change_plan: change };
        let decide = |current, now| self.decide(current, change, now);
        self.service.apply(id, version.into(), &request, idempotency.into(), decide).await
    }

    async fn decide(
        &self,
        current: Arc<Subscription>,
        change: &PlanChange,
        now: Timestamp,
    ) -> Result<Option<(RuleDecision, ChangeSet)>, Error> {
        self.service.without_due_steps(&current, now).await?;
        let (quote, guards) = self.quoted(&current, false, change, now).await?;
        let by = current.managed_by;
        if by == ManagedBy::Caller {
            return Err(Conflict::from(Managed { by, fields: Vec::new() }).into());
        }
        // A subscriber must agree to a quote. Without an agreed quote, the error contains the quote.
        if change.user_id.is_some() && change.agreed.is_none() {
            return Err(Conflict::QuoteChanged(Box::new(quote)).into());
        }
        let outcome = change_plan(&current, &quote, &self.policy, now);
        let Some(mut outcome) = outcome else { return Ok(None) };
        let mut with = ChangeSet { guards, ..ChangeSet::default() };
        self.service.move_live_key(&current, &mut outcome.subscription, &mut with, now).await?;
        if change.user_id.is_some() {
            outcome = by_user(&current, &quote, outcome, &self.policy, now);
        }
        Ok(Some((outcome, with)))
    }

    /// The quote of a change, and guards on the plans that it depends on. `asks` is true if `subscription` contains the
    /// result of due steps that are not stored yet, and one of them requests a payment.
    async fn quoted(
        &self,
        subscription: &Subscription,
        asks: bool,
        change: &PlanChange,
        now: Timestamp,
    ) -> Result<(Quote, Vec<Guard>), Error> {
        if change.user_id.is_some_and(|user| user != subscription.user_id) {
            let name = subscription.id.to_string();
            return Err(Error::NotFound { record: "subscription", name });
        }
        let own = self.service.plan_by_id(subscription.subscription_plan_id).await?;
        let to = match change.subscription_plan_id {
            Some(id) => self.service.referenced_plan(id).await.map(Some),
            None => Ok(None),
        };
        let agreed = check_agreed(change.agreed, now);
        let (to, agreed) = Error::all_faults(to, agreed)?;
        let quote_of =
            |change: &PlanChange, at| quote(subscription, &own, to.as_deref(), change, at);
        let quote_at = |at| {
            let now = quote_of(change, at)?;
            if change.user_id.is_none() {
                return Ok(now);
            }
            let is_other = now.subscription_plan_id != subscription.subscription_plan_id;
            let had = now.credit_before.value();
            // A change that a subscriber makes gives no credit: if it would give credit now, it happens at the end of
            // the period.
            if is_other && now.credit_after.value() > had {
                return quote_of(&change.clone().at_period_end(), at);
            }
            if is_other && (now.credit_after.value() < had || !now.amount_due.is_zero()) {
                return Ok(now);
            }
            // In a trial, or a moment before the renewal, a change to a more expensive plan would cost nothing now, so
            // it is refused.
            Err(Error::invalid(
                FaultCode::NotAllowedValue,
                "must be another plan, and a change to it now must cost something or give credit",
                "subscription_plan_id",
            ))
        };
        let fresh = quote_at(now)?;
        let mut payments = Vec::new();
        if subscription.managed_by == ManagedBy::Clock && change.effective == Effective::Now {
            payments = self.service.periods_of(subscription.id).await?;
            let start = subscription.current_period_start();
            // The bank may take back the money of a disputed payment, so this money must not become credit.
            let is_disputed = |payment: &Payment| {
                payment.status == PaymentStatus::Disputed
                    && payment.period_end().is_none_or(|end| Some(end) > start)
            };
            if asks || payments.iter().any(|it| it.is_unpaid() || is_disputed(it)) {
                return Err(Conflict::PaymentOpen.into());
            }
        }
        let guards = to.as_deref().map(Plan::unchanged).into_iter().collect();
        let quote = match agreed {
            None => Some(fresh.clone()),
            Some(agreed) if is_held(subscription, agreed.at, now) => {
                Some(quote_at(agreed.at)?).filter(|quote| agrees(quote, &agreed))
            }
            Some(_) => None,
        };
        // Two payments for changes at the same moment would have the same `charge_key`, and so the same idempotency key
        // at the payment gateway. The gateway would then repeat the result of the first payment, even if that payment
        // was cancelled.
        let is_repeated = |quote: &Quote| {
            let is_it = |payment: &Payment| {
                payment.kind() == Some(PaymentKind::Proration)
                    && payment.period_start() == Some(quote.at)
            };
            !quote.amount_due.is_zero() && payments.iter().any(|payment| is_it(payment))
        };
        match quote.filter(|quote| !is_repeated(quote)) {
            Some(quote) => Ok((quote, guards)),
            None => Err(Conflict::QuoteChanged(Box::new(fresh)).into()),
        }
    }
}

/// True if a subscriber can still agree to a quote of the moment `at`. The quote must not be too old. Its moment must
/// not be before the start of the running period, and not before the last change of plan within this period: that
/// change has settled the time before it.
fn is_held(subscription: &Subscription, at: Timestamp, now: Timestamp) -> bool {
    // The first period of a pending subscription has not begun, so it cannot make a quote too old.
    let runs = subscription.status != SubscriptionStatus::Pending;
    let start = subscription.current_period_start().filter(|_| runs);
    let settled_at = subscription.billing.as_ref().and_then(|billing| billing.settled_at);
    now.since(at) <= QUOTE_HOLDS && start.max(settled_at).is_none_or(|last| last <= at)
}

fn check_agreed(agreed: Option<AgreedQuote>, now: Timestamp) -> Result<Option<AgreedQuote>, Error> {
    if agreed.is_some_and(|agreed| agreed.at > now) {
        return Err(Error::invalid(FaultCode::OutOfRange, "must not be in the future", "at"));
    }
    Ok(agreed)
}

fn agrees(quote: &Quote, agreed: &AgreedQuote) -> bool {
    let holds = |agreed: Option<Amount>, quoted: Option<Amount>| {
        agreed.is_none_or(|agreed| quoted.is_some_and(|quoted| quoted.value() == agreed.value()))
    };
    holds(Some(agreed.amount_due), Some(quote.amount_due))
        && holds(agreed.next_amount, quote.next_amount)
        && holds(agreed.credit_after, Some(quote.credit_after))
}
