//! Where records are kept.

use std::path::PathBuf;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use subscription_core::Store;
use subscription_core::store::{PostgresOptions, SqliteOptions};
use test_support::cluster::{Shared, fresh_schema};

/// Only programs are killed that use it, never the server itself.
static SHARED: Shared = Shared::new();

/// Stops the shared server, if it was started.
pub(crate) fn stop() {
    SHARED.stop();
}

#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Database {
    /// A file of its own.
    pub(crate) fn file() -> Self {
        Self::Sqlite(crate::running::folder().join("store.db"))
    }

    /// A schema of its own in the shared server.
    pub(crate) fn schema() -> Self {
        let shared = SHARED.url();
        let schema = blocking(fresh_schema(shared));
        let and = if shared.contains('?') { '&' } else { '?' };
        Self::Postgres(format!("{shared}{and}options=-csearch_path%3D{schema}"))
    }

    /// The address, as the program takes it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(file) => format!("sqlite://{}", file.display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// Opens the store, now that no server has it, and looks.
    pub(crate) fn look(&self, look: impl AsyncFnOnce(&dyn Store)) {
        blocking(async {
            match self {
                Self::Sqlite(file) => {
                    let store = SqliteOptions::file(file).open().await.unwrap();
                    look(&store).await;
                    store.close().await;
                }
                Self::Postgres(url) => {
                    let store = PostgresOptions::url(url).unwrap().open().await.unwrap();
                    look(&store).await;
                    store.close().await;
                }
            }
        });
    }

    /// Runs SQL in the schema.
    pub(crate) fn execute(&self, sql: &'static str) {
        blocking(async {
            let mut connection = sqlx::PgConnection::connect(&self.url()).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        });
    }

    /// Holds a file against itself.
    pub(crate) fn check_file(&self) {
        let Self::Sqlite(file) = self else { return };
        let options = SqliteConnectOptions::new().filename(file).disable_statement_logging();
        blocking(async {
            let mut connection = options.connect().await.unwrap();
            let told = sqlx::query("PRAGMA integrity_check").fetch_all(&mut connection).await;
            let told: Vec<String> = told.unwrap().iter().map(|row| row.get(0)).collect();
            assert_eq!(told, ["ok"], "{}", file.display());
            connection.close().await.unwrap();
        });
    }
}

pub(crate) fn blocking<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap().block_on(work)
}
