//! The shared state of one connection: requests in flight, bytes not yet sent, and HTTP/2 responses that the client
//! has not read. The stream and the service write this state, and the connection's timer reads it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::output::unread_bytes::{SharedBytes, UnreadBytes};

/// The activity of one connection.
pub(super) struct Activity {
    /// True once the server stops.
    stopped: watch::Receiver<bool>,
    in_flight: AtomicUsize,
    ended: AtomicUsize,
    is_http2: AtomicBool,
    /// True if bytes were received since the last request ended.
    receiving: AtomicBool,
    /// True if bytes were written to the stream and it has not been flushed since.
    unsent: AtomicBool,
    /// True if a request head had both a `Content-Length` and a `Transfer-Encoding`.
    ambiguous: AtomicBool,
    /// HTTP/2: for each response with bytes still in memory, its number and when it was made. Later responses have
    /// higher numbers.
    unread: Mutex<BTreeMap<u64, Instant>>,
    /// HTTP/2: the number of these bytes.
    unread_bytes: Arc<UnreadBytes>,
}

/// The state that decides which time-out applies to a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A request is in flight; the [`Api`](crate::Api) has time-outs for it.
    Busy,
    /// A response is being sent.
    Sending,
    /// HTTP/1: a part of a request head has arrived.
    Receiving,
    Idle,
}

/// A request in flight. The request ends when this value is dropped.
pub(super) struct InFlight(Arc<Activity>);

/// The bytes of a response, which h2 drops once they are sent.
struct Unread {
    bytes: Bytes,
    /// The number of bytes that were counted: 0 if other responses share the bytes.
    counted: usize,
    number: u64,
    activity: Arc<Activity>,
}

impl Activity {
    pub(super) fn new(stopped: watch::Receiver<bool>, unread_bytes: Arc<UnreadBytes>) -> Self {
        Self {
            stopped,
            in_flight: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            is_http2: AtomicBool::default(),
            receiving: AtomicBool::default(),
            unsent: AtomicBool::default(),
            ambiguous: AtomicBool::default(),
            unread: Mutex::default(),
            unread_bytes,
        }
    }

    pub(super) fn begin(self: &Arc<Self>, is_http2: bool) -> InFlight {
        self.in_flight.fetch_add(1, Relaxed);
        self.is_http2.store(is_http2, Relaxed);
        self.receiving.store(false, Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Records that bytes were received. Bytes that arrive while a request is in flight belong to its body.
    pub(super) fn received(&self) {
        if self.in_flight.load(Relaxed) == 0 {
            self.receiving.store(true, Relaxed);
        }
    }

    /// Records that bytes were written to the stream.
    pub(super) fn written(&self) {
        self.unsent.store(true, Relaxed);
    }

    /// Records that the stream has sent everything that was written.
    pub(super) fn flushed(&self) {
        self.unsent.store(false, Relaxed);
    }

    /// Records that a request head had both a `Content-Length` and a `Transfer-Encoding`.
    pub(super) fn found_ambiguous(&self) {
        self.ambiguous.store(true, Relaxed);
    }

    pub(super) fn is_ambiguous(&self) -> bool {
        self.ambiguous.load(Relaxed)
    }

    pub(super) fn phase(&self) -> Phase {
        if self.in_flight.load(Acquire) > 0 {
            Phase::Busy
        } else if self.unsent.load(Relaxed) {
            Phase::Sending
        } else if self.receiving.load(Relaxed) && !self.is_http2.load(Relaxed) {
            // HTTP/2 never has this phase: bytes that were received may be a frame that begins no request, such as a
            // ping.
            Phase::Receiving
        } else {
            Phase::Idle
        }
    }

    /// The number of requests that have ended.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }

    /// The count of the bytes that the client has not read yet.
    pub(super) fn unread_bytes(&self) -> Arc<UnreadBytes> {
        Arc::clone(&self.unread_bytes)
    }

    /// How long the oldest HTTP/2 response has been unread; zero if no response is unread.
    pub(super) fn unread_for(&self) -> Duration {
        self.unread().first_key_value().map_or(Duration::ZERO, |(_, made)| made.elapsed())
    }

    fn unread(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlight {
    /// True if the server has begun to stop.
    pub(super) fn is_stopped(&self) -> bool {
        *self.0.stopped.borrow()
    }

    /// Tracks the bytes of an HTTP/2 response until they are sent.
    ///
    /// The bytes are tracked and not the body, because the body may end before all of its bytes are sent: h2 polls a
    /// body as soon as one byte of it may be sent, and then stores the rest while the client's window is closed.
    pub(super) fn track(&self, response: &mut Response<Full<Bytes>>) {
        let is_shared = response.extensions().get::<SharedBytes>().is_some();
        let body = response.body_mut();
        let bytes = std::mem::take(body).into_inner().unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        let counted = if is_shared { 0 } else { bytes.len() };
        self.0.unread_bytes.add(counted);
        let mut unread = self.0.unread();
        let number = unread.last_key_value().map_or(0, |(newest, _)| newest + 1);
        unread.insert(number, Instant::now());
        drop(unread);
        let activity = Arc::clone(&self.0);
        *body = Full::new(Bytes::from_owner(Unread { bytes, counted, number, activity }));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
        self.0.in_flight.fetch_sub(1, Release);
    }
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.activity.unread().remove(&self.number);
        self.activity.unread_bytes.remove(self.counted);
    }
}

/// The phase of a connection, and how long the phase has lasted. This time is measured by checks at regular intervals,
/// so that a request need not read the clock when it changes the phase.
pub(super) struct PhaseTimer {
    seen: (Phase, usize),
    since: Instant,
}

impl PhaseTimer {
    pub(super) fn start() -> Self {
        Self { seen: (Phase::Idle, 0), since: Instant::now() }
    }

    /// The present phase, and the time since it was first seen. The time begins again whenever a request ends.
    pub(super) fn look(&mut self, activity: &Activity) -> (Phase, Duration) {
        let seen = (activity.phase(), activity.ended());
        if seen != self.seen {
            *self = Self { seen, since: Instant::now() };
        }
        (seen.0, self.since.elapsed())
    }

    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }
}
