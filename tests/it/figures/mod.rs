//! Figures of the business: what each number means, from records that are written as they are.

mod forecast;
mod history;
mod identity;
mod months;
mod now;
mod reference;
pub(crate) mod slow_store;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use subscription_core::figures::{Figures, Months, Now};
use subscription_core::payments::RequestedPayment;
use subscription_core::store::{ChangeSet, Delete, Record};
use subscription_core::{
    BillingCycle, ManagedBy, ManualClock, MemoryStore, NewPlan, NewSubscription, Payment,
    PaymentKind, PaymentStatus, Plan, SeededRandomness, Store, Subscription, SubscriptionId,
    SubscriptionService, UserId, Version,
};
use test_support::service_world::{at, of};
use uuid::Uuid;

const NOW: &str = "2025-06-15T12:00:00Z";

/// A store whose records a test writes, and its figures.
struct Book {
    store: Arc<dyn Store>,
    service: SubscriptionService,
    clock: ManualClock,
    numbers: AtomicU64,
}

impl Book {
    /// An empty one, in the middle of June 2025.
    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default()))
    }

    fn over(store: Arc<dyn Store>) -> Self {
        let clock = ManualClock::at(at(NOW));
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .build();
        Self { store, service, clock, numbers: AtomicU64::new(1) }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    async fn put(&self, record: impl Into<Record>) {
        let writes = vec![record.into()];
        self.store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    }

    async fn plan(&self, price: &str, currency: Option<&str>, cycle: &str) -> Arc<Plan> {
        let slug = of(&format!("plan-{}", self.number()));
        let plan = NewPlan::new(of("Plan"), slug, of(price), of(cycle));
        let plan = NewPlan { currency: currency.map(of), ..plan };
        self.service.create_plan(plan).await.unwrap()
    }

    /// A subscription of a new user since January, active and managed by its caller, with what `change` makes of it.
    async fn held(&self, plan: &Plan, change: impl FnOnce(&mut Subscription)) -> Subscription {
        let user = UserId::from(Uuid::from_u128(self.number().into()));
        let mut new = NewSubscription::new(user, plan.id);
        new.managed_by = Some(ManagedBy::Caller);
        let id = SubscriptionId::from(Uuid::from_u128(self.number().into()));
        let start = at("2025-01-01T00:00:00Z");
        let mut held = Subscription::create(new, plan.billing_cycle, id, start).unwrap();
        change(&mut held);
        self.put(held.clone()).await;
        held
    }

    /// A payment of 10.00 USD that was asked for here, for the period between two days, with what `change` makes
    /// of it.
    async fn paid(
        &self,
        subscription: SubscriptionId,
        (start, end): (&str, &str),
        change: impl FnOnce(&mut Payment),
    ) -> Payment {
        let mut payment = payment(self.number(), subscription, (start, end));
        change(&mut payment);
        self.put(payment.clone()).await;
        payment
    }

    async fn delete(&self, held: &Subscription) {
        let key = Record::from(held.clone()).key();
        let deletes = vec![Delete { key, version: Version::FIRST }];
        self.store.commit(ChangeSet { deletes, ..ChangeSet::default() }).await.unwrap();
    }

    async fn now(&self) -> Arc<Now> {
        Figures::new(self.service.clone()).now().await.unwrap()
    }

    async fn months(&self, count: usize) -> Months {
        Figures::new(self.service.clone()).months(count).await.unwrap()
    }
}

/// A day, or a moment.
fn moment(text: &str) -> subscription_core::Timestamp {
    at(&if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") })
}

fn payment(number: u64, subscription: SubscriptionId, (start, end): (&str, &str)) -> Payment {
    let (period_start, amount) = (moment(start), of("10.00"));
    Payment {
        id: Uuid::from_u128(number.into()).into(),
        subscription_id: subscription,
        amount,
        currency: of("USD"),
        external_payment_id: None,
        status: PaymentStatus::Succeeded,
        metadata: None,
        created_at: period_start,
        updated_at: period_start,
        version: Version::FIRST,
        settled: true,
        asked: Some(Box::new(RequestedPayment {
            kind: PaymentKind::Renewal,
            period_start,
            period_end: Some(moment(end)),
            due_at: period_start,
            attempt: 1,
            next_attempt_at: None,
            retries: 0,
            value: amount,
            cycle: BillingCycle::MONTHLY,
            mirrored: false,
            by_clock: true,
            basis: None,
        })),
    }
}

/// The period of a payment, to be changed.
fn asked(payment: &mut Payment) -> &mut RequestedPayment {
    payment.asked.as_mut().unwrap()
}

/// The recurring revenue of the last months, in all currencies: `USD 10.00, EUR 5.00`.
fn revenue(months: &Months) -> Vec<String> {
    let money = |month: &subscription_core::figures::Month| {
        let money = month.money.iter().map(|money| format!("{} {}", money.currency, money.mrr));
        money.collect::<Vec<_>>().join(", ")
    };
    months.data.iter().map(money).collect()
}

/// Paying, new, returned and churned users, and the rate: `2 +1 ^0 -1 0.5000`.
fn users(months: &Months) -> Vec<String> {
    let users = |month: &subscription_core::figures::Month| {
        let rate = month.churn_rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
        let (paying, new) = (month.paying_users, month.new_users);
        format!("{paying} +{new} ^{} -{} {rate}", month.returned_users, month.churned_users)
    };
    months.data.iter().map(users).collect()
}
