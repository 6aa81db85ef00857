//! Serves requests until a signal stops it, and deletes expired records meanwhile.

use std::num::NonZeroUsize;
use std::time::Duration;

use subscription_core::SubscriptionService;
use subscription_core::auth::Authentication;
use subscription_http::{Api, Limits, Server};

use super::log::Log;
use super::open::Ready;
use super::settings::{Database, Mode, Settings};
use super::signals::Signals;
use super::{Failure, print};

/// Open files reserved for everything but connections from callers and to the database.
const FILES_RESERVED: usize = 64;

/// Open files that each worker thread needs for itself.
const FILES_PER_WORKER: usize = 4;

pub(crate) async fn serve(settings: &Settings, log: &Log) -> Result<(), Failure> {
    let Ready { opened, service, auth, keys, listener, metrics_listener } =
        Ready::new(settings).await?;
    let mut api = Api::builder(service.clone(), auth.clone(), keys.cursor()?)
        .trust_proxies(settings.trusted_proxies.clone())
        .allowed_hosts(settings.allowed_hosts.clone())
        .self_service(&settings.self_service)
        .checkout_hosts(settings.checkout_hosts.clone())
        .rate_limits(&settings.rate_limits())
        .store_metrics(&opened.metrics)
        .lost_log_lines(log.lost());
    if settings.mode == Mode::Development {
        api = api.believe_every_client();
    }
    let (api, limits) = (api.build(), limits(settings));
    let metrics = metrics_listener.map(|listener| Server::on(api.operations(), listener, limits));
    let server = Server::on(api, listener, limits).workers(cores())?;
    log_start(settings)?;
    // Caught before the address is printed: the reader of that line may send a signal at once.
    let mut signals = Signals::new()?;
    if let Some(metrics) = &metrics {
        tracing::info!(address = %metrics.address()?, "metrics are served");
    }
    print(&format!("listening on http://{}", server.address()?));
    let deleting = tokio::spawn(delete_expired(service, auth));
    let (stopping, mut stopped) = tokio::sync::watch::channel(());
    let stop = async {
        signals.recv().await;
        tracing::info!("stopping: waiting for requests in flight");
        drop(stopping);
    };
    let serve_metrics = async {
        if let Some(metrics) = metrics {
            // Nothing is ever sent: `changed` returns when the sender is dropped.
            metrics.run(async { stopped.changed().await.unwrap_or_default() }).await;
        }
    };
    let (finished, ()) = tokio::join!(server.run(stop), serve_metrics);
    if !finished {
        tracing::warn!("stop timed out: requests in flight were cut off");
    }
    deleting.abort();
    opened.close().await;
    tracing::info!("stopped");
    Ok(())
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The limits of the server, with no more connections than the system allows open files. Some files are
/// left for the store: a store that cannot open its own fails requests, while a caller can wait.
fn limits(settings: &Settings) -> Limits {
    let limits = settings.server_limits();
    let workers = FILES_PER_WORKER * cores().get();
    let reserved = FILES_RESERVED + workers + settings.database_connections();
    let files = std::fs::read_to_string("/proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    });
    let most = files.map_or(usize::MAX, |files| files.saturating_sub(reserved).max(1));
    if limits.connections > most {
        tracing::warn!(
            connections = most,
            "the system allows fewer open files (ulimit -n) than --max-connections"
        );
    }
    limits.with_connections(limits.connections.min(most))
}

fn log_start(settings: &Settings) -> Result<(), Failure> {
    let database = settings.database()?;
    let shown = format!("{database:?}");
    match settings.mode {
        Mode::Development => {
            tracing::warn!(database = shown, "DEVELOPMENT MODE: every client and token is trusted");
        }
        Mode::Production => tracing::info!(database = shown, "production mode"),
    }
    if database == Database::Memory {
        tracing::warn!("the database is in memory: all records are lost when the process ends");
    }
    Ok(())
}

/// Finishes account deletions that were interrupted, and deletes sessions that ended long ago and expired
/// idempotency records: at the start, and every minute.
async fn delete_expired(service: SubscriptionService, auth: Authentication) {
    let mut turn = tokio::time::interval(Duration::from_mins(1));
    loop {
        turn.tick().await;
        let accounts = auth.finish_deletions().await;
        let sessions = auth.forget_ended_sessions().await;
        let requests = service.forget_expired_idempotency().await;
        match (accounts, sessions, requests) {
            (Ok(0), Ok(0), Ok(0)) => {}
            (Ok(accounts), Ok(sessions), Ok(requests)) => {
                tracing::debug!(accounts, sessions, requests, "expired records deleted");
            }
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                tracing::warn!(%error, "expired records could not be deleted");
            }
        }
    }
}
