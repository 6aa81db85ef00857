//! How often one may ask: by address, by session, by client, and for guessing.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use serde_json::json;
use subscription_core::auth::ClientKind;
use subscription_http::{Quota, RateLimits, Timeouts};

use super::world::{Answer, HttpWorld, Person, WEB, problem, text};
use crate::auth::world::AuthWorld;

const SIGN_IN: &str = "/authentication/sign-in";
const SIGN_UP: &str = "/authentication/sign-up";
const REFRESH: &str = "/authentication/refresh-token";
const PLANS: &str = "/subscription-plans";

/// Two addresses that are nobody's proxy.
const HERE: &str = "203.0.113.7";
const THERE: &str = "203.0.113.8";

pub(crate) async fn limited(limits: &RateLimits) -> HttpWorld {
    HttpWorld::limited(AuthWorld::new(), Timeouts::default(), limits).await
}

async fn production() -> HttpWorld {
    limited(&RateLimits::production()).await
}

impl HttpWorld {
    /// A sign-in of nobody from an address: what it costs is the same.
    async fn try_sign_in(&self, peer: &str, forwarded: &str) -> Answer {
        let headers = [("client-id", WEB), ("x-forwarded-for", forwarded)];
        self.call_from(peer, "POST", SIGN_IN, &headers, "{}").await
    }

    async fn try_refresh(&self, peer: &str, token: &str) -> Answer {
        let body = json!({ "refresh_token": token }).to_string();
        self.call_from(peer, "POST", REFRESH, &[("client-id", WEB)], body).await
    }

    async fn list_as(&self, peer: &str, credential: &str) -> Answer {
        self.call_from(peer, "GET", PLANS, &[("client-id", credential)], "").await
    }
}

/// Asserts that a request came too often, by which limit, and what it is told.
fn assert_limited(answer: &Answer, policy: &str, quota: &str, after: u32) {
    assert_eq!(answer.problem(), problem(429, "rate_limited"), "{policy}");
    assert_eq!(answer.header("retry-after"), Some(&*after.to_string()), "{policy}");
    assert_eq!(answer.header("ratelimit-policy"), Some(&*format!("\"{policy}\";{quota}")));
    assert_eq!(answer.header("ratelimit"), Some(&*format!("\"{policy}\";r=0;t={after}")));
}

#[tokio::test]
async fn an_address_signs_in_and_up_thirty_times_in_five_minutes() {
    let world = production().await;

    for left in (0..30).rev() {
        let path = if left % 2 == 0 { SIGN_IN } else { SIGN_UP };
        let answer = world.call_from(HERE, "POST", path, &[("client-id", WEB)], "{}").await;
        assert_eq!(answer.status, 422, "{left}");
        assert_eq!(answer.header("ratelimit-policy"), Some("\"signin\";q=30;w=300"));
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"signin\";r={left}")));
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_limited(&world.try_sign_in(HERE, "").await, "signin", "q=30;w=300", 10);
    assert_eq!(world.try_sign_in(THERE, "").await.status, 422);
    let body = world.proof("ann", |_| {});
    let genuine = world.call_from(HERE, "POST", SIGN_UP, &[("client-id", WEB)], body.clone()).await;
    assert_limited(&genuine, "signin", "q=30;w=300", 10);

    world.auth.clock.advance(Duration::from_millis(8_900));
    assert_limited(&world.try_sign_in(HERE, "").await, "signin", "q=30;w=300", 2);
    world.auth.clock.advance(Duration::from_millis(1_100));
    let in_time = world.call_from(HERE, "POST", SIGN_UP, &[("client-id", WEB)], body).await;
    assert_eq!(in_time.status, 201);
    assert_limited(&world.try_sign_in(HERE, "").await, "signin", "q=30;w=300", 10);

    world.auth.clock.advance(Duration::from_mins(5));
    for nth in 0..30 {
        assert_eq!(world.try_sign_in(HERE, "").await.status, 422, "{nth}");
    }
    assert_eq!(world.try_sign_in(HERE, "").await.status, 429);
}

