//! Requests that wait for events.
//!
//! All waiting requests together read the feed once after a commit of this process, and once a second for the commits
//! of other processes. One of the waiting requests reads for all of them while it waits itself. So this needs no task
//! and no thread. When that request ends, another one continues to read.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use subscription_core::events::RecordedEvent;
use subscription_core::store::{EventPage, EventQuery, PageLimit};
use subscription_core::{Error, Slug, SubscriptionService};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

use crate::api::admission::rate::RateStatus;
use crate::api::{ApiError, Refusal};

/// The maximum number of waiting requests of one client.
pub(crate) const WAITING_PER_CLIENT: u32 = 8;
/// The maximum number of waiting requests of all clients together.
const WAITING_MAX: usize = 1_000;
/// After this time the feed is read even if this process has committed no event.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Wakes the requests that wait for events. A [`FeedSignal`](subscription_core::store::FeedSignal) calls
/// [`notify`](Self::notify) after each commit; give a clone of this signal to
/// [`ApiBuilder::event_signal`](crate::ApiBuilder::event_signal).
#[derive(Debug, Clone, Default)]
pub struct EventSignal(Arc<watch::Sender<u64>>);

impl EventSignal {
    /// Reports that events may have been written.
    pub fn notify(&self) {
        self.0.send_modify(|commits| *commits = commits.wrapping_add(1));
    }

    /// A listener for every signal from now on.
    pub fn listener(&self) -> EventListener {
        EventListener(self.0.subscribe())
    }
}

/// Waits for signals of an [`EventSignal`]; see [`EventSignal::listener`].
#[derive(Debug)]
pub struct EventListener(watch::Receiver<u64>);

impl EventListener {
    /// Waits for a signal. This method returns at once if a signal was sent since it last returned.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The requests that wait for events.
pub(crate) struct LongPolls {
    pub(crate) signal: EventSignal,
    /// The number of waiting requests, for `/metrics`.
    pub(crate) gauge: Gauge,
    /// Resolves when the feed must be read for the commits of other processes. The argument is the time of the last
    /// read.
    due: fn(Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>,
    waiting: Lock<Waiting>,
    /// The request that reads for all holds this lock.
    reader: Mutex<Reader>,
    news: watch::Sender<News>,
    stopping: watch::Sender<bool>,
}

#[derive(Default)]
struct Waiting {
    by_client: HashMap<Slug, u32>,
    total: usize,
    /// The sequence up to which the feed was last read for all requests.
    reached: u64,
}

struct Reader {
    /// The number of the last commit of this process for which the feed was read.
    commit: u64,
    read_at: Instant,
    /// True if the last read page did not reach the end of the feed. Then the next read begins at once.
    is_behind: bool,
}

/// The events that were last read for all requests.
#[derive(Clone)]
struct News {
    /// The sequence after which the events begin.
    after: u64,
    page: Arc<EventPage>,
}

/// The place of one waiting request, which counts towards the limits. The place is free again once this value is
/// dropped.
struct WaitingSlot<'p> {
    polls: &'p LongPolls,
    client: &'p Slug,
}

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        let mut waiting = self.polls.waiting();
        waiting.total -= 1;
        self.polls.gauge.dec();
        if let Some(count) = waiting.by_client.get_mut(self.client) {
            *count -= 1;
            if *count == 0 {
                waiting.by_client.remove(self.client);
            }
        }
    }
}

impl Default for LongPolls {
    fn default() -> Self {
        Self {
            signal: EventSignal::default(),
            gauge: Gauge::default(),
            due: |read_at| Box::pin(sleep_until(read_at + READ_EVERY)),
            waiting: Lock::default(),
            reader: Mutex::new(Reader { commit: 0, read_at: Instant::now(), is_behind: false }),
            news: watch::Sender::new(News { after: 0, page: Arc::default() }),
            stopping: watch::Sender::default(),
        }
    }
}

