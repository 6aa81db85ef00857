//! The export of all records of a store to one file, and the import of such a file into an empty store. The two stores
//! may be in different databases.
//!
//! A store that has imported a file exports the same file again, byte for byte.
//!
//! **The file holds personal data**: e-mail addresses, identities, and the IP addresses and browsers of sign-ins. It
//! also holds the hashes of clients' keys and the salts of sessions. Make it readable by its owner alone (mode 0600)
//! before anything is written to it, and delete it when it is imported.
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
//! - The first line has the name of the format, its version, and the last sequence that the event feed has assigned.
//!   Thus readers of the feed can continue from their position, even if all events were deleted.
//! - Then each record is a line: plans, subscriptions, payments, users, sessions, clients, idempotency
//!   records and documents, in this order, and each kind in the order of its keys, byte by byte. Last come
//!   the events by their sequence. A line has all fields of its record, also those that callers never see,
//!   in a fixed order, and no others; a field that is not set is `null`.
//! - Times are RFC 3339 in UTC to the microsecond, amounts are text, so that no program rounds their digits, ids are
//!   UUIDs as text, hashes and salts are base64. Structures are JSON; but `metadata`, `billing` of a subscription,
//!   `asked` of a payment and `body` of a document are JSON as text.
//! - The last line has the number of lines of each kind, and the SHA-256 of all lines before it in
//!   hexadecimal. A file that was cut short or changed anywhere is refused as a whole.
//! - The records must be consistent, as they are in the store of a service: the file has the plan of every subscription
//!   that is not expired, and, if it has users, also the user of that subscription; it has the user of every session;
//!   no end is before its start; a subscription that the clock of the service manages (`managed_by` is `clock`) has a
//!   price and a currency unless it is expired; no two payments claim the same period of a subscription. Versions and
//!   sequences are at most 2^53. A file with any fault is refused as a whole, and every fault is reported with its
//!   line.
//!
//! Nothing in the file depends on the database that it came from or on the time of the export.

mod check;
mod error;
mod export;
mod import;
mod line;
mod options;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::sql::table::{SqlRecord as _, Table};
use super::sql::{Dialect, SqlStore};
use super::{Document, IdempotencyRecord};
use crate::accounts::{Client, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::as_text::hex;
pub use error::{FileFaults, TransferError};
pub(super) use export::export;
pub(super) use import::import;
pub use options::ImportOptions;

const FORMAT: &str = "subscription-export";
const VERSION: u64 = 1;

/// The kinds of lines in the order of the file: the name of each, and the table of its records.
pub(super) const KINDS: [(&str, &Table); 9] = [
    ("plan", Plan::TABLE),
    ("subscription", Subscription::TABLE),
    ("payment", Payment::TABLE),
    ("user", User::TABLE),
    ("session", Session::TABLE),
    ("client", Client::TABLE),
    ("answer", IdempotencyRecord::TABLE),
    ("document", Document::TABLE),
    ("event", RecordedEvent::TABLE),
];

/// The first line of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
    feed: u64,
}

/// The last line of a file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename = "end")]
struct Footer {
    counts: Counts,
    sha256: String,
}

impl Footer {
    fn new(counts: Counts, hash: Sha256) -> Self {
        Self { counts, sha256: hex(&hash.finalize()) }
    }
}

/// The number of lines of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a field is the number of the records that it names")]
pub struct Counts {
    pub plans: u64,
    pub subscriptions: u64,
    pub payments: u64,
    pub users: u64,
    pub sessions: u64,
    pub clients: u64,
    pub answers: u64,
    // The number 0 is not written, so that releases without documents can read the file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub documents: u64,
    pub events: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// The number of lines of all kinds.
    pub fn total(mut self) -> u64 {
        self.by_kind().into_iter().map(|count| *count).sum()
    }

    /// The counts in the order of [`KINDS`].
    const fn by_kind(&mut self) -> [&mut u64; 9] {
        let Self { plans, subscriptions, payments, users, sessions, .. } = self;
        let clients = &mut self.clients;
        let answers = &mut self.answers;
        let documents = &mut self.documents;
        let events = &mut self.events;
        [plans, subscriptions, payments, users, sessions, clients, answers, documents, events]
    }

    fn add(&mut self, kind: usize) {
        self.by_kind().into_iter().skip(kind).take(1).for_each(|count| *count += 1);
    }
}

/// The progress of an export or import. It is reported every few hundred records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The kind of the last record, in the plural, such as `plans`.
    pub kind: &'static str,
    /// Lines written or read so far, of all kinds.
    pub records: u64,
    /// The number of lines that the export has when it is complete. `None` for an import: compare `bytes` with the
    /// length of the file instead.
    pub of: Option<u64>,
    /// Bytes written or read so far.
    pub bytes: u64,
}

pub(super) type Writer<'a> = &'a mut (dyn AsyncWrite + Unpin + Send);
pub(super) type Reader<'a> = &'a mut (dyn AsyncBufRead + Unpin + Send);
pub(super) type Report<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// A database that can be exported from and imported into.
pub(super) trait Transfer: Dialect {
    async fn export(&self, to: Writer<'_>, report: Report<'_>) -> Result<Counts, TransferError>;

    async fn import(
        &self,
        from: Reader<'_>,
        options: ImportOptions<'_>,
        report: Report<'_>,
    ) -> Result<Counts, TransferError>;
}

/// # Transfer
///
/// See [`transfer`](crate::store::transfer) for the format of the file.
#[expect(private_bounds, reason = "callers name the two stores, not the trait that they share")]
impl<D: Transfer> SqlStore<D> {
    /// Writes every record that the store holds when the export starts. Other readers and writers continue during the
    /// export; the write-ahead log of an SQLite file grows by the changes of these writers until the export ends.
    ///
    /// The file holds personal data and hashes: see [`transfer`](crate::store::transfer).
    pub async fn export(
        &self,
        mut to: impl AsyncWrite + Unpin + Send,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        self.database.export(&mut to, &mut progress).await
    }

    /// Writes all records of an export into the store, which must be empty. If the import fails, no record is written.
    /// Other writers wait until the import ends.
    ///
    /// If the file has users, every subscription that is not expired must belong to one of them.
    pub async fn import(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        self.import_with(from, ImportOptions::default(), progress).await
    }

    /// Like [`import`](Self::import), with options. Documents that the options change or add are part of the same
    /// commit.
    pub async fn import_with(
        &self,
        mut from: impl AsyncBufRead + Unpin + Send,
        options: ImportOptions<'_>,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        self.database.import(&mut from, options, &mut progress).await
    }
}
