//! Webhooks in the program: built from the settings, sent in the background.

mod commands;
mod job;

use std::collections::BTreeSet;

use subscription_core::SubscriptionService;
use subscription_core::webhooks::{self, Webhooks};

pub(crate) use self::commands::{WebhookCommand, run};
pub(crate) use self::job::WebhookJob;
use super::Failure;
use super::keys::Keys;
use super::open::{self, Opened};
use super::settings::{Settings, WebhookSettings};

/// The webhooks over a service; `None` if nothing is sent.
pub(crate) fn over(
    settings: Option<WebhookSettings>,
    service: &SubscriptionService,
    keys: &Keys,
) -> Result<Option<Webhooks>, Failure> {
    let Some(WebhookSettings { transport, addresses }) = settings else { return Ok(None) };
    let webhooks = Webhooks::new(service.clone(), keys.server_keys()?, transport);
    Ok(Some(webhooks.with_addresses(addresses)))
}

/// The server keys that endpoints of the database name. A database that does not exist yet has none.
pub(crate) async fn server_keys_named(settings: &Settings) -> Result<BTreeSet<u8>, Failure> {
    if !settings.database()?.exists() {
        return Ok(BTreeSet::new());
    }
    let opened = Opened::new(settings, false).await?;
    let service = open::service(settings, &opened);
    let named = webhooks::server_keys_named(service.service()).await;
    opened.close().await;
    Ok(named?)
}
