//! Events that wait, fail, are tried again, replayed and deleted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::providers::{
    ApiFailed, EventFilter, EventState, FetchOutcome, ObjectKind, Providers, Reason,
};
use subscription_core::store::{ChangeSet, Document, DocumentKey, PageLimit, Record};
use subscription_core::{Store as _, Timestamp};
use uuid::Uuid;

use super::world::{ADA, World, slug, stripe_invoice, stripe_tea, tea, unavailable};

#[tokio::test]
async fn an_object_that_is_not_found_is_tried_by_the_schedule_and_fails_after_a_day() {
    let world = World::new().await;
    world.webhook("subscriptions", "1", Some(ADA)).await;

    let mut tries = Vec::new();
    let mut next = world.providers.advance(10).await.unwrap().next_at;
    while let Some(at) = next {
        tries.push(at.since(world.service.now()).as_secs() / 60);
        world.clock.set(at);
        next = world.providers.advance(10).await.unwrap().next_at;
    }

    assert_eq!(tries, [1, 5, 30, 120, 360, 360, 360, 360]);
    assert_eq!(world.states().await, ["subscription 1 failed:not_found"]);
    assert_eq!(world.fetches().into_iter().collect::<Vec<_>>(), [(FetchOutcome::NotFound, 9)]);
}

#[tokio::test]
async fn an_invoice_waits_for_its_payments_to_be_listed_before_it_counts_as_paid_elsewhere() {
    let listed = json!([{ "status": "paid", "amount_paid": 999, "currency": "eur",
        "payment": { "payment_intent": { "id": "pi_1", "status": "succeeded" } } }]);
    for (later, external_id) in [(listed, "pi_1"), (json!([]), "in_1")] {
        let world = World::new().await;
        world.api.set(ObjectKind::Subscription, &stripe_tea(Some(ADA)));
        world.api.set(ObjectKind::Invoice, &stripe_invoice(&json!([])));

        world.now(ObjectKind::Invoice, "in_1", None).await;
        assert_eq!(world.states().await, ["invoice in_1 waiting:not_found"]);
        world.api.set(ObjectKind::Invoice, &stripe_invoice(&later));
        world.clock.advance(Duration::from_mins(1));
        world.advance().await;
        world.clock.advance(Duration::from_mins(5));
        world.advance().await;

        let payments = world.payments().await;
        let ids: Vec<_> =
            payments.iter().map(|it| it.external_payment_id.as_ref().unwrap().as_str()).collect();
        assert_eq!(ids, [external_id]);
    }
}

#[tokio::test]
async fn an_event_that_is_finished_is_deleted_after_thirty_days_and_a_failed_one_stays() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Subscription, &tea("2", "unheard_of"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    world.webhook("subscriptions", "2", Some(ADA)).await;
    let states = world.advance().await;
    assert_eq!(states, ["subscription 1 applied", "subscription 2 failed:unreadable"]);
    let failed = &world.events().await.into_iter().find(|it| it.event.path.is_some()).unwrap();
    assert_eq!(failed.event.path.as_deref(), Some("/attributes/status"));

    world.clock.advance(Duration::from_hours(30 * 24));
    let applied = world.providers.advance(10).await.unwrap();

    assert_eq!(applied.deleted, 1);
    assert_eq!(world.states().await, ["subscription 2 failed:unreadable"]);
}

#[tokio::test]
async fn a_replay_observes_again_at_once() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "unheard_of"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    world.advance().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    let id = world.events().await[0].id.clone();

    let replayed = world.providers.replay(&id).await.unwrap();

    assert_eq!((replayed.event.state, replayed.event.path), (EventState::Applied, None));
    assert_eq!(replayed.event.attempts, 2);
    assert_eq!(world.providers.replay(&id).await.unwrap().event.state, EventState::Same);
}

