//! The state of sending to one endpoint: pure but for its log lines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::{Breaker, PARKED_MAX, Verdict};
use super::outcome::Outcome;
use super::parked::{ParkedEvents, Written};
use super::schedule::{PerMille, next_probe, next_try};
use super::window::{End, Offered, Window};
use crate::error::Error;
use crate::events::{RecordedEvent, Subject};
use crate::server_keys::ServerKeys;
use crate::store::{ChangeSet, EventPage, Guard, Key, Record, Stored};
use crate::values::Timestamp;
use crate::webhooks::delivery::signing::Signing;
use crate::webhooks::{
    Attempt, Delivery, Disabled, DisabledReason, Endpoint, EndpointId, Parked, Stall, StallReason,
};

/// The number of outcomes after which they are committed.
const OUTCOMES_MAX: usize = 100;
/// The longest time until an outcome is committed, and the shortest between two commits of a few.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// A cursor that passed only events that are not wanted is committed after so many of them, or so much time.
const PASSED_MAX: u64 = 10_000;
const PASSED_FOR: Duration = Duration::from_hours(1);

/// The documents of an endpoint, as they were read.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) endpoint: Stored<Endpoint>,
    pub(crate) delivery: Stored<Delivery>,
    pub(crate) parked: Vec<Stored<Parked>>,
}

/// The sending to one endpoint, from the documents that were read.
#[derive(Debug)]
pub(crate) struct Lane {
    endpoint: Stored<Endpoint>,
    delivery: Stored<Delivery>,
    /// `None` if the server key is missing: then the endpoint is disabled.
    signing: Option<Arc<Signing>>,
    window: Window,
    breaker: Breaker,
    parked: ParkedEvents,
    /// The wanted events that were read and are not in the window yet.
    pending: VecDeque<Arc<RecordedEvent>>,
    /// The events of the window that go behind another one and find no room.
    unparked: VecDeque<Arc<RecordedEvent>>,
    /// The sequence up to which the feed was read.
    read_to: u64,
    /// The sequence of the newest event.
    last: u64,
    /// The time of the first change that is not committed.
    changed_at: Option<Timestamp>,
    /// The outcomes that are in no commit.
    outcomes: usize,
    /// The outcomes of a commit that has not ended.
    committing: usize,
    /// The time of the last commit, and of the last write of the cursor.
    committed_at: Option<Timestamp>,
    cursor_written_at: Timestamp,
    /// The endpoint is written with the next commit, because it is disabled.
    endpoint_changed: bool,
}

/// An event whose turn it is.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) event: Arc<RecordedEvent>,
    /// The number of tries of the event, with this one.
    attempt: u32,
    is_parked: bool,
    /// The only try of a stalled endpoint.
    is_probe: bool,
}

/// A try that has ended.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) outcome: Outcome,
    pub(crate) at: Timestamp,
    pub(crate) took: Duration,
}

/// A commit that has not ended.
#[derive(Debug)]
pub(crate) struct Commit {
    cursor: u64,
    pub(crate) at: Timestamp,
    with_endpoint: bool,
    written: Written,
}

impl Lane {
    pub(crate) fn new(documents: Documents, keys: &ServerKeys, now: Timestamp) -> Self {
        let Documents { endpoint, delivery, parked } = documents;
        let parked = ParkedEvents::new(parked, now);
        let cursor = delivery.body.cursor;
        let mut lane = Self {
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
            changed_at: None,
            outcomes: 0,
            committing: 0,
            committed_at: None,
            cursor_written_at: now,
            endpoint_changed: false,
        };
        if lane.is_enabled() && lane.signing.is_none() {
            lane.disable(DisabledReason::KeyMissing, now);
        }
        // A document that a caller made due is written again, so that it is due no longer.
        if lane.delivery.due_at != lane.due_at() || lane.parked.is_touched() {
            lane.changed_at = Some(now);
        }
        lane
    }

    pub(crate) const fn endpoint(&self) -> &Stored<Endpoint> {
        &self.endpoint
    }

    pub(crate) const fn delivery(&self) -> &Stored<Delivery> {
        &self.delivery
    }

    pub(crate) const fn signing(&self) -> Option<&Arc<Signing>> {
        self.signing.as_ref()
    }

    pub(crate) const fn parked(&self) -> &ParkedEvents {
        &self.parked
    }

