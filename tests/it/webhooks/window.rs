//! The window of an endpoint: the order of each record, and a cursor that passes nothing that was not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use subscription_core::events::{Actor, Change, Event, RecordedEvent, Subject};
use subscription_core::webhooks::{End, Offered, Window};
use test_support::service_world::at;
use uuid::Uuid;

const NONE: [u64; 0] = [];

fn subject(record: u8) -> Subject {
    Subject::Plan(Uuid::from_u128(u128::from(record)).into())
}

fn event(sequence: u64, record: u8) -> Arc<RecordedEvent> {
    let event = Event {
        id: Uuid::from_u128(u128::from(sequence)).into(),
        at: at("2026-01-31T09:00:00Z"),
        subject: subject(record),
        version: serde_json::from_value(sequence.into()).unwrap(),
        change: Change::Created,
        actor: Actor::Library,
    };
    Arc::new(RecordedEvent { sequence, event })
}

/// A window after 0 with these records at the sequences 1, 2 and so on.
fn window(records: &[u8]) -> Window {
    let mut window = Window::new(0, Vec::new());
    for (sequence, record) in (1..).zip(records) {
        assert_eq!(window.offer(event(sequence, *record)), Offered::Taken);
    }
    window
}

fn next(window: &mut Window) -> Option<u64> {
    window.next().map(|event| event.sequence)
}

fn oldest(window: &Window) -> Option<u64> {
    window.oldest().map(|event| event.sequence)
}

/// All that can be sent now.
fn all_next(window: &mut Window) -> Vec<u64> {
    std::iter::from_fn(|| next(window)).collect()
}

fn ended(window: &mut Window, sequence: u64, end: End) -> Vec<u64> {
    window.ended(sequence, end).iter().map(|event| event.sequence).collect()
}

#[test]
fn events_of_one_record_are_sent_one_after_the_other() {
    let mut window = window(&[1, 1, 2, 1]);

    assert_eq!(all_next(&mut window), [1, 3]);
    assert_eq!(ended(&mut window, 3, End::Delivered), NONE);
    assert_eq!(all_next(&mut window), NONE);
    assert_eq!(ended(&mut window, 1, End::Delivered), NONE);
    assert_eq!(all_next(&mut window), [2]);
    assert_eq!(ended(&mut window, 2, End::Delivered), NONE);
    assert_eq!(all_next(&mut window), [4]);
    assert_eq!(window.in_flight(), 1);
}

