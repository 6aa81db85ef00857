//! The start of a server: opens everything that it needs, or reports everything that is missing in one error.
//!
//! All checks that create no file run first, also the checks of the ports. So a start that fails in these checks
//! creates neither a database nor keys.

mod configured_clients;
mod identity;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use subscription_core::SubscriptionService;
use subscription_core::auth::{
    AuthSettings, Authentication, Client, ClientSource, DevelopmentIdentities, IdentityVerifier,
};
use subscription_core::billing::Billing;
use subscription_core::events::Actor;
use subscription_core::providers::Providers;
use subscription_core::store::{ClientQuery, StoreExt as _};
use subscription_core::webhooks::Webhooks;
use subscription_http::Server;
use tokio::net::TcpListener;

use self::configured_clients::Configured;
pub(crate) use self::store::Opened;
use super::Failure;
use super::keys::{Keys, NewKeys};
use super::settings::{DATABASE_MISSING, Database, Listen, Mode, Settings, Users};
use super::{providers, webhooks};

const IDENTITY_MISSING: &str = "an identity provider: --identity-issuer, --identity-audience and --identity-keys-url (or \
     introspection, or a shared secret; see --help)";
const KEYS_MISSING: &str = "keys: subscription-http key rotate";
const CLIENTS_MISSING: &str = "clients: [[clients]] in the settings file, or subscription-http \
                               client add --name server --scope plans:read …";

/// A server that is ready to run.
pub(crate) struct Ready {
    pub(crate) opened: Opened,
    pub(crate) billing: Billing,
    pub(crate) providers: Option<Providers>,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) auth: Authentication,
    pub(crate) keys: Keys,
    pub(crate) listeners: Listeners,
}

/// The listener of the API. Metrics and the console each have a listener only if the settings give them an address of
/// their own.
pub(crate) struct Listeners {
    pub(crate) public: TcpListener,
    pub(crate) metrics: Option<TcpListener>,
    pub(crate) console: Option<TcpListener>,
}

impl Ready {
    pub(crate) async fn new(settings: &Settings) -> Result<Self, Failure> {
        if settings.mode == Mode::Development {
            check_development(settings)?;
        }
        settings.check_listeners()?;
        let providers = settings.provider_settings()?;
        let webhooks = settings.webhook_settings()?;
        let verifier = identity::verifier(settings)?;
        let clients = Configured::new(settings)?;
        let key_file = KeyFile::find(settings)?;
        let mut missing = missing(settings, verifier.is_some(), key_file.is_some());
        let (Some(verifier), Some(key_file), []) = (verifier, key_file, missing.as_slice()) else {
            // Something is missing that production mode needs. If the database exists, its clients are read before the
            // report, so that the report also says if no client can call the server. A database that cannot be opened
            // is ignored here, and reported by a later start.
            if settings.database().is_ok_and(|database| database.exists())
                && let Ok(opened) = Opened::new(settings, false).await
            {
                if lacks_clients(settings, &opened).await {
                    missing.push(CLIENTS_MISSING);
                }
                opened.close().await;
            }
            return Err(production_needs(&missing));
        };
        let listen = |Listen(address): Listen| {
            let failure = |error| Failure(format!("cannot listen on {address}: {error}"));
            Server::listener(address).map_err(failure)
        };
        let listeners = Listeners {
            public: listen(settings.listen)?,
            metrics: settings.metrics_listen.map(listen).transpose()?,
            console: settings.console_listen().map(listen).transpose()?,
        };
        let opened = Opened::new(settings, true).await?;
        let over = async {
            if lacks_clients(settings, &opened).await {
                return Err(production_needs(&[CLIENTS_MISSING]));
            }
            let keys = key_file.into_keys()?;
            let billing = service(settings, &opened);
            let auth = authenticate(settings, billing.service(), verifier, &keys)?;
            clients.store(&auth).await?;
            let providers = providers::open(providers, billing.service()).await?;
            let webhooks = webhooks::over(webhooks, billing.service(), &keys)?;
            Ok((billing, auth, keys, providers, webhooks))
        };
        match over.await {
            Ok((billing, auth, keys, providers, webhooks)) => {
                Ok(Self { opened, billing, providers, webhooks, auth, keys, listeners })
            }
            Err(failure) => {
                opened.close().await;
                Err(failure)
            }
        }
    }
}

/// Creates the service of an open store, and returns the billing that contains this service.
pub(crate) fn service(settings: &Settings, opened: &Opened) -> Billing {
    let mut service = SubscriptionService::builder(Arc::clone(&opened.store))
        .clock(opened.clock())
        .pause(|span| Box::pin(tokio::time::sleep(span)));
    if let Some(per) = settings.one_live_per {
        service = service.one_live_per(per);
    }
    let service = match settings.users {
        Users::Accounts => service.check_users().build(),
        Users::Any => service.build(),
    };
    Billing::new(service, settings.billing.clone())
}

