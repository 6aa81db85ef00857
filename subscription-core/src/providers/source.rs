//! A source: an account at a payment provider, as it is configured in this service.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;

use super::api::ProviderApi;
use crate::providers::ProviderKind;
use crate::values::as_text::named_enum;
use crate::values::{Href, Slug};

named_enum! {
    /// The effect that a pause of payment collection at Stripe (`pause_collection`) has on our subscription.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum PauseMeans {
        /// Our subscription continues during the pause.
        #[default]
        Keep = "keep",
        /// Our subscription is paused too.
        Stop = "stop",
    }
}

/// An account at a payment provider, with the settings by which this service follows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct ProviderAccount {
    /// The name of the source. It is a part of the URL path that receives the source's webhooks, and of the actor of
    /// the events that this service records for the source.
    pub name: Slug,
    /// The provider.
    pub kind: ProviderKind,
    /// The secrets that may sign the webhooks of the source: 1 to 4 secrets, each of at least 16 characters.
    pub signing_secrets: Vec<SecretString>,
    /// True if the live data of the account is followed, false if its test data is followed.
    pub live: bool,
    /// The effect that a pause of payment collection (Stripe) has on our subscription.
    pub pause: PauseMeans,
    /// True if a customer of the provider may be matched to the user who has the same, verified e-mail address.
    pub match_email: bool,
    /// True if a user id is accepted even if this service has no account with this id.
    pub any_user: bool,
    /// The page at which subscribers manage their subscriptions, if the provider's objects name none.
    pub manage_url: Option<Href>,
    /// The slug of our plan for each id of a price (Stripe) or variant (Lemon Squeezy). For an id that is not in this
    /// map, the plan is found by the `variants` and the `product_id` of the plans.
    pub plans: BTreeMap<String, Slug>,
    /// True if this service limits the rate of its reads from the provider's API. False is only for performance
    /// measurements.
    pub limited: bool,
    /// Reads the provider's objects.
    pub api: Arc<dyn ProviderApi>,
}

impl ProviderAccount {
    /// A source that follows test data, with defaults for all other settings.
    pub fn new(
        name: Slug,
        kind: ProviderKind,
        signing_secrets: Vec<SecretString>,
        api: Arc<dyn ProviderApi>,
    ) -> Self {
        Self {
            name,
            kind,
            signing_secrets,
            live: false,
            pause: PauseMeans::default(),
            match_email: false,
            any_user: false,
            manage_url: None,
            plans: BTreeMap::new(),
            limited: true,
            api,
        }
    }
}

crate::with_fields! {
    ProviderAccount {
        with_live(bool) => live,
        with_pause(PauseMeans) => pause,
        with_match_email(bool) => match_email,
        with_any_user(bool) => any_user,
        with_manage_url(impl Into<Option<Href>>) => manage_url,
        with_plans(BTreeMap<String, Slug>) => plans,
        with_limited(bool) => limited,
    }
}
