//! Attacks by way of webhooks, each against the program as it is started. Attacks on the look-up of names, which the
//! program leaves to the system, are in `tests/it/deliver`; two leaders (W13) in `tests/crashes`.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::receiver::{Receiver, Reply};

use crate::provider_shop::until;
use crate::running::{command_in, folder, run};
use crate::webhook_receiver::{Hooks, start, stop};

/// This machine is blocked, as in production.
const STRICT: &str = "[webhooks]\ndeny = [\"127.0.0.0/8\", \"::1/128\"]\n";

fn refuses(hooks: &Hooks, url: &str) {
    let made = hooks.send("POST", "/webhook-endpoints", &json!({ "url": url }));
    assert_eq!((made.status, &made.json()["code"]), (422, &json!("validation_failed")), "{url}");
    let fault = &made.json()["errors"][0];
    assert_eq!((&fault["field"], &fault["code"]), (&json!("url"), &json!("not_allowed_value")));
}

#[test]
fn w1_blocked_addresses_are_refused_at_the_edges_of_each_range() {
    let hooks = Hooks::new();
    for address in [
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.0",
        "192.0.2.255",
        "192.88.99.0",
        "192.88.99.255",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.0",
        "198.51.100.255",
        "203.0.113.0",
        "203.0.113.255",
        "224.0.0.0",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "[::]",
        "[::ffff:10.0.0.1]",
        "[1fff::1]",
        "[2001::1]",
        "[2001:1ff::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
        "[3fff::1]",
        "[3fff:fff::1]",
        "[4000::]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[ff02::1]",
    ] {
        refuses(&hooks, &format!("https://{address}/"));
    }
    for address in ["9.255.255.255", "11.0.0.0", "172.32.0.0", "192.0.1.0", "[2001:200::1]"] {
        let made = hooks.send(
            "POST",
            "/webhook-endpoints",
            &json!({ "url": format!("https://{address}/") }),
        );
        assert_eq!(made.status, 201, "{address}: {made:?}");
    }
}

#[test]
fn w2_an_endpoint_whose_address_is_blocked_later_is_not_connected_to() {
    let hooks = Hooks::new();
    let (id, _) = hooks.endpoint("/hooks");
    hooks.plan("first");
    hooks.deliveries("/hooks", 1);

    let hooks = hooks.again(STRICT);
    let connections = hooks.receiver.connections();
    hooks.plan("second");

    until("it is tried", || {
        hooks.recent(&id).first().is_some_and(|try_| try_["outcome"] == "blocked")
    });
    assert_eq!(hooks.receiver.connections(), connections);
}

#[test]
fn w3_this_machine_is_refused_however_it_is_written() {
    let hooks = Hooks::with(STRICT);
    let port = hooks.receiver.address.port();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:7f00:1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "a.localhost",
    ] {
        refuses(&hooks, &format!("https://{host}:{port}/"));
        refuses(&hooks, &format!("http://{host}:{port}/"));
    }
    assert_eq!(hooks.receiver.connections(), 0);
}

#[test]
fn w4_a_redirect_to_a_metadata_service_is_not_followed() {
    let (hooks, metadata) = (Hooks::new(), Receiver::start());
    let location = metadata.url("/latest/meta-data");
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    hooks.receiver.replies("/hooks", Reply::Send(answer.into_bytes()));
    let (id, _) = hooks.endpoint("/hooks");

    hooks.plan("pro");

    hooks.deliveries("/hooks", 1);
    until("it is noted", || !hooks.recent(&id).is_empty());
    let recent = &hooks.recent(&id)[0];
    assert_eq!((&recent["outcome"], &recent["status"]), (&json!("refused"), &json!(302)));
    assert_eq!(metadata.connections(), 0);
}

