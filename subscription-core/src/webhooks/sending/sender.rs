//! The sending job: one future that sends events to all endpoints. It runs a loop for each endpoint that has work.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;

use super::endpoint_loop::{End, Ended};
use super::queue::{EndpointQueue, Step};
use super::run::Run;
use super::running::Running;
use crate::error::{Error, with_causes};
use crate::store::{PageLimit, StoreError};
use crate::values::Timestamp;
use crate::webhooks::{EndpointId, SenderSignals, Webhooks};

/// The shortest time between two reads of the delivery documents that are due, and the pause after a store error.
const DUE_READ_EVERY: Duration = Duration::from_millis(250);
/// The time between two reads of the end of the feed, for the metrics. The pages that the endpoints read do not show it:
/// a stalled endpoint reads none, and a store may number only some of the events that wait.
const END_READ_EVERY: Duration = Duration::from_secs(5);
/// How long tries in flight may continue once sending must stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends events while this instance leads. A new sender is made each time the instance becomes the leader.
#[derive(Debug)]
pub struct Sender {
    webhooks: Webhooks,
    /// `None` before the first run, during a run, and after a run that was dropped or stopped.
    queues: Option<Queues>,
    /// The tick number at the end of the last run.
    tick: u64,
    /// When the end of the feed was last read. `None` before the first time.
    end_read_at: Option<Timestamp>,
}

/// The queues of all endpoints.
#[derive(Debug, Default)]
struct Queues {
    /// The queue of each endpoint. `None` while the endpoint's loop owns the queue, or until its documents are read.
    all: BTreeMap<EndpointId, Option<EndpointQueue>>,
    /// The endpoints whose documents must be read.
    changed: BTreeSet<EndpointId>,
    /// The endpoints whose documents cannot be read, and which the log has named.
    damaged: BTreeSet<EndpointId>,
}

impl Webhooks {
    /// Creates the sending job, which is used while this instance leads.
    pub fn sender(&self) -> Sender {
        Sender { webhooks: self.clone(), queues: None, tick: 0, end_read_at: None }
    }
}

impl Sender {
    /// Sends until nothing is due and nothing is in flight, or until sending must stop. Returns the time at which
    /// something is due next, or `None` if no such time is known. Call this method again at that time, or earlier if
    /// there may be new events.
    pub async fn run(&mut self, signals: &dyn SenderSignals) -> Result<Option<Timestamp>, Error> {
        let webhooks = self.webhooks.clone();
        let mut queues = match self.queues.take() {
            Some(queues) => queues,
            None => Queues::unread(&webhooks).await?,
        };
        let run = Run::new(&webhooks, signals, self.tick);
        let mut loops = Running::<Ended>::new();
        let mut failure = None;
        let mut due_read_at: Option<Timestamp> = None;
        // `Some` if a tick (a wake-up of all loops) has begun; `Some(true)` if a signal caused the tick.
        let mut tick = Some(true);
        while !signals.is_stopped() {
            let now = webhooks.now();
            let is_late = due_read_at.is_none_or(|at| now.since(at) >= DUE_READ_EVERY);
            let reads_due = tick.is_some() && is_late;
            if let Some(is_signal) = tick {
                run.wake_loops(queues.all.len(), is_signal || reads_due, now);
            }
            if reads_due {
                due_read_at = Some(now);
                if let Some(error) = failure.take() {
                    let error = with_causes(&error);
                    tracing::warn!(
                        error,
                        "webhooks: the database cannot be read or written; sending is tried again"
                    );
                }
            }
            for (queue, end) in loops.take_ended() {
                failure = queues.ended(queue, end).err().or(failure);
            }
            if failure.is_none() {
                failure = loops.beside(run.read(&mut queues, reads_due)).await.err();
            }
            let is_known = self.end_read_at.is_some_and(|at| now.since(at) < END_READ_EVERY);
            if failure.is_none() && reads_due && !is_known && !queues.all.is_empty() {
                self.end_read_at = Some(now);
                match loops.beside(webhooks.feed()).await {
                    Ok(feed) => run.feed_reached(feed.last),
                    Err(error) => failure = Some(error),
                }
            }
            if failure.is_none() {
                run.start(&mut queues, &loops);
            }
            let next_at = queues.all.values().flatten().filter_map(EndpointQueue::next_at).min();
            if loops.is_empty() {
                self.tick = run.tick();
                self.queues = Some(queues);
                return failure.map_or(Ok(next_at), Err);
            }
            run.wake_by(next_at.into_iter(), now);
            tick = loops.any_or(run.tick_due()).await;
        }
        // Sending must stop. From here on no try begins, and each outcome is committed at once.
        run.start(&mut queues, &loops);
        run.wake_loops(queues.all.len(), false, webhooks.now());
        select(pin!(loops.all()), signals.wait(STOP_TIMEOUT)).await;
        failure = loops.take_ended().into_iter().find_map(|(_, end)| end.err()).or(failure);
        // This cancels the tries that are still in flight. A cancelled try does not count as a failure.
        drop(loops);
        run.show();
        failure.map_or(Ok(None), Err)
    }
}

