//! The billing of the server: the job that executes the due steps of subscriptions, such as renewals, and the same work
//! while a manual clock is turned. While billing is paused, by an import or by an operator, no step is executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::billing::{Advanced, Billing};
use subscription_core::events::Actor;
use subscription_core::store::{
    DuePayments, DueSubscriptions, Key, PageLimit, Position, SortKey, StoreError, StoreExt as _,
};
use subscription_core::{Error, PaymentChanges, PaymentStatus, Store, Timestamp};
use subscription_http::{ClockMetrics, PaymentReports};
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::jobs::{Job, Next, Stop};
use super::process_clock::{DueWork, Worked};
use crate::program::commands::billing_pause;

/// The maximum number of steps in one round. While requests arrive, a round is smaller, and the job then pauses for as
/// long as the round took.
const LIMIT: usize = 200;
const LIMIT_BESIDE_REQUESTS: usize = 20;

/// After a request of a client, rounds are smaller for this long, because more requests are likely to follow.
const REQUESTS_EXPECTED: Duration = Duration::from_secs(1);

/// How often the payments to collect are counted.
const COUNTED_EVERY: Duration = Duration::from_secs(5);

/// The minimum time between two warnings about steps whose records others hold, and the pause of an advance of the clock
/// that finds no other step.
const BUSY_WARNED_EVERY: Duration = Duration::from_mins(1);
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// If a payment has been due for more than a week, the log warns once a day.
const WEEK: Duration = Duration::from_hours(7 * 24);
const DAY: Duration = Duration::from_hours(24);

/// Executes the due steps of subscriptions, such as renewals.
#[derive(Debug, Clone)]
pub(crate) struct BillingJob {
    billing: Billing,
    store: Arc<dyn Store>,
    metrics: ClockMetrics,
    /// The number of requests that clients have sent to this process.
    requests: Arc<AtomicU64>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A call of `POST /clock/advance` holds this lock while it turns the clock. The job executes no steps during that
    /// time, because the call executes and counts them itself.
    turn: Arc<Mutex<()>>,
    /// True if the last log line about a pause says that billing is paused.
    is_paused: AtomicBool,
    /// The number of steps that failed in the last round.
    failed: AtomicUsize,
    /// When the log last warned about a step whose record somebody else holds.
    busy_warned: Mutex<Option<Instant>>,
    /// When the payments to collect were last counted.
    counted: Mutex<Option<Instant>>,
    /// When the log last warned about due payments whose results were not reported, by the process's clock.
    warned_at: Mutex<Option<Timestamp>>,
    /// The request count at the last check, and when a check last found that it had changed.
    requests_seen: Mutex<(u64, Option<Instant>)>,
}

impl BillingJob {
    pub(crate) fn new(
        billing: Billing,
        store: Arc<dyn Store>,
        metrics: ClockMetrics,
        requests: Arc<AtomicU64>,
    ) -> Self {
        Self { billing, store, metrics, requests, state: Arc::default() }
    }

    /// The lock that is held while the clock is turned.
    pub(crate) fn turn(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.state.turn)
    }

    /// True if billing is paused. Each change is logged once.
    async fn is_paused(&self) -> Result<bool, Error> {
        let is_paused = billing_pause::find(&self.store).await?.is_some();
        self.metrics.billing_paused(is_paused);
        if self.state.is_paused.swap(is_paused, Ordering::Relaxed) != is_paused {
            if is_paused {
                tracing::warn!(
                    "billing is paused: check the records, then run subscription-http billing resume"
                );
            } else {
                tracing::info!("billing is resumed");
            }
        }
        Ok(is_paused)
    }

    /// True if clients have sent requests in the last second.
    async fn is_beside_requests(&self) -> bool {
        let requests = self.requests.load(Ordering::Relaxed);
        let mut seen = self.state.requests_seen.lock().await;
        if seen.0 != requests {
            *seen = (requests, Some(Instant::now()));
        }
        seen.1.is_some_and(|at| at.elapsed() < REQUESTS_EXPECTED)
    }

    /// Executes due steps, and reports them in the metrics and in the log.
    async fn round(&self, limit: usize) -> Result<Advanced, Error> {
        // Steps that failed are tried first in each round. The limit grows by their number, so that they do not
        // displace other steps.
        let limit = limit.saturating_add(self.state.failed.load(Ordering::Relaxed));
        let begun = Instant::now();
        let advanced = self.billing.advance(limit).await?;
        self.metrics.billed(&advanced, begun.elapsed());
        self.state.failed.store(advanced.failed, Ordering::Relaxed);
        if let Some(error) = &advanced.failure {
            tracing::warn!(steps = advanced.failed, error, "billing steps failed");
        }
        if let Some(record) = &advanced.busy_record {
            self.warn_of_busy(advanced.busy, record).await;
        }
        if advanced.periods_skipped > 0 {
            let periods = advanced.periods_skipped;
            tracing::warn!(
                periods,
                "periods were skipped: more were missed than missed_periods_max"
            );
        }
        Ok(advanced)
    }

    /// Names a record that somebody else holds, so that its step cannot be taken: at most once in
    /// [`BUSY_WARNED_EVERY`].
    async fn warn_of_busy(&self, steps: usize, record: &Key) {
        let mut warned = self.state.busy_warned.lock().await;
        if warned.is_none_or(|at| at.elapsed() >= BUSY_WARNED_EVERY) {
            *warned = Some(Instant::now());
            tracing::warn!(
                steps,
                %record,
                "billing steps wait: another session of the database has locked their records"
            );
        }
    }

    /// Counts the due payments whose results are not reported yet: at most once in [`COUNTED_EVERY`], and at most one
    /// page of each status. If a payment has been due for more than a week, the log warns once a day, because nobody
    /// collects the payment or nobody reports its result.
    async fn count_payments(&self) -> Result<(), Error> {
        let mut counted = self.state.counted.lock().await;
        if counted.is_some_and(|at| at.elapsed() < COUNTED_EVERY) {
            return Ok(());
        }
        let now = self.billing.service().now();
        let mut payments = 0;
        let mut oldest = now;
        for status in [PaymentStatus::Pending, PaymentStatus::Processing] {
            let due = DuePayments::until(status, now).with_limit(PageLimit::MAX);
            let due = self.billing.due_payments(due).await?.items;
            payments += due.len();
            oldest =
                due.first().and_then(|first| first.due_at()).map_or(oldest, |at| at.min(oldest));
        }
        self.metrics.to_collect(payments, now.since(oldest));
        let mut warned_at = self.state.warned_at.lock().await;
        if now.since(oldest) > WEEK && warned_at.is_none_or(|at| now.since(at) >= DAY) {
            *warned_at = Some(now);
            tracing::warn!(payments, %oldest, "payments are due, but their results were not reported");
        }
        *counted = Some(Instant::now());
        Ok(())
    }
}

