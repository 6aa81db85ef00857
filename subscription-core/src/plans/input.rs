//! The inputs that create or change a plan.

use serde::Serialize;

use super::{BillingCycle, Features, NodeQuota, Span, Tier};
use crate::values::input::{amount, boolean, string, whole_number};
use crate::values::{
    Amount, Currency, Description, ExternalId, Fault, FaultCode, Faults, Field, Fields, Href,
    InputError, InvalidValue, Metadata, Name, PlanId, Slug,
};

/// The largest number of variants that a plan may have.
const VARIANTS_MAX: usize = 100;

/// The input that creates a plan. Its fields are those of [`Plan`](super::Plan).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the plan")]
pub struct NewPlan {
    pub name: Name,
    pub slug: Slug,
    pub price: Amount,
    pub billing_cycle: BillingCycle,
    pub product_id: Option<ExternalId>,
    pub variants: Vec<ExternalId>,
    pub href: Option<Href>,
    pub description: Description,
    pub node_quota: NodeQuota,
    pub features: Features,
    pub most_popular: bool,
    pub tier: Tier,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_period: Option<Span>,
}

impl NewPlan {
    /// A plan with the required fields. Every other field is empty, zero, false or `None`.
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
            currency: None,
            trial_period: None,
        }
    }

    /// Parses a JSON object, and returns all its faults at once.
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
        let currency = fields.nullable("currency", string).or(None);
        let trial_period = fields.nullable("trial_period", string).or(None);
        if let Some(Err(fault)) = price.map(|price| check_price(price, currency)) {
            fields.note(fault);
        }
        if let Some(Err(fault)) = slug.as_ref().map(check_slug) {
            fields.note(fault);
        }
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
                currency,
                trial_period,
                ..required
            })
        })();
        fields.finish(plan)
    }

    /// Checks the rules that the types of the fields do not enforce. An input may be built in code, without
    /// [`Self::from_json`].
    pub(super) fn check(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        let price = check_price(self.price, self.currency);
        for checked in [price, check_slug(&self.slug), check_variants(&self.variants)] {
            checked.unwrap_or_else(|fault| faults.push(fault));
        }
        faults.into_result()
    }
}

/// Checks that the slug does not look like the id of a plan.
fn check_slug(slug: &Slug) -> Result<(), Fault> {
    if slug.as_str().parse::<PlanId>().is_err() {
        return Ok(());
    }
    Err(InvalidValue::not_allowed("must not be a UUID").at("slug"))
}

/// Checks the number of variants.
pub(super) fn check_variants(variants: &[ExternalId]) -> Result<(), Fault> {
    if variants.len() <= VARIANTS_MAX {
        return Ok(());
    }
    let message = format!("must have at most {VARIANTS_MAX} elements");
    Err(InvalidValue::new(FaultCode::TooLong, message).at("variants"))
}

/// Checks that the price has no more digits after the point than its currency.
pub(super) fn check_price(price: Amount, currency: Option<Currency>) -> Result<(), Fault> {
    currency.map_or(Ok(()), |currency| currency.check_digits(price, "price"))
}

/// The input that changes a plan. A field that is `None` or absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the plan")]
pub struct PlanChanges {
    pub name: Option<Name>,
    pub product_id: Field<ExternalId>,
    pub variants: Option<Vec<ExternalId>>,
    pub href: Field<Href>,
    pub price: Option<Amount>,
    pub billing_cycle: Option<BillingCycle>,
    pub description: Option<Description>,
    pub node_quota: Option<NodeQuota>,
    pub features: Option<Features>,
    pub most_popular: Option<bool>,
    pub tier: Option<Tier>,
    pub is_active: Option<bool>,
    /// Replaces all of [`Plan::metadata`](super::Plan::metadata).
    pub metadata: Field<Metadata>,
    pub currency: Field<Currency>,
    pub trial_period: Field<Span>,
}

impl PlanChanges {
    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self {
            name: fields.optional("name", string),
            product_id: fields.nullable("product_id", string),
            variants: fields.list("variants", VARIANTS_MAX),
            href: fields.nullable("href", string),
            price: fields.optional("price", amount),
            billing_cycle: fields.optional("billing_cycle", string),
            description: fields.optional("description", string),
            node_quota: fields.optional("node_quota", whole_number),
            features: fields.optional("features", string),
            most_popular: fields.optional("most_popular", boolean),
            tier: fields.optional("tier", whole_number),
            is_active: fields.optional("is_active", boolean),
            metadata: fields.metadata(),
            currency: fields.nullable("currency", string),
            trial_period: fields.nullable("trial_period", string),
        };
        let checked = changes.price.map(|price| check_price(price, changes.currency.or(None)));
        if let Some(Err(fault)) = checked {
            fields.note(fault);
        }
        fields.finish(Some(changes))
    }
}
