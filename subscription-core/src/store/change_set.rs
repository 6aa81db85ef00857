//! Change sets: guards, writes, deletes and events that are committed together.

use std::collections::HashSet;

use super::document::Document;
use super::error::BadChangeSet;
use super::idempotency::IdempotencyKey;
use super::record::{Key, Record};
use crate::events::Event;
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, SubscriptionId, UserId};
use crate::values::version::Version;

/// A change that a store takes whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Conditions on records that the set does not change.
    pub guards: Vec<Guard>,
    /// Records as they will be. The version of each is one more than the version that was read; a new record
    /// has [`Version::FIRST`].
    pub writes: Vec<Record>,
    /// Records that will be gone.
    pub deletes: Vec<Delete>,
    /// Events, which enter the feed in this order.
    pub events: Vec<Event>,
    /// Events up to and with this sequence are gone from the feed.
    pub forget_events: Option<u64>,
}

impl ChangeSet {
    /// How many writes and deletes one commit takes.
    pub const RECORDS_MAX: usize = 1_000;

    /// True if it asks no more than whether the store takes writes.
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

    /// Checks what every store must refuse alike, before it looks at its records.
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

/// A condition under which a change set is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The record still has this version; with [`Version::NEW`], there is none.
    Unchanged {
        /// The record.
        key: Key,
        /// Its version as it was read.
        version: Version,
    },
    /// No subscription refers to the plan, but for those that this change set deletes.
    PlanUnused(PlanId),
    /// Every subscription of the user is expired, but for those that this change set writes or deletes.
    NoOtherLiveSubscription(UserId),
    /// The idempotency record of this key expires at this moment or before.
    Expired {
        /// The record.
        key: IdempotencyKey,
        /// The moment.
        by: Timestamp,
    },
}

/// A record that will be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The record.
    pub key: Key,
    /// Its version as it was read.
    pub version: Version,
}
