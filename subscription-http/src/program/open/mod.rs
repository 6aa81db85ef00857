//! All that a server needs, put together, or told at once where it is missing.
//!
//! Whatever can be checked without a file being made is checked first, the ports too: a start that fails
//! leaves neither a database nor keys behind.

mod identity;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use subscription_core::SubscriptionService;
use subscription_core::auth::{
    AuthSettings, Authentication, Client, ClientSource, DevelopmentIdentities, IdentityVerifier,
    NewClient,
};
use subscription_http::Server;
use tokio::net::TcpListener;

pub(crate) use self::store::{Kept, Opened};
use super::Failure;
use super::clients::{Configured, configure, configured};
use super::keys::{Keys, NewKeys};
use super::settings::{DATABASE_MISSING, Database, KEYS_FILE, Mode, Settings, Users};

const IDENTITY_MISSING: &str = "an identity provider: --identity-issuer, --identity-audience and --identity-keys-url (or \
     introspection, or a shared secret; see --help)";
const KEYS_MISSING: &str = "keys: subscription-http key rotate";
const CLIENTS_MISSING: &str = "clients: [[clients]] in the file of --config, or subscription-http \
                               client add --name server --scope plans:read …";

/// A server that only has to be run.
pub(crate) struct Ready {
    pub(crate) opened: Opened,
    pub(crate) service: SubscriptionService,
    pub(crate) auth: Authentication,
    pub(crate) keys: Keys,
    pub(crate) listener: TcpListener,
    pub(crate) operations_listener: Option<TcpListener>,
}

impl Ready {
    pub(crate) async fn new(settings: &Settings) -> Result<Self, Failure> {
        if settings.mode == Mode::Development {
            check_development(settings)?;
        }
        let verifier = identity::verifier(&settings.identity, settings.mode)?;
        let clients =
            configured(&settings.clients).map_err(|failure| settings.in_file(&failure))?;
        let key_file = KeyFile::find(settings)?;
        let mut missing = missing(settings, verifier.is_some(), key_file.is_some());
        let (Some(verifier), Some(key_file), []) = (verifier, key_file, missing.as_slice()) else {
            // A database that is there is asked for its clients, so that all is told at once.
            if settings.database().is_ok_and(Database::is_there) {
                // One that cannot be opened now is for the next start to tell of.
                if let Ok(opened) = Opened::new(settings, false).await {
                    if lacks_clients(settings, &opened).await {
                        missing.push(CLIENTS_MISSING);
                    }
                    opened.close().await;
                }
            }
            return Err(told(&missing));
        };
        let listener = listen(settings.listen)?;
        let operations_listener = settings.metrics_listen.map(listen).transpose()?;
        let opened = Opened::new(settings, true).await?;
        match Self::over(settings, &opened, verifier, key_file, clients).await {
            Ok((service, auth, keys)) => {
                Ok(Self { opened, service, auth, keys, listener, operations_listener })
            }
            Err(failure) => {
                opened.close().await;
                Err(failure)
            }
        }
    }

    /// The service over a store that is open.
    async fn over(
        settings: &Settings,
        opened: &Opened,
        verifier: Arc<dyn IdentityVerifier>,
        key_file: KeyFile,
        clients: Vec<NewClient>,
    ) -> Result<(SubscriptionService, Authentication, Keys), Failure> {
        if lacks_clients(settings, opened).await {
            return Err(told(&[CLIENTS_MISSING]));
        }
        let keys = key_file.into_keys()?;
        let service = SubscriptionService::builder(Arc::clone(&opened.store))
            .pause(|span| Box::pin(tokio::time::sleep(span)));
        let service = match settings.users {
            Users::Accounts => service.check_users().build(),
            Users::Any => service.build(),
        };
        let auth = authenticate(settings, &service, verifier, &keys)?;
        let refuses_others = settings.mode == Mode::Production;
        configure(Configured { clients, refuses_others }, &auth).await?;
        Ok((service, auth, keys))
    }
}

