//! Webhooks in the program: they are built from the settings, and a background job sends them.

mod commands;
mod job;

use subscription_core::SubscriptionService;
use subscription_core::webhooks::Webhooks;

pub(crate) use self::commands::{WebhookCommand, run};
pub(crate) use self::job::WebhookJob;
use super::Failure;
use super::keys::Keys;
use super::settings::WebhookSettings;

/// The webhooks of a service. `None` if the server sends no webhooks.
pub(crate) fn over(
    settings: Option<WebhookSettings>,
    service: &SubscriptionService,
    keys: &Keys,
) -> Result<Option<Webhooks>, Failure> {
    let Some(WebhookSettings { transport, addresses }) = settings else { return Ok(None) };
    let webhooks = Webhooks::new(service.clone(), keys.server_keys()?, transport);
    Ok(Some(webhooks.with_addresses(addresses)))
}
