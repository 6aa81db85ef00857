//! The events of one endpoint that are being sent, in the order of each record.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use crate::events::{RecordedEvent, Subject};

/// The events between the committed cursor of an endpoint and the point that its feed was read to.
///
/// Of each record one event is in flight at a time, the oldest. The cursor passes events that were delivered, parked
/// or not wanted, so that everything after it is sent again by the next leader.
#[derive(Debug)]
pub struct Window {
    /// The wanted events above the committed cursor, in the order of the feed.
    slots: VecDeque<Slot>,
    /// The number of slots before the first one that has not ended.
    ended: usize,
    reached: u64,
    /// The records with events that have not ended, and the blocked ones.
    records: HashMap<Subject, Record>,
    /// The events that can be sent now: of each record at most one.
    ready: BTreeSet<u64>,
    in_flight: usize,
}

#[derive(Debug)]
struct Slot {
    sequence: u64,
    /// `None` if it has ended.
    event: Option<Arc<RecordedEvent>>,
    in_flight: bool,
}

#[derive(Debug, Default)]
struct Record {
    /// An earlier event of the record is parked.
    blocked: bool,
    /// The events that have not ended.
    sequences: VecDeque<u64>,
}

/// The result of [`Window::offer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// [`Window::next`] returns the event when it is its turn, or it was offered before.
    Taken,
    /// An earlier event of the record is parked: park this one behind it, and report [`End::Parked`].
    Behind,
    /// There is no room. Offer the event again after a commit.
    Full,
}

/// The end of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The endpoint accepted the event.
    Delivered,
    /// The event is parked: the cursor passes it, and later events of its record go behind it.
    Parked,
    /// The try was cut off, or the event stays before the cursor: it is the next of its record again.
    Again,
}

impl Window {
    /// The largest number of events above the committed cursor.
    pub const EVENTS_MAX: usize = 200;
    /// The largest number of events in flight.
    pub const IN_FLIGHT_MAX: usize = 8;

    /// A window after the committed cursor. Events of the blocked records go behind parked ones.
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

    /// Adds a wanted event. Events are offered in the order of the feed; one that was offered before is ignored.
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

    /// Notes that each event up to this sequence was offered or is not wanted.
    pub fn reached(&mut self, sequence: u64) {
        self.reached = self.reached.max(sequence);
    }

    /// The oldest event that can be sent now; it is in flight until [`Window::ended`].
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

    /// Ends the try of an event in flight, or parks an event that goes behind another.
    ///
    /// When it parks an event that was in flight, it returns the later events of the record, in their order: park each
    /// of them behind the event, and report [`End::Parked`] for it too. The cursor waits for that.
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

    /// Lets the cursor pass an event.
    fn pass(&mut self, sequence: u64) {
        if let Some(slot) = self.slot(sequence) {
            slot.event = None;
        }
        while self.slots.get(self.ended).is_some_and(|slot| slot.event.is_none()) {
            self.ended += 1;
        }
    }

    /// Sends the events of a record again: none of its events is parked any more.
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

    /// True if an event can be sent as soon as fewer are in flight.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The oldest event that has not ended.
    pub fn oldest(&self) -> Option<&Arc<RecordedEvent>> {
        self.slots.get(self.ended)?.event.as_ref()
    }

    /// The number of events in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The sequence up to which each event was delivered, parked or not wanted.
    pub fn cursor(&self) -> u64 {
        self.slots.get(self.ended).map_or(self.reached, |slot| slot.sequence - 1)
    }

    /// Notes that this cursor is committed, which makes room for new events.
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