impl LongPolls {
    /// Ends the wait of all requests, which return the events that they have. After this no other request can wait.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Reads a page of events. If the page is empty, waits at most `wait` for an event. `read_up_to` is the last
    /// sequence that the caller has read: if events after it were deleted, an error is returned at once.
    pub(crate) async fn read(
        &self,
        service: &SubscriptionService,
        client: &Slug,
        mut query: EventQuery,
        read_up_to: Option<u64>,
        wait: Duration,
    ) -> Result<EventPage, ApiError> {
        // The request subscribes before it reads the feed, so that no event is missed between the two.
        let mut news = self.news.subscribe();
        let mut stopping = self.stopping.subscribe();
        let mut page = service.event_page(&query).await?;
        if read_up_to.is_some_and(|read| read.saturating_add(1) < page.first_kept) {
            return Err(Error::EventsForgotten { first_kept: page.first_kept }.into());
        }
        if wait.is_zero() || !is_at_end(&page) {
            return Ok(page);
        }
        let _slot = self.enter(client, page.last)?;
        let mut end = std::pin::pin!(sleep_until(Instant::now() + wait));
        while is_at_end(&page) {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|is_stopping| *is_stopping) => break,
                _ = news.changed() => {}
                () = &mut end => break,
                () = self.read_for_all(service) => {}
            }
            let News { after, page: read } = news.borrow_and_update().clone();
            let is_new = |event: &&RecordedEvent| event.sequence > page.reached;
            let mut new = read.items.iter().filter(is_new);
            // This request reads the feed itself in two cases: a new event matches its query, or `after` is above
            // `page.reached`. In the second case this request was not polled in time, and has missed the events between
            // the two.
            if after > page.reached || new.any(|event| query.admits(&event.event)) {
                query.after = page.reached;
                page = service.event_page(&query).await?;
            } else {
                page.reached = page.reached.max(read.reached);
                page.last = page.last.max(read.last);
            }
        }
        Ok(page)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for a request that has read the feed up to `last`. Fails if too many requests wait.
    fn enter<'p>(&'p self, client: &'p Slug, last: u64) -> Result<WaitingSlot<'p>, Refusal> {
        let mut waiting = self.waiting();
        let of_client = waiting.by_client.get(client).copied().unwrap_or_default();
        if of_client >= WAITING_PER_CLIENT {
            return Err(Refusal::RateLimited(RateStatus::waiting(WAITING_PER_CLIENT)));
        }
        if waiting.total >= WAITING_MAX {
            return Err(Refusal::TooManyWaiting);
        }
        if waiting.total == 0 {
            waiting.reached = last;
        }
        waiting.total += 1;
        waiting.by_client.insert(client.clone(), of_client + 1);
        self.gauge.inc();
        Ok(WaitingSlot { polls: self, client })
    }

    /// Waits for the turn to read for all requests. Then reads the feed after each commit and each second, until there
    /// are events. The next events are read by another request, or by this one if it continues to wait.
    async fn read_for_all(&self, service: &SubscriptionService) {
        let mut reader = self.reader.lock().await;
        let EventListener(mut commits) = self.signal.listener();
        loop {
            if !reader.is_behind {
                tokio::select! {
                    _ = commits.wait_for(|commit| *commit != reader.commit) => {}
                    () = (self.due)(reader.read_at) => {}
                }
            }
            let commit = *commits.borrow();
            let after = self.waiting().reached;
            let read = service.event_page(&EventQuery::after(after, PageLimit::MAX)).await;
            // The state is set only after the read. So if this request ends during the read, the next request that
            // reads for all finds the old state and reads again.
            *reader = Reader { commit, read_at: Instant::now(), is_behind: false };
            match read {
                Ok(page) if page.reached > after => {
                    reader.is_behind = page.reached < page.last;
                    self.waiting().reached = page.reached;
                    self.news.send_replace(News { after, page: Arc::new(page) });
                    return;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "waiting requests could not read the feed"),
            }
        }
    }
}

