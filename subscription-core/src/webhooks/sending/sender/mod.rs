//! The sending job: one future that reads the feed, sends deliveries and commits their outcomes, for all endpoints.

mod begin;
mod done;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use self::done::Done;
use super::lane::{Lane, Turn};
use crate::error::Error;
use crate::store::StoreError;
use crate::values::Timestamp;
use crate::webhooks::{EndpointId, Wake, Webhooks};

/// The longest time between two reads of the feed.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The time that tries in flight get when sending must stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends events for as long as an instance leads. It is made anew when the instance begins to lead.
#[derive(Debug)]
pub struct Sender {
    webhooks: Webhooks,
    routes: BTreeMap<EndpointId, Route>,
    /// True once the endpoints were read.
    is_loaded: bool,
    /// The endpoints whose documents must be read; true if that is under way.
    loads: BTreeMap<EndpointId, bool>,
    /// True while [`Sender::run`] runs: a run that was dropped has left its state unfinished.
    is_running: bool,
    /// The number of times that the job was woken.
    wakes: u64,
    /// The value of `wakes` at the last look for new events.
    wakes_seen: u64,
    in_flight: usize,
    /// The endpoint whose turn was the last.
    last_turn: Option<EndpointId>,
    /// The number of times that documents were read: an older answer is ignored.
    epoch: u64,
    due_read_at: Option<Timestamp>,
    failed: Option<(Error, Timestamp)>,
}

/// An endpoint, and the work on it that is under way.
#[expect(clippy::struct_excessive_bools, reason = "each is a part of the work, under way or not")]
#[derive(Debug)]
struct Route {
    lane: Lane,
    epoch: u64,
    /// The number of tries in flight, also those from before its documents were read again.
    busy: usize,
    /// An event that waits for a read of the endpoint.
    held: Option<Turn>,
    /// When the endpoint was known to be unchanged, and whether something was sent or in flight ever since.
    checked_at: Timestamp,
    is_checked: bool,
    /// The last waking since which the feed was read to its end.
    up_to_date: u64,
    is_checking: bool,
    is_reading: bool,
    is_committing: bool,
}

type Running<'r> = FuturesUnordered<BoxFuture<'r, Done>>;

impl Webhooks {
    /// The sending job, for as long as this instance leads.
    pub fn sender(&self) -> Sender {
        Sender {
            webhooks: self.clone(),
            routes: BTreeMap::new(),
            is_loaded: false,
            loads: BTreeMap::new(),
            is_running: false,
            wakes: 0,
            wakes_seen: 0,
            in_flight: 0,
            last_turn: None,
            epoch: 0,
            due_read_at: None,
            failed: None,
        }
    }
}

impl Sender {
    /// Sends until nothing is due or in flight, or sending must stop. Returns the time at which something is due, if
    /// that is known; call it again then, or earlier if there may be new events.
    pub async fn run(&mut self, wake: &dyn Wake) -> Result<Option<Timestamp>, Error> {
        let webhooks = self.webhooks.clone();
        if self.is_running {
            *self = webhooks.sender();
        }
        self.is_running = true;
        self.due_read_at = None;
        self.wakes += 1;
        let mut running = Running::new();
        let mut timer: Option<BoxFuture<'_, ()>> = None;
        let mut timer_ends = Timestamp::MAX;
        let mut is_stopping = false;
        let mut done = Vec::new();
        loop {
            let now = webhooks.now();
            if wake.is_stopped() && !is_stopping {
                is_stopping = true;
                timer = Some(wake.wait(STOP_TIMEOUT));
            }
            self.begin(&running, (&webhooks, wake), now, is_stopping);
            let next_commit = self.next_commit();
            if running.is_empty() && (is_stopping || self.failed.is_some() || next_commit.is_none())
            {
                break;
            }
            // Work that is due and has not begun waits for the end of other work.
            let until = self.next_at().into_iter().chain(next_commit).filter(|at| *at > now).min();
            let longest = now.saturating_add(WAIT_MAX);
            let until = until.map_or(longest, |until| until.min(longest));
            if !is_stopping && (timer.is_none() || until < timer_ends) {
                timer_ends = until;
                timer = Some(wake.wait(until.since(now)));
            }
            let is_woken = poll_fn(|cx| {
                while let Poll::Ready(Some(one)) = running.poll_next_unpin(cx) {
                    done.push(one);
                }
                let is_woken = timer.as_mut().is_none_or(|timer| timer.poll_unpin(cx).is_ready());
                if is_woken || !done.is_empty() { Poll::Ready(is_woken) } else { Poll::Pending }
            })
            .await;
            let now = webhooks.now();
            for one in done.drain(..) {
                self.done(one, now);
            }
            if is_woken {
                timer = None;
                self.wakes += 1;
                if is_stopping {
                    drop(running);
                    // The next run would begin anew.
                    return self.cut_off(now).await;
                }
            }
        }
        self.is_running = false;
        self.show();
        let next_at = self.next_at();
        self.failed.take().map_or(Ok(next_at), |(error, _)| Err(error))
    }

    /// Commits the outcomes of the tries that have ended. Those that were in flight are no failures.
    async fn cut_off(&mut self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        for route in self.routes.values_mut().filter(|route| route.lane.is_changed()) {
            let (changes, _) = route.lane.commit(now)?;
            match self.webhooks.store().commit(changes).await {
                Ok(()) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// When something is due.
    fn next_at(&self) -> Option<Timestamp> {
        self.routes.values().filter_map(|route| route.lane.next_at()).min()
    }

    /// When changes must be committed that wait for more of them.
    fn next_commit(&self) -> Option<Timestamp> {
        let changed = self.routes.values().filter(|it| it.lane.is_changed() && !it.is_committing);
        changed.filter_map(|route| route.lane.commit_at(route.busy)).min()
    }
}
