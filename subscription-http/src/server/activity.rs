//! What goes on in a connection, told by all that take part: its requests, its stream, and hyper.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tokio::sync::watch;
use tokio::time::Instant;

/// What goes on in one connection.
#[derive(Debug)]
pub(super) struct Activity {
    /// True once everything stops.
    stopped: watch::Receiver<bool>,
    under_way: AtomicUsize,
    ended: AtomicUsize,
    /// HTTP/1: hyper waits for a head.
    pub(super) awaits_head: Flag,
    /// The stream was given bytes and not yet told that these were all.
    pub(super) unsent: Flag,
    /// A head has come that can be read in two ways.
    pub(super) ambiguous: Flag,
    /// HTTP/2: answers whose bytes are still here.
    unfetched: Mutex<Answers>,
}

/// Yes or no.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn set(&self, is_set: bool) {
        self.0.store(is_set, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Answers {
    made: u64,
    /// When each was made, the oldest first.
    unfetched: Vec<(u64, Instant)>,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

/// The bytes of an answer, which whoever sends them lets go of once they are sent.
#[derive(Debug)]
struct Unfetched {
    bytes: Bytes,
    nth: u64,
    activity: Arc<Activity>,
}

impl Activity {
    pub(super) fn new(stopped: watch::Receiver<bool>) -> Self {
        Self {
            stopped,
            under_way: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            awaits_head: Flag::default(),
            unsent: Flag::default(),
            ambiguous: Flag::default(),
            unfetched: Mutex::default(),
        }
    }

    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// True if nothing is left of what was asked: it is read to its end, answered, and sent.
    ///
    /// hyper waits for a head only after it has read a request to its end, and has made its answer. It
    /// may do so before all of that is sent.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_under_way = self.under_way.load(Ordering::Acquire) > 0;
        self.awaits_head.is_set() && !self.unsent.is_set() && !is_under_way
    }

    /// How many requests were under way and are not any more.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// How long the oldest answer has waited to be fetched.
    pub(super) fn unfetched_for(&self) -> Duration {
        let answers = self.answers();
        answers.unfetched.first().map_or(Duration::ZERO, |(_, made)| made.elapsed())
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.unfetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// True if everything has stopped meanwhile.
    pub(super) fn is_stopped(&self) -> bool {
        *self.0.stopped.borrow()
    }

    /// Watches the bytes of an answer until they are sent.
    ///
    /// The bytes and not the body: HTTP/2 takes a body as soon as one byte of it may be sent, and then
    /// keeps the rest for as long as the other side likes.
    pub(super) fn watch(&self, body: &mut Full<Bytes>) {
        let bytes = std::mem::take(body).into_inner().unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        let mut answers = self.0.answers();
        let nth = answers.made;
        answers.made += 1;
        answers.unfetched.push((nth, Instant::now()));
        drop(answers);
        let activity = Arc::clone(&self.0);
        *body = Full::new(Bytes::from_owner(Unfetched { bytes, nth, activity }));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}

impl AsRef<[u8]> for Unfetched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unfetched {
    fn drop(&mut self) {
        self.activity.answers().unfetched.retain(|(nth, _)| *nth != self.nth);
    }
}

/// How long a connection has had nothing to do, by one who looks at it from time to time.
///
/// It counts from the first look after the last request, so that requests look at no clock.
#[derive(Debug)]
pub(super) struct Idle {
    since: Instant,
    ended: usize,
}

impl Idle {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), ended: 0 }
    }

    /// Looks whether anything went on since the last time; how long there was nothing.
    pub(super) fn look(&mut self, activity: &Activity) -> Duration {
        let is_under_way = activity.under_way.load(Ordering::Acquire) > 0;
        let ended = activity.ended();
        if is_under_way || ended != self.ended {
            (self.since, self.ended) = (Instant::now(), ended);
        }
        self.lasts()
    }

    /// How long there was nothing when it was looked at, and since.
    pub(super) fn lasts(&self) -> Duration {
        self.since.elapsed()
    }

    /// Counts anew.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }
}
