//! The queue of one endpoint: it holds the endpoint's events in memory and chooses the next step. It neither reads the
//! store nor sends anything: its only side effect is log lines.

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

/// The documents of an endpoint, as they were read from the store.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) endpoint: Stored<Endpoint>,
    pub(crate) delivery: Stored<Delivery>,
    pub(crate) parked: Vec<Stored<Parked>>,
}

/// The state of sending to one endpoint, made from its documents.
#[derive(Debug)]
pub(crate) struct EndpointQueue {
    endpoint: Stored<Endpoint>,
    delivery: Stored<Delivery>,
    /// The URL and the secrets for signed requests. `None` if the server key of the secrets is missing or was replaced;
    /// then the endpoint is disabled.
    signing: Option<Arc<Signing>>,
    window: Window,
    breaker: Breaker,
    parked: ParkedEvents,
    /// The events that the endpoint wants and that were read, but are not in the window yet.
    pending: VecDeque<Arc<RecordedEvent>>,
    /// The events of the window that still have to be parked behind another event. They wait until the number of
    /// parked events is below the limit.
    unparked: VecDeque<Arc<RecordedEvent>>,
    /// The sequence up to which the feed was read.
    read_to: u64,
    /// The sequence of the newest event of the feed.
    last: u64,
    /// The number of the tick (a wake-up of all loops) during which the feed was last read to its end.
    read_at_tick: u64,
    /// When the first uncommitted change was made; `None` if there are no uncommitted changes.
    changed_at: Option<Timestamp>,
    /// The number of tries whose outcomes are not committed yet.
    outcomes: usize,
    /// True if the next commit must also write the endpoint, because it was disabled.
    endpoint_changed: bool,
    /// The time of the last commit, and the time when the cursor was last written.
    committed_at: Timestamp,
    cursor_written_at: Timestamp,
}

/// The next step for an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Commit the changes of the queue.
    Commit,
    /// Begin a try of this event.
    Try(Due),
    /// Read the next page of the feed.
    Read,
}

/// An event that can be tried now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    /// The sequence of the event if it is parked; `None` means the next event of the window.
    parked: Option<u64>,
    /// True if the try is the probe of a stalled endpoint.
    is_probe: bool,
}

/// An event that was taken from the queue to be delivered; its attempt counts as begun.
#[derive(Debug)]
pub(crate) struct NextDelivery {
    pub(crate) event: Arc<RecordedEvent>,
    pub(crate) signing: Arc<Signing>,
    /// The number of tries of the event so far, including this one.
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
        // A caller may have set the `due_at` of the delivery document to wake the queue. The document is then written
        // again, with the time at which the queue really is due.
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

    /// The state of sending, which metrics show. `feed_end` is the sequence of the newest event, as far as it is known.
    pub(crate) fn state(&self, feed_end: u64) -> SendingState {
        let oldest = self.window.oldest().or(self.pending.front());
        SendingState {
            lag_events: self.last.max(feed_end).saturating_sub(self.window.cursor()),
            waiting_since: oldest.map(|oldest| oldest.event.at),
            parked: self.parked.open(),
            is_stalled: self.stall().is_some(),
        }
    }

    fn wants(&self, recorded: &RecordedEvent) -> bool {
        !matches!(recorded.event.subject, Subject::Session(_) | Subject::Client(_))
            && self.endpoint.body.types.iter().any(|types| types.admits(&recorded.event))
    }

    /// Adds the wanted events of a page, which begins at `read_to` or before. `read_at_tick` is the tick of the read
    /// if the page is the last one of the feed; otherwise it is `None`.
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

    /// Moves as many pending events as possible into the window.
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

    /// Parks the events that must wait behind other events. If there is no room for them, the endpoint is stalled
    /// until there is room.
    fn park_behind(&mut self, now: Timestamp) {
        while let Some(event) = self.unparked.front() {
            // If no earlier event of the record is parked any longer, the window sends the event itself.
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

    /// The next step, with `in_flight` tries in flight; `None` if there is nothing to do now. If the feed was last
    /// read before `tick`, it may have new events.
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

    /// The event that can be tried now; `None` if there is none.
    fn due(&self, in_flight: usize, now: Timestamp) -> Option<Due> {
        // After a crash, tries whose outcomes were not committed are repeated. This check limits the number of such
        // tries, including those of parked events, to the size of the window.
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
        // If the endpoint is stalled because too many events are parked, these events are tried when they are due, not
        // as probes.
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

    /// The earliest time of a probe, of a try of a parked event, or of the deletion of a given-up event; `None` if
    /// there is none. Events that can be tried at once are not included.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let stall = self.stall().filter(|_| self.is_enabled());
        let waits = stall.is_some_and(|stall| stall.reason == StallReason::Failing);
        let has_head = self.window.is_ready() || (waits && self.parked.open() > 0);
        let probe = stall.filter(|_| has_head).map(|stall| stall.next_at);
        let parked = self.parked.due().filter(|_| self.is_enabled() && !waits);
        probe.into_iter().chain(parked.map(|(at, _)| at)).chain(self.parked.expires_at()).min()
    }

    /// Deletes the given-up events that have been listed for 30 days.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        if self.parked.expire(now) {
            self.changed(now);
        }
    }

    fn changed(&mut self, at: Timestamp) {
        self.changed_at.get_or_insert(at);
    }
}
