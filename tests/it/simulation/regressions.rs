//! Regressions: races and edge cases that random runs meet too seldom.

use std::collections::VecDeque;
use std::sync::Arc;
use subscription_core::store::{EventQuery, StoreExt as _};
use subscription_core::subscriptions::Subscription;

use subscription_core::store::PageLimit;
use subscription_core::{
    BillingCycle, Clock, MemoryStore, NewPlan, NewSubscription, PlanId, Store, SubscriptionChanges,
    SubscriptionStatus, UserId,
};
use test_support::simulation::faults::{Disturbance, Fault};
use test_support::simulation::model::{Model, Seen};
use test_support::simulation::operation::{Operation, Record, Reply};
use test_support::simulation::world::service_over;
use uuid::Uuid;

#[tokio::test]
async fn a_record_is_never_told_that_it_has_its_own_external_id() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (_clock, faults, service) = service_over(&store, 1);
    let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
    let plan = NewPlan::new(name, slug, "1".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = service.create_plan(plan).await.unwrap();
    let mut new = NewSubscription::new(UserId::from(Uuid::nil()), plan.id);
    let held = service.create_subscription(new.clone()).await.unwrap();
    new.external_subscription_id = Some("ext".parse().unwrap());
    let holder = service.create_subscription(new).await.unwrap();
    let changes = SubscriptionChanges {
        external_subscription_id: "ext".parse::<subscription_core::ExternalId>().unwrap().into(),
        ..SubscriptionChanges::default()
    };
    let take = Operation::UpdateSubscription(held.id, Box::new(changes), None);

    let delete = Operation::DeleteSubscription(holder.id, None);
    faults.plan(vec![Fault::Overtaken(vec![delete, take.clone()])], None);
    let outcome = take.perform(&service).await;

    let taken = store.get_as::<Subscription>(&held.id).await.unwrap().unwrap();
    assert_eq!(outcome, Ok(Reply::Found(Record::Subscription((*taken).clone()))));
}

#[tokio::test]
async fn nothing_comes_after_the_last_place_of_the_feed() {
    let store = MemoryStore::default();

    assert_eq!(store.events(&EventQuery::after(u64::MAX, PageLimit::MAX)).await.unwrap().items, []);
}

#[tokio::test]
async fn of_a_plan_that_is_not_there_model_and_service_think_alike() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (clock, _faults, service) = service_over(&store, 1);
    let mut new = NewSubscription::new(UserId::from(Uuid::nil()), PlanId::from(Uuid::max()));
    // Whether it grants access depends on the cycle that the plan would have.
    new.status = Some(SubscriptionStatus::Cancelled);
    new.is_active = Some(true);
    let operation = &Operation::CreateSubscription(Box::new(new), None);

    let outcome = &operation.perform(&service).await;

    let (at, disturbance) = (clock.now(), Disturbance::None);
    let seen = Seen { operation, at, outcome, disturbance, swept: true };
    Model::default().accept(&seen, &mut VecDeque::new()).unwrap();
}
