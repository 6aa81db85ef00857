//! Races between the clock and callers of the service, over one store that one or several instances use.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::PaymentQuery;
use subscription_core::{
    Action, BillingCycle, Clock as _, Conflict, Effective, Error, ManualClock, NewPlan,
    NewSubscription, OneLivePer, Payment, PaymentChanges, PaymentStatus, Plan, Store, Subscription,
    SubscriptionService, SubscriptionStatus, SystemRandomness, UserId,
};
use tokio::task::JoinSet;

/// The number of subscriptions in one round.
pub(super) const SUBSCRIPTIONS: usize = 24;

/// Instances of the service that share a clock, and a monthly plan.
pub(super) struct Instances {
    pub(super) clock: ManualClock,
    pub(super) billings: Vec<Billing>,
    pub(super) plan: Arc<Plan>,
}

impl Instances {
    pub(super) async fn over(stores: &[Arc<dyn Store>], nth: usize) -> Self {
        Self::named(stores, &format!("race-{nth}")).await
    }

    /// Creates the instances, and a plan with this slug.
    pub(super) async fn named(stores: &[Arc<dyn Store>], slug: &str) -> Self {
        let clock = ManualClock::at("2025-01-31T10:00:00Z".parse().unwrap());
        let billings: Vec<_> = stores.iter().map(|store| billing(store, &clock)).collect();
        let plan = monthly(&billings[0], slug, "10").await;
        Self { clock, billings, plan }
    }

    /// An instance by its number. Numbers wrap around.
    pub(super) fn billing(&self, nth: usize) -> Billing {
        self.billings[nth % self.billings.len()].clone()
    }

    pub(super) fn user(&self) -> UserId {
        UserId::new(self.clock.now(), &SystemRandomness).unwrap()
    }

    /// Subscriptions that are due for renewal. Their first payment has this status.
    async fn due(&self, status: PaymentStatus) -> Vec<(Arc<Subscription>, Arc<Payment>)> {
        let due = self.made(status).await;
        self.turn_to_renewal(&due);
        due
    }

    /// New subscriptions. Their first payment has this status.
    pub(super) async fn made(
        &self,
        status: PaymentStatus,
    ) -> Vec<(Arc<Subscription>, Arc<Payment>)> {
        let service = self.billings[0].service();
        let mut all = Vec::new();
        for _ in 0..SUBSCRIPTIONS {
            let new = NewSubscription::new(self.user(), self.plan.id);
            let made = service.create_subscription(new).await.unwrap();
            let first = self.payments(&made).await.remove(0);
            let report = PaymentChanges::status(status);
            let first = service.update_payment(first.id, report).await.unwrap();
            all.push((made, first));
        }
        all
    }

    /// Turns the clock to one second after the renewal.
    pub(super) fn turn_to_renewal(&self, of: &[(Arc<Subscription>, Arc<Payment>)]) {
        let renewal = of.first().and_then(|(made, _)| made.renews_at).unwrap();
        self.clock.set(renewal.saturating_add(Duration::from_secs(1)));
    }

    pub(super) async fn payments(&self, of: &Subscription) -> Vec<Arc<Payment>> {
        self.billings[0].service().payments(PaymentQuery::of(of.id)).await.unwrap().items
    }

    /// Starts a task for each instance, which takes the due steps while the other tasks run.
    pub(super) fn advance(&self, tasks: &mut JoinSet<()>) {
        for billing in &self.billings {
            let billing = billing.clone();
            tasks.spawn(async move { while billing.advance(7).await.unwrap().more {} });
        }
    }

    /// Waits for all tasks, and then advances the billing until nothing is due.
    pub(super) async fn finish(&self, mut tasks: JoinSet<()>) {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        while self.billings[0].advance(1_000).await.unwrap().steps > 0 {}
    }

    /// Checks that no period has two requested payments, and returns the subscription and its payments.
    pub(super) async fn checked(
        &self,
        of: &Subscription,
    ) -> (Arc<Subscription>, Vec<Arc<Payment>>) {
        let payments = self.payments(of).await;
        let mut starts = BTreeSet::new();
        for start in payments.iter().filter_map(|payment| payment.claimed_period()) {
            assert!(starts.insert(start), "{start} twice: {payments:?}");
        }
        (self.billings[0].service().subscription(of.id).await.unwrap(), payments)
    }
}

/// Creates an instance over a store.
pub(super) fn billing(store: &Arc<dyn Store>, clock: &ManualClock) -> Billing {
    let service = SubscriptionService::builder(Arc::clone(store))
        .clock(clock.clone())
        .pause(|span| Box::pin(tokio::time::sleep(span)))
        .one_live_per(OneLivePer::User)
        .build();
    Billing::new(service, Policy::default())
}

