//! `/events`: pages of the feed, filters, waiting requests, and what is refused.

use std::sync::Arc;

use serde_json::{Value, json};
use subscription_core::auth::{ClientKind, Scope};
use tokio::task::JoinSet;

use super::world::{Answer, HttpWorld, problem, text};

async fn events(world: &HttpWorld, query: &str) -> Answer {
    world.server("GET", &format!("/events?{query}"), &[], "").await
}

/// The types of the events of a page.
fn types(page: &Answer) -> Vec<String> {
    assert_eq!(page.status, 200, "{page:?}");
    page.json()["data"].as_array().unwrap().iter().map(|event| text(&event["type"])).collect()
}

/// The credential of a client with these scopes alone.
async fn client(world: &HttpWorld, id: &str, scopes: &[Scope]) -> String {
    world.client(id, ClientKind::Confidential, |scope| scopes.contains(&scope)).await
}

#[tokio::test]
async fn the_feed_is_read_page_by_page_to_its_end() {
    let world = HttpWorld::new().await;
    let before = events(&world, "limit=200").await.json()["last"].as_u64().unwrap();
    for slug in ["a", "b", "c"] {
        world.plan(slug).await;
    }

    let mut after = before;
    for (limit, count, has_more) in [(2, 2, true), (2, 1, false), (2, 0, false)] {
        let page = events(&world, &format!("after={after}&limit={limit}")).await.json();

        assert_eq!(page["data"].as_array().unwrap().len(), count);
        assert_eq!(page["has_more"], has_more);
        assert_eq!(page["last"], before + 3);
        after = page["next_after"].as_u64().unwrap();
    }
    assert_eq!(after, before + 3);
    let beyond = events(&world, "after=1000").await.json();
    assert_eq!((&beyond["next_after"], &beyond["has_more"]), (&json!(1000), &json!(false)));
}

#[tokio::test]
async fn an_empty_page_of_a_type_moves_on() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;

    let page = events(&world, "type=payment.*").await.json();

    assert_eq!(page["data"], json!([]));
    assert_eq!((&page["next_after"], &page["has_more"]), (&page["last"], &json!(false)));
}

#[tokio::test]
async fn events_of_users_sessions_and_clients_need_a_scope_of_their_own() {
    let world = HttpWorld::new().await;
    world.subscription("ann", &json!({})).await;
    let lesser = client(&world, "lesser", &[Scope::EventsRead]).await;
    let seen_by = async |credential: &str, query: &str| {
        let path = format!("/events?limit=200{query}");
        world.call("GET", &path, &[("client-id", credential)], "").await
    };

    let all = types(&seen_by(&world.server, "").await);
    let ledger = ["plan.created", "subscription.created"];
    assert!(
        ["user.created", "session.created", "client.created"]
            .iter()
            .all(|one| { all.iter().any(|seen| seen == one) })
    );
    assert_eq!(types(&seen_by(&lesser, "").await), ledger);
    assert_eq!(types(&seen_by(&world.server, "&type=*").await), ledger);
    for (query, seen) in [("&type=*", &ledger[..]), ("&type=plan.*", &ledger[..1])] {
        assert_eq!(types(&seen_by(&lesser, query).await), seen, "{query}");
    }
    for query in ["&type=user.*", "&type=plan.*&type=session.revoked", "&type=client.created"] {
        let refused = seen_by(&lesser, query).await;
        assert_eq!(refused.problem(), problem(403, "scope_missing"), "{query}");
        assert!(text(&refused.json()["detail"]).contains("users:read"), "{query}");
    }
    let user = seen_by(&world.server, "&type=user.created").await.json();
    let subject = format!("&subject_id={}", text(&user["data"][0]["subject"]["id"]));
    assert_eq!(types(&seen_by(&world.server, &subject).await), ["user.created"]);
    assert_eq!(types(&seen_by(&lesser, &subject).await), [] as [&str; 0]);
}