/// The settings that production mode lacks, as far as that can be told without the database.
fn missing(settings: &Settings, has_verifier: bool, has_keys: bool) -> Vec<&'static str> {
    let database = settings.database();
    let has_place = database.as_ref().is_ok_and(|database| database.is_there());
    let lacks_clients =
        settings.mode == Mode::Production && settings.clients.is_empty() && !has_place;
    [
        (database.is_err(), DATABASE_MISSING),
        (!has_verifier, IDENTITY_MISSING),
        (!has_keys, KEYS_MISSING),
        (lacks_clients, CLIENTS_MISSING),
    ]
    .into_iter()
    .filter_map(|(is_missing, told)| is_missing.then_some(told))
    .collect()
}

/// True if nobody could call. A database that cannot be asked now may have clients.
async fn lacks_clients(settings: &Settings, opened: &Opened) -> bool {
    if settings.mode == Mode::Development || !settings.clients.is_empty() {
        return false;
    }
    let known = opened.store.clients().await;
    // Without clients in the file, those that came from one are refused.
    let can_call = |client: &Client| client.is_live() && client.source == ClientSource::Command;
    known.is_ok_and(|known| !known.iter().any(|client| can_call(client)))
}

fn told(missing: &[&str]) -> Failure {
    Failure::new(format!("production mode cannot start without\n  - {}", missing.join("\n  - ")))
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = Server::listener(address);
    listener.map_err(|error| Failure::new(format!("cannot listen on {address}: {error}")))
}

/// Development mode believes everybody, so nobody else may be able to reach it.
fn check_development(settings: &Settings) -> Result<(), Failure> {
    let message = "development mode believes everybody, so it";
    let addresses =
        [("--listen", Some(settings.listen)), ("--metrics-listen", settings.metrics_listen)];
    for (flag, address) in addresses {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            let port = address.port();
            return Err(Failure::new(format!(
                "{message} listens on this machine only: use {flag} 127.0.0.1:{port}, or --mode production"
            )));
        }
    }
    if !settings.trusted_proxies.is_empty() {
        return Err(Failure::new(format!(
            "{message} takes no requests from proxies: leave out --trusted-proxy, or use --mode production"
        )));
    }
    Ok(())
}

/// The keys as they are found, or as they are made at the first start in development.
enum KeyFile {
    Kept(Keys),
    /// Their file has no name yet.
    New(NewKeys),
}

impl KeyFile {
    fn find(settings: &Settings) -> Result<Option<Self>, Failure> {
        let in_memory = settings.database().is_ok_and(|database| *database == Database::Memory);
        if settings.keys.is_none() && in_memory {
            // What is kept nowhere is signed with keys that are kept nowhere.
            return Ok(Some(Self::Kept(Keys::generate()?)));
        }
        let path = settings.keys.clone().unwrap_or_else(|| PathBuf::from(KEYS_FILE));
        match (Keys::read(&path)?, settings.mode) {
            (Some(keys), _) => Ok(Some(Self::Kept(keys))),
            (None, Mode::Development) => Keys::generate()?.prepare(&path).map(Self::New).map(Some),
            (None, Mode::Production) => Ok(None),
        }
    }

    /// The keys, once their file has its name.
    fn into_keys(self) -> Result<Keys, Failure> {
        match self {
            Self::Kept(keys) => Ok(keys),
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
    let (ring, server_keys) = (keys.ring()?, keys.server_keys()?);
    let (issuer, audience) = (settings.issuer.clone(), settings.issuer.clone());
    let tokens = AuthSettings { issuer, audience, ..AuthSettings::default() };
    let auth = Authentication::builder(service.clone(), verifier, ring, server_keys);
    Ok(auth.settings(tokens).build())
}

/// For commands: the store, and who may use it. Nobody signs in, so nobody vouches.
pub(crate) async fn authentication(
    settings: &Settings,
) -> Result<(Opened, Authentication), Failure> {
    let key_file = KeyFile::find(settings)?
        .ok_or_else(|| Failure::new("there are no keys yet: subscription-http key rotate"))?;
    let opened = Opened::new(settings, false).await?;
    let keys = key_file.into_keys()?;
    let service = SubscriptionService::new(Arc::clone(&opened.store));
    let auth = authenticate(settings, &service, Arc::new(DevelopmentIdentities), &keys)?;
    Ok((opened, auth))
}