#[tokio::test]
async fn a_provider_out_of_reach_pauses_its_source_longer_each_time() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    *world.api.fails.lock().unwrap() = Some(unavailable);

    let mut pauses = Vec::new();
    for _ in 0..8 {
        let next = world.providers.advance(10).await.unwrap().next_at.unwrap();
        pauses.push(next.since(world.service.now()).as_secs());
        assert_eq!(world.states().await, ["subscription 1 pending:provider_unavailable"]);
        let fetches = world.api.fetches();
        world.providers.advance(10).await.unwrap();
        assert_eq!(world.api.fetches(), fetches, "it is paused");
        world.clock.set(next);
    }
    *world.api.fails.lock().unwrap() = None;

    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(world.advance().await, ["subscription 1 applied"]);
}

#[tokio::test]
async fn an_event_that_another_worker_answered_is_not_put_off() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let slow = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let slow = tokio::spawn(async move { slow.providers.advance(10).await });
    world.api.held.notified().await;
    assert_eq!(world.advance().await, ["subscription 1 applied"]);

    world.api.fails_object.store(true, Ordering::SeqCst);
    world.api.release.notify_one();

    slow.await.unwrap().unwrap();
    assert_eq!(world.states().await, ["subscription 1 applied"]);
}

#[tokio::test]
async fn a_provider_says_how_long_to_wait_and_a_refused_key_is_reported() {
    let world = World::new().await;
    world.webhook("subscriptions", "1", Some(ADA)).await;
    *world.api.fails.lock().unwrap() = Some(|| ApiFailed::Unavailable {
        retry_after: Some(Duration::from_secs(42)),
        source: "429".into(),
    });

    let next = world.providers.advance(10).await.unwrap().next_at.unwrap();
    assert_eq!(next.since(world.service.now()).as_secs(), 42);
    *world.api.fails.lock().unwrap() = Some(|| ApiFailed::KeyRefused);
    world.clock.set(next);

    world.providers.advance(10).await.unwrap();

    let fetches = world.fetches();
    assert_eq!(fetches.get(&FetchOutcome::KeyRefused), Some(&1), "{fetches:?}");
}

#[tokio::test]
async fn events_that_the_allowance_holds_back_are_tried_when_it_has_reads_again() {
    let world = World::new().await;
    for id in 1..=60 {
        world.webhook("subscriptions", &id.to_string(), None).await;
    }
    for _ in 0..5 {
        assert!(world.providers.advance(10).await.unwrap().more);
    }

    let held = world.providers.advance(10).await.unwrap();

    assert_eq!((held.more, held.events.len(), world.api.fetches()), (false, 0, 50));
    assert!(held.next_at.unwrap().since(world.service.now()) <= Duration::from_secs(1));
}

#[tokio::test]
async fn events_of_a_source_that_is_not_configured_any_more_wait_six_hours() {
    let world = World::new().await;
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let without = Providers::new(world.service.clone(), Vec::new());

    let applied = without.advance(10).await.unwrap();

    assert_eq!(applied.next_at.unwrap().since(world.service.now()), Duration::from_hours(6));
    assert_eq!(world.states().await, ["subscription 1 pending"]);
}

#[tokio::test]
async fn events_are_listed_by_state_reason_source_and_object() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    for id in ["1", "2", "3"] {
        world.webhook("subscriptions", id, Some(ADA)).await;
    }
    world.advance().await;
    let count = async |filter: EventFilter| {
        let limit = PageLimit::new(1).unwrap();
        let (mut after, mut count) = (None, 0);
        loop {
            let page = world.providers.events(&filter, after, limit).await.unwrap();
            count += page.items.len();
            after = page.next;
            if after.is_none() {
                return count;
            }
        }
    };

    let any = EventFilter::default;
    assert_eq!(count(any()).await, 3);
    assert_eq!(count(any().with_state(EventState::Waiting)).await, 2);
    assert_eq!(count(any().with_state(EventState::Failed)).await, 0);
    assert_eq!(count(any().with_reason(Reason::NotFound)).await, 2);
    assert_eq!(count(any().with_object("2".parse().ok())).await, 1);
    assert_eq!(count(any().with_source(slug("stripe"))).await, 0);
    let overview = world.providers.overview().await.unwrap();
    let counts: Vec<_> = overview[0].events.values().copied().collect();
    assert_eq!(counts, [1, 2]);
    assert_eq!(overview[0].last_event_at.unwrap().to_string(), "2026-01-05T09:00:00.000000Z");
}

