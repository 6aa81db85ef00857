//! Many at once over one service: one wins, the others see the new state.

use std::collections::HashSet;
use std::sync::Arc;

use subscription_core::plans::Tier;
use subscription_core::store::{PageLimit, PlanQuery, SubscriptionQuery};
use subscription_core::{
    Error, MemoryStore, NewSubscription, PlanChanges, Slug, SubscriptionService, SystemRandomness,
    UserId,
};
use test_support::service_world::{new_plan, of, once};
use tokio::task::JoinSet;

fn service() -> SubscriptionService {
    SubscriptionService::new(MemoryStore::default())
}

/// Runs `attempts` tasks at once and gives what each came to.
async fn at_once<T, F>(attempts: u64, task: impl Fn(u64) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for nth in 0..attempts {
        tasks.spawn(task(nth));
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twin_requests_one_makes_the_record_and_the_others_replay_it() {
    let service = service();

    let results = at_once(50, |_| {
        let service = service.clone();
        async move { service.create_plan_once(new_plan("pro"), once("shop", "k1")).await }
    })
    .await;

    let created: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    let ids: HashSet<_> = created.iter().map(|created| created.record.id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(created.iter().filter(|created| !created.replayed).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_plans_with_one_slug_one_is_made() {
    let service = service();

    let results = at_once(50, |_| {
        let service = service.clone();
        async move { service.create_plan(new_plan("pro")).await }
    })
    .await;

    let (made, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let codes: HashSet<_> =
        refused.iter().filter_map(|r| r.as_ref().err()).map(Error::code).collect();
    assert_eq!((made.len(), refused.len()), (1, 49));
    assert_eq!(codes, HashSet::from(["slug_taken"]));
    assert_eq!(service.plans(PlanQuery::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_that_race_are_all_made_one_after_the_other() {
    let service = service();
    let slug: Slug = of("pro");
    service.create_plan(new_plan("pro")).await.unwrap();

    // Each writer writes its own numbers, so that every update changes something.
    let writers = 8;
    let results = at_once(writers, |writer| {
        let (service, slug) = (service.clone(), slug.clone());
        async move {
            let mut made = 0;
            for nth in 0..25 {
                let tier = Some(Tier::new(1 + writer * 100 + nth).unwrap());
                let changes = PlanChanges { tier, ..PlanChanges::default() };
                match service.update_plan(&slug, changes).await {
                    Ok(_) => made += 1,
                    Err(Error::Busy(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            made
        }
    })
    .await;

    let made: u64 = results.into_iter().sum();
    let plan = service.plan(&slug).await.unwrap();
    let mut events = service.events(0, PageLimit::MAX).await.unwrap();
    events.extend(service.events(200, PageLimit::MAX).await.unwrap());
    let versions: Vec<_> = events.iter().map(|recorded| recorded.event.version.get()).collect();
    assert_eq!(plan.version.get(), 1 + made);
    assert_eq!(versions, (1..=1 + made).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_never_deleted_under_a_new_subscription() {
    for round in 0..100 {
        let service = service();
        let plan = service.create_plan(new_plan("pro")).await.unwrap();

        let results = at_once(4, |nth| {
            let (service, plan) = (service.clone(), Arc::clone(&plan));
            async move {
                if (nth + round) % 2 == 0 {
                    service.delete_plan(&plan.slug).await.is_ok()
                } else {
                    let user = UserId::new(service.now(), &SystemRandomness).unwrap();
                    let new = NewSubscription::new(user, plan.id);
                    service.create_subscription(new).await.is_ok()
                }
            }
        })
        .await;

        assert!(results.contains(&true), "round {round}");
        let subscriptions = service.subscriptions(SubscriptionQuery::default()).await.unwrap();
        let exists = service.plan_by_id(plan.id).await.is_ok();
        assert_eq!(exists, !subscriptions.items.is_empty(), "round {round}");
    }
}
