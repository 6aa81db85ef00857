//! The migrations from an empty database to the current tables. There are no migrations back.
//!
//! Until the first release there is one, and it is edited in place. A released migration never changes: databases store
//! a hash of each migration that they ran. The previous release must still run on the tables of this release. So a
//! migration adds columns with defaults, and it neither changes nor drops a column or an index that the statements of
//! the previous release name.
//!
//! An instance of an earlier release may start again while a later release is being rolled out. So the name of a
//! migration says which release is the earliest that can use the tables after it: in `"receipts, serves 1"`, the release
//! whose last migration is 1. `tests/databases/migrations.rs` runs such a migration.

use std::ops::RangeInclusive;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr as _, SqlStr};

use super::dialect::SqlConnection;
use super::statement::Statement;
use super::value::Columns as _;

macro_rules! migrations {
    ($database:literal) => {
        &[NextMigration {
            name: "baseline",
            text: include_str!(concat!("../../../migrations/", $database, "/0001_baseline.sql")),
        }]
    };
}

#[cfg(feature = "sqlite")]
pub(super) static SQLITE: &[NextMigration] = migrations!("sqlite");

#[cfg(feature = "postgres")]
pub(super) static POSTGRES: &[NextMigration] = migrations!("postgres");

/// A migration: the one after all before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextMigration {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// Numbers the migrations from 1, in their order.
fn migrator(migrations: &[NextMigration]) -> Migrator {
    let numbered = |(version, next): (i64, &NextMigration)| {
        let text: SqlStr = next.text.into_sql_str();
        Migration::new(version, next.name.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations((1..).zip(migrations).map(numbered).collect())
}

/// Migrates the tables by migrations in their order, and returns the number of the last migration before and after this call.
pub(super) async fn run<C: SqlConnection + Migrate>(
    migrations: &[NextMigration],
    connection: &mut C,
) -> Result<RangeInclusive<i64>, MigrateError> {
    let mut migrator = migrator(migrations);
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
