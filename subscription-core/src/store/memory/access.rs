//! The access class of each subscription in memory, and the times at which classes change.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::store::access_class::{AccessClass, Mark, MayContain};
use crate::subscriptions::{Phase, Subscription};
use crate::values::{SubscriptionId, Timestamp};

/// A subscription with the access class that it is listed in.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) record: Arc<Subscription>,
    /// The class in which the subscription is listed. It stays until the record is written or moved.
    pub(super) class: AccessClass,
}

impl Listed {
    pub(super) fn new(record: Arc<Subscription>, now: Timestamp) -> Self {
        let mark = match (record.blocked, record.status.grants_access()) {
            (true, _) => Mark::Blocked,
            (false, true) => record.phase_at(now).into(),
            (false, false) => Mark::Current,
        };
        let class = AccessClass { status: record.status, mark };
        Self { record, class }
    }

    /// The time at which the class changes next if the record is not written before; `None` if time does not change it.
    fn changes_at(&self) -> Option<Timestamp> {
        match self.class.phase()? {
            Phase::Waiting => Some(self.record.starts_at),
            Phase::Current => self.record.ends_at,
            Phase::Over => None,
        }
    }

    /// The time at which the access class changed by time alone after the record was written; `None` if it did not
    /// change.
    fn changed_at(&self) -> Option<Timestamp> {
        let written = self.record.phase_at(self.record.updated_at);
        match self.class.phase().filter(|phase| *phase != written)? {
            Phase::Waiting => None,
            Phase::Current => Some(self.record.starts_at),
            Phase::Over => self.record.ends_at,
        }
    }
}

/// Index of the times at which classes change: `due` has the next change of each subscription, `passed` the last one.
#[derive(Debug, Default)]
pub(super) struct ClassChanges {
    due: BTreeSet<(Timestamp, SubscriptionId)>,
    passed: BTreeSet<(Timestamp, SubscriptionId)>,
}

impl ClassChanges {
    /// Removes the times of a subscription from the index. `old` is the subscription as it was listed until now.
    pub(super) fn remove(&mut self, old: &Listed) {
        let id = old.record.id;
        old.changes_at().map(|at| self.due.remove(&(at, id)));
        old.changed_at().map(|at| self.passed.remove(&(at, id)));
    }

    /// Adds the times of a subscription to the index. `new` is the subscription as it is listed from now on.
    pub(super) fn insert(&mut self, new: &Listed) {
        let id = new.record.id;
        self.due.extend(new.changes_at().map(|at| (at, id)));
        self.passed.extend(new.changed_at().map(|at| (at, id)));
    }

    /// The subscriptions whose class should have changed by `now`, the longest due first.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = SubscriptionId> + '_ {
        self.due.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// True if the condition `may_contain` is met at `now`: then a class with this condition may contain records that a
    /// list requests.
    pub(super) fn allow(&self, may_contain: MayContain, now: Timestamp) -> bool {
        let is_behind = || self.due(now).next().is_some();
        let is_ahead = || self.passed.last().is_some_and(|(at, _)| *at > now);
        match may_contain {
            MayContain::Always => true,
            MayContain::IfBehind => is_behind(),
            MayContain::IfAhead => is_ahead(),
            MayContain::IfOutdated => is_behind() || is_ahead(),
        }
    }
}
