//! `x-forwarded-for`: whom it is believed from, and what is made of it.

use subscription_core::accounts::Session;
use subscription_core::auth::ClientKind;
use subscription_core::store::PageLimit;
use subscription_core::store::StoreExt as _;

use super::world::{HttpWorld, WEB};

/// The address that is kept with a sign-in.
async fn kept(world: &HttpWorld, peer: &str, client: &str, forwarded: &[&str]) -> String {
    let name = format!("of-{}", world.auth.service.events(0, PageLimit::MAX).await.unwrap().len());
    let mut headers = vec![("client-id", client)];
    headers.extend(forwarded.iter().map(|line| ("x-forwarded-for", *line)));
    let body = world.proof(&name, |_| {});
    let made = world.call_from(peer, "POST", "/authentication/sign-up", &headers, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let session = made.json()["session_id"].as_str().unwrap().parse().unwrap();
    let session = world.auth.store.get_as::<Session>(&session).await.unwrap().unwrap();
    session.origin.ip.unwrap().to_string()
}

#[tokio::test]
async fn the_first_untrusted_hop_from_the_right_counts() {
    let world = HttpWorld::new().await;
    let cases: [(&str, &[&str], &str); 16] = [
        ("127.0.0.1", &[], "127.0.0.1"),
        ("127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        ("::1", &["203.0.113.9"], "203.0.113.9"),
        ("::ffff:127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", &["1.1.1.1,203.0.113.9 , 10.0.0.1,127.0.0.1"], "203.0.113.9"),
        ("127.0.0.1", &["1.1.1.1", "203.0.113.9", "10.0.0.1"], "203.0.113.9"),
        ("127.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
        ("127.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
        ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
        ("127.0.0.1", &["garbage", "", "\u{fc}"], "127.0.0.1"),
        ("203.0.113.7", &["1.1.1.1"], "203.0.113.7"),
        ("::ffff:203.0.113.7", &["1.1.1.1"], "203.0.113.7"),
        ("10.0.0.2", &["1.1.1.1"], "10.0.0.2"),
    ];

    for (peer, forwarded, expected) in cases {
        assert_eq!(kept(&world, peer, WEB, forwarded).await, expected, "{peer} {forwarded:?}");
    }
}

/// Whoever calls may have written what stands left of such a hop.
#[tokio::test]
async fn behind_a_hop_that_is_no_address_the_last_trusted_proxy_counts() {
    let world = HttpWorld::new().await;
    let edge = world.client("edge", ClientKind::Confidential, |_| true).await;

    for hop in [
        "unix:",
        "unknown",
        "_hidden",
        "",
        "fe80::1%eth0",
        "1.2.3",
        "256.1.1.1",
        "198.51.100.7:http",
        "198.51.100.7:99999",
        "198.51.100.7 203.0.113.9",
    ] {
        for (peer, forwarded, expected) in [
            ("127.0.0.1", vec![format!("203.0.113.9, {hop}")], "127.0.0.1"),
            ("127.0.0.1", vec!["203.0.113.9".to_owned(), hop.to_owned()], "127.0.0.1"),
            ("127.0.0.1", vec![format!("203.0.113.9, {hop}, 10.0.0.1")], "10.0.0.1"),
            ("10.0.0.1", vec![format!("203.0.113.9, {hop}, 127.0.0.1")], "127.0.0.1"),
            ("127.0.0.1", vec![format!("{hop}, 203.0.113.9")], "203.0.113.9"),
        ] {
            let forwarded: Vec<&str> = forwarded.iter().map(String::as_str).collect();
            let caller = kept(&world, peer, WEB, &forwarded).await;
            assert_eq!(caller, expected, "{peer} {forwarded:?}");
        }
        let forwarded = format!("203.0.113.9, {hop}");
        assert_eq!(kept(&world, "203.0.113.7", &edge, &[&forwarded]).await, "203.0.113.7", "{hop}");
    }
}

#[tokio::test]
async fn a_client_that_may_assert_addresses_is_believed_from_anywhere() {
    let world = HttpWorld::new().await;
    let edge = world.client("edge", ClientKind::Confidential, |_| true).await;

    for (peer, forwarded, expected) in [
        ("203.0.113.7", "198.51.100.1", "198.51.100.1"),
        // The addresses that the user wrote stay left of those that the client added.
        ("203.0.113.7", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        ("203.0.113.7", "6.6.6.6, 198.51.100.1, 10.0.0.1", "198.51.100.1"),
        ("203.0.113.7", "garbage", "203.0.113.7"),
    ] {
        assert_eq!(kept(&world, peer, &edge, &[forwarded]).await, expected, "{forwarded}");
    }
    let server = world.server.clone();
    assert_eq!(kept(&world, "203.0.113.7", &server, &["1.1.1.1"]).await, "203.0.113.7");
}

#[tokio::test]
async fn only_the_last_sixteen_entries_are_looked_at() {
    let world = HttpWorld::new().await;
    let hops = |first: &str, then: usize| format!("{first}{}", ", 10.0.0.1".repeat(then));

    assert_eq!(kept(&world, "127.0.0.1", WEB, &[&hops("1.1.1.1", 15)]).await, "1.1.1.1");
    assert_eq!(kept(&world, "127.0.0.1", WEB, &[&hops("1.1.1.1", 16)]).await, "10.0.0.1");
    assert_eq!(kept(&world, "127.0.0.1", WEB, &[&hops("1.1.1.1", 1_000)]).await, "10.0.0.1");
    let garbage = format!("1.1.1.1{}", ",x".repeat(1_000));
    assert_eq!(kept(&world, "127.0.0.1", WEB, &[&garbage]).await, "127.0.0.1");
}

#[tokio::test]
async fn metrics_are_for_this_machine_and_nobody_behind_its_proxy() {
    let world = HttpWorld::new().await;
    let ask = |peer: &'static str, headers: &'static [(&str, &str)]| {
        world.call_from(peer, "GET", "/metrics", headers, "")
    };

    assert_eq!(ask("127.0.0.1", &[]).await.status, 200);
    let here = ask("127.0.0.1", &[]).await;
    assert!(here.text().contains("subscription_http_requests"), "{here:?}");
    assert_eq!(ask("::1", &[]).await.status, 200);
    assert_eq!(ask("203.0.113.7", &[]).await.status, 404);
    assert_eq!(ask("203.0.113.7", &[("x-forwarded-for", "127.0.0.1")]).await.status, 404);
    assert_eq!(ask("127.0.0.1", &[("x-forwarded-for", "203.0.113.7")]).await.status, 404);
    assert_eq!(ask("127.0.0.1", &[("x-forwarded-for", "127.0.0.1, ::1")]).await.status, 200);
    // A hop that is no address may be anybody.
    for hops in ["unix:", "127.0.0.1, unix:", "127.0.0.1, unix:, 127.0.0.1", ""] {
        let forwarded = [("x-forwarded-for", hops)];
        let answer = world.call_from("127.0.0.1", "GET", "/metrics", &forwarded, "").await;
        assert_eq!(answer.status, 404, "{hops}");
    }
    let request = http::Request::get("/metrics").header("host", "localhost");
    let unknown = request.body(http_body_util::Full::default()).unwrap();
    assert_eq!(world.send(unknown, None).await.status, 404);
}
