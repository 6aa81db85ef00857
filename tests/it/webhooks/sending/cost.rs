//! The reads and commits of the job.

use std::time::Duration;

use subscription_core::webhooks::NewEndpoint;

use super::world::SendingWorld;

#[tokio::test]
async fn an_idle_job_writes_nothing_and_reads_twice() {
    let mut world = SendingWorld::new();
    for nth in 0..20 {
        world.endpoint(&format!("https://{nth}.example/")).await;
    }
    world.plans(3).await;
    world.run().await;
    world.store.spy.take();

    for _ in 0..10 {
        world.clock.advance(Duration::from_secs(1));
        world.run().await;
    }

    // Twice the end of the feed was read, which is done every five seconds.
    assert_eq!(world.store.spy.take(), (22, 0));
}

#[tokio::test]
async fn a_delivery_costs_one_read_and_a_hundred_outcomes_one_commit() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    world.plans(2_000).await;
    world.run().await;
    world.plans(2_000).await;
    world.store.spy.take();

    world.run().await;

    let (reads, commits) = world.store.spy.take();
    assert_eq!(world.receivers.take().len(), 4_000);
    // A read of the feed for 200 events, and one of the endpoint when it begins.
    assert!(reads <= 2_000 + 25, "{reads}");
    assert!(commits <= 21, "{commits}");
}

#[tokio::test]
async fn events_that_come_one_by_one_are_committed_once_a_second() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(1).await;
    world.run().await;
    let before = world.now();
    world.store.spy.take();

    for _ in 0..10 {
        world.plans(1).await;
        world.run().await;
    }

    let seconds = usize::try_from(world.now().since(before).as_secs()).unwrap();
    // The ten plans are commits too.
    let commits = world.store.spy.take().1 - 10;
    assert!(commits <= seconds + 1, "{commits} in {seconds} s");
    assert_eq!(world.shown(id).await.cursor, 11);
}

#[tokio::test]
async fn a_cursor_that_passes_only_unwanted_events_is_written_after_an_hour() {
    let mut world = SendingWorld::new();
    let types = vec!["payment.*".parse().unwrap()];
    let new = NewEndpoint::new("https://a.example/".parse().unwrap());
    let created = world.webhooks.create(NewEndpoint { types, ..new }).await.unwrap();
    world.run().await;
    world.plans(50).await;
    world.store.spy.take();

    world.run().await;
    assert_eq!(world.store.spy.take().1, 0);
    world.clock.advance(Duration::from_hours(1));
    world.run().await;

    assert_eq!(world.store.spy.take().1, 1);
    assert_eq!(world.shown(created.endpoint.id).await.cursor, 50);
}