    pub(crate) const fn stall(&self) -> Option<&Stall> {
        self.breaker.stall()
    }

    pub(crate) const fn read_to(&self) -> u64 {
        self.read_to
    }

    /// The number of events of the feed after the cursor.
    pub(crate) fn lag(&self) -> u64 {
        self.last.saturating_sub(self.window.cursor())
    }

    /// The oldest event that was neither delivered nor set aside.
    pub(crate) fn oldest(&self) -> Option<&Arc<RecordedEvent>> {
        self.window.oldest().or(self.pending.front())
    }

    fn id(&self) -> EndpointId {
        self.endpoint.body.id
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        self.endpoint.body.is_enabled()
    }

    /// True if it must read on in the feed.
    pub(crate) fn needs_events(&self) -> bool {
        self.is_enabled() && self.pending.is_empty()
    }

    fn wants(&self, recorded: &RecordedEvent) -> bool {
        !matches!(recorded.event.subject, Subject::Session(_) | Subject::Client(_))
            && self.endpoint.body.types.iter().any(|types| types.admits(&recorded.event))
    }

    /// Takes in a page of the feed that begins at its own place or before.
    pub(crate) fn read(&mut self, page: &EventPage, items: &[Arc<RecordedEvent>], now: Timestamp) {
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
                        self.stalled(Stall {
                            since: now,
                            reason: StallReason::ParkedFull,
                            probes: 0,
                            next_at: now,
                        });
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

    fn stalled(&mut self, stall: Stall) {
        let id = self.id();
        let reason = stall.reason;
        tracing::warn!(endpoint = %id, %reason, "a webhook endpoint is stalled");
        self.changed(stall.since);
        self.breaker.set_stall(Some(stall));
    }

    fn disable(&mut self, reason: DisabledReason, at: Timestamp) {
        tracing::error!(endpoint = %self.id(), %reason, "a webhook endpoint is disabled");
        let endpoint = &mut self.endpoint.body;
        endpoint.disabled = Some(Disabled { reason, at });
        endpoint.updated_at = at;
        self.endpoint_changed = true;
        self.changed(at);
    }

    fn changed(&mut self, at: Timestamp) {
        self.changed_at.get_or_insert(at);
    }

    /// The next event to try, while `busy` tries are in flight.
    pub(crate) fn next(&mut self, busy: usize, now: Timestamp) -> Option<Turn> {
        let not_committed = self.outcomes + self.committing;
        // No more than the window holds is repeated after a crash, those that were parked with them.
        if !self.is_enabled()
            || busy >= Window::IN_FLIGHT_MAX
            || not_committed + busy >= Window::EVENTS_MAX
        {
            return None;
        }
        let Some(&Stall { reason, next_at, probes, .. }) = self.stall() else {
            let parked = self.parked.take_due(now).map(|it| Turn::parked(it, false));
            return parked.or_else(|| Some(Turn::first(self.window.next()?)));
        };
        if reason == StallReason::ParkedFull
            && let Some(due) = self.parked.take_due(now)
        {
            return Some(Turn::parked(due, false));
        }
        if busy > 0 || next_at > now {
            return None;
        }
        if let Some(event) = self.window.next() {
            let attempt = probes.saturating_add(2);
            return Some(Turn { attempt, is_probe: true, ..Turn::first(event) });
        }
        // If the places are full, parked events are tried when they are due.
        let oldest = (reason == StallReason::Failing).then(|| self.parked.take_oldest(now));
        oldest.flatten().map(|it| Turn::parked(it, true))
    }

    /// Notes that a try did not begin.
    pub(crate) fn not_begun(&mut self, turn: &Turn, now: Timestamp) {
        if turn.is_parked {
            self.parked.put_back(turn.event.sequence, now);
        } else {
            self.window.ended(turn.event.sequence, End::Again);
        }
    }

    /// Notes the end of a try; true if the event was given up.
    pub(crate) fn ended(&mut self, turn: &Turn, tried: Tried, jitter: PerMille) -> bool {
        let Tried { outcome, at, took } = tried;
        let attempt = Attempt {
            at,
            sequence: turn.event.sequence,
            event_type: turn.event.event.name().into(),
            attempt: turn.attempt,
            outcome,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        self.changed(at);
        self.outcomes += 1;
        self.delivery.body.recent.push_front(attempt.clone());
        self.delivery.body.recent.truncate(Delivery::RECENT_MAX);
        if attempt.outcome.is_delivered() {
            self.delivered(turn, at);
            false
        } else {
            self.failed(turn, attempt, jitter)
        }
    }

    fn delivered(&mut self, turn: &Turn, at: Timestamp) {
        self.delivery.body.last_success_at = Some(at);
        let sequence = turn.event.sequence;
        if turn.is_parked {
            if let Some(subject) = self.parked.delivered(sequence, at) {
                self.window.unblock(&subject);
            }
        } else {
            self.window_ended(sequence, End::Delivered);
        }
        self.park_behind(at);
        let Some(stall) = self.breaker.succeeded() else { return };
        if stall.reason == StallReason::Failing {
            self.parked.all_due(at);
        }
        if self.unparked.is_empty() {
            tracing::info!(endpoint = %self.id(), "a webhook endpoint accepts events again");
        } else {
            // There is still no room for events that go behind others. The next event is tried alone.
            let reason = StallReason::ParkedFull;
            self.breaker.set_stall(Some(Stall { reason, probes: 0, next_at: at, ..stall }));
        }
    }

    fn failed(&mut self, turn: &Turn, attempt: Attempt, jitter: PerMille) -> bool {
        self.log(&attempt);
        let sequence = attempt.sequence;
        let at = attempt.at;
        let before = self.stall().map(|stall| stall.reason);
        // Of a stalled endpoint only the probe counts, and tries that were in flight before do not.
        if before.is_some() && !turn.is_probe && !attempt.outcome.is_gone() {
            if turn.is_parked && before == Some(StallReason::ParkedFull) {
                return self.try_later(attempt, jitter);
            }
            self.not_begun(turn, at);
            return false;
        }
        let others = self.parked.open().saturating_sub(usize::from(turn.is_parked));
        match self.breaker.failed(sequence, at, &attempt.outcome, others) {
            Verdict::Park if turn.is_parked => return self.try_later(attempt, jitter),
            Verdict::Park => {
                let next_at = next_try(1, at, &attempt.outcome, jitter).unwrap_or(at);
                self.parked.park(&turn.event, Some((attempt, next_at)), at);
                let behind = self.window_ended(sequence, End::Parked);
                self.unparked.extend(behind);
                self.park_behind(at);
            }
            Verdict::Stall(_) => {
                self.not_begun(turn, at);
                if let Some(stall) = self.stall().cloned() {
                    let next_at = next_probe(stall.probes, at, &attempt.outcome, jitter);
                    if before.is_none() {
                        self.stalled(stall);
                    }
                    self.breaker.probe_at(next_at);
                }
            }
            Verdict::Disable(reason) => {
                self.not_begun(turn, at);
                self.disable(reason, at);
            }
        }
        false
    }

    /// Gives a parked event its next try; true if it is given up instead.
    fn try_later(&mut self, attempt: Attempt, jitter: PerMille) -> bool {
        let sequence = attempt.sequence;
        let at = attempt.at;
        let next_at = next_try(attempt.attempt, at, &attempt.outcome, jitter);
        if let Some(subject) = self.parked.failed(attempt, next_at) {
            self.window.unblock(&subject);
        }
        self.park_behind(at);
        if next_at.is_none() {
            tracing::warn!(endpoint = %self.id(), sequence, "a webhook event is given up");
        }
        next_at.is_none()
    }

    /// Ends a try of an event in the window. Returns the events that go behind it.
    fn window_ended(&mut self, sequence: u64, end: End) -> Vec<Arc<RecordedEvent>> {
        self.unparked.retain(|event| event.sequence != sequence);
        self.window.ended(sequence, end)
    }

    fn log(&self, Attempt { sequence, attempt, outcome, duration_ms, .. }: &Attempt) {
        let id = self.id();
        let name = outcome.name();
        let status = outcome.status();
        let url = self.signing.as_ref().map(|signing| signing.shown_url());
        tracing::warn!(endpoint = %id, url, sequence, attempt, outcome = name, status, duration_ms, "a webhook delivery failed");
    }

    /// Deletes the events that were given up long ago.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        if self.parked.expire(now) {
            self.changed(now);
        }
    }

