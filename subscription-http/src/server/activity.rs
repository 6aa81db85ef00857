//! What goes on in a connection: requests under way, and answers that nobody has fetched yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tokio::time::Instant;

/// The requests and answers of one connection.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    under_way: usize,
    /// When the last request ended.
    since: Instant,
    /// When each answer was made whose bytes are still here, the oldest first; of HTTP/1 there is one.
    unfetched: Vec<(u64, Instant)>,
    answers: u64,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Activity);

/// The bytes of an answer, which whoever sends them lets go of once they are sent.
#[derive(Debug)]
struct Unfetched {
    bytes: Bytes,
    nth: u64,
    activity: Activity,
}

/// Why a connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// No request was under way for too long.
    Idle,
    /// An answer waited for too long to be fetched.
    Unfetched,
}

impl Activity {
    pub(super) fn new() -> Self {
        let (since, unfetched) = (Instant::now(), Vec::new());
        Self(Arc::new(Mutex::new(State { under_way: 0, since, unfetched, answers: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self) -> UnderWay {
        self.state().under_way += 1;
        UnderWay(self.clone())
    }

    pub(super) fn touch(&self) {
        self.state().since = Instant::now();
    }

    /// Ends when no request was under way for so long, or an answer was not fetched for twice that.
    pub(super) async fn over(&self, patience: Duration) -> Over {
        loop {
            let (idle_at, unfetched_at) = self.ends(patience);
            let now = Instant::now();
            if unfetched_at <= now {
                return Over::Unfetched;
            }
            if idle_at <= now {
                return Over::Idle;
            }
            tokio::time::sleep_until(idle_at.min(unfetched_at)).await;
        }
    }

    /// When it is over at the earliest, as it is now.
    fn ends(&self, patience: Duration) -> (Instant, Instant) {
        let (now, state) = (Instant::now(), self.state());
        let idle_since = if state.under_way > 0 { now } else { state.since };
        let oldest = state.unfetched.first().map_or(now, |(_, made)| *made);
        (idle_since + patience, oldest + patience * 2)
    }
}

impl UnderWay {
    /// Watches the bytes of an answer until they are sent.
    ///
    /// The bytes and not the body: HTTP/2 takes a body as soon as one byte of it may be sent, and then
    /// keeps the rest for as long as the other side likes.
    pub(super) fn answered(self, body: Full<Bytes>) -> Full<Bytes> {
        let Some(bytes) = body.into_inner().filter(|bytes| !bytes.is_empty()) else {
            return Full::default();
        };
        let mut state = self.0.state();
        let nth = state.answers;
        state.answers += 1;
        state.unfetched.push((nth, Instant::now()));
        drop(state);
        Full::new(Bytes::from_owner(Unfetched { bytes, nth, activity: self.0.clone() }))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        state.since = Instant::now();
    }
}

impl AsRef<[u8]> for Unfetched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unfetched {
    fn drop(&mut self) {
        self.activity.state().unfetched.retain(|(nth, _)| *nth != self.nth);
    }
}
