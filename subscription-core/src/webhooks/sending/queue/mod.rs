//! The queue of one endpoint: its events, and the choice of the next one to send. It has no effects but log lines.

mod changes;
mod ended;

use std::collections::VecDeque;
use std::sync::Arc;

use super::breaker::{Breaker, PARKED_MAX};
use super::parked::ParkedEvents;
use super::window::{End, Offered, Window};
use crate::events::{RecordedEvent, Subject};
use crate::server_keys::ServerKeys;
use crate::store::{EventPage, Stored};
use crate::values::Timestamp;
use crate::webhooks::counters::SendingState;
use crate::webhooks::delivery::signing::Signing;
use crate::webhooks::{Delivery, DisabledReason, Endpoint, EndpointId, Parked, Stall, StallReason};

/// The documents of an endpoint, as they were read.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) endpoint: Stored<Endpoint>,
    pub(crate) delivery: Stored<Delivery>,
    pub(crate) parked: Vec<Stored<Parked>>,
}

/// The state of the sending to one endpoint, made from its documents.
#[derive(Debug)]
pub(crate) struct EndpointQueue {
    endpoint: Stored<Endpoint>,
    delivery: Stored<Delivery>,
    /// `None` if the server key is missing: then the endpoint is disabled.
    signing: Option<Arc<Signing>>,
    window: Window,
    breaker: Breaker,
    parked: ParkedEvents,
    /// The wanted events that were read and are not in the window yet.
    pending: VecDeque<Arc<RecordedEvent>>,
    /// The events of the window that must be parked behind another one, but for which there is no room.
    unparked: VecDeque<Arc<RecordedEvent>>,
    /// The sequence up to which the feed was read.
    read_to: u64,
    /// The sequence of the newest event.
    last: u64,
    /// The last tick at which the feed was read to its end.
    read_at_tick: u64,
    /// The time of the first change that is not committed.
    changed_at: Option<Timestamp>,
    /// The number of outcomes that are not committed.
    outcomes: usize,
    /// The endpoint is written with the next commit, because it is disabled.
    endpoint_changed: bool,
    /// The time of the last commit, and of the last write of the cursor.
    committed_at: Timestamp,
    cursor_written_at: Timestamp,
}

/// The next step for an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Its changes are committed.
    Commit,
    /// A try begins.
    Try(Due),
    /// The feed is read.
    Read,
}

/// The event that can be tried now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    /// The sequence of a parked event; `None` for the next event of the window.
    parked: Option<u64>,
    /// True if it is the one try that a stalled endpoint gets.
    is_probe: bool,
}

/// An event whose try has begun.
#[derive(Debug)]
pub(crate) struct NextDelivery {
    pub(crate) event: Arc<RecordedEvent>,
    pub(crate) signing: Arc<Signing>,
    /// The number of tries of the event, with this one.
    attempt: u32,
    is_parked: bool,
    is_probe: bool,
}

impl EndpointQueue {
    pub(crate) fn new(documents: Documents, keys: &ServerKeys, now: Timestamp) -> Self {
        let Documents { endpoint, delivery, parked } = documents;
        let parked = ParkedEvents::new(parked, now);
        let cursor = delivery.body.cursor;
        let mut queue = Self {
            signing: Signing::of(keys, &endpoint.body).map(Arc::new),
            window: Window::new(cursor, parked.blocked()),
            breaker: Breaker::new(&delivery.body),
            parked,
            endpoint,
            delivery,
            pending: VecDeque::new(),
            unparked: VecDeque::new(),
            read_to: cursor,
            last: cursor,
            read_at_tick: 0,
            changed_at: None,
            outcomes: 0,
            endpoint_changed: false,
            committed_at: Timestamp::MIN,
            cursor_written_at: now,
        };
        if queue.is_enabled() && queue.signing.is_none() {
            queue.disable(DisabledReason::KeyMissing, now);
        }
        // A document that a caller made due is written again, so that it is due no longer.
        if queue.delivery.due_at != queue.due_at() || queue.parked.is_touched() {
            queue.changed_at = Some(now);
        }
        queue
    }

    pub(crate) const fn endpoint(&self) -> &Stored<Endpoint> {
        &self.endpoint
    }

    pub(crate) const fn delivery(&self) -> &Stored<Delivery> {
        &self.delivery
    }

    pub(crate) const fn id(&self) -> EndpointId {
        self.endpoint.body.id
    }

    pub(crate) const fn read_to(&self) -> u64 {
        self.read_to
    }

    const fn stall(&self) -> Option<&Stall> {
        self.breaker.stall()
    }

    const fn is_enabled(&self) -> bool {
        self.endpoint.body.is_enabled()
    }

    /// The state that metrics show.
    pub(crate) fn state(&self) -> SendingState {
        let oldest = self.window.oldest().or(self.pending.front());
        SendingState {
            lag_events: self.last.saturating_sub(self.window.cursor()),
            waiting_since: oldest.map(|oldest| oldest.event.at),
            parked: self.parked.open(),
            is_stalled: self.stall().is_some(),
        }
    }

    fn wants(&self, recorded: &RecordedEvent) -> bool {
        !matches!(recorded.event.subject, Subject::Session(_) | Subject::Client(_))
            && self.endpoint.body.types.iter().any(|types| types.admits(&recorded.event))
    }

