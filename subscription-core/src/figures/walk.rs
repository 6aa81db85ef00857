//! Reads all records for the figures, page by page, and caches the result.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::try_join3;

use super::forecast::{Forecast, ForecastFold};
use super::history::{HistoryFold, Months, Subscriptions};
use super::now::{Now, NowFold};
use crate::error::Error;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::service::SubscriptionService;
use crate::store::{
    Direction, Kind, PageLimit, PaymentQuery, PlanOrder, PlanQuery, Position, StoreExt as _,
    SubscriptionQuery,
};
use crate::subscriptions::Subscription;
use crate::values::{Clock, SystemClock, Timestamp};

/// The longest time for which the present figures are cached.
const NOW_KEPT: Duration = Duration::from_mins(1);
/// The longest time for which the figures of the months and the forecast are cached.
const MONTHS_KEPT: Duration = Duration::from_mins(10);
/// The shortest time for which figures are cached.
const KEPT_MIN: Duration = Duration::from_secs(1);
/// Figures are cached for this multiple of the time that it took to read them, but not for a shorter or longer time
/// than the limits above allow: the figures of a small store are fresh, and a large store is not read often.
const KEPT_TIMES: u32 = 100;

/// The figures of a service.
///
/// The figures are read in pages of 1,000 records, one reading at a time. They are cached: *now* for at most one
/// minute, *months* and the *forecast* for at most ten minutes. A caller that comes during a reading waits for its
/// result. If the caller that reads drops its future, the reading ends: spawn the future if callers may disconnect.
/// Clones share the cache.
#[derive(Debug, Clone)]
pub struct Figures(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    service: SubscriptionService,
    /// The clock that measures the age of cached figures. The service's own clock may stand still.
    ages: Arc<dyn Clock>,
    reading: async_lock::Mutex<()>,
    now: Cache<Now>,
    months: Cache<Months>,
    forecast: Cache<Forecast>,
}

type Cache<T> = Mutex<Option<Reading<T>>>;

#[derive(Debug)]
struct Reading<T> {
    figures: Arc<T>,
    /// The time of the service's clock when the reading began. `began` and `ended` are times of the clock `ages`.
    as_of: Timestamp,
    began: Timestamp,
    ended: Timestamp,
}

impl Figures {
    /// The figures of a service. Nothing is read yet. The forecast needs the service of
    /// [`Billing`](crate::billing::Billing::service): with any other service, the forecast has no payments.
    pub fn new(service: SubscriptionService) -> Self {
        Self::aged_by(service, SystemClock)
    }

    /// Like [`Figures::new`], with another clock that measures the age of cached figures, such as a test's clock.
    pub fn aged_by(service: SubscriptionService, ages: impl Clock + 'static) -> Self {
        Self(Arc::new(Parts {
            service,
            ages: Arc::new(ages),
            reading: async_lock::Mutex::default(),
            now: Mutex::default(),
            months: Mutex::default(),
            forecast: Mutex::default(),
        }))
    }

    /// The figures of now, from all plans and subscriptions.
    pub async fn now(&self) -> Result<Arc<Now>, Error> {
        self.cached(&self.0.now, NOW_KEPT, |as_of| self.read_now(as_of)).await
    }

    /// The figures of the last `count` months, at most [`MONTHS_MAX`](super::MONTHS_MAX), from all subscriptions and
    /// payments.
    pub async fn months(&self, count: usize) -> Result<Months, Error> {
        let read = |as_of| self.read_months(as_of);
        let mut months = Months::clone(&*self.cached(&self.0.months, MONTHS_KEPT, read).await?);
        months.data.drain(..months.data.len().saturating_sub(count));
        Ok(months)
    }

    /// The payments that the clock will create in the running month and the eleven months after it, computed from all
    /// subscriptions as if every payment succeeds.
    pub async fn forecast(&self) -> Result<Arc<Forecast>, Error> {
        let read = |as_of| self.read_forecast(as_of);
        self.cached(&self.0.forecast, MONTHS_KEPT, read).await
    }

