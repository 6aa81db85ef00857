//! Tests of changes of plan if a user may have only one live subscription per product, over any store.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::sync::Arc;

use subscription_core::billing::{Advanced, Billing, Policy};
use subscription_core::store::{ChangeSet, Delete, EventQuery, Key, PageLimit, PaymentQuery};
use subscription_core::{
    Action, BillingCycle, Clock as _, Effective, Error, Field, ManualClock, NewPlan,
    NewSubscription, OneLivePer, PaymentChanges, PaymentStatus, Plan, PlanChange, PlanChanges,
    Slug, Store, Subscription, SubscriptionService, SystemRandomness, UserId,
};

use crate::service_world::{of, wrong};

/// The way in which the steps of a subscription are executed.
#[derive(Debug, Clone, Copy)]
enum Taken {
    /// By the clock, together with all other due subscriptions.
    ByClock,
    /// By a call that names the subscription.
    ByCall,
}

/// A user with a subscription to the plan `a`. Plans with the same first letter belong to one product.
struct World {
    store: Arc<dyn Store>,
    clock: ManualClock,
    billing: Billing,
    user: UserId,
    held: Arc<Subscription>,
}

impl World {
    async fn over(store: &Arc<dyn Store>, per: OneLivePer) -> Self {
        let clock = ManualClock::at(of("2026-01-01T00:00:00Z"));
        let service = SubscriptionService::builder(Arc::clone(store))
            .clock(clock.clone())
            .one_live_per(per)
            .build();
        let billing = Billing::new(service, Policy::default());
        let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
        let held = subscribed(&billing, user, "a").await.unwrap();
        Self { store: Arc::clone(store), clock, billing, user, held }
    }

    async fn subscribe(&self, to: &str) -> Result<Arc<Subscription>, Error> {
        subscribed(&self.billing, self.user, to).await
    }

    async fn change(&self, id: &Subscription, to: &str) -> Result<Arc<Subscription>, Error> {
        let change = PlanChange::to_plan(plan(&self.billing, to).await.id);
        self.billing.change_plan(id.id, &change).await
    }

    async fn schedule(&self, id: &Subscription, to: &str) {
        let change = PlanChange::to_plan(plan(&self.billing, to).await.id).at_period_end();
        self.billing.change_plan(id.id, &change).await.unwrap();
    }

    async fn now(&self, of: &Subscription) -> Arc<Subscription> {
        self.billing.service().subscription(of.id).await.unwrap()
    }

    async fn plan_of(&self, of: &Subscription) -> String {
        let plan = self.now(of).await.subscription_plan_id;
        self.billing.service().plan_by_id(plan).await.unwrap().slug.to_string()
    }

    /// Turns the clock to the renewal, and executes the steps that are due.
    async fn renew(&self, taken: Taken) {
        self.clock.set(self.held.renews_at.unwrap());
        match taken {
            Taken::ByClock => drop(self.advance().await),
            // Resuming an active subscription changes nothing by itself.
            Taken::ByCall => {
                self.billing.service().act(self.held.id, Action::Resume).await.unwrap();
            }
        }
    }

    async fn advance(&self) -> Advanced {
        let advanced = self.billing.advance(200).await.unwrap();
        assert_eq!((advanced.failed, advanced.refused), (0, 0), "{advanced:?}");
        advanced
    }

    /// The sequence of the last event.
    async fn last_event(&self) -> u64 {
        self.store.events(&EventQuery::after(0, PageLimit::default())).await.unwrap().last
    }
}

/// Finds or creates the plan of a name. All plans have the same price, so that no change of plan requests a payment.
async fn plan(billing: &Billing, slug: &str) -> Arc<Plan> {
    let service = billing.service();
    if let Ok(plan) = service.plan(&of(slug)).await {
        return plan;
    }
    let new = NewPlan::new(of("Plan"), of(slug), of("10"), BillingCycle::MONTHLY);
    let product_id = Some(of(slug.get(..1).unwrap()));
    service.create_plan(NewPlan { currency: Some(of("USD")), product_id, ..new }).await.unwrap()
}

/// Creates a subscription whose first payment is paid.
async fn subscribed(billing: &Billing, user: UserId, to: &str) -> Result<Arc<Subscription>, Error> {
    let (plan, service) = (plan(billing, to).await, billing.service());
    let held = service.create_subscription(NewSubscription::new(user, plan.id)).await?;
    let first = Arc::clone(&service.payments(PaymentQuery::of(held.id)).await?.items[0]);
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    service.update_payment(first.id, paid).await?;
    service.subscription(held.id).await
}

/// Runs every case over one store, each with new users.
pub async fn all(store: &Arc<dyn Store>) {
    a_change_to_a_product_that_the_user_has_is_refused_and_changes_nothing(store).await;
    a_change_frees_the_old_product(store).await;
    a_plan_that_a_subscription_has_keeps_its_product(store).await;
    a_change_within_the_same_limit_needs_no_other_key(store).await;
    for taken in [Taken::ByClock, Taken::ByCall] {
        a_scheduled_change_takes_the_key_when_it_happens(store, taken).await;
        a_scheduled_change_to_a_product_that_is_taken_by_then_happens(store, taken).await;
        a_scheduled_change_to_a_plan_that_is_gone_happens(store, taken).await;
    }
    of_two_scheduled_changes_to_one_product_both_happen(store).await;
}