/// The missing settings that production mode needs, as far as they are known before the database is opened.
fn missing(settings: &Settings, has_verifier: bool, has_keys: bool) -> Vec<&'static str> {
    let database = settings.database();
    let lacks_clients = settings.mode == Mode::Production
        && settings.clients.is_empty()
        && !database.as_ref().is_ok_and(Database::exists);
    [
        (database.is_err(), DATABASE_MISSING),
        (!has_verifier, IDENTITY_MISSING),
        (!has_keys, KEYS_MISSING),
        (lacks_clients, CLIENTS_MISSING),
    ]
    .into_iter()
    .filter_map(|(is_missing, name)| is_missing.then_some(name))
    .collect()
}

/// True if no client could call the server. False if the clients cannot be read now, because the database may contain
/// clients that can call.
async fn lacks_clients(settings: &Settings, opened: &Opened) -> bool {
    if settings.mode == Mode::Development || !settings.clients.is_empty() {
        return false;
    }
    let known = opened.store.list_as::<Client>(ClientQuery::All).await;
    // Clients that an earlier settings file added do not count: this settings file has no clients, so they are refused.
    let can_call = |client: &Client| client.is_live() && client.source == ClientSource::Command;
    known.is_ok_and(|known| !known.items.iter().any(|client| can_call(client)))
}

fn production_needs(missing: &[&str]) -> Failure {
    Failure(format!("production mode needs\n  - {}", missing.join("\n  - ")))
}

/// Refuses settings that would let other machines reach development mode, which trusts every caller.
fn check_development(settings: &Settings) -> Result<(), Failure> {
    let reachable = settings.listeners().find(|(_, address)| !address.ip().is_loopback());
    let reachable = reachable.map(|(flag, address)| {
        let port = address.port();
        format!("listens on this machine only: use {flag} 127.0.0.1:{port}")
    });
    let proxies = (!settings.trusted_proxies.is_empty())
        .then(|| "takes no requests from proxies: leave out --trusted-proxy".to_owned());
    reachable.or(proxies).map_or(Ok(()), |rule| {
        let mode = "development mode trusts every caller, so it";
        Err(Failure(format!("{mode} {rule}, or use --mode production")))
    })
}

/// The keys, and where they come from: read from the key file, or new at the first start in development mode. New keys
/// are in a temporary file until [`KeyFile::into_keys`] creates the key file.
enum KeyFile {
    Read(Keys),
    New(NewKeys),
}

impl KeyFile {
    fn find(settings: &Settings) -> Result<Option<Self>, Failure> {
        let in_memory = settings.database().is_ok_and(|database| database == Database::Memory);
        if in_memory && settings.keys.is_none() {
            // Records in memory are lost when the process ends, so the keys need not be stored.
            return Ok(Some(Self::Read(Keys::generate()?)));
        }
        let path = settings.key_file();
        match (Keys::read(&path)?, settings.mode) {
            (Some(keys), _) => Ok(Some(Self::Read(keys))),
            (None, Mode::Development) => Keys::generate()?.prepare(&path).map(Self::New).map(Some),
            (None, Mode::Production) => Ok(None),
        }
    }

    fn into_keys(self) -> Result<Keys, Failure> {
        match self {
            Self::Read(keys) => Ok(keys),
            Self::New(new) => new.create(),
        }
    }
}

pub(crate) fn authenticate(
    settings: &Settings,
    service: &SubscriptionService,
    verifier: Arc<dyn IdentityVerifier>,
    keys: &Keys,
) -> Result<Authentication, Failure> {
    let name = settings.issuer.as_deref().unwrap_or("subscription").to_owned();
    let tokens = AuthSettings::default().with_issuer(name.clone()).with_audience(name);
    // Events about clients name a command as the actor of the change, because only commands and the settings file
    // change clients.
    let service = service.by(Actor::Command);
    let auth = Authentication::builder(service, verifier, keys.ring()?, keys.server_keys()?);
    Ok(auth.settings(tokens).build())
}

/// Opens the store and the authentication for a command. Nobody signs in, so the identity verifier is never called.
pub(crate) async fn authentication(
    settings: &Settings,
) -> Result<(Opened, Authentication), Failure> {
    let key_file = KeyFile::find(settings)?
        .ok_or_else(|| Failure::new("there are no keys yet: run subscription-http key rotate"))?;
    let opened = Opened::new(settings, false).await?;
    let keys = key_file.into_keys()?;
    let billing = service(settings, &opened);
    let verifier = Arc::new(DevelopmentIdentities);
    let auth = authenticate(settings, billing.service(), verifier, &keys)?;
    Ok((opened, auth))
}

/// The ids of the server keys that webhook endpoints in the database use. Empty if the database does not exist yet.
pub(crate) async fn server_keys_named(settings: &Settings) -> Result<BTreeSet<u8>, Failure> {
    if !settings.database()?.exists() {
        return Ok(BTreeSet::new());
    }
    let opened = Opened::new(settings, false).await?;
    let billing = service(settings, &opened);
    let named = subscription_core::webhooks::server_keys_named(billing.service()).await;
    opened.close().await;
    Ok(named?)
}