#[async_trait]
impl Job for BillingJob {
    fn name(&self) -> &'static str {
        "billing"
    }

    /// Executes one round. The round does not end early when the server stops. It is short: it executes at most
    /// [`LIMIT`] steps, plus the number of steps that failed in the last round.
    async fn run(&self, _: &Stop) -> Result<Next, Error> {
        let Ok(_turn) = self.state.turn.try_lock() else {
            return Ok(Next::At(self.billing.service().now()));
        };
        if self.is_paused().await? {
            self.count_payments().await?;
            return Ok(Next::Idle);
        }
        let begun = Instant::now();
        let is_beside_requests = self.is_beside_requests().await;
        let limit = if is_beside_requests { LIMIT_BESIDE_REQUESTS } else { LIMIT };
        let advanced = self.round(limit).await?;
        self.count_payments().await?;
        if advanced.more {
            let pause = if is_beside_requests { begun.elapsed() } else { Duration::ZERO };
            return Ok(Next::After(pause));
        }
        Ok(advanced.next_at.map_or(Next::Idle, Next::At))
    }
}

#[async_trait]
impl DueWork for BillingJob {
    async fn next_due(
        &self,
        after: Option<Timestamp>,
        until: Timestamp,
        payments: PaymentReports,
    ) -> Result<Option<Timestamp>, Error> {
        if self.is_paused().await? {
            return Ok(None);
        }
        let one = PageLimit::new(1).unwrap_or_default();
        // No id is greater, so the position is after all work of that moment.
        let after = after.map(|at| Position { key: SortKey::DueAt(at), id: Uuid::max() });
        let step = DueSubscriptions::until(until).with_limit(one).with_after(after.clone());
        let step = self.store.due_subscriptions(step).await?.items;
        let step = step.first().and_then(|first| first.next_action_at());
        let payment = async |status| {
            let due = DuePayments::until(status, until).with_limit(one).with_after(after.clone());
            let due = self.store.due_payments(due).await?.items;
            Ok::<_, Error>(due.first().and_then(|first| first.action_at()))
        };
        let retry = payment(PaymentStatus::Failed).await?;
        let to_report = match payments {
            PaymentReports::Leave => None,
            PaymentReports::Succeed | PaymentReports::Fail => {
                payment(PaymentStatus::Pending).await?
            }
        };
        Ok([step, retry, to_report].into_iter().flatten().min())
    }

    async fn work(&self, payments: PaymentReports) -> Result<Worked, Error> {
        let advanced = self.round(LIMIT).await?;
        if let Some(failure) = advanced.failure {
            // A failed step stays due. Without this error, the caller would repeat the step, and the clock would stay
            // at this moment.
            return Err(Error::Store(StoreError::Damaged(failure.into())));
        }
        if advanced.steps == 0 && advanced.busy > 0 {
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        let status = match payments {
            _ if advanced.more => None,
            PaymentReports::Leave => None,
            PaymentReports::Succeed => Some(PaymentStatus::Succeeded),
            PaymentReports::Fail => Some(PaymentStatus::Failed),
        };
        let mut worked = Worked { steps: advanced.steps as u64, reports: 0 };
        if let Some(status) = status {
            let billing = self.billing.by(Actor::Command);
            let due = DuePayments::until(PaymentStatus::Pending, billing.service().now());
            for payment in billing.due_payments(due).await?.items {
                let report = PaymentChanges::status(status);
                match billing.service().update_payment(payment.id, report).await {
                    // A payment whose subscription cannot be read does not hold up the others.
                    Err(Error::Store(StoreError::Damaged(_))) => {}
                    reported => {
                        reported?;
                        worked.reports += 1;
                    }
                }
            }
        }
        Ok(worked)
    }
}
