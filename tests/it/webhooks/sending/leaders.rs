//! Stops, crashes and several leaders.

use std::collections::BTreeSet;
use std::task::{Context, Waker};

use super::world::{SendingWorld, Standing, settle};

#[tokio::test]
async fn a_stop_lets_no_try_begin_and_one_that_is_cut_off_is_no_failure() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(12).await;
    world.receivers.hold("a.example");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());

    let story = async {
        settle().await;
        receivers.release(1);
        settle().await;
        assert_eq!(receivers.take().len(), 9);
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);
    ran.unwrap();

    let shown = world.shown(id).await;
    assert_eq!((shown.parked, shown.failing_since, shown.cursor), (0, None, 1));
    assert!(world.receivers.take().is_empty());

    world.receivers.release(100);
    world.sender = world.webhooks.sender();
    world.run().await;

    assert_eq!(world.receivers.take().len(), 11);
    assert_eq!(world.shown(id).await.cursor, 12);
}

#[tokio::test]
async fn two_senders_at_once_only_repeat() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let last = world.plans(300).await;
    let mut other = world.webhooks.sender();
    let wakes = [Standing::default(), Standing::default()];

    let story = async {
        for _ in 0..20 {
            settle().await;
            world.clock.advance(std::time::Duration::from_secs(1));
            wakes.iter().for_each(Standing::signal);
        }
        wakes.iter().for_each(Standing::stop);
    };
    let (one, two, ()) = tokio::join!(world.sender.run(&wakes[0]), other.run(&wakes[1]), story);
    one.unwrap();
    two.unwrap();
    world.run().await;

    let sent: BTreeSet<_> = world.receivers.take().into_iter().collect();
    assert_eq!(sent, (1..=last).collect());
    assert_eq!((world.shown(id).await.cursor, world.parked(id).await), (last, vec![]));
}

#[tokio::test]
async fn after_a_crash_at_most_two_hundred_events_are_repeated_and_none_is_missing() {
    for polls in [1, 2, 3, 5, 8, 13, 21, 34] {
        let mut world = SendingWorld::new();
        let id = world.endpoint("https://a.example/").await;
        let last = world.plans(450).await;
        world.receivers.hold("a.example");
        let wake = Standing::default();
        {
            let mut run = Box::pin(world.sender.run(&wake));
            for _ in 0..polls {
                world.receivers.release(12);
                let _ = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }

        world.receivers.release(1_000);
        // The next run begins anew, as a new leader does.
        world.run().await;

        let sent = world.receivers.take();
        let different: BTreeSet<_> = sent.iter().copied().collect();
        assert_eq!(different, (1..=last).collect(), "{polls}");
        assert!(sent.len() - different.len() <= 200, "{polls}: {} sent", sent.len());
        assert_eq!(world.shown(id).await.cursor, last, "{polls}");
    }
}

#[tokio::test]
async fn an_endpoint_whose_events_were_deleted_continues_after_them_and_shows_it() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(5).await;
    world.service.forget_events(3).await.unwrap();

    world.run().await;

    assert_eq!(world.receivers.take(), [4, 5]);
    let shown = world.shown(id).await;
    assert_eq!((shown.missed_up_to, shown.cursor), (Some(3), 5));
}
