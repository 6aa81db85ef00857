//! A store whose work is timed and counted, for `/metrics`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use subscription_core::auth::{Client, IdentityKey, Session, User};
use subscription_core::events::{Change, RecordedEvent, Subject};
use subscription_core::store::{
    CacheInvalidator, ChangeSet, IdempotencyKey, IdempotencyRecord, Page, PageLimit, PaymentQuery,
    PlanQuery, Store, StoreError, SubscriptionQuery,
};
use subscription_core::{
    ExternalId, Payment, PaymentId, Plan, PlanId, SessionId, Slug, Subscription, SubscriptionId,
    Timestamp, UserId,
};

/// A store that tells how long it takes, how often it fails, and how sessions come and go.
///
/// A cache belongs in front of it: what is in memory takes no time that is worth telling, and would
/// hide how long the rest takes.
#[derive(Debug)]
pub struct MeteredStore {
    inner: Arc<dyn Store>,
    metrics: StoreMetrics,
}

/// What a [`MeteredStore`] has counted, to be shown at `/metrics`.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    /// By operation; `timed` has those of [`OPERATIONS`] at hand.
    seconds: Family<Operation, Histogram>,
    timed: Arc<[Histogram]>,
    failures: Family<Operation, Counter>,
    opened: Counter,
    revoked: Counter,
    memory: Option<CacheInvalidator>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

/// What a store is asked to do.
const OPERATIONS: [&str; 22] = [
    "plan",
    "plan_by_slug",
    "plans",
    "subscription",
    "subscription_by_external_id",
    "subscriptions",
    "payment",
    "payment_by_external_id",
    "payments",
    "user",
    "user_by_identity",
    "closing_users",
    "session",
    "sessions",
    "ended_sessions_of",
    "ended_sessions",
    "client",
    "clients",
    "idempotency",
    "expired_idempotency",
    "events",
    "commit",
];

/// Which of [`OPERATIONS`] it is, found while this is compiled.
const fn nth(operation: &str) -> usize {
    let (mut nth, mut rest) = (0, OPERATIONS.as_slice());
    while let [first, others @ ..] = rest {
        if same(first.as_bytes(), operation.as_bytes()) {
            return nth;
        }
        (nth, rest) = (nth + 1, others);
    }
    panic!("no such operation")
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    match (left, right) {
        ([], []) => true,
        ([a, left @ ..], [b, right @ ..]) => *a == *b && same(left, right),
        ([], [_, ..]) | ([_, ..], []) => false,
    }
}

/// From 20 microseconds, which is memory, to 5 seconds, which is trouble.
const BUCKETS: [f64; 12] =
    [0.00002, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

impl StoreMetrics {
    /// Tells as well what a cache in front of the store has in memory.
    #[must_use]
    pub fn cached(mut self, memory: &CacheInvalidator) -> Self {
        self.memory = Some(memory.clone());
        self
    }

    fn took<T>(&self, nth: usize, took: Duration, done: &Result<T, StoreError>) {
        if let Some(seconds) = self.timed.get(nth) {
            seconds.observe(took.as_secs_f64());
        }
        // What was refused by its rules has not failed.
        if let Err(StoreError::Unavailable(_) | StoreError::Damaged(_)) = done
            && let Some(operation) = OPERATIONS.get(nth)
        {
            self.failures.get_or_create(&Operation { operation }).inc();
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { seconds, timed: _, failures, opened, revoked, memory } = self;
        registry.register("store_seconds", "How long the store took", seconds.clone());
        registry.register("store_failures", "What the store failed to do", failures.clone());
        registry.register("sessions_opened", "Sessions that began", opened.clone());
        registry.register("sessions_revoked", "Sessions ended before their time", revoked.clone());
        if let Some(memory) = memory {
            registry.register_collector(Box::new(CacheCollector(memory.clone())));
        }
    }
}

/// How often a record was in memory.
#[derive(Debug)]
struct CacheCollector(CacheInvalidator);

impl prometheus_client::collector::Collector for CacheCollector {
    fn encode(
        &self,
        mut encoder: prometheus_client::encoding::DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        use prometheus_client::encoding::EncodeMetric as _;
        use prometheus_client::metrics::MetricType;
        use prometheus_client::metrics::counter::ConstCounter;

        for (name, help, count) in [
            ("cache_hits", "Records that were in memory", self.0.hits()),
            ("cache_misses", "Records that the store was asked for", self.0.misses()),
        ] {
            let one = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(one)?;
        }
        Ok(())
    }
}

impl MeteredStore {
    /// Puts a watch on a store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let seconds =
            Family::<Operation, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let timed =
            OPERATIONS.map(|operation| seconds.get_or_create(&Operation { operation }).clone());
        let metrics = StoreMetrics {
            seconds,
            timed: timed.into(),
            failures: Family::default(),
            opened: Counter::default(),
            revoked: Counter::default(),
            memory: None,
        };
        Self { inner, metrics }
    }

    /// What it counts, for [`ApiBuilder::store_metrics`](crate::ApiBuilder::store_metrics).
    pub const fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }
}

/// Does something and tells how long it took.
macro_rules! timed {
    ($store:ident, $operation:literal, $call:expr) => {{
        const NTH: usize = nth($operation);
        let begun = Instant::now();
        let done = $call.await;
        $store.metrics.took(NTH, begun.elapsed(), &done);
        done
    }};
}

#[async_trait]
impl Store for MeteredStore {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        timed!(self, "plan", self.inner.plan(id))
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        timed!(self, "plan_by_slug", self.inner.plan_by_slug(slug))
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        timed!(self, "plans", self.inner.plans(query))
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        timed!(self, "subscription", self.inner.subscription(id))
    }

    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        timed!(self, "subscription_by_external_id", self.inner.subscription_by_external_id(id))
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError> {
        timed!(self, "subscriptions", self.inner.subscriptions(query))
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        timed!(self, "payment", self.inner.payment(id))
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        timed!(self, "payment_by_external_id", self.inner.payment_by_external_id(id))
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        timed!(self, "payments", self.inner.payments(query))
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        timed!(self, "user", self.inner.user(id))
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        timed!(self, "user_by_identity", self.inner.user_by_identity(identity))
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        timed!(self, "closing_users", self.inner.closing_users(limit))
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        timed!(self, "session", self.inner.session(id))
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        timed!(self, "sessions", self.inner.sessions(user, now))
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        timed!(self, "ended_sessions_of", self.inner.ended_sessions_of(user, now, skip, limit))
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        timed!(self, "ended_sessions", self.inner.ended_sessions(before, limit))
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        timed!(self, "client", self.inner.client(id))
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        timed!(self, "clients", self.inner.clients())
    }

    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError> {
        timed!(self, "idempotency", self.inner.idempotency(key))
    }

    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError> {
        timed!(self, "expired_idempotency", self.inner.expired_idempotency(now, limit))
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        timed!(self, "events", self.inner.events(after, limit))
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let sessions =
            changes.events.iter().filter(|event| matches!(event.subject, Subject::Session(_)));
        let (mut opened, mut revoked) = (0, 0);
        for event in sessions {
            opened += u64::from(event.change == Change::Created);
            revoked += u64::from(matches!(event.change, Change::Revoked { .. }));
        }
        let done = timed!(self, "commit", self.inner.commit(changes));
        if done.is_ok() {
            self.metrics.opened.inc_by(opened);
            self.metrics.revoked.inc_by(revoked);
        }
        done
    }
}
