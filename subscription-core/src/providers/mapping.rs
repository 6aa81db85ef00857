//! The webhooks and objects of every provider, by its kind.

use serde_json::Value;

use super::finding::{Finding, Unmapped, Webhook};
use super::object::{ObjectKind, ProviderKind};
use super::source::PauseMeans;
use super::{lemon_squeezy, stripe};

/// Reads a webhook whose signature fits.
#[doc(hidden)]
pub fn webhook(provider: ProviderKind, body: &[u8]) -> Webhook {
    match provider {
        ProviderKind::Stripe => stripe::webhook(body),
        ProviderKind::LemonSqueezy => lemon_squeezy::webhook(body),
    }
}

/// Maps an object as [`ProviderApi`](super::ProviderApi) returns it.
#[doc(hidden)]
pub fn map(
    provider: ProviderKind,
    kind: ObjectKind,
    object: &Value,
    pause: PauseMeans,
) -> Result<Finding, Unmapped> {
    match provider {
        ProviderKind::Stripe => stripe::map(kind, object, pause),
        ProviderKind::LemonSqueezy => lemon_squeezy::map(kind, object, pause),
    }
}