#[tokio::test]
async fn an_address_refreshes_150_times_in_five_minutes() {
    let world = production().await;

    for left in (0..150).rev() {
        let answer = world.try_refresh(HERE, "srt_x").await;
        assert_eq!(answer.problem(), problem(401, "refresh_token_invalid"), "{left}");
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"refresh\";r={left}")));
    }
    assert_limited(&world.try_refresh(HERE, "srt_x").await, "refresh", "q=150;w=300", 2);
    assert_eq!(world.try_refresh(THERE, "srt_x").await.status, 401);

    world.auth.clock.advance(Duration::from_secs(2));
    assert_eq!(world.try_refresh(HERE, "srt_x").await.status, 401);
}

#[tokio::test]
async fn a_session_is_refreshed_ten_times_a_minute_from_wherever() {
    let world = production().await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    let mut token = ann.refresh_token.clone();
    for nth in 0..10 {
        let answer = world.try_refresh(&format!("203.0.113.{nth}"), &token).await;
        assert_eq!(answer.status, 200, "{nth}");
        token = text(&answer.json()["refresh_token"]);
    }

    let eleventh = world.try_refresh(THERE, &token).await;

    assert_limited(&eleventh, "refresh-session", "q=10;w=60", 6);
    assert_eq!(world.try_refresh(HERE, &ben.refresh_token).await.status, 200);
    world.auth.clock.advance(Duration::from_secs(6));
    assert_eq!(world.try_refresh(THERE, &token).await.status, 200);
}

/// The id of a session is no secret: who knows it must not keep it from being refreshed.
#[tokio::test]
async fn forged_refresh_tokens_do_not_use_up_the_sessions_own() {
    let world = production().await;
    let Person { refresh_token, .. } = world.sign_up("ann").await;
    let at = refresh_token.len() - 2;
    let other = if &refresh_token[at..=at] == "A" { "B" } else { "A" };
    let forged = format!("{}{other}{}", &refresh_token[..at], &refresh_token[at + 1..]);

    for _ in 0..20 {
        let refused = world.try_refresh(HERE, &forged).await;
        assert_eq!(refused.problem(), problem(401, "refresh_token_invalid"));
    }

    assert_eq!(world.try_refresh(THERE, &refresh_token).await.status, 200);
}

#[tokio::test]
async fn guessing_client_ids_ends_after_twenty_and_shuts_out_no_client_behind_the_address() {
    let world = production().await;
    let other = world.client("other", ClientKind::Confidential, |_| true).await;
    let almost = format!("{}A", &world.server[..world.server.len() - 1]);
    for nth in 0..20 {
        let answer = world.list_as(HERE, if nth % 2 == 0 { "nobody" } else { &almost }).await;
        assert_eq!(answer.problem(), problem(401, "client_unknown"), "{nth}");
    }

    for _ in 0..20 {
        for guess in ["nobody", &almost] {
            assert_limited(&world.list_as(HERE, guess).await, "client-id", "q=20;w=300", 15);
        }
        // This client has never called before.
        for known in [&world.server, WEB, &other] {
            assert_eq!(world.list_as(HERE, known).await.status, 200, "{known}");
        }
    }

    assert_eq!(world.list_as(THERE, "nobody").await.status, 401);
    assert_eq!(world.list_as("2001:db8:0:1::1", "nobody").await.status, 401);
    world.auth.clock.advance(Duration::from_secs(15));
    assert_eq!(world.list_as(HERE, "nobody").await.status, 401);
    assert_eq!(world.list_as(HERE, "nobody").await.status, 429);
}

#[tokio::test]
async fn calls_that_succeed_use_up_nothing_of_those_that_fail() {
    let world = production().await;
    for _ in 0..100 {
        assert_eq!(world.list_as(HERE, &world.server).await.status, 200);
        assert_eq!(world.list_as(HERE, "").await.status, 401);
    }
    assert_eq!(world.list_as(HERE, "nobody").await.status, 401);
}