#[tokio::test]
async fn an_object_in_the_other_mode_or_with_another_id_is_not_followed() {
    let world = World::new().await;
    let mut live = tea("1", "active");
    live["attributes"]["test_mode"] = serde_json::json!(false);
    world.api.set(ObjectKind::Subscription, &live);
    world.webhook("subscriptions", "1", Some(ADA)).await;

    assert_eq!(world.advance().await, ["subscription 1 ignored:other_mode"]);
    assert_eq!(world.subscriptions().await.len(), 0);
}

/// The documents of `count` due events of a source, copied from that of one event. Their objects have the ids from 1 on.
fn copies(of: &Document, source: &str, count: u128, due_at: Timestamp) -> Vec<Document> {
    let copy = |nth: u128| {
        let mut body: Value = serde_json::from_str(&of.body).unwrap();
        body["source"] = json!(source);
        body["key"] = json!(nth.to_string());
        body["object"]["id"] =
            if source == "stripe" { json!(format!("sub_{nth}")) } else { json!(nth.to_string()) };
        body["resolved"] = body["object"].clone();
        // The id is made of the source and the key.
        let namespace = Uuid::from_u128(0x5f0c_6f9e_31d4_5b0c_9d57_6a52_0c4e_91b7);
        let id = Uuid::new_v5(&namespace, format!("{source} event {nth}").as_bytes()).to_string();
        let key = DocumentKey { id: id.parse().unwrap(), ..of.key.clone() };
        Document { key, body: body.to_string().into(), due_at: Some(due_at), ..of.clone() }
    };
    (1..=count).map(copy).collect()
}

#[tokio::test]
async fn an_event_does_not_wait_for_the_backlog_of_another_source() {
    let world = World::new().await;
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let one = world.documents("provider_event").await.remove(0);
    let now = world.service.now();
    let long_ago = now.saturating_sub(Duration::from_hours(1));
    let mut backlog = copies(&one, "shop", 9_000, long_ago);
    backlog.extend(copies(&one, "stripe", 1, now));
    for some in backlog.chunks(1_000) {
        let writes = some.iter().cloned().map(Record::from).collect();
        world.store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    }
    world.api.set(ObjectKind::Subscription, &stripe_tea(Some(ADA)));

    let mut calls = 0;
    while world.subscriptions().await.is_empty() {
        calls += 1;
        assert!(calls <= 4, "the event waits behind the backlog");
        // Meanwhile the other source has a few reads again.
        world.clock.advance(Duration::from_secs(1));
        world.providers.advance(1_000).await.unwrap();
    }

    assert!(world.api.fetches() < 100, "{}", world.api.fetches());
}

#[tokio::test]
async fn what_is_tried_again_does_not_stand_before_new_events() {
    let world = World::new().await;
    for id in 1..=60 {
        world.webhook("subscriptions", &id.to_string(), None).await;
    }
    // No object is found, so all events wait and are tried again after a minute.
    while world.providers.advance(100).await.unwrap().more {}
    world.clock.advance(Duration::from_mins(1));
    while world.providers.advance(100).await.unwrap().more {}
    world.clock.advance(Duration::from_mins(10));
    world.api.set(ObjectKind::Subscription, &tea("0", "active"));
    world.webhook("subscriptions", "0", Some(ADA)).await;

    world.providers.advance(50).await.unwrap();

    assert_eq!(world.subscriptions().await.len(), 1);
}
