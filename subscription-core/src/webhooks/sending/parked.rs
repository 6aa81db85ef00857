//! The events of one endpoint that are set aside: waiting for their next try, behind another, or given up.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::events::{RecordedEvent, Subject};
use crate::store::{ChangeSet, Delete, Key, Record, Stored};
use crate::values::{Timestamp, Version};
use crate::webhooks::{Attempt, EndpointId, Parked, ParkedState};

/// The largest number of events that are given up and listed.
const GIVEN_UP_MAX: usize = 100;
/// How long an event that was given up is listed.
const GIVEN_UP_KEPT: Duration = Duration::from_hours(30 * 24);

/// The events of one endpoint that are set aside. Of each record the oldest one is tried, the others are behind it.
#[derive(Debug, Default)]
pub(crate) struct ParkedEvents {
    entries: BTreeMap<u64, Entry>,
    /// The versions of the stored documents.
    stored: BTreeMap<u64, Version>,
    /// The events whose documents are not as they should be.
    touched: BTreeSet<u64>,
    /// The number of events that are not given up.
    open: usize,
    /// The next try.
    due: Option<(Timestamp, u64)>,
    /// The next deletion of an event that was given up.
    expires_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Entry {
    parked: Parked,
    due_at: Option<Timestamp>,
    in_flight: bool,
}

/// The documents of a commit: the version that each has afterwards, `None` if it is deleted.
pub(crate) type Written = Vec<(u64, Option<Version>)>;

impl ParkedEvents {
    pub(crate) fn new(stored: Vec<Stored<Parked>>, now: Timestamp) -> Self {
        let mut events = Self::default();
        for Stored { version, due_at, body: parked } in stored {
            let sequence = parked.event.sequence;
            events.stored.insert(sequence, version);
            events.entries.insert(sequence, Entry { parked, due_at, in_flight: false });
        }
        events.settle(now);
        events
    }

    /// The number of events that are waiting or behind.
    pub(crate) const fn open(&self) -> usize {
        self.open
    }

    /// The time of the next try.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.due.map(|(at, _)| at)
    }

    /// When an event that was given up is deleted.
    pub(crate) const fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// The records with events that are waiting or behind.
    pub(crate) fn blocked(&self) -> Vec<Subject> {
        let subjects = self.entries.values().filter(|entry| entry.is_open());
        let subjects: HashSet<_> = subjects.map(|entry| entry.subject().clone()).collect();
        subjects.into_iter().collect()
    }

    pub(crate) fn is_blocked(&self, subject: &Subject) -> bool {
        self.entries.values().any(|entry| entry.is_open() && entry.subject() == subject)
    }

    pub(crate) fn contains(&self, sequence: u64) -> bool {
        self.entries.get(&sequence).is_some_and(Entry::is_open)
    }

    /// Sets an event aside: after its first failure with the time of the next try, or behind another.
    pub(crate) fn park(
        &mut self,
        event: &RecordedEvent,
        failed: Option<(Attempt, Timestamp)>,
        now: Timestamp,
    ) {
        let (last, due_at) = failed.unzip();
        let parked = Parked {
            event: event.clone(),
            state: if last.is_some() { ParkedState::Waiting } else { ParkedState::Behind },
            attempts: u32::from(last.is_some()),
            first_failed_at: last.as_ref().map(|attempt| attempt.at),
            last,
        };
        self.entries.insert(event.sequence, Entry { parked, due_at, in_flight: false });
        self.touched.insert(event.sequence);
        self.settle(now);
    }

