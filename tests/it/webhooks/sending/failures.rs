//! Parking, giving up, stalling and disabling.

use std::time::Duration;

use subscription_core::webhooks::{DeliveryResult, DisabledReason, EndpointChanges, StallReason};

use super::world::SendingWorld;

fn row(sequence: u64, state: &str, attempts: u32) -> (u64, String, u32) {
    (sequence, state.to_owned(), attempts)
}

#[tokio::test]
async fn a_failed_event_is_parked_and_later_events_of_its_record_go_behind_it() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let bad = world.plan("bad").await;
    world.change(&bad).await;
    world.plan("good").await;
    world.receivers.answer_to(1, DeliveryResult::answered(500));

    let next_at = world.run().await;

    assert_eq!(world.receivers.take(), [1, 3]);
    assert_eq!(world.parked(id).await, [row(1, "waiting", 1), row(2, "behind", 0)]);
    assert_eq!(world.shown(id).await.cursor, 3);
    let delay = next_at.unwrap().since(world.now());
    assert!((3..=6).contains(&delay.as_secs()), "{delay:?}");

    world.receivers.answer(DeliveryResult::answered(200));
    world.run_at(next_at).await;

    assert_eq!(world.receivers.take(), [1, 2]);
    assert_eq!(world.parked(id).await, []);
    let recent = world.shown(id).await.recent.unwrap();
    let recent: Vec<_> = recent.iter().map(|it| (it.sequence, it.attempt, it.outcome)).collect();
    assert_eq!(
        recent,
        [(2, 1, "delivered"), (1, 2, "delivered"), (3, 1, "delivered"), (1, 1, "refused")]
    );
}

#[tokio::test]
async fn a_later_event_of_a_parked_record_is_not_sent_before_it() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let bad = world.plan("bad").await;
    world.receivers.answer_to(1, DeliveryResult::Unreachable);
    world.run().await;
    world.receivers.take();

    world.change(&bad).await;
    let next_at = world.run().await;

    assert!(world.receivers.take().is_empty());
    assert_eq!(world.parked(id).await, [row(1, "waiting", 1), row(2, "behind", 0)]);
    world.receivers.answer(DeliveryResult::answered(200));
    world.run_at(next_at).await;
    assert_eq!(world.receivers.take(), [1, 2]);
}

#[tokio::test]
async fn an_event_is_given_up_after_ten_tries_and_its_record_continues() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let bad = world.plan("bad").await;
    world.change(&bad).await;
    world.receivers.answer_to(1, DeliveryResult::answered(500));
    let began = world.now();
    let mut next_at = world.run().await;

    while world.parked(id).await[0].1 == "waiting" {
        next_at = world.run_at(next_at).await;
    }

    let mut sent = vec![1; 10];
    sent.push(2);
    assert_eq!(world.receivers.take(), sent);
    assert_eq!(world.parked(id).await, [row(1, "given_up", 10)]);
    let hours = world.now().since(began).as_secs() / 3_600;
    assert!((60..=91).contains(&hours), "{hours}");
    assert_eq!(world.shown(id).await.stalled_since, None);
    assert_eq!(world.webhooks.counters().endpoints[&id].given_up, 1);
    let kept = next_at.unwrap().since(world.now());
    assert_eq!(kept.as_secs() / 86_400, 29, "{kept:?}");

    world.run_at(next_at).await;

    assert_eq!(world.parked(id).await, []);
    assert!(world.receivers.take().is_empty());
}

#[tokio::test]
async fn five_failures_in_a_row_stall_an_endpoint_and_the_fifth_is_not_parked() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(6).await;
    world.receivers.answer(DeliveryResult::answered(500));

    let mut next_at = world.run().await;

    assert_eq!(world.receivers.take(), [1, 2, 3, 4, 5, 6]);
    let shown = world.shown(id).await;
    assert_eq!((shown.cursor, shown.parked), (4, 4));
    assert_eq!(shown.stall_reason, Some(StallReason::Failing));

    for _ in 0..3 {
        next_at = world.run_at(next_at).await;
        assert_eq!(world.receivers.take(), [5], "only the head is tried");
    }
    world.receivers.answer(DeliveryResult::answered(200));
    world.run_at(next_at).await;

    let sent = world.receivers.take();
    assert_eq!(sent[0], 5);
    let mut all = sent.clone();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 5, 6]);
    let shown = world.shown(id).await;
    assert_eq!((shown.cursor, shown.parked, shown.stalled_since), (6, 0, None));
    assert_eq!(shown.failing_since, None);
}