#[tokio::test]
async fn a_parameter_that_is_wrong_is_refused_by_its_name() {
    let world = HttpWorld::new().await;
    let many = ["type=*"; 51].join("&");

    for (query, parameter) in [
        ("after=", "after"),
        ("after=-1", "after"),
        ("after=x", "after"),
        ("after=9223372036854775808", "after"),
        ("after=1&after=2", "after"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("wait=26", "wait"),
        ("wait=-1", "wait"),
        ("wait=1.5", "wait"),
        ("type=", "type"),
        ("type=plan", "type"),
        ("type=plan.", "type"),
        ("type=plan.*.active", "type"),
        ("type=plan.revoked", "type"),
        ("type=Plan.created", "type"),
        ("type=invoice.created", "type"),
        ("type=subscription.status_changed.canceled", "type"),
        ("type=subscription.created.active", "type"),
        ("type=payment.status_changed.active", "type"),
        ("type=**", "type"),
        (&*many, "type"),
        ("subject_id=x", "subject_id"),
        ("subject_id=01940000000070008000000000000000", "subject_id"),
        ("cursor=x", "cursor"),
        ("sequence=1", "sequence"),
    ] {
        let refused = events(&world, query).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
        assert_eq!(refused.json()["parameter"], parameter, "{query}");
    }
}

#[tokio::test]
async fn events_that_are_deleted_are_told_to_whoever_has_not_read_them() {
    let world = HttpWorld::new().await;
    world.plan("a").await;
    let last = events(&world, "").await.json()["last"].as_u64().unwrap();
    world.plan("b").await;
    world.auth.service.forget_events(last).await.unwrap();

    let refused = events(&world, &format!("after={}", last - 1)).await;
    assert_eq!(refused.problem(), problem(410, "events_forgotten"));
    let first_kept = format!("all from {} on are stored", last + 1);
    assert!(text(&refused.json()["detail"]).contains(&first_kept), "{refused:?}");
    for query in [format!("after={last}"), String::new()] {
        assert_eq!(types(&events(&world, &query).await), ["plan.created"], "{query}");
    }
    world.auth.service.forget_events(u64::MAX).await.unwrap();
    assert_eq!(events(&world, &format!("after={last}")).await.status, 410);
    assert_eq!(types(&events(&world, &format!("after={}", last + 1)).await), [] as [&str; 0]);
}

/// The number of waiting requests, by the metrics.
async fn waiters(world: &HttpWorld) -> usize {
    let metrics = world.call("GET", "/metrics", &[], "").await;
    let line = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("subscription_http_feed_waiters "));
    line.unwrap().parse().unwrap()
}

/// Lets requests wait at the end of the feed, and returns once they do.
async fn wait(
    world: &Arc<HttpWorld>,
    credential: &str,
    count: usize,
    waiting: &mut JoinSet<Answer>,
) {
    let last = events(world, "").await.json()["last"].as_u64().unwrap();
    let path = format!("/events?after={last}&wait=25");
    let begun = waiters(world).await;
    for _ in 0..count {
        let (world, path, credential) = (Arc::clone(world), path.clone(), credential.to_owned());
        waiting.spawn(
            async move { world.call("GET", &path, &[("client-id", &credential)], "").await },
        );
    }
    while waiters(world).await < begun + count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_that_waits_is_answered_by_the_next_event() {
    let world = Arc::new(HttpWorld::new().await);
    let mut waiting = JoinSet::new();
    wait(&world, &world.server, 3, &mut waiting).await;

    world.plan("pro").await;

    while let Some(page) = waiting.join_next().await {
        assert_eq!(types(&page.unwrap()), ["plan.created"]);
    }
    assert_eq!(waiters(&world).await, 0);
}

#[tokio::test]
async fn a_client_has_eight_waiting_requests_at_the_most() {
    let world = Arc::new(HttpWorld::new().await);
    let other = client(&world, "other", &[Scope::EventsRead]).await;
    let mut waiting = JoinSet::new();
    wait(&world, &world.server, 8, &mut waiting).await;
    let last = events(&world, "").await.json()["last"].clone();

    let ninth = events(&world, &format!("after={last}&wait=1")).await;

    assert_eq!(ninth.problem(), problem(429, "rate_limited"));
    assert_eq!(ninth.header("retry-after"), Some("1"));
    assert_eq!(events(&world, &format!("after={last}")).await.status, 200);
    wait(&world, &other, 1, &mut waiting).await;
}

#[tokio::test]
async fn a_thousand_requests_wait_at_the_most() {
    let world = Arc::new(HttpWorld::new().await);
    let mut clients = Vec::new();
    for nth in 0..126 {
        clients.push(client(&world, &format!("reader-{nth}"), &[Scope::EventsRead]).await);
    }
    let mut waiting = JoinSet::new();
    for credential in clients.iter().take(125) {
        wait(&world, credential, 8, &mut waiting).await;
    }
    let last: Value = events(&world, "").await.json()["last"].clone();

    let path = format!("/events?after={last}&wait=1");
    let refused = world.call("GET", &path, &[("client-id", &clients[125])], "").await;

    assert_eq!(refused.problem(), problem(503, "overloaded"));
}
