//! Serving: what is needed is put together, or all that is missing is told at once.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::SubscriptionService;
use subscription_core::auth::{
    AuthSettings, Authentication, DevelopmentIdentities, IdentityVerifier,
};
use subscription_http::{Api, Limits, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::clients::{configure, configured};
use super::keys::Keys;
use super::settings::{Database, KEYS_FILE, Mode, Settings};
use super::store::Opened;
use super::{Failure, identity, say};

/// How often what is over is cleared away.
const CLEAR_EVERY: Duration = Duration::from_mins(1);

/// How many open files are neither for callers nor for connections to the database.
const FILES_KEPT: usize = 64;

/// How many open files a thread of connections has for itself.
const FILES_PER_WORKER: usize = 4;

pub(crate) async fn serve(settings: &Settings) -> Result<(), Failure> {
    if settings.mode == Mode::Development {
        check_development(settings)?;
    }
    let verifier = identity::verifier(&settings.identity, settings.mode)?;
    let clients = configured(&settings.clients)?;
    let keys = keys(settings)?;
    let opened = Opened::new(settings, true).await?;
    let (verifier, keys) = match ready(settings, verifier, keys, &opened).await {
        Ok(parts) => parts,
        Err(failure) => {
            opened.close().await;
            return Err(failure);
        }
    };
    let service = service(&opened);
    let auth = authenticate(settings, &service, verifier, &keys)?;
    if let Err(failure) = configure(clients, &auth).await {
        opened.close().await;
        return Err(failure);
    }
    let mut api = Api::builder(service.clone(), auth.clone(), keys.cursor()?)
        .trust_proxies(settings.trusted_proxies.clone())
        .rate_limits(&settings.limits)
        .store_metrics(&opened.metrics);
    if settings.mode == Mode::Development {
        api = api.believe_every_client();
    }
    let (api, limits) = (api.build(), allowed(settings));
    let operations = match settings.metrics_listen {
        Some(address) => Some(bind(api.operations(), address, limits).await?),
        None => None,
    };
    let server = bind(api, settings.listen, limits).await?.workers(cores())?;
    tell(settings);
    // Before anybody hears of us, so that nobody can end us the hard way.
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    if let Some(operations) = &operations {
        tracing::info!(address = %operations.address()?, "metrics are served");
    }
    say(&format!("listening on http://{}", server.address()?));
    let clearing = tokio::spawn(clear(service, auth));
    let (stopping, mut stopped) = tokio::sync::watch::channel(());
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: finishing what is under way");
        drop(stopping);
    };
    let beside = async {
        if let Some(operations) = operations {
            let stop = async {
                // It never changes: it ends.
                stopped.changed().await.ok();
            };
            operations.run(stop).await;
        }
    };
    let (finished, ()) = tokio::join!(server.run(stop), beside);
    if !finished {
        tracing::warn!("some requests were still under way and were cut off");
    }
    clearing.abort();
    opened.close().await;
    tracing::info!("stopped");
    Ok(())
}

fn service(opened: &Opened) -> SubscriptionService {
    let builder = SubscriptionService::builder(Arc::clone(&opened.store)).check_users();
    builder.pause(|span| Box::pin(tokio::time::sleep(span))).build()
}

/// As many threads as can run at once.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

async fn bind(api: Api, address: SocketAddr, limits: Limits) -> Result<Server, Failure> {
    let bound = Server::bind(api, address, limits).await;
    bound.map_err(|error| Failure::new(format!("cannot listen on {address}: {error}")))
}

