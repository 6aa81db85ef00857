//! Plans: the products that users subscribe to, with price and billing cycle.

mod billing_cycle;
mod checkout;
mod discount;
mod features;
mod input;
mod span;

use serde::{Deserialize, Serialize};

use crate::values::{
    Amount, Bounded, Currency, Description, ExternalId, Faults, Href, Metadata, Name, PlanId, Slug,
    Timestamp, Version,
};

pub use billing_cycle::{BillingCycle, CycleUnit};
pub use checkout::{CheckoutHosts, CheckoutProvider};
pub use discount::{Percent, Reduction};
pub use features::Features;
pub use input::{NewPlan, PlanChanges};
pub use span::Span;

/// The number of nodes (units of the product that is sold) that a plan allows: 0 to 2^53 − 1, which every JSON parser
/// reads exactly.
pub type NodeQuota = Bounded<9_007_199_254_740_991>;

/// The rank of a plan among the plans: 0 to 10,000.
pub type Tier = Bounded<10_000>;

/// A product that users subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan's id, which never changes.
    pub id: PlanId,
    /// The name that people see.
    pub name: Name,
    /// The id of the product at the payment provider.
    pub product_id: Option<ExternalId>,
    /// The ids of the product's variants at the payment provider, at most 100.
    pub variants: Vec<ExternalId>,
    /// The plan's name in paths; unique among the plans that exist.
    pub slug: Slug,
    /// The price of one billing cycle.
    pub price: Amount,
    /// The currency of the price. If it is set, the clock bills new subscriptions to the plan by default.
    #[serde(default)]
    pub currency: Option<Currency>,
    /// The web page where the plan is sold or described.
    pub href: Option<Href>,
    /// How often the plan is paid.
    pub billing_cycle: BillingCycle,
    /// The length of the free trial at the start of a user's first subscription; `None` if the plan has no trial.
    #[serde(default)]
    pub trial_period: Option<Span>,
    /// The description of the plan for people: a few paragraphs.
    pub description: Description,
    /// The number of nodes that the plan allows.
    pub node_quota: NodeQuota,
    /// The features that the plan includes.
    pub features: Features,
    /// True if the plan is to be shown as the most popular one.
    pub most_popular: bool,
    /// A number that ranks the plans, the lowest first.
    pub tier: Tier,
    /// False if the plan accepts no new subscriptions; existing ones continue.
    pub is_active: bool,
    /// The keys and texts that the client attached to the record.
    pub metadata: Option<Metadata>,
    /// When the plan was created.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
}

impl Plan {
    /// The new plan that the input describes.
    pub fn create(new: NewPlan, id: PlanId, now: Timestamp) -> Result<Self, Faults> {
        new.check()?;
        Ok(Self {
            id,
            name: new.name,
            product_id: new.product_id,
            variants: new.variants,
            slug: new.slug,
            price: new.price,
            currency: new.currency,
            href: new.href,
            billing_cycle: new.billing_cycle,
            trial_period: new.trial_period,
            description: new.description,
            node_quota: new.node_quota,
            features: new.features,
            most_popular: new.most_popular,
            tier: new.tier,
            is_active: true,
            metadata: new.metadata,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        })
    }

    /// The plan after `changes`, or `None` if they change nothing.
    pub fn change(&self, changes: PlanChanges, now: Timestamp) -> Result<Option<Self>, Faults> {
        let next = Self {
            name: changes.name.unwrap_or_else(|| self.name.clone()),
            product_id: changes.product_id.or(self.product_id.clone()),
            variants: changes.variants.unwrap_or_else(|| self.variants.clone()),
            href: changes.href.or(self.href.clone()),
            price: changes.price.unwrap_or(self.price),
            currency: changes.currency.or(self.currency),
            trial_period: changes.trial_period.or(self.trial_period),
            billing_cycle: changes.billing_cycle.unwrap_or(self.billing_cycle),
            description: changes.description.unwrap_or_else(|| self.description.clone()),
            node_quota: changes.node_quota.unwrap_or(self.node_quota),
            features: changes.features.unwrap_or_else(|| self.features.clone()),
            most_popular: changes.most_popular.unwrap_or(self.most_popular),
            tier: changes.tier.unwrap_or(self.tier),
            is_active: changes.is_active.unwrap_or(self.is_active),
            metadata: changes.metadata.or(self.metadata.clone()),
            ..self.clone()
        };
        input::check_price(next.price, next.currency)?;
        input::check_variants(&next.variants)?;
        Ok((next != *self).then(|| Self { updated_at: now, version: self.version.next(), ..next }))
    }
}