impl Queues {
    /// Queues for all stored endpoints; the documents of each still have to be read.
    async fn unread(webhooks: &Webhooks) -> Result<Self, Error> {
        let mut queues = Self::default();
        for id in webhooks.endpoint_ids().await? {
            queues.changed(id);
        }
        Ok(queues)
    }

    /// Records that the documents of an endpoint must be read.
    fn changed(&mut self, id: EndpointId) {
        self.changed.insert(id);
        self.all.insert(id, None);
    }

    /// Stores the queue of an endpoint whose loop has ended.
    fn ended(&mut self, queue: EndpointQueue, end: Result<End, Error>) -> Result<(), Error> {
        let id = queue.id();
        if matches!(end, Ok(End::Changed)) {
            self.changed(id);
        } else {
            self.all.insert(id, Some(queue));
        }
        end.map(|_| ())
    }
}

impl Run<'_> {
    /// Reads the documents that others have changed. Then reads one page of the feed for the endpoints that have no
    /// running loop and need new events. If the positions of these endpoints in the feed differ by more than a page,
    /// only the endpoints that are at most one page behind the furthest position are included.
    async fn read(&self, queues: &mut Queues, reads_due: bool) -> Result<(), Error> {
        let webhooks = self.webhooks;
        if reads_due {
            for (id, version) in webhooks.load_due(webhooks.now()).await? {
                // An endpoint whose loop is running is skipped: the loop itself detects the change.
                let is_known = queues.all.get(&id).is_some_and(|queue| {
                    queue.as_ref().is_none_or(|queue| queue.delivery().version == version)
                });
                if !is_known {
                    queues.changed(id);
                }
            }
        }
        while let Some(id) = queues.changed.first().copied() {
            let read_at = webhooks.now();
            let documents = match webhooks.load_one(id).await {
                // The other endpoints go on. This one is read again when somebody has changed its documents.
                Err(Error::Store(StoreError::Damaged(cause))) => {
                    if queues.damaged.insert(id) {
                        let cause = with_causes(&*cause);
                        tracing::error!(endpoint = %id, cause, "a webhook endpoint cannot be read: nothing is sent to it");
                    }
                    None
                }
                documents => {
                    queues.damaged.remove(&id);
                    documents?
                }
            };
            if let Some(documents) = documents {
                let queue = EndpointQueue::new(documents, &webhooks.keys, read_at);
                queues.all.insert(id, Some(queue));
            } else {
                queues.all.remove(&id);
                webhooks.counters.lock().endpoints.remove(&id);
            }
            queues.changed.remove(&id);
        }
        let now = webhooks.now();
        let idle = queues.all.values_mut().flatten();
        let readers = idle.filter(|queue| matches!(self.step(queue, 0, now), Some(Step::Read)));
        let mut readers: Vec<_> = readers.collect();
        let newest = readers.iter().map(|queue| queue.read_to()).max().unwrap_or_default();
        let page = u64::try_from(PageLimit::MAX.get()).unwrap_or_default();
        readers.retain(|queue| newest - queue.read_to() <= page);
        if readers.is_empty() { Ok(()) } else { self.read_page(readers).await }
    }

    /// Updates the metrics of all endpoints that have no running loop, and starts the loops of those endpoints that
    /// have work.
    fn start<'s>(&'s self, queues: &mut Queues, loops: &Running<'s, Ended>) {
        let now = self.webhooks.now();
        for place in queues.all.values_mut() {
            let queue = place.take_if(|queue| {
                queue.expire(now);
                self.webhooks.counters.show(queue.id(), queue.state(self.feed_end()));
                queue.is_changed() || self.step(queue, 0, now).is_some()
            });
            if let Some(queue) = queue {
                loops.push(self.send_to(queue));
            }
        }
        self.show();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.webhooks.counters.hide();
    }
}
