//! The suite runs once more, listened to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_support::logs::{LOG, listen, note, secrets_beside};

use super::search::Search;
use crate::http::matrix::ROWS;

/// Where the secrets are logged that must be found.
const PLANTED: &str = "subscription_core::planted";

/// A token that nobody would take, in parts, so that only the log has it whole.
const NOTED: [&str; 2] = ["a-token-that-was-noted-and", "-then-logged"];

/// Runs in the suite that is listened to, and does what nobody must.
#[test]
fn a_secret_is_planted_if_anybody_listens() {
    listen();
    note(&NOTED.concat());
    let (claims, mac) = ("eyJzdWIiOiJhZGEiLCJpc3MiOiJ4In0", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB");
    tracing::trace!(target: PLANTED, token = format!("eyJhbGciOiJFZERTQSJ9.{claims}.{mac}"));
    tracing::trace!(target: PLANTED, "refreshed with srt_{mac}");
    tracing::trace!(target: PLANTED, client = ?Some(format!("sck_server_{mac}")));
    tracing::trace!(target: PLANTED, header = format!("Bearer {mac}"));
    tracing::trace!(target: PLANTED, email = "planted@example.com");
    tracing::trace!(target: PLANTED, key = ?[7_u8; 32]);
    tracing::trace!(target: PLANTED, token = NOTED.concat());
}

/// Left out: they do thousands of times what others do once, wait long for what others log too, or run rules and
/// stores, which log nothing. That each line and each route is still met is checked below.
const LONG: [&str; 28] = [
    "billing::",
    "figures::",
    "stores::",
    "simulation::",
    "auth::refresh_races::",
    "auth::refresh_model::",
    "::the_last_of_thousands_of_sign_ins",
    "::a_hostile_body_is_refused_as_fast",
    "::a_large_honest_body_is_read_fast",
    "::a_body_takes_the_fields_that_are_documented",
    "http::matrix::a_client_that_a_route_is_for",
    "http::mutations::",
    "http::matrix::every_kind_of_token",
    "http::matrix::only_what_is_the_persons_own",
    "::the_actions_of_the_console",
    "webhooks::window::",
    "values::",
    "sending::cost::",
    "auth::deletions::a_large_deletion",
    "auth::deletions::a_deletion_that_fails",
    "auth::users_of_subscriptions::",
    "auth::timing::",
    "auth::session_bounds::",
    "wire::smuggling::",
    "providers::stripe::",
    "providers::lemon_squeezy",
    "observe::",
    "http::lists::",
];

/// Every line that the suite makes the service log, by the end of its target and the begin of its message.
const LINES: [(&str, &str); 17] = [
    ("request_log", "request"),
    ("request_log", "client disconnected before the response"),
    ("api::error", "request failed"),
    ("handlers::webhooks", "webhook endpoint managed"),
    ("http_client::deliver", "a delivery failed"),
    ("server::connection", "connection failed"),
    ("server::connection", "connection closed"),
    ("subscription_http::server", "connection refused: too many from this address"),
    ("auth::sessions", "a refresh token was used twice"),
    ("auth::sessions", "a genuine refresh token is newer than its session"),
    ("api::fetch", "reading from the payment provider fails"),
    ("queue::ended", "a webhook delivery failed"),
    ("queue::ended", "a webhook endpoint is stalled"),
    ("queue::ended", "a webhook endpoint is disabled"),
    ("queue::ended", "a webhook endpoint accepts events again"),
    ("queue::ended", "a webhook event is given up"),
    ("sending::queue", "webhook events were deleted before they were sent"),
];

/// Runs the suite again, listened to: its log, line by line, and the secrets that it used.
fn listened_to() -> (Vec<Value>, String) {
    let name = format!("suite-{}.log", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let suite = Command::new(std::env::current_exe().unwrap())
        // Many of them wait.
        .args(["--quiet", "--test-threads", "6", "--skip", "suite::no_secret"])
        .args(LONG.iter().flat_map(|name| ["--skip", name]))
        .env(LOG, &path)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&suite.stdout);
    assert!(suite.status.success(), "{told}\n{}", String::from_utf8_lossy(&suite.stderr));
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    };
    let (log, noted) = (read(&path), read(&secrets_beside(&path)));
    let line = |line: &str| {
        assert!(!line.contains(char::is_control), "{line:?}");
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no line of ours: {line}"))
    };
    (log.lines().map(line).collect(), noted)
}

/// All the text of a line: each name and each value, as they were before they were JSON.
fn text_of(line: &Value) -> String {
    match line {
        Value::Object(members) => {
            members.iter().map(|(name, value)| [name, ": ", &text_of(value)].concat()).collect()
        }
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::String(text) => format!("{text}\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("{line}\n"),
    }
}

#[test]
fn no_secret_that_the_suite_uses_is_in_its_log() {
    let (lines, noted) = listened_to();
    let search = Search::new(&noted);
    let (mut planted, mut found, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    for line in &lines {
        let target = line["target"].as_str().unwrap();
        let text = text_of(line);
        let secrets = search.found_in(&text);
        if target == PLANTED {
            planted.extend(secrets);
        } else {
            *counts.entry(target.split(':').next().unwrap()).or_insert(0) += 1;
            found.extend(secrets.into_iter().map(|secret| format!("{secret} in {text}")));
        }
    }

    found.truncate(10);
    assert_eq!(found, Vec::<String>::new());
    for secret in [
        "a token",
        "a refresh token",
        "a client key",
        "a credential",
        "an email address",
        "signing seed",
        "a noted token",
    ] {
        assert!(planted.contains(&secret), "{secret} was planted and not found: {planted:?}");
    }
    for (target, message) in LINES {
        let is_it = |line: &&Value| {
            let logged = line["message"].as_str().unwrap_or_default();
            line["target"].as_str().unwrap().ends_with(target) && logged.starts_with(message)
        };
        assert!(lines.iter().any(|line| is_it(&line)), "{target}: {message}");
    }
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let routes: BTreeSet<_> = lines
        .iter()
        .map(|line| format!("{} {}", text(line, "method"), text(line, "route")))
        .collect();
    for (route, ..) in ROWS {
        assert!(routes.contains(*route), "{route} in {routes:?}");
    }
    let count = |target| counts.get(target).copied().unwrap_or_default();
    assert!(count("subscription_http") > 2_000, "{counts:?}");
    assert!(count("subscription_core") > 20, "{counts:?}");
    assert!(count("panics") > 1, "{counts:?}");
    assert!(noted.lines().count() > 500, "{}", noted.lines().count());
}
