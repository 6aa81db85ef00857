//! The order of events, and the shares of endpoints.

use super::world::{SendingWorld, Standing, settle};

#[tokio::test]
async fn of_each_record_one_event_is_in_flight_at_a_time() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    let first = world.plan("first").await;
    let first = world.change(&first).await;
    world.change(&first).await;
    world.plan("second").await;
    world.receivers.hold("a.example");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());

    let story = async {
        settle().await;
        assert_eq!(receivers.take(), [1, 4]);
        receivers.release(1);
        settle().await;
        assert_eq!(receivers.take(), [2]);
        receivers.release(2);
        settle().await;
        assert_eq!(receivers.take(), [3]);
        receivers.release(1);
        settle().await;
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);

    ran.unwrap();
}

#[tokio::test]
async fn eight_tries_are_in_flight_to_an_endpoint_and_a_slow_one_delays_no_other() {
    let mut world = SendingWorld::new();
    for nth in 0..40 {
        world.endpoint(&format!("https://slow-{nth}.example/")).await;
    }
    world.endpoint("https://quick.example/").await;
    world.plans(30).await;
    world.receivers.hold("slow");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());

    let story = async {
        settle().await;
        let slow = (0..40).map(|nth| receivers.in_flight(&format!("https://slow-{nth}.example/")));
        let slow: Vec<_> = slow.collect();
        assert!(slow.iter().all(|busy| (1..=8).contains(busy)), "{slow:?}");
        assert!((250..=256).contains(&slow.iter().sum::<usize>()), "{slow:?}");
        let received = receivers.take_all();
        let quick = received.iter().filter(|it| it.request.url.as_str().contains("quick"));
        assert_eq!(quick.count(), 30);
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);

    ran.unwrap();
    assert_eq!(world.webhooks.counters().in_flight, 0);
}

/// The window is full until the slow one is committed, which is one of few outcomes since the last commit.
#[tokio::test]
async fn events_behind_a_slow_one_are_sent_as_soon_as_it_has_ended() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    world.plans(300).await;
    world.receivers.hold("#50;");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());

    let story = async {
        settle().await;
        assert_eq!(receivers.take().len(), 249);
        receivers.release(1);
        settle().await;
        assert_eq!(receivers.take().len(), 51);
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);

    ran.unwrap();
}

#[tokio::test]
async fn many_events_are_sent_once_and_the_cursor_passes_them() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let last = world.plans(1_000).await;

    world.run().await;

    let mut sent = world.receivers.take();
    sent.sort_unstable();
    assert_eq!(sent, (1..=last).collect::<Vec<_>>());
    let shown = world.shown(id).await;
    assert_eq!((shown.cursor, shown.behind), (last, 0));
    let all_counters = world.webhooks.counters();
    let counters = &all_counters.endpoints[&id];
    assert_eq!(counters.outcomes["delivered"], 1_000);
    assert_eq!(counters.durations.iter().sum::<u64>(), 1_000);
    assert_eq!(counters.state.unwrap().lag_events, 0);
}

#[tokio::test]
async fn an_event_that_is_written_while_the_job_runs_is_sent_by_the_same_run() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    world.plans(1).await;
    world.receivers.hold("a.example");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());
    let service = world.service.clone();

    let story = async {
        settle().await;
        let plan = test_support::service_world::new_plan("later");
        service.create_plan(plan).await.unwrap();
        wake.signal();
        settle().await;
        assert_eq!(receivers.take(), [1, 2]);
        receivers.release(2);
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);

    ran.unwrap();
}
