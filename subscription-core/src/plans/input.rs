//! The inputs that create or change a plan.

use serde::Serialize;

use super::{BillingCycle, Features, NodeQuota, Tier};
use crate::values::decimal::Amount;
use crate::values::faults::{FaultCode, Faults, InvalidValue};
use crate::values::input::{Field, Fields, InputError, amount, boolean, string, whole_number};
use crate::values::metadata::Metadata;
use crate::values::text::{Description, ExternalId, Href, Name, Slug};

/// The most variants that a plan may have.
const VARIANTS_MAX: usize = 100;

/// A plan to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewPlan {
    /// See [`Plan::name`](super::Plan::name).
    pub name: Name,
    /// See [`Plan::slug`](super::Plan::slug).
    pub slug: Slug,
    /// See [`Plan::price`](super::Plan::price).
    pub price: Amount,
    /// See [`Plan::billing_cycle`](super::Plan::billing_cycle).
    pub billing_cycle: BillingCycle,
    /// See [`Plan::product_id`](super::Plan::product_id).
    pub product_id: Option<ExternalId>,
    /// See [`Plan::variants`](super::Plan::variants).
    pub variants: Vec<ExternalId>,
    /// See [`Plan::href`](super::Plan::href).
    pub href: Option<Href>,
    /// See [`Plan::description`](super::Plan::description).
    pub description: Description,
    /// See [`Plan::node_quota`](super::Plan::node_quota).
    pub node_quota: NodeQuota,
    /// See [`Plan::features`](super::Plan::features).
    pub features: Features,
    /// See [`Plan::most_popular`](super::Plan::most_popular).
    pub most_popular: bool,
    /// See [`Plan::tier`](super::Plan::tier).
    pub tier: Tier,
    /// See [`Plan::metadata`](super::Plan::metadata).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl NewPlan {
    /// A plan with what it must have; the rest is empty, zero or false.
    pub fn new(name: Name, slug: Slug, price: Amount, billing_cycle: BillingCycle) -> Self {
        Self {
            name,
            slug,
            price,
            billing_cycle,
            product_id: None,
            variants: Vec::new(),
            href: None,
            description: Description::default(),
            node_quota: NodeQuota::default(),
            features: Features::default(),
            most_popular: false,
            tier: Tier::default(),
            metadata: None,
        }
    }

    /// Reads a JSON object and tells all that is wrong with it.
    ///
    /// ```
    /// use subscription_core::{InputError, NewPlan};
    ///
    /// let refused = NewPlan::from_json(br#"{"name": "Pro", "slug": "Pro!", "prize": 19.99}"#);
    /// let Err(InputError::Invalid(faults)) = refused else { panic!() };
    /// let fields: Vec<_> = faults.iter().map(|fault| &*fault.field).collect();
    /// assert_eq!(fields, ["slug", "price", "billing_cycle", "prize"]);
    /// ```
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let name = fields.required("name", string);
        let slug = fields.required("slug", string);
        let price = fields.required("price", amount);
        let billing_cycle = fields.required("billing_cycle", string);
        let product_id = fields.nullable("product_id", string).or(None);
        let variants = fields.list("variants", VARIANTS_MAX).unwrap_or_default();
        let href = fields.nullable("href", string).or(None);
        let description = fields.optional("description", string).unwrap_or_default();
        let node_quota = fields.optional("node_quota", whole_number).unwrap_or_default();
        let features = fields.optional("features", string).unwrap_or_default();
        let most_popular = fields.optional("most_popular", boolean).unwrap_or_default();
        let tier = fields.optional("tier", whole_number).unwrap_or_default();
        let metadata = fields.metadata().or(None);
        let plan = (|| {
            let required = Self::new(name?, slug?, price?, billing_cycle?);
            Some(Self {
                product_id,
                variants,
                href,
                description,
                node_quota,
                features,
                most_popular,
                tier,
                metadata,
                ..required
            })
        })();
        fields.finish(plan)
    }

    /// Checks what the types of the fields do not: a list built in code may be of any length.
    pub(super) fn check(&self) -> Result<(), Faults> {
        if self.variants.len() <= VARIANTS_MAX {
            return Ok(());
        }
        let message = format!("must have at most {VARIANTS_MAX} elements");
        Err(InvalidValue::new(FaultCode::TooLong, message).at("variants").into())
    }
}

/// Changes to a plan; what is `None` or absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanChanges {
    /// See [`Plan::price`](super::Plan::price).
    pub price: Option<Amount>,
    /// See [`Plan::billing_cycle`](super::Plan::billing_cycle).
    pub billing_cycle: Option<BillingCycle>,
    /// See [`Plan::description`](super::Plan::description).
    pub description: Option<Description>,
    /// See [`Plan::node_quota`](super::Plan::node_quota).
    pub node_quota: Option<NodeQuota>,
    /// See [`Plan::features`](super::Plan::features).
    pub features: Option<Features>,
    /// See [`Plan::most_popular`](super::Plan::most_popular).
    pub most_popular: Option<bool>,
    /// See [`Plan::tier`](super::Plan::tier).
    pub tier: Option<Tier>,
    /// See [`Plan::is_active`](super::Plan::is_active).
    pub is_active: Option<bool>,
    /// Replaces all of [`Plan::metadata`](super::Plan::metadata).
    pub metadata: Field<Metadata>,
}

impl PlanChanges {
    /// Reads a JSON object and tells all that is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self {
            price: fields.optional("price", amount),
            billing_cycle: fields.optional("billing_cycle", string),
            description: fields.optional("description", string),
            node_quota: fields.optional("node_quota", whole_number),
            features: fields.optional("features", string),
            most_popular: fields.optional("most_popular", boolean),
            tier: fields.optional("tier", whole_number),
            is_active: fields.optional("is_active", boolean),
            metadata: fields.metadata(),
        };
        fields.finish(Some(changes))
    }
}
