//! The collector, killed at every step: nobody is charged twice, and nobody is forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::PaymentQuery;
use subscription_core::{
    Amount, BillingCycle, Currency, MemoryStore, NewPlan, NewSubscription, PaymentStatus, Store,
    SubscriptionStatus, UserId,
};
use test_support::simulation::billing::recorder::Recorder;
use test_support::simulation::faults::Fault;
use test_support::simulation::world::{advance, service_over};
use uuid::Uuid;

use crate::{Gateway, Result, collect};

/// Where the collector is killed: at its nth step of a kind.
#[derive(Debug, Clone, Copy)]
enum Killed {
    /// A read of the store fails.
    AtRead(u32),
    /// A commit fails, and is not made.
    BeforeCommit(usize),
    /// A commit is made, but its result does not reach the collector.
    AfterCommit(usize),
    /// The gateway is not reached.
    BeforeCharge(u32),
    /// The gateway charges, but its result does not reach the collector.
    AfterCharge(u32),
}

/// A gateway that refuses the first attempt to charge one payment.
#[derive(Debug, Default)]
struct Till(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    said: BTreeMap<String, bool>,
    refuses: Option<Uuid>,
    killed: Option<Killed>,
    asked: u32,
}

impl Till {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Gateway for Till {
    async fn charge(&self, key: &str, _: Amount, _: Currency) -> Result<bool> {
        let mut state = self.state();
        let nth = state.asked;
        state.asked += 1;
        if matches!(state.killed, Some(Killed::BeforeCharge(at)) if at == nth) {
            return Err("killed before a charge".into());
        }
        let refused =
            state.refuses.is_some_and(|of| key.starts_with(&of.to_string()) && is_first(key));
        let paid = *state.said.entry(key.to_owned()).or_insert(!refused);
        if matches!(state.killed, Some(Killed::AfterCharge(at)) if at == nth) {
            return Err("killed after a charge".into());
        }
        Ok(paid)
    }
}

fn is_first(key: &str) -> bool {
    key.ends_with("/1")
}

/// The loop of a server, until nothing is due any more.
async fn work(billing: &Billing, till: &Till) -> Result<()> {
    loop {
        let advanced = billing.advance(200).await?;
        collect(billing, till).await?;
        if advanced.steps == 0 {
            return Ok(());
        }
    }
}

/// Kills the collector once and runs it again to its end. Returns true if it was killed.
async fn survives(killed: Killed) -> bool {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (clock, faults, service) = service_over(&store, 1);
    let billing = Billing::new(service, Policy::default());
    let service = billing.service();
    let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
    let plan = NewPlan::new(name, slug, "19.90".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("EUR".parse().unwrap()), ..plan };
    let plan = service.create_plan(plan).await.unwrap();
    let mut held = Vec::new();
    for user in 1..=2_u128 {
        let new = NewSubscription::new(UserId::from(Uuid::from_u128(user)), plan.id);
        held.push(service.create_subscription(new).await.unwrap().id);
    }
    let till = Till::default();
    let refused = service.payments(PaymentQuery::of(held[1])).await.unwrap().items;
    till.state().refuses = refused.first().and_then(|payment| payment.charge_key());

    let nothing = || Fault::Overtaken(Vec::new());
    let nth = |nth: usize, fault| std::iter::repeat_with(nothing).take(nth).chain([fault]);
    match killed {
        Killed::AtRead(at) => faults.plan(Vec::new(), Some(at)),
        Killed::BeforeCommit(at) => faults.plan(nth(at, Fault::Refusal).collect(), None),
        Killed::AfterCommit(at) => faults.plan(nth(at, Fault::LostAnswer).collect(), None),
        Killed::BeforeCharge(_) | Killed::AfterCharge(_) => till.state().killed = Some(killed),
    }
    let mut was_killed = false;
    // From the end of January to the middle of April: periods from 29 February and 31 March on.
    for _ in 0..77 {
        was_killed |= work(&billing, &till).await.is_err();
        if was_killed {
            faults.plan(Vec::new(), None);
            till.state().killed = None;
            work(&billing, &till).await.unwrap();
        }
        advance(&clock, 24 * 60 * 60);
    }
    // A planned fault that was not reached must not hit the checks.
    faults.plan(Vec::new(), None);

    for id in held {
        let subscription = service.subscription(id).await.unwrap();
        assert_eq!(subscription.status, SubscriptionStatus::Active, "{killed:?}");
        let payments = service.payments(PaymentQuery::of(id)).await.unwrap().items;
        assert_eq!(payments.len(), 3, "{killed:?}: {payments:?}");
        for payment in payments {
            assert_eq!(payment.status, PaymentStatus::Succeeded, "{killed:?}: {payment:?}");
            let (state, of) = (till.state(), payment.charge_key().unwrap().to_string());
            let times = state.said.iter().filter(|(key, paid)| key.starts_with(&of) && **paid);
            assert_eq!(times.count(), 1, "{killed:?}: {of} in {state:?}");
        }
    }
    was_killed
}

#[tokio::test]
async fn a_collector_that_is_killed_at_any_step_charges_everybody_once() {
    let kinds: [fn(u32) -> Killed; 5] = [
        Killed::AtRead,
        |nth| Killed::BeforeCommit(nth as usize),
        |nth| Killed::AfterCommit(nth as usize),
        Killed::BeforeCharge,
        Killed::AfterCharge,
    ];
    for kind in kinds {
        let mut steps = 0;
        while survives(kind(steps)).await {
            steps += 1;
        }
        // Two subscriptions have three periods each, so there are at least six steps of each kind to be killed at.
        assert!(steps >= 6, "{:?} was the last", kind(steps));
    }
}

/// The gateway has charged since the backup was made; the restored service requests payments for the same periods
/// again.
#[tokio::test]
async fn a_service_that_is_restored_from_a_backup_charges_nobody_twice() {
    let store = Arc::new(Recorder::over(Arc::new(MemoryStore::default())));
    let (clock, _, service) = service_over(&(Arc::clone(&store) as Arc<dyn Store>), 1);
    let billing = Billing::new(service, Policy::default());
    let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
    let plan = NewPlan::new(name, slug, "19.90".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("EUR".parse().unwrap()), ..plan };
    let plan = billing.service().create_plan(plan).await.unwrap();
    let user = UserId::from(Uuid::from_u128(1));
    let new = NewSubscription::new(user, plan.id);
    let held = billing.service().create_subscription(new).await.unwrap();
    let till = Till::default();
    work(&billing, &till).await.unwrap();
    let backup = Recorder::replayed(&store.take()).await;
    // Two renewals, on 29 February and on 31 March.
    for _ in 0..70 {
        advance(&clock, 24 * 60 * 60);
        work(&billing, &till).await.unwrap();
    }
    let charged = till.state().said.clone();
    assert_eq!(charged.len(), 3);

    let (restored_clock, _, service) = service_over(&backup, 2);
    let restored = Billing::new(service, Policy::default());
    advance(&restored_clock, 70 * 24 * 60 * 60);
    work(&restored, &till).await.unwrap();

    assert_eq!(till.state().said, charged);
    let payments = restored.service().payments(PaymentQuery::of(held.id)).await.unwrap().items;
    assert_eq!(payments.len(), 3, "{payments:?}");
    assert!(payments.iter().all(|payment| payment.status == PaymentStatus::Succeeded));
}
