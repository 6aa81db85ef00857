//! The store that the settings name, with its cache and its metrics.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use subscription_core::store::transfer::{Counts, ImportOptions, Progress, TransferError};
use subscription_core::store::{
    CacheInvalidator, CachedStore, FeedSignal, OpenError, PostgresOptions, PostgresStore,
    Protection, SqliteOptions, SqliteStore, TimedStore,
};
use subscription_core::{Clock, MemoryStore, Store, SystemClock};
use subscription_http::{EventSignal, StoreMetrics};
use tokio::io::{AsyncBufRead, AsyncWrite};

use crate::program::Failure;
use crate::program::background::leader::{Alone, Leader};
use crate::program::background::process_clock::ProcessClock;
use crate::program::settings::{Database, Mode, Settings};

/// An open store.
pub(crate) struct Opened {
    /// The store as the service uses it: cached and measured.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: StoreMetrics,
    /// The signal that is sent after each commit of events.
    pub(crate) event_signal: EventSignal,
    /// The clock that can be turned. `None` if the settings choose the clock of the machine.
    pub(crate) process_clock: Option<Arc<ProcessClock>>,
    inner: Inner,
}

/// The store itself, without the cache.
enum Inner {
    Memory,
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    /// Opens the store for a server or for a command. If PostgreSQL cannot be reached, a server opens the store anyway
    /// and connects later, but a command fails. Only a server listens for the changes that other instances commit.
    pub(crate) async fn new(settings: &Settings, is_server: bool) -> Result<Self, Failure> {
        let mut opened = Self::with_system_clock(settings, is_server).await?;
        match ProcessClock::open(settings, is_server, &opened.store).await {
            Ok(clock) => opened.process_clock = clock,
            Err(failure) => {
                opened.close().await;
                return Err(failure);
            }
        }
        Ok(opened)
    }

    async fn with_system_clock(settings: &Settings, is_server: bool) -> Result<Self, Failure> {
        match settings.database()? {
            Database::Memory => {
                let metrics = StoreMetrics::default();
                let store = TimedStore::new(MemoryStore::default(), metrics.clone());
                Ok(Self::over(store, metrics, Inner::Memory))
            }
            Database::Sqlite(path) => {
                let opened = SqliteOptions::file(&path).open().await;
                let inner = Arc::new(opened.map_err(|error| not_opened(&path, error))?);
                let (store, metrics) = cached(Arc::clone(&inner));
                Ok(Self::over(store, metrics, Inner::Sqlite(inner)))
            }
            Database::Postgres(url) => {
                // The error does not show the URL, which may hold a password.
                let postgres = PostgresOptions::url(&url).map_err(|error| {
                    let error = Failure::from(error);
                    Failure::new(format!("--database (DATABASE_URL): {error}"))
                })?;
                if settings.mode == Mode::Production {
                    check_protection(postgres.protection(), is_server)?;
                }
                let postgres = postgres.connections(settings.database_connections());
                let opened = if is_server {
                    postgres.open_once_reachable().await
                } else {
                    postgres.open().await
                };
                let inner = Arc::new(opened?);
                let (store, metrics) = cached(Arc::clone(&inner));
                if is_server {
                    inner.listen(store.cache());
                }
                Ok(Self::over(store, metrics, Inner::Postgres(inner)))
            }
        }
    }

    /// Wraps a store so that `event_signal` is sent after each commit of events.
    fn over(store: impl Store + 'static, metrics: StoreMetrics, inner: Inner) -> Self {
        let event_signal = EventSignal::default();
        let signal = event_signal.clone();
        let store = Arc::new(FeedSignal::new(store, move || signal.notify()));
        Self { store, metrics, event_signal, process_clock: None, inner }
    }

    /// The clock of the process: the one that can be turned, or that of the machine.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        match &self.process_clock {
            Some(clock) => Arc::<ProcessClock>::clone(clock),
            None => Arc::new(SystemClock),
        }
    }

    /// The [`Leader`] that decides whether this instance does the background work.
    pub(crate) fn leader(&self) -> Box<dyn Leader> {
        match &self.inner {
            Inner::Memory | Inner::Sqlite(_) => Box::new(Alone),
            Inner::Postgres(store) => Box::new(store.leader_lock()),
        }
    }

    /// Writes all records to a file. For a store in memory this writes nothing.
    pub(crate) async fn export(
        &self,
        to: impl AsyncWrite + Unpin + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        match &self.inner {
            Inner::Memory => Ok(Counts::default()),
            Inner::Sqlite(store) => store.export(to, progress).await,
            Inner::Postgres(store) => store.export(to, progress).await,
        }
    }

    /// Reads all records from a file. For a store in memory this reads nothing.
    pub(crate) async fn import(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        options: ImportOptions<'_>,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        match &self.inner {
            Inner::Memory => Ok(Counts::default()),
            Inner::Sqlite(store) => store.import_with(from, options, progress).await,
            Inner::Postgres(store) => store.import_with(from, options, progress).await,
        }
    }

    /// The schema version before the store was opened, and the present one. `None` for a store in memory, and if the
    /// database could not be reached when the store was opened.
    pub(crate) fn migrated(&self) -> Option<&RangeInclusive<i64>> {
        match &self.inner {
            Inner::Memory => None,
            Inner::Sqlite(store) => store.migrated(),
            Inner::Postgres(store) => store.migrated(),
        }
    }

    /// Finishes all writes and closes the database.
    pub(crate) async fn close(&self) {
        match &self.inner {
            Inner::Memory => {}
            Inner::Sqlite(store) => store.close().await,
            Inner::Postgres(store) => store.close().await,
        }
    }
}

/// Puts a cache in front of a measured store.
fn cached<S: Store>(
    store: Arc<S>,
) -> (CachedStore<TimedStore<Arc<S>, StoreMetrics>>, StoreMetrics) {
    let metrics = StoreMetrics::default();
    let store = CachedStore::new(TimedStore::new(store, metrics.clone()), CacheInvalidator::LAG);
    let metrics = metrics.cached(store.cache());
    (store, metrics)
}

/// The error of a database file that was not opened, with the name of the file.
/// Refuses a database on another machine for which nobody has decided how the connections are protected. A server logs a
/// warning that names the risk of every decision but `verify-full`.
fn check_protection(protection: Protection, is_server: bool) -> Result<(), Failure> {
    let between = "whoever is between this server and the database";
    let risk = match protection {
        Protection::Undecided => {
            return Err(Failure(format!(
                "--database (DATABASE_URL) names another machine and no sslmode (or prefer, or allow), so {between} could switch off the \
                 encryption, learn the password, and read and change all records: add \
                 ?sslmode=verify-full&sslrootcert=FILE, with the certificate of your authority; for a network that is \
                 yours alone, sslmode=disable says so"
            )));
        }
        Protection::Plain => format!("is not encrypted: {between} reads and changes all records"),
        Protection::AnyCertificate => format!(
            "is encrypted, but every certificate is accepted: {between} can read and change all records"
        ),
        Protection::AnyHost => {
            "accepts a certificate for any host: use an authority that signs for your databases alone".to_owned()
        }
        Protection::Local | Protection::Verified | _ => return Ok(()),
    };
    if is_server {
        tracing::warn!("the connection to PostgreSQL {risk} (sslmode=verify-full prevents this)");
    }
    Ok(())
}

fn not_opened(path: &Path, error: OpenError) -> Failure {
    let (Failure(message), name) = (Failure::from(error), path.display().to_string());
    if message.contains(&name) {
        return Failure(message);
    }
    Failure(format!(
        "cannot open {name}: {message}; choose another file with --database sqlite://FILE"
    ))
}