#[test]
fn eight_events_are_in_flight_at_most() {
    let mut window = window(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);

    assert_eq!(Window::IN_FLIGHT_MAX, 8);
    assert_eq!(all_next(&mut window), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(window.in_flight(), 8);
    ended(&mut window, 5, End::Delivered);
    assert_eq!(all_next(&mut window), [9]);
}

#[test]
fn the_cursor_stops_before_the_oldest_event_that_has_not_ended() {
    let mut window = Window::new(10, Vec::new());
    assert_eq!(window.cursor(), 10);
    for (sequence, record) in [(12, 1), (15, 2), (20, 3)] {
        window.offer(event(sequence, record));
    }
    window.reached(30);
    all_next(&mut window);

    assert_eq!(window.cursor(), 11, "10 was committed and 11 is not wanted");
    ended(&mut window, 15, End::Delivered);
    assert_eq!(window.cursor(), 11);
    ended(&mut window, 12, End::Delivered);
    assert_eq!(window.cursor(), 19);
    ended(&mut window, 20, End::Delivered);
    assert_eq!(window.cursor(), 30, "up to here nothing else is wanted");
    window.reached(25);
    assert_eq!(window.cursor(), 30, "it never moves back");
}

#[test]
fn two_hundred_events_above_the_committed_cursor_are_the_limit() {
    let mut window = Window::new(0, Vec::new());
    for sequence in 1..=200 {
        let record = u8::try_from(sequence % 100).unwrap();
        assert_eq!(window.offer(event(sequence, record)), Offered::Taken);
    }

    assert_eq!(Window::EVENTS_MAX, 200);
    assert_eq!(window.offer(event(201, 201)), Offered::Full);
    assert_eq!(all_next(&mut window), [1, 2, 3, 4, 5, 6, 7, 8]);
    for sequence in [1, 2, 4] {
        ended(&mut window, sequence, End::Delivered);
    }
    assert_eq!(window.offer(event(201, 201)), Offered::Full, "nothing is committed");
    window.committed(1);
    assert_eq!(window.offer(event(201, 201)), Offered::Taken);
    assert_eq!(window.offer(event(202, 202)), Offered::Full);
    window.committed(1);
    assert_eq!(window.offer(event(202, 202)), Offered::Full);
    window.committed(u64::MAX);
    assert_eq!(window.offer(event(202, 202)), Offered::Taken);
    assert_eq!(window.offer(event(203, 203)), Offered::Full, "3 has not ended, so 4 stays too");
}

#[test]
fn parking_an_event_returns_the_later_ones_of_its_record() {
    let mut window = window(&[1, 2, 1, 2, 1]);
    all_next(&mut window);

    assert_eq!(ended(&mut window, 1, End::Parked), [3, 5]);

    assert_eq!(window.cursor(), 1);
    assert_eq!(oldest(&window), Some(2));
    ended(&mut window, 2, End::Delivered);
    assert_eq!(window.cursor(), 2, "3 is not parked yet");
    assert_eq!(oldest(&window), Some(3));
    assert_eq!(all_next(&mut window), [4], "3 and 5 wait for 1");
    assert_eq!(ended(&mut window, 3, End::Parked), NONE);
    assert_eq!(window.cursor(), 3);
    ended(&mut window, 4, End::Delivered);
    assert_eq!(window.cursor(), 4);
    assert_eq!(ended(&mut window, 5, End::Parked), NONE);
    assert_eq!(window.cursor(), 5);
    assert_eq!(oldest(&window), None);
    assert_eq!(window.in_flight(), 0);
}

#[test]
fn events_of_a_blocked_record_go_behind_until_it_is_unblocked() {
    let mut window = Window::new(0, vec![subject(1)]);

    assert_eq!(window.offer(event(1, 1)), Offered::Behind);
    assert_eq!(window.offer(event(2, 2)), Offered::Taken);
    assert_eq!(window.offer(event(3, 1)), Offered::Behind);
    assert_eq!(all_next(&mut window), [2]);
    assert_eq!(ended(&mut window, 1, End::Parked), NONE);
    assert_eq!(window.cursor(), 1);

    window.unblock(&subject(1));
    assert_eq!(all_next(&mut window), [3], "it was not parked yet");
    assert_eq!(window.offer(event(4, 1)), Offered::Taken);
    assert_eq!(all_next(&mut window), NONE);
    ended(&mut window, 3, End::Delivered);
    assert_eq!(all_next(&mut window), [4]);
}

#[test]
fn a_record_is_blocked_from_the_first_event_that_is_parked() {
    let mut window = window(&[1]);
    all_next(&mut window);
    ended(&mut window, 1, End::Parked);

    assert_eq!(window.offer(event(2, 1)), Offered::Behind);
    ended(&mut window, 2, End::Parked);
    assert_eq!(window.offer(event(3, 1)), Offered::Behind);
    ended(&mut window, 3, End::Parked);
    window.unblock(&subject(1));
    assert_eq!(window.offer(event(4, 1)), Offered::Taken);
    assert_eq!(all_next(&mut window), [4]);
}

#[test]
fn unblocking_a_record_that_is_not_blocked_does_nothing() {
    let mut window = window(&[1, 1]);
    assert_eq!(next(&mut window), Some(1));

    window.unblock(&subject(1));
    window.unblock(&subject(2));

    assert_eq!(next(&mut window), None, "1 is in flight");
}

#[test]
fn a_try_that_was_cut_off_is_the_next_of_its_record_again() {
    let mut window = window(&[1, 1, 2]);
    assert_eq!(all_next(&mut window), [1, 3]);

    assert_eq!(ended(&mut window, 1, End::Again), NONE);

    assert_eq!((window.cursor(), window.in_flight()), (0, 1));
    assert_eq!(all_next(&mut window), [1]);
    ended(&mut window, 1, End::Delivered);
    assert_eq!(all_next(&mut window), [2]);
}

#[test]
fn an_end_that_nobody_waits_for_does_nothing() {
    let mut window = window(&[1, 1, 2]);
    assert_eq!(next(&mut window), Some(1));
    ended(&mut window, 1, End::Delivered);

    for end in [End::Delivered, End::Parked, End::Again] {
        for sequence in [1, 2, 3, 4] {
            assert_eq!(ended(&mut window, sequence, end), NONE, "{sequence} is not in flight");
        }
    }

    assert_eq!((window.cursor(), window.in_flight()), (1, 0));
    assert_eq!(all_next(&mut window), [2, 3]);
}

#[test]
fn an_event_behind_another_cannot_be_delivered() {
    let mut window = Window::new(0, vec![subject(1)]);
    window.offer(event(1, 1));

    ended(&mut window, 1, End::Delivered);
    ended(&mut window, 1, End::Again);

    assert_eq!((window.cursor(), window.in_flight()), (0, 0));
    assert_eq!(next(&mut window), None);
}

#[test]
fn an_event_that_was_offered_before_is_ignored() {
    let mut window = Window::new(5, Vec::new());

    assert_eq!(window.offer(event(5, 1)), Offered::Taken, "before the cursor");
    assert_eq!(window.offer(event(6, 1)), Offered::Taken);
    assert_eq!(window.offer(event(6, 1)), Offered::Taken);
    window.reached(8);
    assert_eq!(window.offer(event(8, 1)), Offered::Taken, "it is not wanted");
    assert_eq!(window.offer(event(9, 2)), Offered::Taken);

    assert_eq!(all_next(&mut window), [6, 9]);
    ended(&mut window, 6, End::Delivered);
    assert_eq!(all_next(&mut window), NONE);
}

/// One step of the sending job.
#[derive(Debug, Clone)]
enum Act {
    /// Offers an event of a record, after this many that are not wanted.
    Offer(u8, u64),
    Reached(u64),
    Next,
    /// Ends one of the events in flight.
    End(prop::sample::Index, End),
    /// Parks the oldest event that must go behind another.
    ParkBehind,
    Unblock(u8),
    /// Commits the cursor that was seen last.
    SeeCursor,
    Commit,
}

fn acts() -> impl Strategy<Value = Act> {
    let ends =
        prop_oneof![6 => Just(End::Delivered), 1 => Just(End::Parked), 1 => Just(End::Again)];
    prop_oneof![
        16 => (0..20_u8, 1..3_u64).prop_map(|(record, gap)| Act::Offer(record, gap)),
        1 => (0..5_u64).prop_map(Act::Reached),
        6 => Just(Act::Next),
        4 => (any::<prop::sample::Index>(), ends).prop_map(|(place, end)| Act::End(place, end)),
        2 => Just(Act::ParkBehind),
        1 => (0..20_u8).prop_map(Act::Unblock),
        1 => Just(Act::SeeCursor),
        1 => Just(Act::Commit),
    ]
}

/// The events of a window as lists that are searched from end to end.
#[derive(Debug, Default)]
struct Model {
    reached: u64,
    wanted: BTreeSet<u64>,
    /// The record of each wanted event that is neither delivered nor parked.
    waiting: BTreeMap<u64, u8>,
    in_flight: BTreeSet<u64>,
    blocked: BTreeSet<u8>,
    seen: u64,
    committed: u64,
    was_full: bool,
    was_eight: bool,
    was_behind: bool,
}

impl Model {
    fn above_committed(&self) -> usize {
        self.wanted.range(self.committed + 1..).count()
    }

    fn cursor(&self) -> u64 {
        self.waiting.keys().next().map_or(self.reached, |first| first - 1)
    }

    /// The event that must be sent now.
    fn next(&self) -> Option<u64> {
        let mut records = self.blocked.clone();
        let mut firsts = self.waiting.iter().filter(|(_, record)| records.insert(**record));
        let next = firsts.find(|(sequence, _)| !self.in_flight.contains(sequence));
        next.map(|(sequence, _)| *sequence).filter(|_| self.in_flight.len() < 8)
    }

    fn act(&mut self, window: &mut Window, act: &Act) -> Result<(), TestCaseError> {
        match act {
            Act::Offer(record, gap) => {
                let sequence = self.reached + gap;
                let expected = if self.above_committed() >= 200 {
                    Offered::Full
                } else if self.blocked.contains(record) {
                    Offered::Behind
                } else {
                    Offered::Taken
                };
                prop_assert_eq!(window.offer(event(sequence, *record)), expected);
                if expected == Offered::Full {
                    self.was_full = true;
                } else {
                    self.reached = sequence;
                    self.wanted.insert(sequence);
                    self.waiting.insert(sequence, *record);
                }
            }
            Act::Reached(gap) => {
                self.reached += gap;
                window.reached(self.reached);
            }
            Act::Next => {
                let expected = self.next();
                prop_assert_eq!(next(window), expected);
                self.in_flight.extend(expected);
            }
            Act::End(place, end) if !self.in_flight.is_empty() => {
                let sequences: Vec<_> = self.in_flight.iter().copied().collect();
                self.end(window, *place.get(&sequences), *end)?;
            }
            Act::ParkBehind => {
                let mut waiting = self.waiting.iter();
                let behind = waiting.find(|(_, record)| self.blocked.contains(record));
                if let Some(sequence) = behind.map(|(sequence, _)| *sequence) {
                    prop_assert_eq!(ended(window, sequence, End::Parked), NONE);
                    self.waiting.remove(&sequence);
                    self.was_behind = true;
                }
            }
            Act::Unblock(record) => {
                self.blocked.remove(record);
                window.unblock(&subject(*record));
            }
            Act::SeeCursor => self.seen = window.cursor(),
            Act::Commit => {
                self.committed = self.seen;
                window.committed(self.committed);
            }
            Act::End(..) => {}
        }
        Ok(())
    }

    fn end(&mut self, window: &mut Window, sequence: u64, end: End) -> Result<(), TestCaseError> {
        let record = *self.waiting.get(&sequence).unwrap();
        self.in_flight.remove(&sequence);
        if end != End::Again {
            self.waiting.remove(&sequence);
        }
        let mut behind = Vec::new();
        if end == End::Parked {
            self.blocked.insert(record);
            let later = self.waiting.iter().filter(|(_, it)| **it == record);
            behind.extend(later.map(|(sequence, _)| *sequence));
        }
        prop_assert_eq!(ended(window, sequence, end), behind);
        Ok(())
    }

    fn sound(&mut self, window: &Window) -> Result<(), TestCaseError> {
        let records: BTreeSet<_> =
            self.in_flight.iter().map(|it| *self.waiting.get(it).unwrap()).collect();
        prop_assert_eq!(records.len(), self.in_flight.len(), "two of one record are in flight");
        prop_assert!(self.in_flight.len() <= 8);
        prop_assert_eq!(window.in_flight(), self.in_flight.len());
        prop_assert!(self.above_committed() <= 200);
        prop_assert_eq!(window.cursor(), self.cursor());
        prop_assert_eq!(oldest(window), self.waiting.keys().next().copied());
        self.was_eight |= self.in_flight.len() == 8;
        Ok(())
    }

    /// Lets everything be delivered, and checks that nothing is left.
    fn drain(&mut self, window: &mut Window) -> Result<(), TestCaseError> {
        for record in 0..20 {
            self.act(window, &Act::Unblock(record))?;
        }
        while let Some(sequence) = self.in_flight.first().copied().or_else(|| self.next()) {
            self.act(window, &Act::Next)?;
            self.end(window, sequence, End::Delivered)?;
            self.sound(window)?;
        }
        prop_assert!(self.waiting.is_empty(), "all end");
        prop_assert_eq!(window.cursor(), self.reached);
        window.committed(window.cursor());
        let empty = Window::new(self.reached, Vec::new());
        prop_assert_eq!(format!("{window:?}"), format!("{empty:?}"), "nothing is left in memory");
        Ok(())
    }
}

fn run(blocked: &BTreeSet<u8>, acts: &[Act]) -> Result<Model, TestCaseError> {
    let mut window = Window::new(0, blocked.iter().copied().map(subject).collect());
    let mut model = Model { blocked: blocked.clone(), ..Model::default() };
    for act in acts {
        model.act(&mut window, act)?;
        model.sound(&window)?;
    }
    model.drain(&mut window)?;
    Ok(model)
}

fn runs() -> impl Strategy<Value = (BTreeSet<u8>, Vec<Act>)> {
    (prop::collection::btree_set(0..20_u8, 0..3), prop::collection::vec(acts(), 0..600))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_window_keeps_the_order_of_each_record_and_loses_nothing((blocked, acts) in runs()) {
        run(&blocked, &acts)?;
    }
}

/// Runs that never fill the window would keep every limit as well.
#[test]
fn random_runs_fill_the_window_and_the_flight() {
    let mut runner = TestRunner::deterministic();
    let (mut full, mut eight, mut behind) = (0, 0, 0);

    for _ in 0..60 {
        let (blocked, acts) = runs().new_tree(&mut runner).unwrap().current();
        let model = run(&blocked, &acts).unwrap();
        full += usize::from(model.was_full);
        eight += usize::from(model.was_eight);
        behind += usize::from(model.was_behind);
    }

    assert!(full > 5 && eight > 5 && behind > 5, "{full} {eight} {behind}");
}
