//! Export of all records of a store to one file, and import of such a file into an empty store, which may
//! be in the other database.
//!
//! A store that has imported a file exports the same file again, byte for byte.
//!
//! **The file holds personal data**: addresses, identities, the places that people signed in from. It also
//! holds the hashes of clients' keys and the salts of sessions. Make it readable by its owner alone (mode
//! 0600) before anything is written to it, and delete it when it is imported.
//!
//! # The format
//!
//! JSON lines: UTF-8, one object on each line, each line ended by a line feed, no blanks between the
//! tokens.
//!
//! ```text
//! {"format":"subscription-export","version":1,"feed":17}
//! {"kind":"plan","record":{"id":"0194b9e2-…","name":"Pro",…,"version":3}}
//! {"kind":"subscription","record":{"id":"0194b9e3-…",…}}
//! {"kind":"event","record":{"sequence":17,"id":"0194b9e4-…",…}}
//! {"kind":"end","counts":{"plans":1,"subscriptions":1,…,"events":1},"sha256":"9f86d081…"}
//! ```
//!
//! - The first line has the name of the format, its version, and the last sequence given in the event feed.
//!   Thus readers of the feed can continue from their position, even if all events were deleted.
//! - Then each record is a line: plans, subscriptions, payments, users, sessions, clients, idempotency
//!   records and documents, in this order, and each [`Kind`] in the order of its keys, byte by byte. Last
//!   come the events by their sequence. A line has all fields of its record, also those that callers never
//!   see, in a fixed order; a field that is not set is `null`.
//! - Times are RFC 3339 in UTC to the microsecond, amounts are text, so that no program rounds their
//!   digits, ids are UUIDs as text, hashes and salts are base64. Structures are JSON; the body of a document
//!   is text.
//! - The last line has the number of lines of each kind, and the SHA-256 of all lines before it in
//!   hexadecimal. A file that was cut short or changed anywhere is refused as a whole.
//! - The records must be consistent, as they are in the store of a service: the file has the plan of every
//!   subscription that is not expired, and, if it has users, also the user of that subscription; it has the
//!   user of every session; no end is before its start.
//!   Versions and sequences are at most 2^53. A file with any fault is refused as a whole, and every fault
//!   is reported with its line.
//! - A field that was added by a later release may be missing from a record. It has its default then.
//!
//! Nothing in the file depends on the database that it came from or on the time of the export.

mod check;
mod error;
mod export;
mod import;
mod line;

use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::sql::table::{SqlRecord as _, Table, values};
use super::sql::value::{Cells, Columns, Value};
use super::sql::{Dialect, SqlConnection, SqlStore};
use super::{Document, IdempotencyRecord, Record, StoreError};
use crate::accounts::{Client, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
pub(super) use check::Users;
pub use error::{FileFaults, LineFault, TransferError};
pub(super) use export::export;
pub(super) use import::import;

const FORMAT: &str = "subscription-export";
const VERSION: u64 = 1;

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
    feed: i64,
}

/// The last line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "end")]
struct Footer {
    counts: Counts,
    sha256: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $plural:ident = $record:ty $([$($attribute:tt)+])?;)+) => {
        /// The kind of a line, in the order of the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind {
            $($(#[$doc])* $kind),+
        }

        impl Kind {
            /// Every kind, in the order of the file.
            pub const ALL: [Self; [$(stringify!($kind)),+].len()] = [$(Self::$kind),+];

            /// Many of it: `plans`.
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($plural)),+
                }
            }

            const fn table(self) -> &'static Table {
                match self {
                    $(Self::$kind => <$record>::TABLE),+
                }
            }
        }

        /// The number of lines of each [`Kind`].
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Counts {
            $($(#[$doc])* $(#[$($attribute)+])? pub $plural: u64),+
        }

        impl Counts {
            /// The number of lines of this kind.
            pub const fn of(&self, kind: Kind) -> u64 {
                match kind {
                    $(Kind::$kind => self.$plural),+
                }
            }

            const fn of_mut(&mut self, kind: Kind) -> &mut u64 {
                match kind {
                    $(Kind::$kind => &mut self.$plural),+
                }
            }
        }
    };
}

