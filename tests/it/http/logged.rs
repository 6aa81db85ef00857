//! The line that is logged for each request: who called, from where, and why a request was refused.

use std::io::{self, Read as _, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use subscription_core::auth::ClientKind;
use test_support::logs;

use super::world::{HttpWorld, PORTAL, WEB};

/// A buffer for what is logged.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The fields of the newest line about a request that say who called, and what came of it.
    fn newest(&self) -> Value {
        let mut text = String::new();
        self.0.lock().unwrap().as_slice().read_to_string(&mut text).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let line = lines.rfind(|line| line["message"] == "request").unwrap();
        let line = line.as_object().unwrap().iter();
        let told = ["status", "code", "client", "user", "ip"];
        line.filter(|(name, _)| told.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Listens to this thread, on which all requests of a test are handled.
fn listen() -> (Lines, tracing::dispatcher::DefaultGuard) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    (lines, logs::of_this_thread(subscriber))
}

#[tokio::test]
async fn a_line_names_the_client_the_user_and_the_code_of_a_refusal() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let link = world.portal_link(&ann.id).await;
    let (lines, _listening) = listen();

    world.server("GET", "/users", &[], "").await;
    assert_eq!(lines.newest(), json!({ "status": 200, "client": "server" }));

    world.person("GET", "/me/entitlement", &ann.bearer).await;
    assert_eq!(lines.newest(), json!({ "status": 200, "client": WEB, "user": ann.id }));

    world.portal("GET", "/me/entitlement", &link).await;
    assert_eq!(lines.newest(), json!({ "status": 200, "user": ann.id }));

    world.call("GET", "/users", &[("client-id", "nobody")], "").await;
    assert_eq!(lines.newest(), json!({ "status": 401, "code": "client_unknown" }));

    world.call("GET", "/users", &[("client-id", WEB)], "").await;
    let refused = json!({ "status": 403, "code": "scope_missing", "client": WEB });
    assert_eq!(lines.newest(), refused);

    world.person("GET", "/me/entitlement", "Bearer x").await;
    assert_eq!(lines.newest(), json!({ "status": 401, "code": "token_invalid", "client": WEB }));

    world.portal("GET", "/me/entitlement", &format!("{link}x")).await;
    assert_eq!(lines.newest(), json!({ "status": 401, "code": "token_invalid" }));

    world.call("GET", "/nowhere", &[], "").await;
    assert_eq!(lines.newest(), json!({ "status": 404, "code": "route_not_found" }));
}

#[tokio::test]
async fn a_line_names_the_address_of_the_caller_only_if_it_is_told_to() {
    let world = HttpWorld::new().await.logging_addresses();
    let edge = world.client("edge", ClientKind::Confidential, |_| true).await;
    let (lines, _listening) = listen();
    let ip = || lines.newest()["ip"].clone();

    for (peer, client, forwarded, expected) in [
        ("127.0.0.1", WEB, "203.0.113.9", "203.0.113.9"),
        ("203.0.113.7", WEB, "203.0.113.9", "203.0.113.7"),
        ("203.0.113.7", "nobody", "203.0.113.9", "203.0.113.7"),
        ("203.0.113.7", &edge, "2001:db8::1", "2001:db8::1"),
    ] {
        let headers = [("client-id", client), ("x-forwarded-for", forwarded)];
        world.call_from(peer, "GET", "/subscription-plans", &headers, "").await;
        assert_eq!(ip(), expected, "{peer} {forwarded}");
    }
    for (path, host) in [("/nowhere", "localhost"), ("/nowhere", ""), ("/%2e", "localhost")] {
        world.call_from("203.0.113.7", "GET", path, &[("host", host)], "").await;
        assert_eq!(ip(), "203.0.113.7", "{path} at {host}");
    }
}

/// In development every text is a client, also the secret of another server.
#[tokio::test]
async fn in_development_no_client_is_named() {
    let world = HttpWorld::new().await.in_development();
    let (lines, _listening) = listen();

    world.call("GET", "/subscription-plans", &[("client-id", "a-secret")], "").await;

    assert_eq!(lines.newest(), json!({ "status": 200 }));
}

#[tokio::test]
async fn the_making_of_a_portal_link_is_logged_with_the_client_and_the_user() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let (lines, _listening) = listen();

    let link = world.portal_link(&ann.id).await;

    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let mut made = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let made = made.rfind(|line| line["message"] == "portal link made").unwrap();
    assert_eq!((&made["client"], &made["user"]), (&json!("server"), &json!(ann.id)));
    assert!(!text.contains(link.trim_start_matches("Bearer ")) && !text.contains(PORTAL), "{text}");
}