#[tokio::test]
async fn who_is_no_proxy_is_limited_whatever_it_forwards() {
    let world = production().await;
    for nth in 0..30 {
        let answer = world.try_sign_in(HERE, &format!("198.51.100.{nth}")).await;
        assert_eq!(answer.status, 422, "{nth}");
    }
    assert_eq!(world.try_sign_in(HERE, "198.51.100.99").await.status, 429);
    for nth in 0..21 {
        let forwarded = format!("198.51.100.{nth}");
        let headers = [("client-id", "nobody"), ("x-forwarded-for", forwarded.as_str())];
        let answer = world.call_from(THERE, "GET", PLANS, &headers, "").await;
        assert_eq!(answer.status, if nth < 20 { 401 } else { 429 }, "{nth}");
    }

    // Through a proxy that is trusted it is the address before it that counts, not the proxy.
    for nth in 0..31 {
        let answer = world.try_sign_in("10.0.0.1", &format!("1.1.1.{nth}, 198.51.100.1")).await;
        assert_eq!(answer.status, if nth < 30 { 422 } else { 429 }, "{nth}");
    }
    assert_eq!(world.try_sign_in("10.0.0.1", "198.51.100.2").await.status, 422);
}

#[tokio::test]
async fn guesses_through_a_trusted_proxy_are_counted_for_who_guesses_and_not_for_the_proxy() {
    let world = production().await;
    for _ in 0..21 {
        let headers = [("client-id", "nobody"), ("x-forwarded-for", HERE)];
        world.call_from("10.0.0.1", "GET", PLANS, &headers, "").await;
    }
    for (forwarded, client, status) in [
        (HERE, "nobody", 429),
        (THERE, "nobody", 401),
        (HERE, &world.server, 200),
        (THERE, &world.server, 200),
    ] {
        let headers = [("client-id", client), ("x-forwarded-for", forwarded)];
        let answer = world.call_from("10.0.0.1", "GET", PLANS, &headers, "").await;
        assert_eq!(answer.status, status, "{client} {forwarded}");
    }
}

#[tokio::test]
async fn a_client_that_may_assert_addresses_has_each_of_its_people_limited() {
    let world = production().await;
    let backend = world.client("backend", ClientKind::Confidential, |_| true).await;
    for nth in 0..31 {
        let headers = [("client-id", backend.as_str()), ("x-forwarded-for", "198.51.100.1")];
        let answer = world.call_from(HERE, "POST", SIGN_IN, &headers, "{}").await;
        assert_eq!(answer.status, if nth < 30 { 422 } else { 429 }, "{nth}");
    }
    let headers = [("client-id", backend.as_str()), ("x-forwarded-for", "198.51.100.2")];
    let other = world.call_from(HERE, "POST", SIGN_IN, &headers, "{}").await;
    assert_eq!(other.status, 422);
}

#[tokio::test]
async fn addresses_of_one_network_are_limited_together() {
    let sign_in = Some(Quota::new(2, Duration::from_mins(1)));
    let world = limited(&RateLimits::NONE.with_sign_in(sign_in)).await;
    for (peer, status) in [
        ("2001:db8:0:1::1", 422),
        ("2001:db8:0:1:ffff:ffff:ffff:ffff", 422),
        ("2001:db8:0:1:1234::", 429),
        ("2001:db8:0:2::1", 422),
        ("203.0.113.7", 422),
        ("::ffff:203.0.113.7", 422),
        ("203.0.113.7", 429),
        ("203.0.113.8", 422),
    ] {
        assert_eq!(world.try_sign_in(peer, "").await.status, status, "{peer}");
    }
}

