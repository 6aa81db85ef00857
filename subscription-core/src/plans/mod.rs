//! Plans: what can be subscribed to, and at what price.

mod billing_cycle;
mod checkout;
mod features;
mod input;

use serde::{Deserialize, Serialize};

pub use billing_cycle::{BillingCycle, CycleUnit};
pub use checkout::{CheckoutHosts, CheckoutProvider};
pub use features::Features;
pub use input::{NewPlan, PlanChanges};

use crate::values::clock::Timestamp;
use crate::values::decimal::{Amount, Bounded};
use crate::values::faults::Faults;
use crate::values::id::PlanId;
use crate::values::metadata::Metadata;
use crate::values::text::{Description, ExternalId, Href, Name, Slug};
use crate::values::version::Version;

/// How many nodes a plan allows: 0 to 2^53 − 1, so that every JSON reader gets it right.
pub type NodeQuota = Bounded<9_007_199_254_740_991>;

/// The rank of a plan among its siblings: 0 to 10,000.
pub type Tier = Bounded<10_000>;

/// Something that can be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Names the plan for ever.
    pub id: PlanId,
    /// The name that people read.
    pub name: Name,
    /// The product at the payment provider.
    pub product_id: Option<ExternalId>,
    /// The product's variants at the payment provider, at most 100.
    pub variants: Vec<ExternalId>,
    /// Names the plan in paths; unique among the plans that exist.
    pub slug: Slug,
    /// The price of one billing cycle.
    pub price: Amount,
    /// Where the plan is bought or described.
    pub href: Option<Href>,
    /// How often it is paid.
    pub billing_cycle: BillingCycle,
    /// A few paragraphs for people.
    pub description: Description,
    /// How many nodes it allows.
    pub node_quota: NodeQuota,
    /// The features that it gives access to.
    pub features: Features,
    /// Shown as the one that most people take.
    pub most_popular: bool,
    /// Its rank among its siblings.
    pub tier: Tier,
    /// False: no new subscriptions; existing ones go on.
    pub is_active: bool,
    /// The caller's own texts.
    pub metadata: Option<Metadata>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// How often it has been written.
    pub version: Version,
}

impl Plan {
    /// A new plan as asked for.
    pub fn create(new: NewPlan, id: PlanId, now: Timestamp) -> Result<Self, Faults> {
        new.check()?;
        Ok(Self {
            id,
            name: new.name,
            product_id: new.product_id,
            variants: new.variants,
            slug: new.slug,
            price: new.price,
            href: new.href,
            billing_cycle: new.billing_cycle,
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
    pub fn change(&self, changes: PlanChanges, now: Timestamp) -> Option<Self> {
        let next = Self {
            price: changes.price.unwrap_or(self.price),
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
        (next != *self).then(|| Self { updated_at: now, version: self.version.next(), ..next })
    }
}
