//! One run of the sending job: its ticks, which wake the loops of all endpoints, and the number of tries in flight to
//! all endpoints.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use event_listener::{Event, EventListener};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::values::{Timestamp, locked};
use crate::webhooks::{SenderSignals, Webhooks};

/// The maximum number of tries in flight to all endpoints together.
const IN_FLIGHT_MAX: usize = 256;
/// The longest time between two ticks.
const TICK_EVERY: Duration = Duration::from_secs(1);

/// The state that the loops of all endpoints share. Each tick wakes all loops.
pub(crate) struct Run<'r> {
    pub(crate) webhooks: &'r Webhooks,
    pub(crate) signals: &'r dyn SenderSignals,
    ticks: Event,
    state: Mutex<State>,
    /// The strong counts of these two `Arc`s count the tries in flight. `first` counts the tries that began while
    /// their endpoint had no other try in flight; `further` counts the rest.
    first: Slot,
    further: Slot,
}

struct State {
    /// The tick number. It rises only with the ticks before which new events may have been written, so that the loops
    /// read the feed again.
    tick: u64,
    /// The time of the next tick, unless a signal causes an earlier one.
    wake_by: Timestamp,
    endpoints: usize,
    /// The sequence of the newest event of the feed, as far as it is known.
    feed_end: u64,
}

/// A place among the tries in flight. The place is free again once this value is dropped.
pub(crate) type Slot = Arc<()>;

impl<'r> Run<'r> {
    pub(crate) fn new(webhooks: &'r Webhooks, signals: &'r dyn SenderSignals, tick: u64) -> Self {
        let state = Mutex::new(State { tick, wake_by: Timestamp::MAX, endpoints: 0, feed_end: 0 });
        Self {
            webhooks,
            signals,
            ticks: Event::new(),
            state,
            first: Slot::default(),
            further: Slot::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    pub(crate) fn tick(&self) -> u64 {
        self.state().tick
    }

    /// The sequence of the newest event of the feed, as far as it is known.
    pub(crate) fn feed_end(&self) -> u64 {
        self.state().feed_end
    }

    /// Records that the feed has an event with this sequence.
    pub(crate) fn feed_reached(&self, last: u64) {
        let mut state = self.state();
        state.feed_end = state.feed_end.max(last);
    }

    /// Resolves at the next tick.
    pub(crate) fn next_tick(&self) -> EventListener {
        self.ticks.listen()
    }

    /// Begins a tick: wakes all loops, so that each looks for work.
    pub(crate) fn wake_loops(&self, endpoints: usize, may_have_events: bool, now: Timestamp) {
        let mut state = self.state();
        state.tick += u64::from(may_have_events);
        state.wake_by = now.saturating_add(TICK_EVERY);
        state.endpoints = endpoints;
        drop(state);
        self.ticks.notify(usize::MAX);
    }

    /// Updates the number of tries in flight in the metrics.
    pub(crate) fn show(&self) {
        let in_flight = Arc::strong_count(&self.first) + Arc::strong_count(&self.further) - 2;
        self.webhooks.counters.lock().in_flight = in_flight;
    }

    /// Requests a tick at the earliest of these times that is after `now`. A time that has already passed needs no
    /// tick: the work that was due at that time continues when a try in flight ends.
    pub(crate) fn wake_by(&self, times: impl Iterator<Item = Timestamp>, now: Timestamp) {
        let mut state = self.state();
        for at in times.filter(|at| *at > now) {
            state.wake_by = state.wake_by.min(at);
        }
    }

    /// Waits until the next tick is due. Returns true if a signal caused the tick.
    pub(crate) async fn tick_due(&self) -> bool {
        let mut ends = Timestamp::MAX;
        let mut timer: BoxFuture<'_, ()> = pending().boxed();
        poll_fn(|cx| {
            let wake_by = self.state().wake_by;
            if wake_by < ends {
                ends = wake_by;
                timer = self.signals.wait(ends.since(self.webhooks.now()));
            }
            timer.poll_unpin(cx)
        })
        .await;
        self.webhooks.now() < ends
    }

    /// A slot for a try of an endpoint that already has `in_flight` tries; `None` if too many are in flight. An
    /// endpoint without a try in flight always gets a slot.
    pub(crate) fn slot(&self, in_flight: usize) -> Option<Slot> {
        if in_flight == 0 {
            return Some(Slot::clone(&self.first));
        }
        let free = IN_FLIGHT_MAX.saturating_sub(self.state().endpoints);
        (Arc::strong_count(&self.further) <= free).then(|| Slot::clone(&self.further))
    }
}