/// No more connections than the system lets us have open files, with some left for the store: one that
/// cannot open its own would fail requests, where callers could as well have waited.
fn allowed(settings: &Settings) -> Limits {
    let workers = FILES_PER_WORKER * cores().get();
    let (limits, kept) =
        (settings.connections, FILES_KEPT + workers + settings.database_connections);
    let files = std::fs::read_to_string("/proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    });
    let most = files.map_or(usize::MAX, |files| files.saturating_sub(kept).max(1));
    if limits.connections > most {
        tracing::warn!(
            connections = most,
            "the system allows fewer open files (ulimit -n) than there may be connections"
        );
    }
    Limits { connections: limits.connections.min(most), ..limits }
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

/// The keys, made at the first start in development.
fn keys(settings: &Settings) -> Result<Option<Keys>, Failure> {
    if settings.keys.is_none() && settings.database == Database::Memory {
        // What is kept nowhere is signed with keys that are kept nowhere.
        return Keys::generate().map(Some);
    }
    let path = settings.keys.clone().unwrap_or_else(|| PathBuf::from(KEYS_FILE));
    match (Keys::read(&path)?, settings.mode) {
        (Some(keys), _) => Ok(Some(keys)),
        (None, Mode::Development) => Keys::generate()?.create(&path).map(Some),
        (None, Mode::Production) => Ok(None),
    }
}

/// Checks that nothing is missing, and else tells all that is.
async fn ready(
    settings: &Settings,
    verifier: Option<Arc<dyn IdentityVerifier>>,
    keys: Option<Keys>,
    opened: &Opened,
) -> Result<(Arc<dyn IdentityVerifier>, Keys), Failure> {
    let mut missing = Vec::new();
    if verifier.is_none() {
        missing.push(
            "an identity provider: --identity-issuer, --identity-audience and --identity-keys-url \
             (or introspection, or a shared secret; see --help)",
        );
    }
    if keys.is_none() {
        missing.push("keys: subscription-http key rotate");
    }
    // What cannot be asked now may have some.
    let known = opened.store.clients().await;
    let none = known.is_ok_and(|known| known.iter().all(|client| client.revoked_at.is_some()));
    if settings.mode == Mode::Production && settings.clients.is_empty() && none {
        missing.push(
            "clients: [[clients]] in the file of --config, or subscription-http client add \
             --name server --scope plans:read …",
        );
    }
    match (verifier, keys) {
        (Some(verifier), Some(keys)) if missing.is_empty() => Ok((verifier, keys)),
        _ => Err(Failure::new(format!(
            "production mode cannot start without\n  - {}",
            missing.join("\n  - ")
        ))),
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
    let keys = keys(settings)?
        .ok_or_else(|| Failure::new("there are no keys yet: subscription-http key rotate"))?;
    let opened = Opened::new(settings, false).await?;
    let service = SubscriptionService::new(Arc::clone(&opened.store));
    let auth = authenticate(settings, &service, Arc::new(DevelopmentIdentities), &keys)?;
    Ok((opened, auth))
}

fn tell(settings: &Settings) {
    let (database, mode) = (format!("{:?}", settings.database), settings.mode);
    match mode {
        Mode::Development => {
            tracing::warn!(database, "DEVELOPMENT MODE: every client and every token is believed");
        }
        Mode::Production => tracing::info!(database, "production mode"),
    }
    if settings.database == Database::Memory {
        tracing::warn!("nothing is kept: the records end with the process");
    }
}

/// Clears away what is over, at the start and every minute: accounts whose deletion was interrupted,
/// sessions that ended long ago, idempotency records that have expired.
async fn clear(service: SubscriptionService, auth: Authentication) {
    let mut turn = tokio::time::interval(CLEAR_EVERY);
    loop {
        turn.tick().await;
        let accounts = auth.finish_deletions().await;
        let sessions = auth.forget_ended_sessions().await;
        let requests = service.forget_expired_requests().await;
        match (accounts, sessions, requests) {
            (Ok(0), Ok(0), Ok(0)) => {}
            (Ok(accounts), Ok(sessions), Ok(requests)) => {
                tracing::debug!(accounts, sessions, requests, "cleared away what is over");
            }
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                tracing::warn!(%error, "what is over could not be cleared away");
            }
        }
    }
}
