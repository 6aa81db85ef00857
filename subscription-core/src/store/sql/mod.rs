//! [`SqlStore`]: records in an SQL database, in SQLite ([`SqliteStore`]) or PostgreSQL
//! ([`PostgresStore`]).
//!
//! Both stores share the tables ([`records`]), the pages ([`page`]) and all reads ([`read`]). A [`Dialect`] defines the
//! differences: how statements are run, how a change set is committed, and which hints the planner of the database
//! needs.
//!
//! [`SqliteStore`]: sqlite::SqliteStore
//! [`PostgresStore`]: postgres::PostgresStore

mod access;
pub(in crate::store) mod commit;
mod dialect;
pub(crate) mod error;
mod field;
mod lists;
mod migrations;
pub(in crate::store) mod page;
mod pool;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod read;
mod records;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(in crate::store) mod statement;
pub(in crate::store) mod table;
pub(in crate::store) mod value;

use std::ops::RangeInclusive;

pub(in crate::store) use dialect::{Dialect, SqlConnection};

/// A store in an SQL database.
#[derive(Debug)]
pub struct SqlStore<D> {
    pub(in crate::store) database: D,
    migrated: Option<RangeInclusive<i64>>,
}

impl<D> SqlStore<D> {
    /// The numbers of the last migration of the tables before the store was opened (0 if there were no tables) and
    /// now. `None` if the database was not reachable when the store was opened.
    pub const fn migrated(&self) -> Option<&RangeInclusive<i64>> {
        self.migrated.as_ref()
    }
}
