//! The progress and the results of syncs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::providers::follow::outcome::EventOutcome;
use crate::providers::{EventState, ObjectKind, ObjectList, ProviderKind};
use crate::values::Timestamp;
use crate::values::as_text::named_enum;

named_enum! {
    /// The extent of a sync.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SyncKind {
        /// All subscriptions, and the other objects of the last 90 days.
        Nightly = "nightly",
        /// All objects.
        All = "all",
    }
}

/// A nightly sync reads the invoices, orders, refunds and disputes that were created within this time before the sync
/// began.
const NIGHTLY_SPAN: Duration = Duration::from_hours(90 * 24);
/// The numbers of objects that a sync has compared, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncCounts {
    /// Objects that had no link to a record before, and for which a record was written.
    pub made: u64,
    /// Objects that had a link to a record before, and for which a record was changed.
    pub changed: u64,
    /// Objects whose records had the same values already.
    pub same: u64,
    /// Objects that cannot be applied yet. Each of them is stored as an event, which is tried again.
    pub waiting: u64,
    /// Objects that this service does not copy.
    pub ignored: u64,
    /// Objects that cannot be applied. Each of them is stored as a failed event.
    pub failed: u64,
    /// Changed objects that had a link to a record, but no pending or waiting event: the webhook of the change is
    /// missing.
    pub drift: u64,
}

impl SyncCounts {
    pub(crate) fn add(&mut self, outcome: &EventOutcome, drift: bool) {
        let count = match outcome.status.state {
            EventState::Applied if outcome.is_new => &mut self.made,
            EventState::Applied => &mut self.changed,
            EventState::Same => &mut self.same,
            EventState::Pending | EventState::Waiting => &mut self.waiting,
            EventState::Ignored => &mut self.ignored,
            EventState::Failed => &mut self.failed,
        };
        *count += 1;
        self.drift += u64::from(drift);
    }
}

/// A sync of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncReport {
    /// The extent of the sync.
    pub kind: SyncKind,
    /// When the sync began.
    pub started_at: Timestamp,
    /// When the sync ended; `None` if it is in progress.
    pub finished_at: Option<Timestamp>,
    /// The numbers of objects that the sync has compared so far, by result.
    pub counts: SyncCounts,
}

/// The result of [`Providers::sync_page`](crate::providers::Providers::sync_page).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncStep {
    /// The sync so far. It has ended if its `finished_at` is set.
    pub report: SyncReport,
    /// The list that was read: `subscriptions`, `invoices`, `orders`, `refunds` or `disputes`.
    pub list: &'static str,
    /// The number of objects of this list that were compared so far.
    pub list_read: u64,
    /// The number of objects of this list; `None` if it is not known.
    pub list_total: Option<u64>,
    /// When to continue, if the source's allowance is used up or the provider is out of reach; otherwise `None`.
    pub next_at: Option<Timestamp>,
}

/// A sync that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) report: SyncReport,
    /// The index of the list of the provider that is being read; the first list is 0.
    pub(crate) list: usize,
    /// The position of the page in the list: the `next` of the page before it. `None` for the first page.
    pub(crate) after: Option<Box<str>>,
    /// The number of objects of the page that were compared already.
    pub(crate) done: usize,
    pub(crate) list_read: u64,
    pub(crate) list_total: Option<u64>,
}

impl Run {
    pub(crate) fn new(kind: SyncKind, started_at: Timestamp) -> Self {
        let counts = SyncCounts::default();
        let report = SyncReport { kind, started_at, finished_at: None, counts };
        Self { report, list: 0, after: None, done: 0, list_read: 0, list_total: None }
    }

    /// The list that is read, its name, and the type of its objects; `None` if all lists have been read.
    pub(crate) fn list(
        &self,
        kind: ProviderKind,
    ) -> Option<(ObjectList, &'static str, ObjectKind)> {
        let since = match self.report.kind {
            SyncKind::Nightly => self.report.started_at.saturating_sub(NIGHTLY_SPAN),
            SyncKind::All => Timestamp::MIN,
        };
        Some(match (self.list, kind) {
            (0, _) => (ObjectList::Subscriptions, "subscriptions", ObjectKind::Subscription),
            (1, _) => (ObjectList::Invoices(since), "invoices", ObjectKind::Invoice),
            (2, ProviderKind::LemonSqueezy) => {
                (ObjectList::Orders(since), "orders", ObjectKind::Order)
            }
            (2, ProviderKind::Stripe) => {
                (ObjectList::Refunds(since), "refunds", ObjectKind::PaymentIntent)
            }
            (3, ProviderKind::Stripe) => {
                (ObjectList::Disputes(since), "disputes", ObjectKind::PaymentIntent)
            }
            _ => return None,
        })
    }
}
