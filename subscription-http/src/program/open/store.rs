//! Opening what records are kept in.

use std::path::Path;
use std::sync::Arc;

use subscription_core::store::{
    CachedStore, OpenError, Postgres, PostgresStore, Sqlite, SqliteStore,
};
use subscription_core::{MemoryStore, Store};
use subscription_http::{MeteredStore, StoreMetrics};

use crate::program::Failure;
use crate::program::settings::Database;
use crate::program::settings::Settings;

/// A store that is open, and what there is to it besides.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: StoreMetrics,
    kept: Kept,
}

#[derive(Debug)]
pub(crate) enum Kept {
    Nowhere,
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

/// A cache in front of a store that is watched.
fn cached(store: Arc<dyn Store>) -> (CachedStore<MeteredStore>, StoreMetrics) {
    let metered = Arc::new(MeteredStore::new(store));
    let store = CachedStore::new(Arc::clone(&metered), CachedStore::<MeteredStore>::LAG);
    let metrics = metered.metrics().clone().cached(store.memory());
    (store, metrics)
}

/// Why a file was not opened, with its name.
fn not_opened(path: &Path, error: OpenError) -> Failure {
    let told = Failure::from(error).to_string();
    let name = path.display().to_string();
    if told.contains(&name) {
        return Failure::new(told);
    }
    Failure::new(format!("cannot open {name}: {told}; --database sqlite://FILE names another"))
}

impl Opened {
    /// Opens the store, for a `patient` server or for a command: a server waits for a database that is out
    /// of reach, and hears of what others change.
    pub(crate) async fn new(settings: &Settings, patient: bool) -> Result<Self, Failure> {
        match settings.database()? {
            Database::Memory => {
                let store = Arc::new(MeteredStore::new(Arc::new(MemoryStore::default())));
                let metrics = store.metrics().clone();
                Ok(Self { store, metrics, kept: Kept::Nowhere })
            }
            Database::Sqlite(path) => {
                let opened = Sqlite::file(path).open().await;
                let kept = Arc::new(opened.map_err(|error| not_opened(path, error))?);
                let (store, metrics) = cached(Arc::<SqliteStore>::clone(&kept));
                Ok(Self { store: Arc::new(store), metrics, kept: Kept::Sqlite(kept) })
            }
            Database::Postgres(url) => {
                // Without the address, which may hold a password.
                let postgres = Postgres::url(url).map_err(|error| {
                    let error = Failure::from(error);
                    Failure::new(format!("--database (DATABASE_URL): {error}"))
                })?;
                let postgres = postgres.connections(settings.database_connections);
                let opened = if patient {
                    postgres.open_once_reachable().await
                } else {
                    postgres.open().await
                };
                let kept = Arc::new(opened?);
                let (store, metrics) = cached(Arc::<PostgresStore>::clone(&kept));
                if patient {
                    kept.listen(store.memory());
                }
                Ok(Self { store: Arc::new(store), metrics, kept: Kept::Postgres(kept) })
            }
        }
    }

    pub(crate) const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Finishes what was begun and lets go.
    pub(crate) async fn close(&self) {
        match &self.kept {
            Kept::Nowhere => {}
            Kept::Sqlite(store) => store.close().await,
            Kept::Postgres(store) => store.close().await,
        }
    }
}