#[tokio::test]
async fn the_probes_of_a_stalled_endpoint_are_delayed_by_the_schedule() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    world.plans(5).await;
    world.receivers.answer(DeliveryResult::answered(500));
    let mut next_at = world.run().await;
    let mut delays = Vec::new();

    for _ in 0..6 {
        let before = world.now().max(next_at.unwrap());
        next_at = world.run_at(next_at).await;
        delays.push(next_at.unwrap().since(before).as_secs());
    }

    let expected = [30, 120, 300, 900, 900, 900];
    for (delay, expected) in delays.iter().zip(expected) {
        let range = expected * 4 / 5 - 1..=expected * 6 / 5 + 1;
        assert!(range.contains(delay), "{delays:?}");
    }
}

#[tokio::test]
async fn an_event_that_finds_a_hundred_parked_stalls_the_endpoint_until_there_is_room() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let last = world.plans(202).await;
    // Every second event fails, so that there are never five failures in a row.
    for sequence in (1..=last).step_by(2) {
        world.receivers.answer_to(sequence, DeliveryResult::answered(500));
    }

    let next_at = world.run().await;

    let shown = world.shown(id).await;
    assert_eq!((shown.parked, shown.stall_reason), (100, Some(StallReason::ParkedFull)));
    assert_eq!(shown.cursor, 200);

    world.receivers.answer(DeliveryResult::answered(200));
    world.run_at(next_at).await;

    let shown = world.shown(id).await;
    assert_eq!((shown.parked, shown.stall_reason, shown.cursor), (0, None, last));
}

#[tokio::test]
async fn events_behind_a_parked_one_fill_the_places_too_and_are_sent_in_order() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let mut bad = world.plan("bad").await;
    for _ in 0..150 {
        bad = world.change(&bad).await;
    }
    world.plan("good").await;
    world.receivers.answer_to(1, DeliveryResult::answered(500));

    let next_at = world.run().await;

    let shown = world.shown(id).await;
    assert_eq!((shown.parked, shown.stall_reason), (100, Some(StallReason::ParkedFull)));
    assert_eq!(shown.cursor, 100);

    world.receivers.answer(DeliveryResult::answered(200));
    let mut next_at = world.run_at(next_at).await;
    while next_at.is_some() {
        next_at = world.run_at(next_at).await;
    }

    let sent = world.receivers.take();
    let of_bad: Vec<_> = sent[1..].iter().copied().filter(|sequence| *sequence <= 151).collect();
    assert_eq!(of_bad, (1..=151).collect::<Vec<_>>());
    assert!(sent.contains(&152));
    assert_eq!(world.shown(id).await.cursor, 152);
}

#[tokio::test]
async fn an_endpoint_that_answers_410_is_disabled_at_once() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(1).await;
    world.receivers.answer(DeliveryResult::answered(410));

    world.run().await;
    world.plans(3).await;
    let next_at = world.run().await;

    assert_eq!((world.receivers.take(), next_at), (vec![1], None));
    let shown = world.shown(id).await;
    assert_eq!((shown.disabled_reason, shown.cursor), (Some(DisabledReason::Gone), 0));
    assert_eq!(world.webhooks.counters().disabled[&DisabledReason::Gone], 1);
}

#[tokio::test]
async fn an_endpoint_without_a_success_for_five_days_is_disabled_and_continues_where_it_stopped() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(7).await;
    world.receivers.answer(DeliveryResult::TimedOut);
    let began = world.now();
    let mut next_at = world.run().await;

    while next_at.is_some() {
        next_at = world.run_at(next_at).await;
    }

    let shown = world.shown(id).await;
    assert_eq!((shown.disabled_reason, shown.cursor), (Some(DisabledReason::Failing), 4));
    assert_eq!(world.now().since(began).as_secs() / 86_400, 5);
    assert_eq!(shown.parked, 4);

    world.receivers.take();
    world.receivers.answer(DeliveryResult::answered(200));
    let changes = EndpointChanges { enabled: Some(true), ..EndpointChanges::default() };
    world.webhooks.update_if(id, None, changes).await.unwrap();
    world.run().await;

    let mut sent = world.receivers.take();
    sent.sort_unstable();
    assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn an_endpoint_can_ask_for_a_longer_delay() {
    let after = |seconds| Some(Duration::from_secs(seconds));
    let cases = [
        (DeliveryResult::Answered { status: 503, retry_after: after(7_200) }, 7_200..=7_200),
        (DeliveryResult::Answered { status: 500, retry_after: after(1) }, 3..=6),
        (DeliveryResult::answered(429), 60..=60),
        (DeliveryResult::TimedOut, 60..=60),
    ];
    for (outcome, seconds) in cases {
        let mut world = SendingWorld::new();
        world.endpoint("https://a.example/").await;
        world.plans(1).await;
        world.receivers.answer(outcome.clone());

        let next_at = world.run().await;

        let tried_at = world.receivers.take_all()[0].at;
        let delay = next_at.unwrap().since(tried_at).as_secs();
        assert!(seconds.contains(&delay), "{outcome:?} {delay}");
    }
}
