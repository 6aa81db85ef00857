//! The window of one endpoint: the events that are being sent, in order for each record.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use crate::events::{RecordedEvent, Subject};

/// The events between the committed cursor of an endpoint and the position up to which its feed was read.
///
/// At most one event of each record is in flight at a time: the oldest. The cursor passes an event once it is
/// delivered, parked or not wanted. After a change of the leading process, the new leader sends all events after the
/// committed cursor again.
#[derive(Debug)]
pub struct Window {
    /// The wanted events above the committed cursor, in the order of the feed.
    slots: VecDeque<Slot>,
    /// The number of slots at the front of `slots` whose events have ended.
    ended: usize,
    reached: u64,
    /// The records that are blocked, or have events that have not ended.
    records: HashMap<Subject, Record>,
    /// The sequences of the events that can be sent now: at most one for each record.
    ready: BTreeSet<u64>,
    in_flight: usize,
}

#[derive(Debug)]
struct Slot {
    sequence: u64,
    /// `None` if the event has ended: it was delivered or parked.
    event: Option<Arc<RecordedEvent>>,
    in_flight: bool,
}

#[derive(Debug, Default)]
struct Record {
    /// True if an earlier event of the record is parked.
    blocked: bool,
    /// The sequences of the record's events that have not ended.
    sequences: VecDeque<u64>,
}

/// The result of [`Window::offer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// The window has the event now, or the event was offered before. [`Window::next`] returns the event when it can be
    /// sent.
    Taken,
    /// An earlier event of the record is parked. Park this event behind it, and report [`End::Parked`] for it.
    Behind,
    /// The window is full. Offer the event again after a commit.
    Full,
}

/// The way in which a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The endpoint accepted the event.
    Delivered,
    /// The event is parked. The cursor passes it, and later events of its record are parked behind it.
    Parked,
    /// The try was cancelled, or it failed and the cursor must not pass the event. The event becomes the next of its
    /// record again.
    Again,
}

impl Window {
    /// The largest number of events above the committed cursor.
    pub const EVENTS_MAX: usize = 200;
    /// The largest number of events in flight.
    pub const IN_FLIGHT_MAX: usize = 8;

    /// A window that begins after the committed cursor. Later events of the `blocked` records must be parked.
    pub fn new(cursor: u64, blocked: Vec<Subject>) -> Self {
        let blocked = blocked.into_iter();
        let records = blocked.map(|it| (it, Record { blocked: true, sequences: VecDeque::new() }));
        Self {
            slots: VecDeque::new(),
            ended: 0,
            reached: cursor,
            records: records.collect(),
            ready: BTreeSet::new(),
            in_flight: 0,
        }
    }

    /// Adds an event that the endpoint wants. Events must be offered in the order of the feed. An event that was
    /// offered before is ignored.
    pub fn offer(&mut self, event: Arc<RecordedEvent>) -> Offered {
        let sequence = event.sequence;
        if sequence <= self.reached {
            return Offered::Taken;
        }
        if self.slots.len() >= Self::EVENTS_MAX {
            return Offered::Full;
        }
        self.reached = sequence;
        let record = self.records.entry(event.event.subject.clone()).or_default();
        record.sequences.push_back(sequence);
        let offered = if record.blocked { Offered::Behind } else { Offered::Taken };
        if offered == Offered::Taken && record.sequences.len() == 1 {
            self.ready.insert(sequence);
        }
        self.slots.push_back(Slot { sequence, event: Some(event), in_flight: false });
        offered
    }

    /// Records that every event up to this sequence was offered or is not wanted.
    pub fn reached(&mut self, sequence: u64) {
        self.reached = self.reached.max(sequence);
    }

    /// The oldest event that can be sent now; `None` if there is no such event, or the maximum is in flight. The event
    /// stays in flight until [`Window::ended`] is called for it.
    #[expect(
        clippy::should_implement_trait,
        reason = "after `None` there can be more: it is not an iterator"
    )]
    pub fn next(&mut self) -> Option<Arc<RecordedEvent>> {
        if self.in_flight >= Self::IN_FLIGHT_MAX {
            return None;
        }
        let sequence = self.ready.pop_first()?;
        let slot = self.slot(sequence)?;
        slot.in_flight = true;
        let event = slot.event.clone();
        self.in_flight += 1;
        event
    }

    /// Ends the try of an event in flight, or parks an event that must wait behind another.
    ///
    /// If an event in flight is parked, the later events of its record are returned, in their order. Park each of them
    /// behind the event, and report [`End::Parked`] for each. Until then the cursor does not pass them.
    pub fn ended(&mut self, sequence: u64, end: End) -> Vec<Arc<RecordedEvent>> {
        let Some(Slot { event: Some(event), in_flight, .. }) = self.slot(sequence) else {
            return Vec::new();
        };
        let event = Arc::clone(event);
        let was_in_flight = mem::take(in_flight);
        let subject = &event.event.subject;
        let Some(record) = self.records.get_mut(subject) else { return Vec::new() };
        if was_in_flight {
            self.in_flight -= 1;
        } else if end != End::Parked || !record.blocked {
            return Vec::new();
        }
        if end == End::Again {
            self.ready.insert(sequence);
            return Vec::new();
        }
        if let Ok(at) = record.sequences.binary_search(&sequence) {
            record.sequences.remove(at);
        }
        let mut behind = VecDeque::new();
        if end == End::Parked {
            if was_in_flight {
                behind.clone_from(&record.sequences);
            }
            record.blocked = true;
        } else if let Some(next) = record.sequences.front() {
            self.ready.insert(*next);
        } else {
            self.records.remove(subject);
        }
        self.pass(sequence);
        behind.into_iter().filter_map(|sequence| self.slot(sequence)?.event.clone()).collect()
    }

    /// Marks an event as ended, so that the cursor can pass it.
    fn pass(&mut self, sequence: u64) {
        if let Some(slot) = self.slot(sequence) {
            slot.event = None;
        }
        while self.slots.get(self.ended).is_some_and(|slot| slot.event.is_none()) {
            self.ended += 1;
        }
    }

    /// Allows the events of a record to be sent again, because none of them is parked any longer.
    pub fn unblock(&mut self, subject: &Subject) {
        let Some(record) = self.records.get_mut(subject).filter(|record| record.blocked) else {
            return;
        };
        record.blocked = false;
        match record.sequences.front() {
            Some(first) => {
                self.ready.insert(*first);
            }
            None => {
                self.records.remove(subject);
            }
        }
    }

    /// True if an event can be sent, once fewer than the maximum are in flight.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The oldest event that has not ended; `None` if there is none.
    pub fn oldest(&self) -> Option<&Arc<RecordedEvent>> {
        self.slots.get(self.ended)?.event.as_ref()
    }

    /// The number of events in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The cursor: every event up to this sequence was delivered, parked or not wanted.
    pub fn cursor(&self) -> u64 {
        self.slots.get(self.ended).map_or(self.reached, |slot| slot.sequence - 1)
    }

    /// Records that this cursor was committed. The events up to it are removed, which makes room for new ones.
    pub fn committed(&mut self, cursor: u64) {
        while self.ended > 0 && self.slots.front().is_some_and(|slot| slot.sequence <= cursor) {
            self.slots.pop_front();
            self.ended -= 1;
        }
    }

    fn slot(&mut self, sequence: u64) -> Option<&mut Slot> {
        let at = self.slots.binary_search_by_key(&sequence, |slot| slot.sequence).ok()?;
        self.slots.get_mut(at)
    }
}