fn resident_kib(hooks: &Hooks) -> u64 {
    let status = format!("/proc/{}/status", hooks.running.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn w5_endless_and_late_answers_cost_no_memory_and_delay_nobody_else() {
    const EVENTS: usize = 20;
    let hooks = Hooks::new();
    let ok = "HTTP/1.1 200 OK\r\n";
    let spaces = vec![b' '; 0x10000];
    let late = Reply::After(Duration::from_millis(14_900), Box::new(Reply::Status(200)));
    for (path, reply) in [
        ("/body", Reply::Endless(format!("{ok}\r\n").into_bytes(), spaces.clone())),
        ("/header", Reply::Endless(format!("{ok}x: ").into_bytes(), spaces)),
        ("/late", late),
    ] {
        hooks.receiver.replies(path, reply);
        hooks.endpoint(path);
    }
    hooks.endpoint("/good");
    hooks.plan("before");
    hooks.deliveries("/good", 1);
    let (before, begun) = (resident_kib(&hooks), Instant::now());

    for nth in 0..EVENTS {
        hooks.plan(&format!("plan-{nth}"));
    }
    hooks.deliveries("/good", EVENTS + 1);
    let took = begun.elapsed();

    assert!(took < Duration::from_secs(14), "it waited for the others: {took:?}");
    // Each has tries in flight, and at most eight.
    for path in ["/body", "/header", "/late"] {
        hooks.deliveries(path, 1);
    }
    assert!((1..=8).contains(&hooks.receiver.received("/late").len()));
    let grown = resident_kib(&hooks).saturating_sub(before);
    println!("{grown} KiB more after {} MiB of answers", hooks.receiver.sent() >> 20);
    assert!(grown < 20_000, "{grown} KiB");
}

#[test]
fn w12_nothing_is_delivered_soon_after_an_endpoint_is_deleted() {
    let hooks = Hooks::new();
    let (id, _) = hooks.endpoint("/hooks");
    let mut nth = 0;
    let mut write = || {
        hooks.plan(&format!("plan-{nth}"));
        nth += 1;
    };
    (0..50).for_each(|_| write());
    hooks.deliveries("/hooks", 5);

    let deleted = hooks.send("DELETE", &format!("/webhook-endpoints/{id}"), &Value::Null);
    let deleted_at = Instant::now();
    assert_eq!(deleted.status, 204, "{deleted:?}");
    while deleted_at.elapsed() < Duration::from_secs(8) {
        write();
    }

    let last = hooks.receiver.received("/hooks").iter().map(|received| received.at).max().unwrap();
    let after = last.saturating_duration_since(deleted_at);
    println!("the last delivery came {after:?} after the deletion");
    // Two seconds, and what a busy machine takes to bring a delivery to its receiver.
    assert!(after <= Duration::from_secs(7), "{after:?}");
}

#[test]
fn w14_a_secret_is_valid_after_ten_rotations_of_the_keys() {
    let hooks = Hooks::new();
    let (_, secret) = hooks.endpoint("/hooks");
    let Hooks { folder, running, receiver } = hooks;
    stop(running);

    for _ in 0..10 {
        let (output, errors) = run(command_in(&folder).args(["key", "rotate"]));
        assert!(output.status.success(), "{errors}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!told.contains("no old server key was dropped"), "{told}");
    }

    let running = start(&folder, "", |_| {});
    let hooks = Hooks { folder, running, receiver };
    hooks.plan("pro");
    let received = hooks.deliveries("/hooks", 1);
    assert!(received[0].is_signed_with(&secret), "{received:?}");
}

#[test]
fn w14_keys_are_not_dropped_while_the_database_cannot_be_read() {
    let hooks = Hooks::new();
    let keys = || {
        let text = std::fs::read_to_string(hooks.folder.join("subscription.keys")).unwrap();
        text.matches("id = ").count()
    };

    for count in 3..=10 {
        // The running server holds the file.
        let (output, errors) = run(command_in(&hooks.folder).args(["key", "rotate"]));
        assert!(output.status.success(), "{errors}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("no old server key was dropped"), "{told}");
        assert_eq!(keys(), count);
    }
}

#[test]
fn w14_a_database_that_is_copied_to_other_keys_sends_nothing() {
    let hooks = Hooks::new();
    let (id, _) = hooks.endpoint("/hooks");
    let Hooks { folder: here, running, receiver } = hooks;
    stop(running);
    let there = folder();
    std::fs::copy(here.join("subscription.db"), there.join("subscription.db")).unwrap();

    let running = start(&there, "", |_| {});
    let hooks = Hooks { folder: there, running, receiver };
    hooks.plan("pro");

    let shown = || hooks.get(&format!("/webhook-endpoints/{id}"));
    until("it is disabled", || shown()["disabled_reason"] == "key_missing");
    assert_eq!(hooks.receiver.connections(), 0);
}
