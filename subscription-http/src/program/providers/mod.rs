//! Payment providers in the program: they are built from the settings, two background jobs apply their changes, and a
//! command syncs them.

mod jobs;
mod sync;

use std::sync::Arc;

use subscription_core::providers::{HttpProviderApi, ProviderAccount, Providers};
use subscription_core::{Error, SubscriptionService};
use subscription_http::{FetchSettings, HttpFetch};

pub(crate) use self::jobs::{ProviderJob, ProviderSyncJob};
pub(crate) use self::sync::{ProviderCommand, run};
use super::Failure;
use super::settings::ProviderSettings;

/// The providers of a service. `None` if no provider is configured. Logs a warning for each configured plan that does
/// not exist.
pub(crate) async fn open(
    configured: Vec<ProviderSettings>,
    service: &SubscriptionService,
) -> Result<Option<Providers>, Failure> {
    if configured.is_empty() {
        return Ok(None);
    }
    let fetch = Arc::new(HttpFetch::new(&FetchSettings::default())?);
    let mut sources = Vec::new();
    for provider in configured {
        for (price, slug) in &provider.plans {
            if let Err(Error::NotFound { .. }) = service.plan(slug).await {
                let name = &provider.name;
                tracing::warn!("providers.{name}.plans.{price}: there is no plan {slug}");
            }
        }
        let mut api =
            HttpProviderApi::new(provider.kind, provider.api_key, Arc::<HttpFetch>::clone(&fetch));
        if let Some(base) = &provider.api_base {
            api = api.with_base(base);
        }
        let name = provider.name;
        let secrets = provider.signing_secrets;
        let source = ProviderAccount::new(name, provider.kind, secrets, Arc::new(api))
            .with_live(provider.live)
            .with_pause(provider.pause)
            .with_match_email(provider.match_email)
            .with_any_user(provider.any_user)
            .with_manage_url(provider.manage_url)
            .with_plans(provider.plans);
        sources.push(source);
    }
    Ok(Some(Providers::new(service.clone(), sources)))
}
