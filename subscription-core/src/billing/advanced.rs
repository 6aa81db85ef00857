//! The result of one call that takes the due steps of subscriptions.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, with_causes};
use crate::events::Change;
use crate::service::StepKind;
use crate::store::{Key, StoreError};
use crate::values::Timestamp;

/// The result of [`Billing::advance`](super::Billing::advance).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advanced {
    /// The number of steps that were taken, including payments that were requested again.
    pub steps: usize,
    /// The number of steps of each kind, without payments that were requested again.
    pub by_kind: BTreeMap<StepKind, usize>,
    /// The number of payments that were requested again.
    pub retries: usize,
    /// The number of periods that were skipped.
    pub periods_skipped: u64,
    /// The number of steps that were not taken because another writer was faster. The next call finds those that are
    /// still due.
    pub refused: usize,
    /// The number of steps that were not taken because another program or transaction holds a record that they write.
    /// The next call tries them again. They do not delay other steps.
    pub busy: usize,
    /// The record that the first such step needs; `None` if no step was busy.
    pub busy_record: Option<Key>,
    /// The number of steps that failed. The next call tries them again. A failed step does not delay other steps.
    pub failed: usize,
    /// The number of steps that were not decided on, because a record that they need cannot be read. They do not delay
    /// other steps either.
    pub damaged: usize,
    /// The message of the first failed step; `None` if no step failed.
    pub failure: Option<String>,
    /// The longest delay of a step: the time from the moment at which it was due until this call.
    pub lag: Duration,
    /// True if due steps are left because the call has reached its limit of steps: call again at once.
    pub more: bool,
    /// When the next step is due; `None` if no step is due later.
    pub next_at: Option<Timestamp>,
}

impl Advanced {
    pub(super) fn took(&mut self, kind: StepKind, change: &Change) {
        self.steps += 1;
        *self.by_kind.entry(kind).or_default() += 1;
        if let Change::PeriodsSkipped { count } = change {
            self.periods_skipped += u64::from(*count);
        }
    }

    /// True if the store can be reached: it has taken a step before, or decided on one of these commits.
    pub(super) fn is_reached(&self, results: &[Result<(), StoreError>]) -> bool {
        let is_decided = |it: &Result<_, _>| !matches!(it, Err(StoreError::Unavailable(_)));
        self.steps > 0 || results.iter().any(is_decided)
    }

    /// Counts a step that was not taken. Returns the error if the store cannot be reached.
    pub(super) fn lost(&mut self, error: Error, is_reached: bool) -> Result<(), Error> {
        if let Error::Store(StoreError::Busy(key)) = error {
            self.busy += 1;
            self.busy_record.get_or_insert(key);
        } else if matches!(error, Error::Store(StoreError::Conflict(_))) {
            self.refused += 1;
        } else if matches!(error, Error::Store(StoreError::Unavailable(_))) && !is_reached {
            return Err(error);
        } else if matches!(error, Error::Store(StoreError::Damaged(_))) {
            self.damaged += 1;
        } else {
            self.failed += 1;
            self.failure.get_or_insert_with(|| with_causes(&error));
        }
        Ok(())
    }

    /// The number of steps that count towards the limit. Busy and failed steps do not count, so that they do not delay
    /// other steps.
    pub(super) const fn tried(&self) -> usize {
        self.steps + self.refused
    }
}
