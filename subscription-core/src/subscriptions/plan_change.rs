//! The input of a change of plan, and the quote of its cost. The rules of billing are in `crate::billing`.

use serde::{Serialize, Serializer};

use super::{Discount, Effective, Quantity, Terms};
use crate::payments::Line;
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::input::{amount, string};
use crate::values::{
    Amount, Currency, FaultCode, Fields, InputError, InvalidValue, PlanId, Timestamp, UserId,
};

named_enum! {
    /// How the rest of the running period is settled when the plan changes at once.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub enum Proration {
        /// The unused part of the old price is credited, and the rest of the period is charged at the new price.
        #[default]
        Prorated = "prorated",
        /// The new price is charged from the next period on.
        None = "none",
    }
}

/// The input that changes the plan, the billing cycle or the quantity of a subscription, or that requests a quote of
/// such a change.
///
/// If the input names a plan, the present price of that plan applies, even if the subscription has the plan already.
/// Otherwise the price of the subscription stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanChange {
    /// The plan. If `None`, the subscription stays with its plan.
    pub subscription_plan_id: Option<PlanId>,
    /// The billing cycle. If `None`, the cycle of the plan in `subscription_plan_id` applies; if that is `None` too,
    /// the cycle of the subscription stays.
    pub billing_cycle: Option<BillingCycle>,
    /// The quantity. If `None`, the quantity stays.
    pub quantity: Option<Quantity>,
    /// When the change happens.
    pub effective: Effective,
    /// How the rest of the running period is settled.
    pub proration: Proration,
    /// The quote that the subscriber agreed to: the change is refused if it no longer costs the same. `None` if an
    /// operator accepts any amount.
    pub agreed: Option<AgreedQuote>,
    /// The subscriber who makes the change; `None` if an operator makes it. If a subscriber makes it, the subscription
    /// must be the subscriber's own, a change that costs something happens when its payment succeeds, and a change that
    /// would give credit happens at the end of the running period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
}

/// The part of an earlier quote that must still hold when the plan is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AgreedQuote {
    /// The moment of the quote.
    pub at: Timestamp,
    /// The amount that was due at once by the quote.
    pub amount_due: Amount,
    /// The amount of the next period; `None` if it is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_amount: Option<Amount>,
    /// The credit after the change; `None` if it is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_after: Option<Amount>,
}

impl Default for PlanChange {
    fn default() -> Self {
        Self {
            subscription_plan_id: None,
            billing_cycle: None,
            quantity: None,
            effective: Effective::Now,
            proration: Proration::Prorated,
            agreed: None,
            user_id: None,
        }
    }
}

impl PlanChange {
    /// A change to a plan, at once and prorated.
    pub fn to_plan(id: PlanId) -> Self {
        Self { subscription_plan_id: Some(id), ..Self::default() }
    }

    /// A change of the quantity, at once and prorated.
    pub fn to_quantity(quantity: Quantity) -> Self {
        Self { quantity: Some(quantity), ..Self::default() }
    }

    /// This change, but to this billing cycle.
    #[must_use]
    pub const fn with_billing_cycle(mut self, cycle: BillingCycle) -> Self {
        self.billing_cycle = Some(cycle);
        self
    }

    /// This change, but to this quantity.
    #[must_use]
    pub const fn with_quantity(mut self, quantity: Quantity) -> Self {
        self.quantity = Some(quantity);
        self
    }

    /// This change, but at the end of the running period.
    #[must_use]
    pub const fn at_period_end(mut self) -> Self {
        self.effective = Effective::PeriodEnd;
        self
    }

    /// This change, but without a settlement of the running period: the new price applies from the next period on.
    #[must_use]
    pub const fn unprorated(mut self) -> Self {
        self.proration = Proration::None;
        self
    }