    async fn cached<T: Send + Sync, F: Future<Output = Result<T, Error>> + Send>(
        &self,
        cache: &Cache<T>,
        kept: Duration,
        read: impl FnOnce(Timestamp) -> F + Send,
    ) -> Result<Arc<T>, Error> {
        if let Some(figures) = self.fresh(cache, kept) {
            return Ok(figures);
        }
        let _turn = self.0.reading.lock().await;
        // Another caller may have read the figures while this one waited.
        if let Some(figures) = self.fresh(cache, kept) {
            return Ok(figures);
        }
        let began = self.0.ages.now();
        let as_of = self.0.service.now();
        let figures = Arc::new(read(as_of).await?);
        *locked(cache) =
            Some(Reading { figures: Arc::clone(&figures), as_of, began, ended: self.0.ages.now() });
        Ok(figures)
    }

    /// The cached figures; `None` if they are too old, or if the service's clock or the clock `ages` was set to another
    /// time since they were read.
    fn fresh<T>(&self, cache: &Cache<T>, kept: Duration) -> Option<Arc<T>> {
        let last = locked(cache);
        let last = last.as_ref()?;
        let time = self.0.ages.now();
        let now = self.0.service.now();
        let took = last.ended.since(last.began);
        let is_old =
            time.since(last.ended) >= took.saturating_mul(KEPT_TIMES).clamp(KEPT_MIN, kept);
        let passed = time.since(last.began) + KEPT_MIN;
        let is_turned = time < last.ended || now < last.as_of || now.since(last.as_of) > passed;
        (!is_old && !is_turned).then(|| Arc::clone(&last.figures))
    }

    async fn read_now(&self, as_of: Timestamp) -> Result<Now, Error> {
        let mut fold = NowFold::new(as_of);
        let by_id = PlanQuery::default().with_order(PlanOrder::CreatedAt);
        let page = |after| by_id.clone().with_limit(PageLimit::FIGURES).with_after(after);
        self.each::<Plan>(page, |plan| {
            fold.plan(plan);
            true
        })
        .await?;
        self.each_subscription(|held| fold.subscription(held)).await?;
        Ok(fold.finish())
    }

    async fn read_months(&self, as_of: Timestamp) -> Result<Months, Error> {
        let mut subscriptions = Subscriptions::default();
        let fold = Mutex::new(HistoryFold::new(as_of));
        let paid = async |way| {
            let query = PaymentQuery::all().with_direction(way).with_limit(PageLimit::FIGURES);
            let page = |after| query.clone().with_after(after);
            self.each::<Payment>(page, |payment| locked(&fold).payment(payment, way)).await
        };
        let held = self.each_subscription(|held| subscriptions.add(held));
        // Payments are read from both ends at the same time: the database reads one page while this process decodes
        // another page.
        try_join3(held, paid(Direction::Ascending), paid(Direction::Descending)).await?;
        let fold = fold.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(fold.finish(&subscriptions))
    }

    async fn read_forecast(&self, as_of: Timestamp) -> Result<Forecast, Error> {
        let mut fold = ForecastFold::new(as_of);
        let service = &self.0.service;
        let by_id = SubscriptionQuery::default().with_direction(Direction::Ascending);
        let mut query = by_id.with_limit(PageLimit::FIGURES);
        loop {
            let page = service.store().list_as::<Subscription>(query.clone()).await?;
            for held in &page.items {
                fold.subscription(held, service.rules());
                // A subscription that is billed each day has about 365 future steps, which are all computed here. So
                // other tasks run after each subscription.
                let_others_run().await;
            }
            if page.next.is_none() {
                return Ok(fold.finish());
            }
            query = query.with_after(page.next);
        }
    }

    async fn each_subscription(
        &self,
        mut add: impl FnMut(&Subscription) + Send,
    ) -> Result<(), Error> {
        let by_id = SubscriptionQuery::default().with_direction(Direction::Ascending);
        let page = |after| by_id.clone().with_limit(PageLimit::FIGURES).with_after(after);
        self.each::<Subscription>(page, |held| {
            add(held);
            true
        })
        .await
    }

    /// Reads a list to its end, or until `add` returns false.
    async fn each<K: Kind>(
        &self,
        page: impl Fn(Option<Position>) -> K::Query + Send,
        mut add: impl FnMut(&K) -> bool + Send,
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let found = self.0.service.store().list_as::<K>(page(after)).await?;
            let goes_on = found.items.iter().all(|item| add(item));
            after = found.next;
            if !goes_on || after.is_none() {
                return Ok(());
            }
            let_others_run().await;
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the other tasks of the thread run once, because a read from a store in memory never lets them run.
async fn let_others_run() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
