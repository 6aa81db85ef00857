//! The result of a round of the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Error;
use crate::events::Change;
use crate::service::StepKind;
use crate::store::StoreError;
use crate::values::Timestamp;

/// The result of [`Billing::advance`](super::Billing::advance).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advanced {
    /// The number of steps that were taken, and of payments that are requested again.
    pub steps: usize,
    /// The number of steps of each kind.
    pub by_kind: BTreeMap<StepKind, usize>,
    /// The number of payments that are requested again.
    pub retries: usize,
    /// The number of periods that were skipped.
    pub periods_skipped: u64,
    /// The number of steps that another writer made impossible or superfluous; those still due are found again.
    pub refused: usize,
    /// The number of steps that failed. They are tried again by the next call, and hold no other step up.
    pub failed: usize,
    /// The first of the failures.
    pub failure: Option<String>,
    /// How long the step that was due longest had waited.
    pub lag: Duration,
    /// True if the limit was reached: call again at once.
    pub more: bool,
    /// When something is due next; `None` if nothing is.
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

    /// Counts a step that was not taken; an error if the store is out of reach.
    pub(super) fn lost(&mut self, error: Error) -> Result<(), Error> {
        if matches!(error, Error::Store(StoreError::Unavailable(_))) {
            return Err(error);
        }
        if matches!(error, Error::Store(StoreError::Conflict(_))) {
            self.refused += 1;
        } else {
            self.failed += 1;
            self.failure.get_or_insert_with(|| error.to_string());
        }
        Ok(())
    }

    /// The number of steps that count towards the limit. Those that failed do not: they hold no other up.
    pub(super) const fn tried(&self) -> usize {
        self.steps + self.refused
    }
}