    /// This change, but only if it still costs what an earlier quote says.
    #[must_use]
    pub const fn as_quoted(mut self, quote: &Quote) -> Self {
        let Quote { at, amount_due, next_amount, credit_after, .. } = *quote;
        let credit_after = Some(credit_after);
        self.agreed = Some(AgreedQuote { at, amount_due, next_amount, credit_after });
        self
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = ["subscription_plan_id", "billing_cycle", "quantity"];
        if !changes.iter().any(|name| fields.has(name)) {
            let message = "is required, unless billing_cycle or quantity is sent";
            let refused = InvalidValue::new(FaultCode::Required, message);
            fields.note(refused.at("subscription_plan_id"));
        }
        let of_quote = ["at", "amount_due", "next_amount", "credit_after"];
        let has_agreed = of_quote.iter().any(|name| fields.has(name));
        let lacks = |name| has_agreed && !fields.has(name);
        let lacking: Vec<_> = ["at", "amount_due"].into_iter().filter(|name| lacks(name)).collect();
        let subscription_plan_id = fields.optional("subscription_plan_id", string);
        let billing_cycle = fields.optional("billing_cycle", string);
        let quantity = fields.optional("quantity", str::parse);
        let effective = fields.optional("effective", string);
        let proration = fields.optional("proration", string);
        let at = fields.optional("at", string);
        let amount_due = fields.optional("amount_due", amount);
        let next_amount = fields.nullable("next_amount", amount).or(None);
        let credit_after = fields.optional("credit_after", amount);
        for name in lacking {
            let message = "is required if at, amount_due, next_amount or credit_after is sent";
            fields.note(InvalidValue::new(FaultCode::Required, message).at(name));
        }
        let agreed = at.zip(amount_due).map(|(at, amount_due)| AgreedQuote {
            at,
            amount_due,
            next_amount,
            credit_after,
        });
        let effective = effective.unwrap_or(Effective::Now);
        let proration = proration.unwrap_or_default();
        fields.finish(Some(Self {
            subscription_plan_id,
            billing_cycle,
            quantity,
            effective,
            proration,
            agreed,
            user_id: None,
        }))
    }
}

/// The consequences of a change of plan. To make a change, the service computes its quote and applies it. So a change
/// costs what a quote for the same moment says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quote {
    /// The moment for which the amounts are computed.
    pub at: Timestamp,
    /// When the change happens.
    pub effective: Effective,
    /// The plan after the change.
    pub subscription_plan_id: PlanId,
    /// The billing cycle after the change.
    pub billing_cycle: BillingCycle,
    /// The quantity after the change.
    pub quantity: Quantity,
    /// The price of one unit after the change.
    pub price: Amount,
    /// The start of the period that is running after the change; `None` if no period is running.
    pub period_start: Option<Timestamp>,
    /// The end of the period that is running after the change; `None` if no period is running or the period has no end.
    pub period_end: Option<Timestamp>,
    /// The lines of the settlement of the running period. Some are added, and others are taken off. The result is
    /// `amount_due`, or below zero by the credit that the change adds. Empty if the running period is not settled.
    pub lines: Vec<Line>,
    /// The amount to pay now, after credit.
    pub amount_due: Amount,
    /// The currency of all amounts.
    pub currency: Currency,
    /// The credit of the subscription before the change.
    pub credit_before: Amount,
    /// The credit of the subscription after the change.
    pub credit_after: Amount,
    /// When the next period starts and must be paid; `None` if the subscription does not renew.
    pub renews_at: Option<Timestamp>,
    /// The amount of the next payment after the change, less discount and credit: at the renewal, or at the start of a
    /// subscription that is pending. `None` if no payment follows.
    pub next_amount: Option<Amount>,
    /// The discount of the subscription after the change.
    #[serde(serialize_with = "shown")]
    pub discount: Option<Discount>,
    /// True if the change ends the discount.
    pub ends_discount: bool,
    /// The way in which the change is applied.
    #[serde(skip)]
    pub(crate) settlement: Settlement,
    /// The price of a whole period for all units after the change, less the discount.
    #[serde(skip)]
    pub(crate) value: Amount,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn shown<S: Serializer>(discount: &Option<Discount>, to: S) -> Result<S::Ok, S::Error> {
    discount.map(|discount| discount.shown()).serialize(to)
}

impl Quote {
    /// The terms after the change.
    pub const fn terms(&self) -> Terms {
        Terms {
            subscription_plan_id: self.subscription_plan_id,
            billing_cycle: self.billing_cycle,
            price: self.price,
            currency: self.currency,
            quantity: self.quantity,
        }
    }
}

/// The way in which a change of plan is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// The subscription has these terms already, so nothing is written.
    Unchanged,
    /// The change is scheduled for the next renewal.
    Scheduled,
    /// The subscription gets the new terms at once, and pays them from the next period on.
    NextPeriod,
    /// The subscription gets the new terms at once. The rest of the running period is charged at the new price, less
    /// the unused part of the old price.
    RunningPeriod,
    /// A new period starts with the change, and is paid in full.
    NewPeriod,
}
