//! The renewals, killed at every step: nobody is charged twice, and
//! nobody is forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use subscription_core::store::PaymentQuery;
use subscription_core::{
    Amount, BillingCycle, Clock as _, Currency, MemoryStore, NewPlan, NewSubscription,
    PaymentStatus, Store, SubscriptionId, SubscriptionService, SubscriptionStatus, UserId,
};
use test_support::simulation::faults::Fault;
use test_support::simulation::world::{advance, service_over};
use uuid::Uuid;

use crate::renewals::{Gateway, Refused, Result, due, renew};

/// Where the job is killed: at its nth step of a kind.
#[derive(Debug, Clone, Copy)]
enum Killed {
    /// The store does not answer a read.
    AtRead(u32),
    /// A commit does not arrive.
    BeforeCommit(usize),
    /// A commit arrives, but the job does not hear of it.
    AfterCommit(usize),
    /// The gateway is not reached.
    BeforeCharge(u32),
    /// The gateway charges, but the job does not hear of it.
    AfterCharge(u32),
}

/// A gateway that refuses each first attempt to charge one subscription.
#[derive(Debug, Default)]
struct Till(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    said: BTreeMap<String, bool>,
    refuses: Option<SubscriptionId>,
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
            state.refuses.is_some_and(|id| key.starts_with(&id.to_string()) && is_first(key));
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

/// All that is due, until nothing is: those who have not paid are asked again.
async fn job(service: &SubscriptionService, till: &Till) -> Result<()> {
    use SubscriptionStatus::{Active, PastDue};
    loop {
        let now = service.now();
        let regular = due(service, &[Active], now).await?;
        for subscription in &regular {
            renew(service, till, subscription, Refused::Stays).await?;
        }
        let behind = due(service, &[PastDue], now).await?;
        for subscription in &behind {
            renew(service, till, subscription, Refused::TryAgain).await?;
        }
        if regular.is_empty() && behind.is_empty() {
            return Ok(());
        }
    }
}

/// Kills the job once and runs it again to its end; says whether it was killed.
async fn survives(killed: Killed) -> bool {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (clock, faults, service) = service_over(&store, 1);
    let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
    let plan = NewPlan::new(name, slug, "19.90".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = service.create_plan(plan).await.unwrap();
    let mut held = Vec::new();
    for user in 1..=2_u128 {
        let new = NewSubscription::new(UserId::from(Uuid::from_u128(user)), plan.id);
        held.push(service.create_subscription(new).await.unwrap().id);
    }
    let till = Till::default();
    till.state().refuses = held.last().copied();
    // From the end of January to the middle of April: due on 29 February and on 31 March.
    advance(&clock, 76 * 24 * 60 * 60);

    let nothing = || Fault::Overtaken(Vec::new());
    let nth = |nth: usize, fault| std::iter::repeat_with(nothing).take(nth).chain([fault]);
    match killed {
        Killed::AtRead(at) => faults.plan(Vec::new(), Some(at)),
        Killed::BeforeCommit(at) => faults.plan(nth(at, Fault::Refusal).collect(), None),
        Killed::AfterCommit(at) => faults.plan(nth(at, Fault::LostAnswer).collect(), None),
        Killed::BeforeCharge(_) | Killed::AfterCharge(_) => till.state().killed = Some(killed),
    }
    let was_killed = job(&service, &till).await.is_err();
    faults.plan(Vec::new(), None);
    till.state().killed = None;
    job(&service, &till).await.unwrap();

    for id in held {
        let subscription = service.subscription(id).await.unwrap();
        assert_eq!(subscription.status, SubscriptionStatus::Active, "{killed:?}");
        assert!(subscription.renews_at.unwrap() > clock.now(), "{killed:?}: {subscription:?}");
        let payments = service.payments(PaymentQuery::of(id)).await.unwrap().items;
        let paid = |paid: &&Arc<_>| is_paid(paid);
        assert_eq!(payments.iter().filter(paid).count(), 2, "{killed:?}: {payments:?}");
        for payment in payments {
            let period = payment.external_payment_id.as_ref().unwrap().to_string();
            let state = till.state();
            let times = state.said.iter().filter(|(key, paid)| key.starts_with(&period) && **paid);
            assert_eq!(times.count(), 1, "{killed:?}: {period} in {state:?}");
        }
    }
    assert_eq!(till.state().said.values().filter(|paid| **paid).count(), 4, "{killed:?}");
    was_killed
}

fn is_paid(payment: &subscription_core::Payment) -> bool {
    payment.status == PaymentStatus::Succeeded
}

#[tokio::test]
async fn renewals_that_are_killed_at_any_step_charge_everybody_once() {
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
        // Two subscriptions, two periods each: every one of them was killed.
        assert!(steps >= 4, "{:?} was the last", kind(steps));
    }
}
