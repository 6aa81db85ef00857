//! Opening what records are kept in.

use std::sync::Arc;

use subscription_core::store::{CachedStore, Memory, Postgres, PostgresStore, Sqlite, SqliteStore};
use subscription_core::{MemoryStore, Store};

use super::Failure;
use super::settings::{Database, Settings};

/// A store that is open, and what there is to it besides.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// What a cache in front of it has in memory.
    pub(crate) memory: Option<Memory>,
    kept: Kept,
}

#[derive(Debug)]
pub(crate) enum Kept {
    Nowhere,
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    /// Opens the store, for a `patient` server or for a command: a server waits for a database that is out
    /// of reach, and hears of what others change.
    pub(crate) async fn new(settings: &Settings, patient: bool) -> Result<Self, Failure> {
        match &settings.database {
            Database::Memory => {
                let store = Arc::new(MemoryStore::default());
                Ok(Self { store, memory: None, kept: Kept::Nowhere })
            }
            Database::Sqlite(path) => {
                let kept = Arc::new(Sqlite::file(path).open().await?);
                let store = CachedStore::new(Arc::clone(&kept), CachedStore::<SqliteStore>::LAG);
                let memory = Some(store.memory().clone());
                Ok(Self { store: Arc::new(store), memory, kept: Kept::Sqlite(kept) })
            }
            Database::Postgres(url) => {
                let postgres = Postgres::url(url)?.connections(settings.database_connections);
                let opened = if patient {
                    postgres.open_once_reachable().await
                } else {
                    postgres.open().await
                };
                let kept = Arc::new(opened?);
                let store = CachedStore::new(Arc::clone(&kept), CachedStore::<PostgresStore>::LAG);
                if patient {
                    kept.listen(store.memory());
                }
                let memory = Some(store.memory().clone());
                Ok(Self { store: Arc::new(store), memory, kept: Kept::Postgres(kept) })
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
