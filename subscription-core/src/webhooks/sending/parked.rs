//! The parked events of one endpoint. Each waits for its next try, waits behind another event, or was given up.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::events::{RecordedEvent, Subject};
use crate::store::{ChangeSet, Delete, Key, Record, Stored};
use crate::values::{Timestamp, Version};
use crate::webhooks::{Attempt, EndpointId, Parked, ParkedState};

/// The maximum number of given-up events that are listed.
const GIVEN_UP_MAX: usize = 100;
/// How long a given-up event is listed.
const GIVEN_UP_KEPT: Duration = Duration::from_hours(30 * 24);

/// The parked events of one endpoint. For each record, the oldest event is tried, and the later events wait behind it.
#[derive(Debug, Default)]
pub(crate) struct ParkedEvents {
    entries: BTreeMap<u64, Entry>,
    /// The version of the stored document of each event, by the sequence of the event.
    stored: BTreeMap<u64, Version>,
    /// The events whose stored documents must be written or deleted with the next commit.
    touched: BTreeSet<u64>,
}

#[derive(Debug)]
struct Entry {
    parked: Parked,
    due_at: Option<Timestamp>,
    in_flight: bool,
}

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

    /// The number of parked events that are not given up: they wait for a try, or behind another event.
    pub(crate) fn open(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_open()).count()
    }

    /// The next try of a parked event: when it is due, and the sequence of the event. `None` if no event waits for a
    /// try.
    pub(crate) fn due(&self) -> Option<(Timestamp, u64)> {
        let is_waiting = |it: &Entry| it.parked.state == ParkedState::Waiting && !it.in_flight;
        let waiting = self.entries.iter().filter(|(_, entry)| is_waiting(entry));
        waiting.filter_map(|(sequence, entry)| Some((entry.due_at?, *sequence))).min()
    }

    /// The sequence of the oldest event that is not given up, whether it is due or not; `None` if there is none.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let (sequence, _) = self.entries.iter().find(|(_, entry)| entry.is_open())?;
        Some(*sequence)
    }

    /// When the next given-up event is deleted; `None` if there is none.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let given_up = self.entries.values().filter(|entry| !entry.is_open());
        given_up.filter_map(|entry| entry.due_at).min()
    }

    /// The record of each event that is in the state `Waiting` or `Behind`. A record with several such events occurs
    /// several times.
    pub(crate) fn blocked(&self) -> Vec<Subject> {
        let open = self.entries.values().filter(|entry| entry.is_open());
        open.map(|entry| entry.subject().clone()).collect()
    }

    pub(crate) fn is_blocked(&self, subject: &Subject) -> bool {
        self.entries.values().any(|entry| entry.is_open() && entry.subject() == subject)
    }

    pub(crate) fn contains(&self, sequence: u64) -> bool {
        self.entries.get(&sequence).is_some_and(Entry::is_open)
    }

    /// Parks an event. `failed` has the first failure of the event and the time of its next try; `None` parks the event
    /// behind another.
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

    /// Begins a try of a parked event. Returns the event and the number of its earlier tries.
    pub(crate) fn begin(&mut self, sequence: u64) -> Option<(Arc<RecordedEvent>, u32)> {
        let entry = self.entries.get_mut(&sequence)?;
        entry.in_flight = true;
        Some((Arc::new(entry.parked.event.clone()), entry.parked.attempts))
    }

    /// Ends a try without counting it. The event can be tried again.
    pub(crate) fn put_back(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.in_flight = false;
        }
    }

    /// Removes a delivered event. Returns its record if no other event of the record is in the state `Waiting` or
    /// `Behind`.
    pub(crate) fn delivered(&mut self, sequence: u64, now: Timestamp) -> Option<Subject> {
        let entry = self.entries.remove(&sequence)?;
        self.touched.insert(sequence);
        self.settle(now);
        Some(entry.parked.event.event.subject).filter(|subject| !self.is_blocked(subject))
    }

    /// Records a failed try of an event. If `next_at` is `None`, the event is given up. Returns the record of a
    /// given-up event, if no other event of this record is in the state `Waiting` or `Behind`. Otherwise returns
    /// `None`.
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

    /// Makes all events that wait for a try due now.
    pub(crate) fn all_due(&mut self, now: Timestamp) {
        for (sequence, entry) in &mut self.entries {
            if entry.parked.state == ParkedState::Waiting && entry.due_at != Some(now) {
                entry.due_at = Some(now);
                self.touched.insert(*sequence);
            }
        }
    }

    /// Deletes the given-up events that have been listed for 30 days. Returns true if there were any.
    pub(crate) fn expire(&mut self, now: Timestamp) -> bool {
        let is_over = |entry: &Entry| !entry.is_open() && entry.due_at.is_none_or(|at| at <= now);
        let expired = self.entries.extract_if(.., |_, entry| is_over(entry));
        let expired: Vec<_> = expired.map(|(sequence, _)| sequence).collect();
        self.touched.extend(&expired);
        !expired.is_empty()
    }

    /// Finds the oldest open event of each record. If this event is in the state `Behind`, it becomes `Waiting` and due
    /// now.
    fn settle(&mut self, now: Timestamp) {
        let mut records = HashSet::new();
        for (sequence, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.is_open()) {
            let is_first = records.insert(entry.subject().clone());
            if is_first && entry.parked.state == ParkedState::Behind {
                entry.parked.state = ParkedState::Waiting;
                entry.due_at = Some(now);
                self.touched.insert(*sequence);
            }
        }
    }

    /// True if a stored document must be written or deleted.
    pub(crate) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Adds the changes since the last commit to a change set.
    pub(crate) fn add_changes(
        &self,
        endpoint: EndpointId,
        changes: &mut ChangeSet,
    ) -> Result<(), Error> {
        for sequence in &self.touched {
            let before = self.stored.get(sequence).copied();
            if let Some(entry) = self.entries.get(sequence) {
                let before = before.unwrap_or(Version::NEW);
                let document = entry.parked.document(endpoint, before, entry.due_at)?;
                changes.writes.push(Record::from(document));
            } else if let Some(version) = before {
                let key = Key::Document(Parked::key(endpoint, *sequence)?);
                changes.deletes.push(Delete { key, version });
            }
        }
        Ok(())
    }

    /// Records that all changes were committed.
    pub(crate) fn committed(&mut self) {
        for sequence in std::mem::take(&mut self.touched) {
            if self.entries.contains_key(&sequence) {
                let version = self.stored.entry(sequence).or_insert(Version::NEW);
                *version = version.next();
            } else {
                self.stored.remove(&sequence);
            }
        }
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
