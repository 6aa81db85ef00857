//! The clock against those who use the service, in memory.

use std::sync::Arc;

use subscription_core::billing::{Advanced, Billing, Policy};
use subscription_core::{
    Clock as _, Error, ManualClock, MemoryStore, NewPlan, NewSubscription, Store,
    SubscriptionService, SystemRandomness, UserId,
};
use test_support::billing::{plan_races, races};
use test_support::service_world::{at, new_plan, of};
use test_support::simulation::broken::{Breakage, BrokenStore};
use test_support::spy_store::{LosesACommit, SpyStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn races_with_the_clock_have_one_order_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    races::all(vec![Arc::clone(&store), store], 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_plan_have_one_order_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    plan_races::all(vec![Arc::clone(&store), store], 5).await;
}

/// Races that end as one of their orders over every store would not be worth much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_versions_is_found_by_changes_of_plan_at_once() {
    let breakage = Breakage::IgnoresVersions;
    let store: Arc<dyn Store> = Arc::new(BrokenStore { inner: MemoryStore::default(), breakage });

    let raced = tokio::spawn(plan_races::all(vec![Arc::clone(&store), store], 40)).await;

    assert!(raced.is_err());
}

/// Loses the result of one of so many steps, and returns what the round says.
async fn with_a_lost_result(subscriptions: usize) -> (Result<Advanced, Error>, Billing) {
    let store = SpyStore::new(LosesACommit::default());
    let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
    let service = SubscriptionService::builder(Arc::clone(&store)).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let plan = NewPlan { currency: Some(of("EUR")), ..new_plan("pro") };
    let plan = billing.service().create_plan(plan).await.unwrap();
    for _ in 0..subscriptions {
        let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
        let new = NewSubscription::new(user, plan.id);
        billing.service().create_subscription(new).await.unwrap();
    }
    clock.set(at("2025-02-28T00:00:00Z"));
    store.spy.lose_the_next_commit();
    (billing.advance(10).await, billing)
}

/// As when one statement among many takes too long.
#[tokio::test]
async fn a_step_without_a_result_ends_no_round_in_which_others_were_taken() {
    let (round, billing) = with_a_lost_result(3).await;

    let round = round.unwrap();
    assert_eq!((round.steps, round.failed), (2, 1), "{round:?}");
    assert_eq!(billing.advance(10).await.unwrap().steps, 0, "it was taken all the same");

    // Where no step has a result, the store cannot be reached.
    let (round, _) = with_a_lost_result(1).await;
    assert_eq!(round.unwrap_err().code(), "store_unavailable");
}