/// True if the page has no event to return, and no event follows.
fn is_at_end(page: &EventPage) -> bool {
    page.items.is_empty() && page.reached >= page.last
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use subscription_core::store::{FeedSignal, StoreCall, StoreError, StoreMeter, TimedStore};
    use subscription_core::{BillingCycle, MemoryStore, NewPlan};
    use tokio::sync::Semaphore;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// Counts the reads of the feed.
    #[derive(Debug, Clone, Default)]
    struct Reads(Arc<AtomicUsize>);

    impl StoreMeter for Reads {
        fn called(&self, call: StoreCall, _: Duration, _: Option<&StoreError>) {
            self.0.fetch_add(usize::from(call == StoreCall::Events), Ordering::SeqCst);
        }
    }

    impl Reads {
        /// Waits until the feed was read `expected` times, and all tasks wait again.
        async fn are(&self, expected: usize) {
            while self.0.load(Ordering::SeqCst) < expected {
                yield_now().await;
            }
            for _ in 0..1_000 {
                yield_now().await;
            }
            assert_eq!(self.0.swap(0, Ordering::SeqCst), expected);
        }
    }

    struct World {
        polls: Arc<LongPolls>,
        service: SubscriptionService,
        reads: Reads,
        waiting: JoinSet<Result<EventPage, ApiError>>,
    }

    impl World {
        fn new(due: fn(Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>) -> Self {
            let polls = LongPolls { due, ..LongPolls::default() };
            let reads = Reads::default();
            let signal = polls.signal.clone();
            let store = TimedStore::new(MemoryStore::default(), reads.clone());
            let service = SubscriptionService::new(FeedSignal::new(store, move || signal.notify()));
            Self { polls: Arc::new(polls), service, reads, waiting: JoinSet::new() }
        }

        /// Lets `count` requests wait for events whose type matches `pattern`, and returns once all of them wait.
        async fn wait(&mut self, count: i64, pattern: &str) {
            let begun = self.polls.gauge.get();
            for nth in 0..count {
                let polls = Arc::clone(&self.polls);
                let service = self.service.clone();
                let client: Slug = format!("client-{}", (begun + nth) / 8).parse().unwrap();
                let query = EventQuery::default().with_types([pattern.parse().unwrap()]);
                self.waiting
                    .spawn(async move { polls.read(&service, &client, query, None, HOUR).await });
            }
            while self.polls.gauge.get() < begun + count {
                yield_now().await;
            }
            self.reads.are(count.try_into().unwrap()).await;
        }

        async fn create_plan(&self, slug: &str) {
            let name = "Pro".parse().unwrap();
            let price = "1".parse().unwrap();
            let new = NewPlan::new(name, slug.parse().unwrap(), price, BillingCycle::MONTHLY);
            self.service.create_plan(new).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_hundred_waiting_requests_read_the_feed_once_a_second_together() {
        static SECONDS: Semaphore = Semaphore::const_new(0);
        let mut world =
            World::new(|_| Box::pin(async { SECONDS.acquire().await.unwrap().forget() }));
        world.wait(100, "*").await;

        for _ in 0..10 {
            SECONDS.add_permits(1);
            world.reads.are(1).await;
        }
    }

    #[tokio::test]
    async fn a_commit_wakes_those_who_want_its_event_and_costs_the_others_nothing() {
        let mut world = World::new(|_| Box::pin(std::future::pending()));
        world.wait(40, "subscription.*").await;
        world.wait(2, "plan.created").await;

        world.create_plan("pro").await;

        // One read for all requests, and one by each request that returns the event.
        world.reads.are(3).await;
        for _ in 0..2 {
            let page = world.waiting.join_next().await.unwrap().unwrap().unwrap();
            assert_eq!((page.items.len(), page.reached), (1, 1));
        }
        assert_eq!(world.polls.gauge.get(), 40);
    }

    #[tokio::test]
    async fn others_read_on_when_the_request_that_reads_for_all_is_cut_off() {
        let mut world = World::new(|_| Box::pin(std::future::pending()));
        world.wait(1, "plan.*").await;
        let mut first = std::mem::take(&mut world.waiting);
        world.wait(2, "plan.*").await;

        first.shutdown().await;
        world.create_plan("pro").await;

        for _ in 0..2 {
            let page = world.waiting.join_next().await.unwrap().unwrap().unwrap();
            assert_eq!(page.items.len(), 1);
        }
        assert_eq!(world.polls.gauge.get(), 0);
    }

    #[tokio::test]
    async fn a_reader_of_deleted_events_is_refused_without_waiting() {
        let world = World::new(|_| Box::pin(std::future::pending()));
        world.create_plan("pro").await;
        world.service.forget_events(u64::MAX).await.unwrap();
        let client = "shop".parse().unwrap();
        let query = EventQuery::default();

        let refused = world.polls.read(&world.service, &client, query, Some(0), HOUR).await;

        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(world.polls.gauge.get(), 0);
    }

    #[tokio::test]
    async fn a_stop_answers_all_with_an_empty_page() {
        let mut world = World::new(|_| Box::pin(std::future::pending()));
        world.wait(20, "payment.*").await;

        world.polls.stop();

        while let Some(page) = world.waiting.join_next().await {
            let page = page.unwrap().unwrap();
            assert_eq!((page.items.len(), page.reached, page.last), (0, 0, 0));
        }
    }
}