    /// Adds the wanted events of a page that begins at `read_to` or before. `read_at_tick` is the tick of the
    /// read, if the page is the last one of the feed.
    pub(crate) fn read(
        &mut self,
        page: &EventPage,
        items: &[Arc<RecordedEvent>],
        read_at_tick: Option<u64>,
        now: Timestamp,
    ) {
        if page.first_kept > self.read_to.saturating_add(1) {
            let missed = page.first_kept.saturating_sub(1);
            let id = self.id();
            let after = self.read_to;
            tracing::warn!(endpoint = %id, after, missed, "webhook events were deleted before they were sent");
            self.delivery.body.missed_up_to = Some(missed);
            self.changed(now);
        }
        for event in items.iter().filter(|event| event.sequence > self.read_to) {
            if self.wants(event) {
                self.pending.push_back(Arc::clone(event));
            }
        }
        self.read_to = self.read_to.max(page.reached);
        self.last = page.last;
        self.read_at_tick = read_at_tick.unwrap_or(self.read_at_tick);
        self.refill(now);
    }

    /// Moves events into the window, as many as fit.
    fn refill(&mut self, now: Timestamp) {
        while let Some(event) = self.pending.front() {
            match self.window.offer(Arc::clone(event)) {
                Offered::Taken => {}
                Offered::Behind => self.unparked.push_back(Arc::clone(event)),
                Offered::Full => break,
            }
            self.pending.pop_front();
        }
        if self.pending.is_empty() {
            self.window.reached(self.read_to);
        }
        self.park_behind(now);
    }

    /// Parks the events that go behind others. If there is no room, the endpoint is stalled until there is.
    fn park_behind(&mut self, now: Timestamp) {
        while let Some(event) = self.unparked.front() {
            // The window sends the event itself if no earlier one is parked any more.
            if self.parked.is_blocked(&event.event.subject) && !self.parked.contains(event.sequence)
            {
                if self.parked.open() >= PARKED_MAX {
                    if self.stall().is_none() {
                        let reason = StallReason::ParkedFull;
                        self.stalled(Stall { since: now, reason, probes: 0, next_at: now });
                    }
                    return;
                }
                self.parked.park(event, None, now);
                self.window.ended(event.sequence, End::Parked);
                self.changed(now);
            }
            self.unparked.pop_front();
        }
        let is_full = self.parked.open() >= PARKED_MAX;
        if self.stall().is_some_and(|it| it.reason == StallReason::ParkedFull && !is_full) {
            self.breaker.set_stall(None);
            self.changed(now);
        }
    }

    /// The next step, with this number of tries in flight. The feed may have new events if it was last read before
    /// `tick`.
    pub(crate) fn step(
        &self,
        in_flight: usize,
        tick: u64,
        now: Timestamp,
        is_stopping: bool,
    ) -> Option<Step> {
        if self.commit_at(in_flight).is_some_and(|at| at <= now || is_stopping) {
            return Some(Step::Commit);
        }
        if is_stopping || !self.is_enabled() {
            return None;
        }
        if let Some(due) = self.due(in_flight, now) {
            return Some(Step::Try(due));
        }
        (self.pending.is_empty() && self.read_at_tick < tick).then_some(Step::Read)
    }

    /// The event that can be tried now.
    fn due(&self, in_flight: usize, now: Timestamp) -> Option<Due> {
        // After a crash no more tries are repeated than the window has places, including those of parked events.
        let repeated = self.outcomes + in_flight;
        if in_flight >= Window::IN_FLIGHT_MAX || repeated >= Window::EVENTS_MAX {
            return None;
        }
        let of_window = |is_probe| self.window.is_ready().then_some(Due { parked: None, is_probe });
        let parked = self.parked.due().filter(|(at, _)| *at <= now);
        let parked = parked.map(|(_, it)| Due { parked: Some(it), is_probe: false });
        let Some(stall) = self.stall() else { return parked.or_else(|| of_window(false)) };
        let is_failing = stall.reason == StallReason::Failing;
        if !is_failing && parked.is_some() {
            return parked;
        }
        if in_flight > 0 || stall.next_at > now {
            return None;
        }
        // If the endpoint is stalled because its parked events are too many, these are tried when they are due.
        let oldest = self.parked.oldest().filter(|_| is_failing);
        of_window(true).or(oldest.map(|it| Due { parked: Some(it), is_probe: true }))
    }

    /// Begins the try of an event that is due.
    pub(crate) fn begin(&mut self, due: Due) -> Option<NextDelivery> {
        let Due { parked, is_probe } = due;
        let signing = self.signing.clone()?;
        if let Some(sequence) = parked {
            let (event, tries) = self.parked.begin(sequence)?;
            let attempt = tries.saturating_add(1);
            return Some(NextDelivery { event, signing, attempt, is_parked: true, is_probe });
        }
        let event = self.window.next()?;
        let probes = self.stall().filter(|_| is_probe).map(|stall| stall.probes.saturating_add(1));
        let attempt = probes.unwrap_or_default().saturating_add(1);
        Some(NextDelivery { event, signing, attempt, is_parked: false, is_probe })
    }

    /// When the next try or deletion is due, apart from events that can be tried at once.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let stall = self.stall().filter(|_| self.is_enabled());
        let waits = stall.is_some_and(|stall| stall.reason == StallReason::Failing);
        let has_head = self.window.is_ready() || (waits && self.parked.open() > 0);
        let probe = stall.filter(|_| has_head).map(|stall| stall.next_at);
        let parked = self.parked.due().filter(|_| self.is_enabled() && !waits);
        probe.into_iter().chain(parked.map(|(at, _)| at)).chain(self.parked.expires_at()).min()
    }

    /// Deletes the events that were given up long ago.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        if self.parked.expire(now) {
            self.changed(now);
        }
    }

    fn changed(&mut self, at: Timestamp) {
        self.changed_at.get_or_insert(at);
    }
}
