//! Regressions: races and edge cases that random runs meet too seldom.

use std::collections::VecDeque;
use std::sync::Arc;
use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{EventQuery, StoreExt as _};
use subscription_core::subscriptions::Subscription;

use subscription_core::store::{PageLimit, PaymentQuery};
use subscription_core::{
    BillingCycle, Clock, ManualClock, MemoryStore, NewPayment, NewPlan, NewSubscription,
    PaymentChanges, PaymentKind, PaymentStatus, Plan, PlanChange, PlanId, Quantity, Store,
    SubscriptionChanges, SubscriptionService, SubscriptionStatus, UserId,
};
use test_support::billing::days;
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

/// A business with a monthly plan for 10 USD.
async fn business() -> (ManualClock, Billing, Arc<Plan>) {
    let clock = ManualClock::at("2026-04-01T00:00:00Z".parse().unwrap());
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let (name, slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());
    let plan = NewPlan::new(name, slug, "10".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("USD".parse().unwrap()), ..plan };
    let plan = billing.service().create_plan(plan).await.unwrap();
    (clock, billing, plan)
}

#[tokio::test]
async fn a_quote_for_a_subscription_that_has_not_begun_can_be_agreed_to() {
    let (clock, billing, plan) = business().await;
    let mut new = NewSubscription::new(UserId::from(Uuid::nil()), plan.id);
    new.starts_at = Some(clock.now().saturating_add(days(10)));
    let made = billing.service().create_subscription(new).await.unwrap();
    let change = PlanChange::to_quantity(Quantity::new(3).unwrap());
    let quote = billing.preview_plan_change(made.id, &change).await.unwrap();

    let changed = billing.change_plan(made.id, &change.as_quoted(&quote)).await.unwrap();

    assert_eq!(changed.quantity.get(), 3);
}

#[tokio::test]
async fn a_preview_counts_a_due_period_as_paid_if_another_system_was_paid_for_it() {
    let (clock, billing, plan) = business().await;
    let service = billing.service();
    let new = NewSubscription::new(UserId::from(Uuid::nil()), plan.id);
    let made = service.create_subscription(new).await.unwrap();
    let asked = service.payments(PaymentQuery::of(made.id)).await.unwrap().items.remove(0);
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    service.update_payment(asked.id, paid).await.unwrap();
    let imported = NewPayment {
        status: Some(PaymentStatus::Succeeded),
        kind: Some(PaymentKind::Renewal),
        period_start: made.renews_at,
        period_end: made.schedule().next_after(made.renews_at.unwrap()),
        ..NewPayment::new(made.id, "10".parse().unwrap(), "USD".parse().unwrap())
    };
    service.create_payment(imported).await.unwrap();
    clock.set(made.renews_at.unwrap());
    let change = PlanChange::to_quantity(Quantity::new(3).unwrap());

    let quote = billing.preview_plan_change(made.id, &change).await.unwrap();

    assert_eq!(quote.amount_due.to_string(), "20.00");
    billing.change_plan(made.id, &change.as_quoted(&quote)).await.unwrap();
}
