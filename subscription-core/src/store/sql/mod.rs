//! Stores that keep what they are given: [`SqliteStore`] in a file, [`PostgresStore`] in a database
//! server.
//!
//! What both share is here: the tables ([`table`], and the records as rows), the pages ([`page`]), the
//! reads. How a change set is committed is the heart of each and its own.

mod access;
mod account_rows;
mod billing_rows;
pub(crate) mod error;
mod event_rows;
mod migrations;
pub(in crate::store) mod page;
mod pool;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod read;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(in crate::store) mod table;
pub(in crate::store) mod value;
