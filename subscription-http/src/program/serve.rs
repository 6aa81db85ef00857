//! Serving, from the first connection to the last.

use std::num::NonZeroUsize;
use std::time::Duration;

use subscription_core::SubscriptionService;
use subscription_core::auth::Authentication;
use subscription_http::{Api, Limits, Server};

use super::log::Log;
use super::open::Ready;
use super::settings::Database;
use super::settings::{Mode, Settings};
use super::signals::Signals;
use super::{Failure, say};

/// How often what is over is cleared away.
const CLEAR_EVERY: Duration = Duration::from_mins(1);

/// How many open files are neither for callers nor for connections to the database.
const FILES_KEPT: usize = 64;

/// How many open files a thread of connections has for itself.
const FILES_PER_WORKER: usize = 4;

pub(crate) async fn serve(settings: &Settings, log: &Log) -> Result<(), Failure> {
    let Ready { opened, service, auth, keys, listener, operations_listener } =
        Ready::new(settings).await?;
    let mut api = Api::builder(service.clone(), auth.clone(), keys.cursor()?)
        .trust_proxies(settings.trusted_proxies.clone())
        .allowed_hosts(settings.allowed_hosts.clone())
        .rate_limits(&settings.limits)
        .store_metrics(&opened.metrics)
        .lost_log_lines(log.lost());
    if settings.mode == Mode::Development {
        api = api.believe_every_client();
    }
    let (api, limits) = (api.build(), allowed(settings));
    let operations =
        operations_listener.map(|listener| Server::on(api.operations(), listener, limits));
    let server = Server::on(api, listener, limits).workers(cores())?;
    tell(settings)?;
    // Before anybody hears of us, so that nobody can end us the hard way.
    let mut signals = Signals::new()?;
    if let Some(operations) = &operations {
        tracing::info!(address = %operations.address()?, "metrics are served");
    }
    say(&format!("listening on http://{}", server.address()?));
    let clearing = tokio::spawn(clear(service, auth));
    let (stopping, mut stopped) = tokio::sync::watch::channel(());
    let stop = async {
        signals.recv().await;
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

/// As many threads as can run at once.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
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

fn tell(settings: &Settings) -> Result<(), Failure> {
    let database = settings.database()?;
    let is_memory = *database == Database::Memory;
    let database = format!("{database:?}");
    match settings.mode {
        Mode::Development => {
            tracing::warn!(database, "DEVELOPMENT MODE: every client and every token is believed");
        }
        Mode::Production => tracing::info!(database, "production mode"),
    }
    if is_memory {
        tracing::warn!("nothing is kept: the records end with the process");
    }
    Ok(())
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
