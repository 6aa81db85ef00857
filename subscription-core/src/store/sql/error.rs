//! Conversion of database errors to errors of the store, and the errors at opening.

use std::borrow::{Borrow, Cow};
use std::path::PathBuf;
use std::sync::Arc;

use super::table::Table;
use crate::store::{Cause, Key, Record, StoreError, Unique};

/// The error of a database that cannot be reached, or is full, locked or too slow.
pub(super) fn unavailable(source: impl Into<Cause>) -> StoreError {
    StoreError::Unavailable(source.into())
}

/// An iterator that returns the same error again and again: one for each change set.
pub(super) fn outages(why: impl Into<Cause>) -> impl Iterator<Item = Result<(), StoreError>> {
    let why: Arc<dyn std::error::Error + Send + Sync> = why.into().into();
    std::iter::repeat_with(move || Err(unavailable(Arc::clone(&why))))
}

/// The store's error for a database error that is neither a conflict nor a taken value: damaged data, or an
/// unavailable store.
pub(in crate::store) fn failed(error: impl Borrow<sqlx::Error> + Into<Cause>) -> StoreError {
    let told = error.borrow();
    let unreadable = matches!(
        told,
        sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
    );
    if unreadable || code(told).is_some_and(|code| is_damage(&code)) {
        StoreError::Damaged(error.into())
    } else {
        unavailable(error)
    }
}

/// The error code of the database; `None` if the error is not from the database.
pub(super) fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error()?.code()
}

/// True if nothing was written because of other transactions: a deadlock, a lock that took too long, a
/// serialization failure.
#[cfg(feature = "postgres")]
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("40001" | "40P01" | "55P03"))
}

/// True if a lock took too long. Nothing was written.
#[cfg(feature = "postgres")]
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    code(error).as_deref() == Some("55P03")
}

/// Error codes for a file or a page that cannot be read, of SQLite (such as 11 and 26) and PostgreSQL (such as XX001).
fn is_damage(code: &str) -> bool {
    matches!(code, "11" | "26" | "XX001" | "XX002" | "267" | "523" | "779")
}

/// The reason why the database refused to write a record: another record has its unique value, or the record exists
/// already. `None` for another error, or if the error is about another record. The error of PostgreSQL names the index,
/// the error of SQLite names the column.
pub(super) fn refused(error: &sqlx::Error, write: &Record) -> Option<StoreError> {
    let told = error.as_database_error().filter(|told| told.is_unique_violation())?;
    let key = write.key();
    let table = Table::of(&key);
    let names = |(index, column, _): &&(&str, &str, Unique)| match told.constraint() {
        Some(constraint) => constraint == *index,
        None => told.message().contains(column),
    };
    if let Some((.., unique)) = table.unique.iter().find(names) {
        return Some(StoreError::Taken(*unique));
    }
    let is_key = |index: &str| index.strip_suffix("_pkey") == Some(table.name);
    told.constraint().is_none_or(is_key).then_some(StoreError::Conflict(key))
}

pub(super) fn conflict(key: &Key) -> StoreError {
    StoreError::Conflict(key.clone())
}

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the file.
    #[error("{} is in use by another process: stop that process, or use another file", .0.display())]
    InUse(PathBuf),
    /// The file has several names (hard links). Each name has a log of its own, so what one process writes is lost if
    /// another opens the file by another name.
    #[error(
        "{} has more than one name (hard links), and each name would have a log of its own: remove the other names, or use \
         a copy of the file", .0.display()
    )]
    SeveralNames(PathBuf),
    /// The file cannot be opened or written.
    #[error("cannot open {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The database cannot be reached, or returned an error.
    #[error("the database cannot be used")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The migration failed: for example, the tables are those of another program, or of a later release.
    #[error("the tables cannot be brought up to date")]
    Migration(#[source] Box<dyn std::error::Error + Send + Sync>),
}