/// Creates a monthly plan in USD.
pub(super) async fn monthly(billing: &Billing, slug: &str, price: &str) -> Arc<Plan> {
    let (name, price) = ("Pro".parse().unwrap(), price.parse().unwrap());
    let plan = NewPlan::new(name, slug.parse().unwrap(), price, BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("USD".parse().unwrap()), ..plan };
    billing.service().create_plan(plan).await.unwrap()
}

/// Runs every race `rounds` times.
pub async fn all(stores: Vec<Arc<dyn Store>>, rounds: usize) {
    for round in 0..rounds {
        cancel_against_renew(&stores, 4 * round).await;
        report_against_renew(&stores, 4 * round + 1).await;
        retry_against_retry(&stores, 4 * round + 2).await;
        two_creates_of_one_user(&stores, 4 * round + 3).await;
    }
}

/// A cancellation with immediate effect against the renewal. In both orders, the cancelled subscription has no open
/// payment.
async fn cancel_against_renew(stores: &[Arc<dyn Store>], nth: usize) {
    let world = Instances::over(stores, nth).await;
    let due = world.due(PaymentStatus::Succeeded).await;

    let mut tasks = JoinSet::new();
    world.advance(&mut tasks);
    for (nth, (held, _)) in due.iter().enumerate() {
        let (billing, id) = (world.billing(nth), held.id);
        tasks.spawn(async move {
            let cancel = Action::Cancel(Some(Effective::Now));
            billing.service().act(id, cancel).await.unwrap();
        });
    }
    world.finish(tasks).await;

    for (held, _) in &due {
        let (now, payments) = world.checked(held).await;
        assert_eq!(now.status, SubscriptionStatus::Expired);
        assert!(payments.iter().all(|payment| !payment.is_open()), "{now:?}: {payments:?}");
    }
}

/// The report that the first payment failed, against the renewal. A subscription with a payment behind is past due, and
/// no payment is requested then.
async fn report_against_renew(stores: &[Arc<dyn Store>], nth: usize) {
    let world = Instances::over(stores, nth).await;
    let due = world.due(PaymentStatus::Pending).await;

    let mut tasks = JoinSet::new();
    world.advance(&mut tasks);
    for (nth, (_, first)) in due.iter().enumerate() {
        let (billing, id) = (world.billing(nth), first.id);
        tasks.spawn(async move {
            let failed = PaymentChanges::status(PaymentStatus::Failed);
            billing.service().update_payment(id, failed).await.unwrap();
        });
    }
    world.finish(tasks).await;

    for (held, first) in &due {
        let (now, payments) = world.checked(held).await;
        assert_eq!(now.status, SubscriptionStatus::PastDue, "{payments:?}");
        let first = payments.iter().find(|payment| payment.id == first.id).unwrap();
        assert_eq!(first.status, PaymentStatus::Failed);
        // Either the renewal came first and requested a payment, or the failure came first and prevented that.
        assert!(payments.len() <= 2, "{payments:?}");
    }
}

/// Scheduled retries on every instance, against a retry by a caller. Together they make one new attempt.
async fn retry_against_retry(stores: &[Arc<dyn Store>], nth: usize) {
    let world = Instances::over(stores, nth).await;
    let due = world.due(PaymentStatus::Failed).await;

    let mut tasks = JoinSet::new();
    world.advance(&mut tasks);
    for (nth, (_, first)) in due.iter().enumerate() {
        let (billing, id) = (world.billing(nth), first.id);
        tasks.spawn(async move {
            billing.retry_payment(id, None, None).await.unwrap();
        });
    }
    world.finish(tasks).await;

    for (held, first) in &due {
        let (_, payments) = world.checked(held).await;
        let first = payments.iter().find(|payment| payment.id == first.id).unwrap();
        assert_eq!((first.status, first.attempt()), (PaymentStatus::Pending, Some(2)));
    }
}

/// Four creations of a subscription for the same user at the same time. Only one succeeds, because a user may have one
/// live subscription.
async fn two_creates_of_one_user(stores: &[Arc<dyn Store>], nth: usize) {
    let world = Instances::over(stores, nth).await;
    for _ in 0..SUBSCRIPTIONS / 4 {
        let user = world.user();
        let mut tasks = JoinSet::new();
        for nth in 0..4 {
            let (billing, plan) = (world.billing(nth), world.plan.id);
            tasks.spawn(async move {
                billing.service().create_subscription(NewSubscription::new(user, plan)).await
            });
        }

        let mut made = 0;
        while let Some(done) = tasks.join_next().await {
            match done.unwrap() {
                Ok(_) => made += 1,
                Err(Error::Conflict(Conflict::Taken { .. })) => {}
                Err(error) => panic!("{error:?}"),
            }
        }

        assert_eq!(made, 1);
    }
}