async fn a_change_to_a_product_that_the_user_has_is_refused_and_changes_nothing(
    store: &Arc<dyn Store>,
) {
    let world = World::over(store, OneLivePer::Product).await;
    let other = world.subscribe("b").await.unwrap();
    plan(&world.billing, "b2").await;
    let (before, last_event) = (world.now(&world.held).await, world.last_event().await);

    let refused = world.change(&world.held, "b2").await;

    assert_eq!(wrong(refused).1, "already_subscribed");
    assert_eq!(world.now(&world.held).await, before);
    assert_eq!(world.now(&other).await, other);
    assert_eq!(world.last_event().await, last_event);
}

async fn a_change_frees_the_old_product(store: &Arc<dyn Store>) {
    let world = World::over(store, OneLivePer::Product).await;
    let other = world.subscribe("b").await.unwrap();
    let cancel = Action::Cancel(Some(Effective::Now));
    world.billing.service().act(other.id, cancel).await.unwrap();

    let changed = world.change(&world.held, "b2").await.unwrap();

    assert_eq!(world.plan_of(&changed).await, "b2");
    assert_eq!(wrong(world.subscribe("b").await).1, "already_subscribed");
    world.subscribe("a").await.unwrap();
}

async fn a_plan_that_a_subscription_has_keeps_its_product(store: &Arc<dyn Store>) {
    let world = World::over(store, OneLivePer::Product).await;
    let service = world.billing.service();
    plan(&world.billing, "unused").await;
    let moved = PlanChanges { product_id: Field::Value(of("moved")), ..PlanChanges::default() };
    let named = PlanChanges { name: Some(of("Another name")), ..PlanChanges::default() };
    let used: Slug = of(&world.plan_of(&world.held).await);

    assert_eq!(wrong(service.update_plan(&used, moved.clone()).await).1, "plan_in_use");

    service.update_plan(&used, named).await.unwrap();
    let unused = service.update_plan(&of("unused"), moved).await.unwrap();
    assert_eq!(unused.product_id, Some(of("moved")));
    service.delete_plan(&unused.slug).await.unwrap();
}

/// The user has a second live subscription without a uniqueness key, from a time without the setting. This does not
/// matter: the first subscription has the key and keeps it.
async fn a_change_within_the_same_limit_needs_no_other_key(store: &Arc<dyn Store>) {
    for (per, to) in [(OneLivePer::User, "b"), (OneLivePer::Product, "a2")] {
        let world = World::over(store, per).await;
        let service = SubscriptionService::builder(Arc::clone(store)).clock(world.clock.clone());
        let without = Billing::new(service.build(), Policy::default());
        subscribed(&without, world.user, "a").await.unwrap();

        let changed = world.change(&world.held, to).await.unwrap();

        assert!(changed.live_key.is_some());
        assert_eq!(changed.live_key, world.held.live_key);
    }
}

async fn a_scheduled_change_takes_the_key_when_it_happens(store: &Arc<dyn Store>, taken: Taken) {
    let world = World::over(store, OneLivePer::Product).await;
    world.schedule(&world.held, "b").await;
    assert_eq!(world.now(&world.held).await.live_key, world.held.live_key);
    assert_eq!(wrong(world.subscribe("a").await).1, "already_subscribed", "{taken:?}");

    world.renew(taken).await;

    assert_eq!(world.plan_of(&world.held).await, "b");
    assert!(world.now(&world.held).await.live_key.is_some());
    assert_eq!(wrong(world.subscribe("b").await).1, "already_subscribed", "{taken:?}");
    world.subscribe("a").await.unwrap();
}

async fn a_scheduled_change_to_a_product_that_is_taken_by_then_happens(
    store: &Arc<dyn Store>,
    taken: Taken,
) {
    let world = World::over(store, OneLivePer::Product).await;
    world.schedule(&world.held, "b").await;
    let other = world.subscribe("b2").await.unwrap();
    assert!(other.live_key.is_some());

    world.renew(taken).await;

    assert_eq!(world.plan_of(&world.held).await, "b");
    assert_eq!(world.now(&world.held).await.live_key, None, "{taken:?}");
    assert_eq!(world.now(&other).await.live_key, other.live_key);
    assert_eq!(wrong(world.subscribe("b").await).1, "already_subscribed");
    world.subscribe("a").await.unwrap();
}

/// A plan that was deleted in the store itself, past the guard of the service, must not block the subscriptions.
async fn a_scheduled_change_to_a_plan_that_is_gone_happens(store: &Arc<dyn Store>, taken: Taken) {
    let world = World::over(store, OneLivePer::Product).await;
    world.schedule(&world.held, "gone").await;
    let gone = plan(&world.billing, "gone").await;
    let deletes = vec![Delete { key: Key::Plan(gone.id), version: gone.version }];
    world.store.commit(ChangeSet { deletes, ..ChangeSet::default() }).await.unwrap();

    world.renew(taken).await;

    let held = world.now(&world.held).await;
    assert_eq!((held.subscription_plan_id, &held.live_key), (gone.id, &None), "{taken:?}");
}

/// Both changes are decided before one of them is committed.
async fn of_two_scheduled_changes_to_one_product_both_happen(store: &Arc<dyn Store>) {
    let world = World::over(store, OneLivePer::Product).await;
    let other = world.subscribe("c").await.unwrap();
    world.schedule(&world.held, "b").await;
    world.schedule(&other, "b2").await;

    world.renew(Taken::ByClock).await;

    assert_eq!(world.plan_of(&world.held).await, "b");
    assert_eq!(world.plan_of(&other).await, "b2");
    let [held, other] = [world.now(&world.held).await, world.now(&other).await];
    assert!(held.live_key.is_some() != other.live_key.is_some(), "{held:?} {other:?}");
}
