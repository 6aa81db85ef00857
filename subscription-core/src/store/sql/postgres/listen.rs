//! Hearing from the other instances what to forget.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;

use super::announce::{CHANNEL, announced};
use crate::store::CacheInvalidator;

/// How long to wait between two attempts to listen.
const RETRY: Duration = Duration::from_millis(500);

/// Listens until the store is closed. What is said while nobody listens is lost, so with every new
/// start all is forgotten.
pub(super) fn listen(options: PgConnectOptions, memory: CacheInvalidator, stop: Arc<Notify>) {
    tokio::spawn(async move {
        tokio::select! {
            () = stop.notified() => {}
            () = hear(options, &memory) => {}
        }
    });
}

async fn hear(options: PgConnectOptions, memory: &CacheInvalidator) {
    loop {
        if let Err(error) = hear_once(options.clone(), memory).await {
            tracing::warn!(%error, "changes by other instances are not heard of at once");
        }
        memory.forget_all();
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear_once(
    options: PgConnectOptions,
    memory: &CacheInvalidator,
) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    memory.forget_all();
    // `None`: the connection was lost, and what was said meanwhile with it.
    while let Some(notification) = listener.try_recv().await? {
        if let Some((key, version)) = announced(notification.payload()) {
            memory.forget(&key, version);
        }
    }
    Ok(())
}
