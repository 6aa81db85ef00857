//! A source: a provider's account as it is configured here.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;

use super::api::ProviderApi;
use crate::providers::ProviderKind;
use crate::values::as_text::named_enum;
use crate::values::{Href, Slug};

named_enum! {
    /// The meaning of a pause of collection (`pause_collection` of Stripe).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum PauseMeans {
        /// The subscription continues.
        #[default]
        Keep = "keep",
        /// The subscription is paused.
        Stop = "stop",
    }
}

/// A provider's account.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct ProviderAccount {
    /// The name of the source, which is in the path of its webhooks and in the actor of its events.
    pub name: Slug,
    /// The provider.
    pub kind: ProviderKind,
    /// The secrets that may sign the webhooks of the source: 1 to 4 secrets, each of at least 16 characters.
    pub signing_secrets: Vec<SecretString>,
    /// True if the live data of the account is followed, false if its test data is followed.
    pub live: bool,
    /// The meaning of a pause of collection.
    pub pause: PauseMeans,
    /// True if a customer may be recognized by the e-mail address: the user is the one with the same verified address.
    pub match_email: bool,
    /// True if a user id is accepted even if no account here has it.
    pub any_user: bool,
    /// The page at which subscribers manage their subscriptions, if the provider's objects name none.
    pub manage_url: Option<Href>,
    /// The slug of the plan for each price or variant. For any other price, the plan is found by its `variants` and
    /// `product_id`.
    pub plans: BTreeMap<String, Slug>,
    /// True if the API is read within the limits of the provider. False is only for measurements.
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
