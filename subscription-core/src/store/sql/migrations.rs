//! The migrations from an empty database to the current tables. There are no migrations back.
//!
//! A released migration never changes: databases store a hash of each migration that they ran.
//! The previous release must still run on the tables of this release. So a migration adds columns with defaults, and it
//! neither changes nor drops a column or an index that the statements of the previous release name.
//! `tests/databases/rolling.rs` runs those statements.
//!
//! An instance of an earlier release may start again while a later release is being rolled out. So from 0.1.0 on the
//! name of a migration says which release is the earliest that can use the tables after it: in `"receipts, serves 10"`,
//! the release whose last migration is 10.

use std::ops::RangeInclusive;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr as _, SqlStr};

use super::dialect::SqlConnection;
use super::statement::Statement;
use super::value::Columns as _;

macro_rules! migrations {
    ($database:literal) => {
        migrations! { $database:
            1 "records and events" in "0001_records_and_events",
            2 "access classes" in "0002_access_classes",
            3 "sessions by user and end" in "0003_sessions_by_user_and_end",
            4 "origins and sources of clients" in "0004_origins_and_sources_of_clients",
            5 "documents, actors, fewer indexes" in "0005_documents_actors_fewer_indexes",
            6 "metadata and feed" in "0006_metadata_and_feed",
            7 "billing" in "0007_billing",
            8 "scheduled plans" in "0008_scheduled_plans",
            9 "cheaper classes" in "0009_cheaper_classes",
            10 "access phases" in "0010_access_phases",
        }
    };
    ($database:literal: $($version:literal $name:literal in $file:literal,)+) => {
        migrator([$((
            $version,
            $name,
            include_str!(concat!("../../../migrations/", $database, "/", $file, ".sql")),
        )),+])
    };
}

fn migrator(steps: impl IntoIterator<Item = (i64, &'static str, &'static str)>) -> Migrator {
    let step = |(version, name, text): (i64, &'static str, &'static str)| {
        let text: SqlStr = text.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(steps.into_iter().map(step).collect())
}

/// Migrates the tables, and returns the number of the last migration before and after this call.
pub(super) async fn run<C: SqlConnection + Migrate>(
    mut migrator: Migrator,
    connection: &mut C,
) -> Result<RangeInclusive<i64>, MigrateError> {
    let own = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
    let text = "SELECT version, description FROM _sqlx_migrations ORDER BY version";
    // An empty database does not have the table of migrations.
    let rows = connection.rows(Statement::plain(text)).await.unwrap_or_default();
    let mut before = 0;
    let mut serves = true;
    for row in &rows {
        before = row.int(0)?;
        serves &= before <= own || is_served(&row.text(1)?.unwrap_or_default(), own);
    }
    if before > own && serves {
        tracing::warn!(
            "the tables are of a later release (schema version {before}); this release ({own}) can use them"
        );
        migrator.set_ignore_missing(true);
    }
    migrator.run_direct(None, connection, false).await?;
    Ok(before..=before.max(own))
}

/// True if the description of a later migration says that a release whose last migration is `own` can use the tables.
fn is_served(description: &str, own: i64) -> bool {
    let first = description.rsplit_once(", serves ").and_then(|(_, first)| first.parse().ok());
    first.is_some_and(|first: i64| first <= own)
}

#[cfg(feature = "sqlite")]
pub(super) fn sqlite() -> Migrator {
    migrations!("sqlite")
}

#[cfg(feature = "postgres")]
pub(super) fn postgres() -> Migrator {
    migrations!("postgres")
}