kinds! {
    /// Plans.
    Plan: plans = Plan;
    /// Subscriptions.
    Subscription: subscriptions = Subscription;
    /// Payments.
    Payment: payments = Payment;
    /// Users.
    User: users = User;
    /// Sessions, ended ones too.
    Session: sessions = Session;
    /// Clients.
    Client: clients = Client;
    /// Idempotency records, expired ones too.
    Answer: answers = IdempotencyRecord;
    /// Documents. A file of a store that has none does not name them, so that releases without documents
    /// read it.
    Document: documents = Document [serde(default, skip_serializing_if = "is_zero")];
    /// Events, with their sequences.
    Event: events = RecordedEvent;
}

/// The record or event of a line.
enum Content {
    Record(Record),
    Event(RecordedEvent),
}

impl Content {
    fn read(kind: Kind, row: &dyn Columns) -> Result<Self, StoreError> {
        if kind == Kind::Event {
            RecordedEvent::read(&mut Cells::new(row)).map(Self::Event)
        } else {
            (kind.table().read)(row).map(Self::Record)
        }
    }

    fn values(&self) -> Vec<Value> {
        match self {
            Self::Record(record) => values(record),
            Self::Event(event) => event.values(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// The number of lines of all kinds.
    pub fn total(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.of(kind)).sum()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.plural())
    }
}

/// How far an export or import has come. Reported every few hundred records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The kind of the last record.
    pub kind: Kind,
    /// Lines written or read so far, of all kinds.
    pub records: u64,
    /// The number of lines in the end, which only an export knows. For an import there is the length of the
    /// file.
    pub of: Option<u64>,
    /// Bytes written or read so far.
    pub bytes: u64,
}

/// A connection that sees a store as it was at one moment.
pub(super) trait Snapshot: SqlConnection {
    /// The number that the feed has reached.
    fn feed(&mut self) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// The events of that moment that had no number then, with the numbers that they have since: after all
    /// others.
    fn late_events(&mut self) -> impl Future<Output = Result<Vec<Self::Row>, sqlx::Error>> + Send;
}

/// A database that can be exported and imported.
pub(super) trait Transfer: Dialect {
    async fn export(
        &self,
        to: impl AsyncWrite + Unpin + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError>;

    async fn import(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        users: Users,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError>;
}

/// # Transfer
///
/// See [`transfer`](crate::store::transfer) for the file.
#[expect(private_bounds, reason = "callers name the two stores, not the trait that they share")]
impl<D: Transfer> SqlStore<D> {
    /// Writes every record that the store holds when the export starts. Other readers and writers continue
    /// during the export; the log of an SQLite file grows by their changes until the export is done.
    ///
    /// The file holds personal data and hashes: see [`transfer`](crate::store::transfer).
    pub async fn export<W, P>(&self, to: W, progress: P) -> Result<Counts, TransferError>
    where
        W: AsyncWrite + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        self.0.export(to, progress).await
    }

    /// Writes all records of an export into the store, if it is empty, or none of them. Other writers wait
    /// until then.
    ///
    /// Where the file has users, every subscription that is not expired must belong to one of them.
    pub async fn import<R, P>(&self, from: R, progress: P) -> Result<Counts, TransferError>
    where
        R: AsyncBufRead + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        self.0.import(from, Users::WithAccounts, progress).await
    }

    /// The same for a service that does not [check users](crate::ServiceBuilder::check_users): a
    /// subscription may belong to any user, also where the file has users.
    pub async fn import_for_any_user<R, P>(
        &self,
        from: R,
        progress: P,
    ) -> Result<Counts, TransferError>
    where
        R: AsyncBufRead + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        self.0.import(from, Users::Any, progress).await
    }
}