    /// Takes the event that is due longest, with the number of its tries so far.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<(Arc<RecordedEvent>, u32)> {
        let (_, sequence) = self.due.filter(|(at, _)| *at <= now)?;
        self.take(sequence, now)
    }

    /// Takes the oldest event, whether it is due or not.
    pub(crate) fn take_oldest(&mut self, now: Timestamp) -> Option<(Arc<RecordedEvent>, u32)> {
        let oldest = self.entries.iter().find(|(_, entry)| entry.is_open());
        let sequence =
            oldest.filter(|(_, entry)| !entry.in_flight).map(|(sequence, _)| *sequence)?;
        self.take(sequence, now)
    }

    fn take(&mut self, sequence: u64, now: Timestamp) -> Option<(Arc<RecordedEvent>, u32)> {
        let entry = self.entries.get_mut(&sequence)?;
        entry.in_flight = true;
        let taken = (Arc::new(entry.parked.event.clone()), entry.parked.attempts);
        self.settle(now);
        Some(taken)
    }

    /// Ends a try that does not count.
    pub(crate) fn put_back(&mut self, sequence: u64, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.in_flight = false;
        }
        self.settle(now);
    }

    /// Removes an event that was delivered. Returns its record if none of its events is set aside any more.
    pub(crate) fn delivered(&mut self, sequence: u64, now: Timestamp) -> Option<Subject> {
        let entry = self.entries.remove(&sequence)?;
        self.touched.insert(sequence);
        self.settle(now);
        Some(entry.parked.event.event.subject).filter(|subject| !self.is_blocked(subject))
    }

    /// Notes a failure. Without a next try the event is given up: then it returns its record if none of its events is
    /// set aside any more.
    pub(crate) fn failed(&mut self, last: Attempt, next_at: Option<Timestamp>) -> Option<Subject> {
        let sequence = last.sequence;
        let now = last.at;
        let entry = self.entries.get_mut(&sequence)?;
        entry.in_flight = false;
        entry.due_at = next_at;
        entry.parked.attempts = last.attempt;
        entry.parked.first_failed_at.get_or_insert(now);
        entry.parked.last = Some(last);
        let subject = entry.subject().clone();
        if next_at.is_none() {
            entry.parked.state = ParkedState::GivenUp;
            entry.due_at = Some(now.saturating_add(GIVEN_UP_KEPT));
        }
        self.touched.insert(sequence);
        let given_up = self.entries.iter().filter(|(_, entry)| !entry.is_open());
        let given_up: Vec<_> = given_up.map(|(sequence, _)| *sequence).collect();
        for oldest in given_up.iter().take(given_up.len().saturating_sub(GIVEN_UP_MAX)) {
            self.entries.remove(oldest);
            self.touched.insert(*oldest);
        }
        self.settle(now);
        Some(subject).filter(|subject| next_at.is_none() && !self.is_blocked(subject))
    }

    /// Makes all events due that wait for a try.
    pub(crate) fn all_due(&mut self, now: Timestamp) {
        for (sequence, entry) in &mut self.entries {
            if entry.parked.state == ParkedState::Waiting && entry.due_at != Some(now) {
                entry.due_at = Some(now);
                self.touched.insert(*sequence);
            }
        }
        self.settle(now);
    }

    /// Deletes the events that were given up long ago; true if there were any.
    pub(crate) fn expire(&mut self, now: Timestamp) -> bool {
        if self.expires_at.is_none_or(|at| at > now) {
            return false;
        }
        let is_over = |entry: &Entry| !entry.is_open() && entry.due_at.is_none_or(|at| at <= now);
        for (sequence, _) in self.entries.extract_if(.., |_, entry| is_over(entry)) {
            self.touched.insert(sequence);
        }
        self.settle(now);
        true
    }

    /// Makes the oldest event of each record wait for a try, and finds the next one.
    fn settle(&mut self, now: Timestamp) {
        let mut records = HashSet::new();
        self.open = 0;
        self.due = None;
        self.expires_at = None;
        for (sequence, entry) in &mut self.entries {
            if !entry.is_open() {
                self.expires_at = self.expires_at.into_iter().chain(entry.due_at).min();
                continue;
            }
            self.open += 1;
            if !records.insert(entry.subject().clone()) {
                continue;
            }
            if entry.parked.state == ParkedState::Behind {
                entry.parked.state = ParkedState::Waiting;
                entry.due_at = Some(now);
                self.touched.insert(*sequence);
            }
            if !entry.in_flight {
                let due = (entry.due_at.unwrap_or(now), *sequence);
                self.due = Some(self.due.map_or(due, |earliest| earliest.min(due)));
            }
        }
    }

    /// True if a document is not as it should be.
    pub(crate) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Adds the changes since the last commit to a change set.
    pub(crate) fn write(
        &mut self,
        endpoint: EndpointId,
        changes: &mut ChangeSet,
    ) -> Result<Written, Error> {
        let mut written = Written::new();
        for sequence in std::mem::take(&mut self.touched) {
            let before = self.stored.get(&sequence).copied();
            if let Some(entry) = self.entries.get(&sequence) {
                let before = before.unwrap_or(Version::NEW);
                let document = entry.parked.document(endpoint, before, entry.due_at)?;
                written.push((sequence, Some(document.version)));
                changes.writes.push(Record::from(document));
            } else if let Some(version) = before {
                let key = Key::Document(Parked::key(endpoint, sequence)?);
                changes.deletes.push(Delete { key, version });
                written.push((sequence, None));
            }
        }
        Ok(written)
    }

    pub(crate) fn committed(&mut self, written: Written) {
        for (sequence, version) in written {
            match version {
                Some(version) => self.stored.insert(sequence, version),
                None => self.stored.remove(&sequence),
            };
        }
    }

    pub(crate) fn not_committed(&mut self, written: Written) {
        self.touched.extend(written.into_iter().map(|(sequence, _)| sequence));
    }
}

impl Entry {
    fn is_open(&self) -> bool {
        self.parked.state != ParkedState::GivenUp
    }

    fn subject(&self) -> &Subject {
        &self.parked.event.event.subject
    }
}
