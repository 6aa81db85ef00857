//! Subscriptions of users who have an account here, and of those who had one.

use std::sync::Arc;
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::store::{SessionQuery, StoreExt as _};

use subscription_core::store::{SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    BillingCycle, NewPlan, NewSubscription, Plan, SubscriptionChanges, SubscriptionStatus,
    Timestamp, UserId,
};
use test_support::service_world::{faults, of};
use uuid::Uuid;

use super::world::AuthWorld;

async fn plan(world: &AuthWorld) -> Arc<Plan> {
    let new = NewPlan::new(of("Pro"), of("pro"), of("5"), BillingCycle::MONTHLY);
    world.service.create_plan(new).await.unwrap()
}

/// The subscriptions of a user that are not over.
async fn live(world: &AuthWorld, user: UserId) -> usize {
    let statuses = SubscriptionStatus::all().filter(|s| *s != SubscriptionStatus::Expired);
    let filter = SubscriptionFilter::default().with_user_id(user).with_statuses(statuses.collect());
    let query = SubscriptionQuery::default().with_filter(filter);
    world.service.subscriptions(query).await.unwrap().items.len()
}

#[tokio::test]
async fn an_unknown_user_is_told_beside_the_other_faults() {
    let world = AuthWorld::new();
    let ada = world.sign_up("ada").await.user.id;
    let plan = plan(&world).await;
    let nobody = UserId::from(Uuid::max());

    let both = NewSubscription::new(nobody, Uuid::max().into());
    let both = world.service.create_subscription(both).await;
    let subscription = NewSubscription::new(ada, plan.id);
    let subscription = world.service.create_subscription(subscription).await.unwrap();
    let moved = SubscriptionChanges { user_id: Some(nobody), ..SubscriptionChanges::default() };
    let moved = world.service.update_subscription(subscription.id, moved).await;

    assert_eq!(
        faults(both),
        ["user_id unknown_reference", "subscription_plan_id unknown_reference"]
    );
    assert_eq!(faults(moved), ["user_id unknown_reference"]);
}

#[tokio::test]
async fn an_account_with_more_than_one_commit_takes_is_deleted_to_the_last() {
    let world = AuthWorld::new();
    let mut session = world.sign_up("ada").await;
    let user = session.user.id;
    let plan = plan(&world).await;
    for _ in 0..1_200 {
        session = world.sign_in("ada").await;
        let new = NewSubscription::new(user, plan.id);
        world.service.create_subscription(new).await.unwrap();
    }
    let caller = world.check(&session).await.unwrap();

    world.auth.delete_account(&caller, &user.to_string()).await.unwrap();

    assert_eq!(live(&world, user).await, 0);
    assert_eq!(
        world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user, now: Timestamp::MIN })
            .await
            .unwrap()
            .items,
        []
    );
    assert_eq!(world.store.get_as::<User>(&user).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_subscription_of_a_deleted_account_goes_on() {
    for round in 0..200 {
        let world = Arc::new(AuthWorld::new());
        let session = world.sign_up("ada").await;
        let (user, plan) = (session.user.id, plan(&world).await);
        let caller = world.check(&session).await.unwrap();

        let subscribing = {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                for _ in 0..=(round % 7) {
                    let new = NewSubscription::new(user, plan.id);
                    if world.service.create_subscription(new).await.is_err() {
                        break;
                    }
                }
            })
        };
        world.auth.delete_account(&caller, &user.to_string()).await.unwrap();
        let at_once = live(&world, user).await;
        subscribing.await.unwrap();

        assert_eq!((at_once, live(&world, user).await), (0, 0), "round {round}");
    }
}
