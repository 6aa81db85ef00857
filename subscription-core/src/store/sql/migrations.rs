//! The migrations from an empty database to the current tables. There are no migrations back.
//!
//! A released migration never changes: databases store a hash of each migration that they ran.
//! The previous release must still run on the tables of this release. So a migration adds columns with defaults, and it
//! neither changes nor drops a column or an index that the statements of the previous release name.
//! `tests/databases/rolling.rs` runs those statements.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr as _, SqlStr};

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

#[cfg(feature = "sqlite")]
pub(super) fn sqlite() -> Migrator {
    migrations!("sqlite")
}

#[cfg(feature = "postgres")]
pub(super) fn postgres() -> Migrator {
    migrations!("postgres")
}
