//! How often a person may call `/me` and change something there, with whatever token.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use subscription_core::store::PageLimit;
use subscription_http::{Quota, RateLimits};
use tokio::task::JoinSet;

use super::my_plan::Shop;
use super::rates::limited;
use super::world::{Answer, HttpWorld, Person, path_of, problem, text};

/// Of all events, the number of those that this person caused.
async fn events_of(world: &HttpWorld, person: &str) -> usize {
    let actor = format!("user:{person}");
    let events = world.auth.service.events(0, PageLimit::MAX).await.unwrap();
    events.iter().filter(|recorded| recorded.event.actor.to_string() == actor).count()
}

/// A world with the changes of production, and a person with a subscription there.
async fn with_changes() -> (HttpWorld, Person, String) {
    let changes = RateLimits::production().self_service;
    let world = limited(&RateLimits::NONE.with_self_service(changes)).await;
    let made = world.subscription("ann", &json!({})).await;
    let ann = world.sign_in("ann").await;
    (world, ann, format!("/me{}", path_of(&made)))
}

fn left(answer: &Answer) -> Option<&str> {
    answer.header("ratelimit")
}

#[tokio::test]
async fn sessions_and_links_of_a_person_have_one_limit_together() {
    let quota = Quota::new(5, Duration::from_mins(5));
    let world = limited(&RateLimits::NONE.with_person(quota)).await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    let again = world.sign_in("ann").await;
    let links = [world.portal_link(&ann.id).await, world.portal_link(&ann.id).await];
    let mine = "/me/entitlement";
    for _ in 0..9 {
        world.portal("GET", mine, "Bearer spt_x").await;
        world.person("GET", mine, "Bearer x").await;
        world.person("GET", "/authentication/tokens", &ann.bearer).await;
    }
    for bearer in [&ann.bearer, &again.bearer, &ann.bearer] {
        assert_eq!(world.person("GET", mine, bearer).await.status, 200);
    }
    for link in &links {
        assert_eq!(world.portal("GET", mine, link).await.status, 200);
    }

    let mut refused = Vec::new();
    for bearer in [&ann.bearer, &again.bearer] {
        refused.push(world.person("GET", mine, bearer).await);
        refused.push(world.person("POST", "/me/subscriptions/x/cancel", bearer).await);
    }
    for link in &links {
        refused.push(world.portal("GET", mine, link).await);
    }
    for refused in refused {
        assert_eq!(refused.problem(), problem(429, "rate_limited"));
        assert_eq!(refused.header("ratelimit-policy"), Some("\"person\";q=5;w=300"));
        assert_eq!(refused.header("retry-after"), Some("60"));
    }

    assert_eq!(world.person("GET", mine, &ben.bearer).await.status, 200);
    let link = world.portal_link(&ben.id).await;
    assert_eq!(world.portal("GET", mine, &link).await.status, 200);
    assert_eq!(RateLimits::production().person, Some(Quota::new(300, Duration::from_mins(5))));
}

#[tokio::test]
async fn a_person_makes_twenty_changes_a_day_with_sessions_and_links_together() {
    let (world, ann, path) = with_changes().await;
    let link = world.portal_link(&ann.id).await;
    for nth in 0..20 {
        let path = format!("{path}/{}", if nth % 2 == 0 { "cancel" } else { "resume" });
        let answer = if nth % 3 == 0 {
            world.portal("POST", &path, &link).await
        } else {
            world.person("POST", &path, &ann.bearer).await
        };
        assert_eq!(answer.status, 200, "{nth}");
        assert_eq!(left(&answer), Some(&*format!("\"self-service\";r={}", 19 - nth)), "{nth}");
        assert_eq!(answer.header("ratelimit-policy"), Some("\"self-service\";q=20;w=86400"));
    }
    let before = events_of(&world, &ann.id).await;

    let by_session = world.person("POST", &format!("{path}/cancel"), &ann.bearer).await;
    let by_link = world.portal("POST", &format!("{path}/cancel"), &link).await;

    for refused in [by_session, by_link] {
        assert_eq!(refused.problem(), problem(429, "rate_limited"));
        assert_eq!(refused.header("retry-after"), Some("4320"));
        assert_eq!(left(&refused), Some("\"self-service\";r=0;t=4320"));
    }
    assert_eq!(events_of(&world, &ann.id).await, before);
    assert_eq!(world.person("GET", "/me/subscriptions", &ann.bearer).await.status, 200);
    let ben = world.subscription("ben", &json!({})).await;
    let of_ben = world.portal_link(&text(&ben["user_id"])).await;
    let path_of_ben = format!("/me{}/cancel", path_of(&ben));
    assert_eq!(world.portal("POST", &path_of_ben, &of_ben).await.status, 200);
    // What the seller does is not the person's.
    let by_seller = world.server("POST", &format!("{}/cancel", &path[3..]), &[], "").await;
    assert_eq!(by_seller.status, 200);

    world.auth.clock.advance(Duration::from_mins(72));
    let ann = world.sign_in("ann").await;
    let resumed = world.server("POST", &format!("{}/resume", &path[3..]), &[], "").await;
    assert_eq!(resumed.status, 200);
    let cancelled = world.person("POST", &format!("{path}/cancel"), &ann.bearer).await;
    assert_eq!((cancelled.status, left(&cancelled)), (200, Some("\"self-service\";r=0")));
    let refused = world.person("POST", &format!("{path}/resume"), &ann.bearer).await;
    assert_eq!(refused.problem(), problem(429, "rate_limited"));
}

