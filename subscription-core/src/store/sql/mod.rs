//! Stores that keep what they are given: [`SqliteStore`] in a file, [`PostgresStore`] in a database
//! server.
//!
//! What both share is here: the tables ([`table`], and the records as rows), the pages ([`page`]), the
//! reads. How a change set is committed is the heart of each and its own.

mod access;
mod accounts;
mod catalogue;
mod document_rows;
pub(crate) mod error;
mod history;
mod migrations;
mod page;
mod pool;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod read;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod table;
pub mod transfer;
mod value;