    /// When the next try or deletion is due, apart from events that can be tried at once.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let stall = self.stall().filter(|_| self.is_enabled());
        let waits = stall.is_some_and(|stall| stall.reason == StallReason::Failing);
        let has_head = self.window.is_ready() || (waits && self.parked.open() > 0);
        let probe = stall.filter(|_| has_head).map(|stall| stall.next_at);
        let parked = self.parked.due_at().filter(|_| self.is_enabled() && !waits);
        probe.into_iter().chain(parked).chain(self.parked.expires_at()).min()
    }

    /// When its changes must be committed, while `busy` tries are in flight.
    pub(crate) fn commit_at(&self, busy: usize) -> Option<Timestamp> {
        let Some(changed_at) = self.changed_at else {
            let passed = self.window.cursor().saturating_sub(self.delivery.body.cursor);
            return match passed {
                0 => None,
                PASSED_MAX.. => Some(Timestamp::MIN),
                _ => Some(self.cursor_written_at.saturating_add(PASSED_FOR)),
            };
        };
        // Events wait for room in the window, which only a commit makes.
        let is_full = busy == 0 && !self.pending.is_empty() && !self.window.is_ready();
        if self.outcomes >= OUTCOMES_MAX || self.endpoint_changed || is_full {
            return Some(Timestamp::MIN);
        }
        let since = if busy > 0 { Some(changed_at) } else { self.committed_at };
        Some(since.map_or(Timestamp::MIN, |since| since.saturating_add(COMMIT_EVERY)))
    }

    /// True if there are changes that are not committed, apart from a cursor that passed events that are not wanted.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed_at.is_some()
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.stall().filter(|_| self.is_enabled()).map(|stall| stall.next_at)
    }

    /// The changes since the last commit.
    pub(crate) fn commit(&mut self, now: Timestamp) -> Result<(ChangeSet, Commit), Error> {
        let id = self.id();
        let cursor = self.window.cursor();
        let due_at = self.due_at();
        let mut changes = ChangeSet::default();
        let with_endpoint = self.endpoint_changed;
        if with_endpoint {
            let document = self.endpoint.body.document(self.endpoint.version)?;
            changes.writes.push(Record::from(document));
        } else {
            let key = Key::Document(Endpoint::key(id)?);
            let version = self.endpoint.version;
            changes.guards.push(Guard::Unchanged { key, version });
        }
        let mut delivery = Delivery { cursor, ..self.delivery.body.clone() };
        self.breaker.store(&mut delivery);
        let document = delivery.document(id, self.delivery.version, due_at)?;
        changes.writes.push(Record::from(document));
        let written = self.parked.write(id, &mut changes)?;
        self.changed_at = None;
        self.committing = std::mem::take(&mut self.outcomes);
        Ok((changes, Commit { cursor, at: now, with_endpoint, written }))
    }

    /// Notes that a commit succeeded. Returns the reason if it disabled the endpoint.
    pub(crate) fn committed(&mut self, commit: Commit, now: Timestamp) -> Option<DisabledReason> {
        let Commit { cursor, at, with_endpoint, written } = commit;
        if with_endpoint {
            self.endpoint.version = self.endpoint.version.next();
            self.endpoint_changed = false;
        }
        self.delivery.version = self.delivery.version.next();
        self.delivery.body.cursor = cursor;
        self.parked.committed(written);
        self.committing = 0;
        self.committed_at = Some(at);
        self.cursor_written_at = at;
        self.window.committed(cursor);
        self.refill(now);
        self.endpoint.body.disabled.filter(|_| with_endpoint).map(|disabled| disabled.reason)
    }

    /// Notes that a commit failed. Perhaps it took effect all the same: then the next one is refused.
    pub(crate) fn not_committed(&mut self, commit: Commit) {
        self.parked.not_committed(commit.written);
        self.outcomes += std::mem::take(&mut self.committing);
        self.changed_at = Some(commit.at);
    }
}

impl Turn {
    fn first(event: Arc<RecordedEvent>) -> Self {
        Self { event, attempt: 1, is_parked: false, is_probe: false }
    }

    fn parked((event, attempts): (Arc<RecordedEvent>, u32), is_probe: bool) -> Self {
        Self { event, attempt: attempts.saturating_add(1), is_parked: true, is_probe }
    }
}