#[tokio::test]
async fn everything_else_is_limited_by_client_and_by_address() {
    let few = Some(Quota::new(2, Duration::from_secs(1)));
    let world = limited(&RateLimits::NONE.with_client(few)).await;
    let other = world.client("other", ClientKind::Confidential, |_| true).await;
    assert_eq!(world.list_as(HERE, &world.server).await.status, 200);
    assert_eq!(world.list_as(THERE, &world.server).await.status, 200);
    assert_limited(&world.list_as("203.0.113.9", &world.server).await, "client", "q=2;w=1", 1);
    assert_eq!(world.list_as(HERE, &other).await.status, 200);

    let world = limited(&RateLimits::NONE.with_address(few)).await;
    assert_eq!(world.list_as(HERE, WEB).await.status, 200);
    assert_eq!(world.list_as(HERE, &world.server).await.status, 200);
    assert_limited(&world.list_as(HERE, "nobody").await, "address", "q=2;w=1", 1);
    let keys = world.call_from(HERE, "GET", "/.well-known/jwks.json", &[], "").await;
    assert_limited(&keys, "address", "q=2;w=1", 1);
    for (method, path) in [("GET", "/nowhere"), ("PATCH", "/subscriptions"), ("OPTIONS", "/docs")] {
        let refused = world.call_from(HERE, method, path, &[], "").await;
        assert_limited(&refused, "address", "q=2;w=1", 1);
    }
    for _ in 0..5 {
        assert_eq!(world.call("GET", "/metrics", &[], "").await.status, 200);
    }
    world.auth.clock.advance(Duration::from_millis(500));
    assert_eq!(world.list_as(HERE, WEB).await.status, 200);
}

/// A public client's id is no secret: a bucket of its own would be a lever for whoever has it.
#[tokio::test]
async fn nobody_uses_up_what_other_users_of_a_public_client_have() {
    let few = Some(Quota::new(5, Duration::from_secs(10)));
    let world = limited(&RateLimits::NONE.with_client(few).with_address(few)).await;
    for address in 1..=4 {
        let address = format!("198.51.100.{address}");
        while world.list_as(&address, WEB).await.status != 429 {}
    }

    let fifth = world.list_as(HERE, WEB).await;

    assert_eq!(fifth.status, 200, "{fifth:?}");
}

#[tokio::test]
async fn without_limits_or_without_an_address_one_may_ask_on() {
    let world = HttpWorld::new().await;
    for nth in 0..100 {
        let answer = world.try_sign_in(HERE, "").await;
        assert_eq!(answer.status, 422, "{nth}");
        assert_eq!(answer.header("ratelimit"), None);
        assert_eq!(world.list_as(HERE, "nobody").await.status, 401, "{nth}");
    }
    let world = production().await;
    for nth in 0..40 {
        let request = Request::post(SIGN_IN).header("host", "localhost").header("client-id", WEB);
        let request = request.header("content-type", "application/json");
        let answer = world.send(request.body(Full::from("{}")).unwrap(), None).await;
        assert_eq!(answer.status, 422, "{nth}");
    }
}

#[tokio::test]
async fn what_was_refused_is_counted_by_its_limit() {
    let world = production().await;
    for _ in 0..33 {
        world.try_sign_in(HERE, "").await;
    }

    let counted = world.call("GET", "/metrics", &[], "").await;

    let line = "subscription_http_rate_limited_total{policy=\"signin\"} 3";
    assert!(counted.text().contains(line), "{}", counted.text());
}

#[tokio::test]
async fn what_makes_no_sense_limits_to_one_and_does_not_panic() {
    for (quota, after) in [
        (Quota::new(0, Duration::from_secs(3)), "3"),
        (Quota::new(1, Duration::MAX), "31622400"),
        (Quota::new(u32::MAX, Duration::ZERO), "none"),
    ] {
        let world = limited(&RateLimits::NONE.with_sign_in(quota)).await;
        world.try_sign_in(HERE, "").await;
        let second = world.try_sign_in(HERE, "").await;
        assert_eq!(second.header("retry-after").unwrap_or("none"), after, "{quota:?}");
    }
}
