//! The steps that lead from an empty database to today's tables, and only forward.
//!
//! A step that was ever released stays as it is: databases remember a hash of each that they took.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr as _, SqlStr};

fn migrator(steps: impl IntoIterator<Item = (i64, &'static str, &'static str)>) -> Migrator {
    let step = |(version, name, text): (i64, &'static str, &'static str)| {
        let text: SqlStr = text.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(steps.into_iter().map(step).collect())
}

#[cfg(feature = "sqlite")]
pub(super) fn sqlite() -> Migrator {
    migrator([
        (
            1,
            "records and events",
            include_str!("../../../migrations/sqlite/0001_records_and_events.sql"),
        ),
        (2, "access classes", include_str!("../../../migrations/sqlite/0002_access_classes.sql")),
        (
            3,
            "sessions by user and end",
            include_str!("../../../migrations/sqlite/0003_sessions_by_user_and_end.sql"),
        ),
        (
            4,
            "origins and sources of clients",
            include_str!("../../../migrations/sqlite/0004_origins_and_sources_of_clients.sql"),
        ),
        (5, "documents", include_str!("../../../migrations/sqlite/0005_documents.sql")),
    ])
}

#[cfg(feature = "postgres")]
pub(super) fn postgres() -> Migrator {
    migrator([
        (
            1,
            "records and events",
            include_str!("../../../migrations/postgres/0001_records_and_events.sql"),
        ),
        (2, "access classes", include_str!("../../../migrations/postgres/0002_access_classes.sql")),
        (
            3,
            "sessions by user and end",
            include_str!("../../../migrations/postgres/0003_sessions_by_user_and_end.sql"),
        ),
        (
            4,
            "origins and sources of clients",
            include_str!("../../../migrations/postgres/0004_origins_and_sources_of_clients.sql"),
        ),
        (5, "documents", include_str!("../../../migrations/postgres/0005_documents.sql")),
    ])
}
