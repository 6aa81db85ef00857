//! Change sets: guards, writes, deletes and events that are committed together.

use std::collections::HashSet;

use super::document::Document;
use super::error::BadChangeSet;
use super::idempotency::IdempotencyKey;
use super::record::{Key, Record};
use crate::events::Event;
use crate::values::{PlanId, SubscriptionId, Timestamp, UserId, Version};

/// Changes that a store applies all together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Conditions that must all hold; otherwise the change set is not committed.
    pub guards: Vec<Guard>,
    /// Records to write. The version of each record is one more than the version that was read; a new record has
    /// [`Version::FIRST`].
    pub writes: Vec<Record>,
    /// Records to delete.
    pub deletes: Vec<Delete>,
    /// Events, which enter the feed in this order.
    pub events: Vec<Event>,
    /// The sequence up to which events are removed from the feed, the event with this sequence included; `None` removes
    /// no events.
    pub forget_events: Option<u64>,
}

impl ChangeSet {
    /// The largest number of writes and deletes in one commit.
    pub const RECORDS_MAX: usize = 1_000;

    /// A set that writes a record, without an event.
    pub fn writing(record: impl Into<Record>) -> Self {
        Self { writes: vec![record.into()], ..Self::default() }
    }

    /// True if the set changes and checks nothing: its commit only shows whether the store accepts writes.
    pub fn is_empty(&self) -> bool {
        let Self { guards, writes, deletes, events, forget_events } = self;
        guards.is_empty()
            && writes.is_empty()
            && deletes.is_empty()
            && events.is_empty()
            && forget_events.is_none()
    }

    /// The subscriptions that the set writes or deletes.
    pub fn subscriptions_named(&self) -> HashSet<SubscriptionId> {
        let written = self.writes.iter().map(Record::key);
        let named = written.chain(self.deletes.iter().map(|delete| delete.key.clone()));
        named
            .filter_map(|key| if let Key::Subscription(id) = key { Some(id) } else { None })
            .collect()
    }

    /// The version that each guarded, written or deleted record must have before the commit.
    pub(super) fn expected(&self) -> impl Iterator<Item = (Key, Version)> {
        let guarded = self.guards.iter().filter_map(|guard| match guard {
            Guard::Unchanged { key, version } => Some((key.clone(), *version)),
            Guard::PlanUnused(_) | Guard::NoOtherLiveSubscription(_) | Guard::Expired { .. } => {
                None
            }
        });
        let written = self.writes.iter().map(|write| (write.key(), write.version().previous()));
        let deleted = self.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
        guarded.chain(written).chain(deleted)
    }

    /// Checks the rules for change sets that can be checked without stored records. Every store calls this method
    /// first.
    pub fn check(&self) -> Result<(), BadChangeSet> {
        let records = self.writes.len() + self.deletes.len();
        if records > Self::RECORDS_MAX {
            return Err(BadChangeSet::TooLarge(records));
        }
        let written = self.writes.iter().map(|write| (write.key(), write.version()));
        let deleted = self.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
        let mut named = HashSet::new();
        for (key, version) in written.chain(deleted) {
            if version == Version::NEW {
                return Err(BadChangeSet::NoVersion(key));
            }
            if records > 1 && !named.insert(key.clone()) {
                return Err(BadChangeSet::NamedTwice(key));
            }
        }
        for write in &self.writes {
            if let Record::Document(document) = write
                && document.body.len() > Document::BODY_BYTES_MAX
            {
                return Err(BadChangeSet::BodyTooLong(write.key()));
            }
        }
        Ok(())
    }
}

/// A condition that must hold for a change set to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The record still has this version. [`Version::NEW`] means that there is no such record.
    Unchanged {
        /// The key of the record.
        key: Key,
        /// The version of the record when it was read.
        version: Version,
    },
    /// No subscription has the plan or is scheduled to change to it, except subscriptions that this change set deletes.
    PlanUnused(PlanId),
    /// Every subscription of the user is expired, except subscriptions that this change set writes or deletes.
    NoOtherLiveSubscription(UserId),
    /// The idempotency record of `key` expires at `by` or before.
    Expired {
        /// The key of the idempotency record.
        key: IdempotencyKey,
        /// The record must expire at this moment or before.
        by: Timestamp,
    },
}

/// A record to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The key of the record.
    pub key: Key,
    /// The version of the record when it was read.
    pub version: Version,
}
