//! The changes of a queue, and when they are committed.

use std::time::Duration;

use super::EndpointQueue;
use crate::error::Error;
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::Timestamp;
use crate::webhooks::{Delivery, DisabledReason, Endpoint};

/// The number of uncommitted outcomes that causes a commit at once.
const OUTCOMES_MAX: usize = 100;
/// While tries are in flight, an outcome is committed after at most this time. While no try is in flight, this is the
/// shortest time between two commits of fewer than `OUTCOMES_MAX` outcomes.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// A cursor that has passed only unwanted events is committed after this number of events, or after this time.
const PASSED_MAX: u64 = 10_000;
const PASSED_FOR: Duration = Duration::from_hours(1);

impl EndpointQueue {
    /// True if there are uncommitted changes. A cursor that has passed only unwanted events does not count as a
    /// change.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed_at.is_some()
    }

    /// When the changes must be committed, if `in_flight` tries are in flight; `None` if there are no changes.
    pub(crate) fn commit_at(&self, in_flight: usize) -> Option<Timestamp> {
        let Some(changed_at) = self.changed_at else {
            let passed = self.window.cursor().saturating_sub(self.delivery.body.cursor);
            return match passed {
                0 => None,
                PASSED_MAX.. => Some(Timestamp::MIN),
                _ => Some(self.cursor_written_at.saturating_add(PASSED_FOR)),
            };
        };
        // Events wait for room in the window, and only a commit makes room.
        let is_full = in_flight == 0 && !self.pending.is_empty() && !self.window.is_ready();
        if self.outcomes >= OUTCOMES_MAX || self.endpoint_changed || is_full {
            return Some(Timestamp::MIN);
        }
        let since = if in_flight > 0 { changed_at } else { self.committed_at };
        Some(since.saturating_add(COMMIT_EVERY))
    }

    /// When the delivery document is due: at the next probe of a stalled endpoint. `None` if the endpoint is disabled
    /// or not stalled.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        self.stall().filter(|_| self.is_enabled()).map(|stall| stall.next_at)
    }

    /// The changes since the last commit. Each call returns them, until [`EndpointQueue::committed`] is called.
    pub(crate) fn changes(&self) -> Result<ChangeSet, Error> {
        let id = self.id();
        let version = self.endpoint.version;
        let mut changes = ChangeSet::default();
        if self.endpoint_changed {
            changes.writes.push(Record::from(self.endpoint.body.document(version)?));
        } else {
            let key = Key::Document(Endpoint::key(id)?);
            changes.guards.push(Guard::Unchanged { key, version });
        }
        let mut delivery = Delivery { cursor: self.window.cursor(), ..self.delivery.body.clone() };
        self.breaker.store(&mut delivery);
        let document = delivery.document(id, self.delivery.version, self.due_at())?;
        changes.writes.push(Record::from(document));
        self.parked.add_changes(id, &mut changes)?;
        Ok(changes)
    }

    /// Records that all changes were committed. Returns the reason if this commit disabled the endpoint.
    pub(crate) fn committed(&mut self, now: Timestamp) -> Option<DisabledReason> {
        let cursor = self.window.cursor();
        let is_disabled = std::mem::take(&mut self.endpoint_changed);
        if is_disabled {
            self.endpoint.version = self.endpoint.version.next();
        }
        self.delivery.version = self.delivery.version.next();
        self.delivery.body.cursor = cursor;
        self.parked.committed();
        self.changed_at = None;
        self.outcomes = 0;
        self.committed_at = now;
        self.cursor_written_at = now;
        self.window.committed(cursor);
        self.refill(now);
        self.endpoint.body.disabled.filter(|_| is_disabled).map(|disabled| disabled.reason)
    }
}
