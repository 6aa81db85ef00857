//! `Billing` for changes of plan: the preview, and the execution of the same quote.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::proration::{change_plan, quote};
use super::runner::Billing;
use super::verbs::invalid;
use crate::error::{Conflict, Error};
use crate::plans::Plan;
use crate::service::{Created, Outcome};
use crate::store::{ChangeSet, Guard, Idempotency, Key, StoreError};
use crate::subscriptions::{
    AgreedQuote, Effective, Managed, ManagedBy, PlanChange, Quote, Subscription, SubscriptionStatus,
};
use crate::values::clock::Timestamp;
use crate::values::decimal::Amount;
use crate::values::faults::FaultCode;
use crate::values::id::SubscriptionId;
use crate::values::version::Version;

/// How long a subscriber may think about a quote.
const QUOTE_HOLDS: Duration = Duration::from_mins(15);

/// A change of plan as the input of a request, for its fingerprint.
#[derive(Serialize)]
struct Request<'r> {
    id: SubscriptionId,
    change_plan: &'r PlanChange,
}

/// # Changes of plan
impl Billing {
    /// The cost of a change of plan, now or at the moment of the agreed quote. Nothing is written.
    ///
    /// For a subscription that its callers manage it says what the clock would charge.
    pub async fn preview_plan_change(
        &self,
        id: SubscriptionId,
        change: &PlanChange,
    ) -> Result<Quote, Error> {
        let mut subscription = self.service.subscription(id).await?;
        let now = self.service.now();
        let mut asks = false;
        let mut payments = None;
        // Steps that are due come first: the execution would take them.
        while let Some(step) = self.service.rules().step(&subscription, now) {
            let mut outcome = step.outcome;
            if let Some(start) = outcome.ask.as_ref().map(|ask| ask.period_start) {
                let payments = match &payments {
                    Some(payments) => payments,
                    None => payments.insert(self.service.periods_of(id).await?),
                };
                if payments.iter().any(|payment| payment.claimed_period() == Some(start)) {
                    outcome = outcome.unasked();
                } else {
                    asks = true;
                }
            }
            subscription = Arc::new(outcome.subscription);
        }
        Ok(self.quoted(&subscription, asks, change, now).await?.0)
    }

    /// Changes the plan, the billing cycle or the quantity of a subscription that the clock manages. If the change
    /// carries an [`AgreedQuote`] that does not hold any more, it is [`Conflict::QuoteChanged`].
    pub async fn change_plan(
        &self,
        id: SubscriptionId,
        change: &PlanChange,
    ) -> Result<Arc<Subscription>, Error> {
        Ok(self.change_plan_once(id, None::<Version>, change, None::<Idempotency>).await?.record)
    }

    /// Changes the plan of a subscription if it is still at `version`, once for each [`Idempotency`]; with `None`,
    /// at any version, and each time.
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
    ) -> Result<Option<(Outcome, ChangeSet)>, Error> {
        let by = current.managed_by;
        if by == ManagedBy::Caller {
            return Err(Conflict::from(Managed { by, fields: Vec::new() }).into());
        }
        if self.service.rules().step(&current, now).is_some() {
            // Decided again on the subscription after the steps that are due.
            let key = Key::Subscription(current.id);
            self.service.take_due_steps(current).await;
            return Err(Error::Store(StoreError::Conflict(key)));
        }
        let (quote, guards) = self.quoted(&current, false, change, now).await?;
        let outcome = change_plan(&current, &quote, &self.policy, now);
        let Some(mut outcome) = outcome else { return Ok(None) };
        let mut with = ChangeSet { guards, ..ChangeSet::default() };
        self.service.move_live_key(&current, &mut outcome.subscription, &mut with, now).await?;
        Ok(Some((outcome, with)))
    }

    /// The quote of a change, and guards on the plans that it depends on. `asks` tells that a step asks for a
    /// payment that is not stored yet.
    async fn quoted(
        &self,
        subscription: &Subscription,
        asks: bool,
        change: &PlanChange,
        now: Timestamp,
    ) -> Result<(Quote, Vec<Guard>), Error> {
        let own = self.service.plan_by_id(subscription.subscription_plan_id).await?;
        let to = match change.subscription_plan_id {
            Some(id) => self.service.referenced_plan(id).await.map(Some),
            None => Ok(None),
        };
        let agreed = check_agreed(change.agreed, now);
        let (to, agreed) = Error::all_faults(to, agreed)?;
        let quote_at = |at| quote(subscription, &own, to.as_deref(), change, at);
        let fresh = quote_at(now)?;
        if subscription.managed_by == ManagedBy::Clock
            && change.effective == Effective::Now
            && (asks || self.has_unpaid(subscription.id).await?)
        {
            return Err(Conflict::PaymentOpen.into());
        }
        let guards = to.as_deref().map(Plan::unchanged).into_iter().collect();
        let Some(agreed) = agreed else { return Ok((fresh, guards)) };
        // The first period of a subscription that has not begun is ahead of every quote.
        let runs = subscription.status != SubscriptionStatus::Pending;
        let start = subscription.current_period_start().filter(|_| runs);
        let is_held =
            now.since(agreed.at) <= QUOTE_HOLDS && start.is_none_or(|start| start <= agreed.at);
        let quote = is_held.then(|| quote_at(agreed.at)).transpose()?;
        match quote.filter(|quote| agrees(quote, &agreed)) {
            Some(quote) => Ok((quote, guards)),
            None => Err(Conflict::QuoteChanged(Box::new(fresh)).into()),
        }
    }

    /// True if a payment of the subscription is neither paid nor canceled.
    async fn has_unpaid(&self, id: SubscriptionId) -> Result<bool, Error> {
        let payments = self.service.periods_of(id).await?;
        Ok(payments.iter().any(|payment| payment.is_unpaid()))
    }
}

fn check_agreed(agreed: Option<AgreedQuote>, now: Timestamp) -> Result<Option<AgreedQuote>, Error> {
    if agreed.is_some_and(|agreed| agreed.at > now) {
        return Err(invalid(FaultCode::OutOfRange, "must not be in the future", "at"));
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