#[tokio::test]
async fn calls_that_change_nothing_do_not_count() {
    let (world, ann, path) = with_changes().await;
    let ben = world.subscription("ben", &json!({})).await;
    let post = async |path: String, body: &str| {
        let headers = [("client-id", "web"), ("authorization", &*ann.bearer)];
        world.call("POST", &path, &headers, body).await
    };
    let first = post(format!("{path}/cancel"), "").await;
    assert_eq!(left(&first), Some("\"self-service\";r=19"));

    for (path, body, status) in [
        (format!("{path}/cancel"), "", 200),
        (format!("{path}/cancel"), r#"{"at":1}"#, 422),
        (format!("{path}/cancel"), "{", 400),
        (format!("{path}/cancel?x=1"), "", 400),
        (format!("/me{}/cancel", path_of(&ben)), "", 404),
        ("/me/subscriptions/x/cancel".to_owned(), "", 404),
        (format!("{path}/change-plan"), "{}", 422),
    ] {
        for _ in 0..25 {
            assert_eq!(post(path.clone(), body).await.status, status, "{path} {body}");
        }
    }

    let second = post(format!("{path}/resume"), "").await;
    assert_eq!((second.status, left(&second)), (200, Some("\"self-service\";r=18")));
}

#[tokio::test]
async fn a_change_of_plan_counts_when_it_is_accepted_and_when_it_is_dropped() {
    let limits = RateLimits::NONE.with_self_service(Quota::new(3, Duration::from_hours(24)));
    let shop = Shop::limited(&limits).await;
    for _ in 0..5 {
        // A quote changes nothing.
        shop.agreed(&shop.pro).await;
    }
    let key = [("idempotency-key", "1")];
    let agreed = shop.agreed(&shop.pro).await;
    let accepted = shop.send(&key, &agreed).await;
    assert_eq!((accepted.status, left(&accepted)), (200, Some("\"self-service\";r=2")));
    let replayed = shop.send(&key, &agreed).await;
    assert_eq!((replayed.status, replayed.header("idempotency-replayed")), (200, Some("true")));

    let path = format!("/me{}/resume", path_of(&shop.held));
    let dropped = shop.world.portal("POST", &path, &shop.link).await;
    assert_eq!((dropped.status, left(&dropped)), (200, Some("\"self-service\";r=1")));
    shop.world.auth.clock.advance(Duration::from_secs(1));
    let agreed = shop.agreed(&shop.pro).await;
    let accepted = shop.send(&[], &agreed).await;
    assert_eq!((accepted.status, left(&accepted)), (200, Some("\"self-service\";r=0")));

    let refused = shop.world.portal("POST", &path, &shop.link).await;
    assert_eq!(refused.problem(), problem(429, "rate_limited"));
    assert_eq!(refused.header("ratelimit-policy"), Some("\"self-service\";q=3;w=86400"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_changes_at_the_same_time_count_once() {
    let (world, ann, path) = with_changes().await;
    let world = Arc::new(world);
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let (world, bearer) = (Arc::clone(&world), ann.bearer.clone());
        let path = format!("{path}/cancel");
        calls.spawn(async move { world.person("POST", &path, &bearer).await.status });
    }
    while let Some(status) = calls.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }

    let resumed = world.person("POST", &format!("{path}/resume"), &ann.bearer).await;
    assert_eq!((resumed.status, left(&resumed)), (200, Some("\"self-service\";r=18")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_are_no_more_either() {
    let (world, ann, path) = with_changes().await;
    let world = Arc::new(world);
    let before = events_of(&world, &ann.id).await;
    let mut calls = JoinSet::new();
    for nth in 0..400 {
        let (world, bearer) = (Arc::clone(&world), ann.bearer.clone());
        let path = format!("{path}/{}", if nth % 2 == 0 { "cancel" } else { "resume" });
        calls.spawn(async move { world.person("POST", &path, &bearer).await.status });
    }
    while let Some(status) = calls.join_next().await {
        assert!([200, 409, 429].contains(&status.unwrap()));
    }

    let made = events_of(&world, &ann.id).await - before;
    assert!((1..=20).contains(&made), "{made}");
}
