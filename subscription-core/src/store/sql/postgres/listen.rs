//! Listens for changes that other instances made (`LISTEN`), and removes the changed records from the cache.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;

use super::notify::{CHANNEL, parse};
use crate::store::CacheInvalidator;

/// The pause between two attempts to listen.
const RETRY: Duration = Duration::from_millis(500);

/// Listens until the store is closed. Notifications that were sent while no connection listened are lost,
/// so the whole cache is invalidated whenever listening begins or ends.
pub(super) fn listen(options: PgConnectOptions, cache: CacheInvalidator, stop: Arc<Notify>) {
    tokio::spawn(async move {
        tokio::select! {
            () = stop.notified() => {}
            () = listen_and_retry(options, &cache) => {}
        }
    });
}

async fn listen_and_retry(options: PgConnectOptions, cache: &CacheInvalidator) {
    loop {
        if let Err(error) = listen_once(options.clone(), cache).await {
            tracing::warn!(%error, "LISTEN connection lost: changes by other instances are seen late");
        }
        cache.forget_all();
        tokio::time::sleep(RETRY).await;
    }
}

async fn listen_once(
    options: PgConnectOptions,
    cache: &CacheInvalidator,
) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    cache.forget_all();
    // `None` means that the connection was lost, and that notifications may have been lost with it.
    while let Some(notification) = listener.try_recv().await? {
        if let Some((key, version)) = parse(notification.payload()) {
            cache.forget(&key, version);
        }
    }
    Ok(())
}
