//! Addresses that are blocked: nothing connects to them, by whatever name.

use subscription_core::webhooks::DeliveryResult;
use subscription_http::DeliverSettings;
use test_support::receiver::Receiver;

use super::{Names, over, receiver, rules, send};

/// The first and the last address of each range that is blocked, and the addresses that mean one of them.
const BLOCKED: [&str; 56] = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.0",
    "127.255.255.255",
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
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::7f00:1",
    "64:ff9b::7f00:1",
    "100::",
    "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001::",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "2002::",
    "2002:7f00:1::",
    "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::",
    "fc00::",
    "fd00:ec2::254",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fe80::1",
    "ff02::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

#[tokio::test]
async fn w1_a_name_of_a_blocked_address_is_refused() {
    for address in BLOCKED {
        let names = Names::of([&[address]]);
        let client = over(&DeliverSettings::default().with_names(names));

        for url in ["https://receiver.example.com/", "http://receiver.example.com/"] {
            assert_eq!(send(&client, url).await, DeliveryResult::Blocked, "{url}: {address}");
        }
    }
}

#[tokio::test]
async fn w2_a_name_that_changes_to_a_blocked_address_is_not_connected_to() {
    let allowed = receiver().await;
    let port = allowed.address.port();
    let private = Receiver::here([127, 0, 0, 2].into(), port).await;
    let names = Names::of([&["127.0.0.1"], &["127.0.0.2"]]);
    let settings = DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[]));
    let settings = settings.with_names(names);

    // Two clients share the names, not the connections.
    let outcomes = [
        send(&over(&settings), &format!("http://receiver.example.com:{port}/")).await,
        send(&over(&settings), &format!("http://receiver.example.com:{port}/")).await,
    ];

    assert_eq!(outcomes, [DeliveryResult::answered(200), DeliveryResult::Blocked]);
    assert_eq!((allowed.connections(), private.connections()), (1, 0));
}

#[tokio::test]
async fn w2_a_name_with_one_blocked_address_is_not_connected_to_at_all() {
    let allowed = receiver().await;
    let port = allowed.address.port();
    let private = Receiver::here([127, 0, 0, 2].into(), port).await;
    for mixed in [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "::1"]] {
        let settings = DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[]));
        let client = over(&settings.with_names(Names::of([&mixed])));

        let outcome = send(&client, &format!("http://receiver.example.com:{port}/")).await;

        assert_eq!(outcome, DeliveryResult::Blocked, "{mixed:?}");
    }
    assert_eq!((allowed.connections(), private.connections()), (0, 0));
}

#[tokio::test]
async fn w3_blocked_addresses_in_a_url_are_refused_however_they_are_written() {
    let receiver = receiver().await;
    let port = receiver.address.port();
    let client = over(&DeliverSettings::default());
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
        "169.254.169.254",
        "[fd00:ec2::254]",
        "0",
        "[::]",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/");
            assert_eq!(send(&client, &url).await, DeliveryResult::Blocked, "{url}");
        }
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn without_tls_only_allowed_addresses_are_sent_to_and_this_machine_in_development() {
    let receiver = receiver().await;
    let names = |settings: DeliverSettings| settings.with_names(Names::of([&["127.0.0.1"]]));
    let url = format!("http://receiver.example.com:{}/", receiver.address.port());
    for (rules, outcome) in [
        (rules(&[], &[]), DeliveryResult::Blocked),
        (rules(&["10.0.0.0/8"], &[]), DeliveryResult::Blocked),
        (rules(&["127.0.0.0/8"], &["127.0.0.1/32"]), DeliveryResult::Blocked),
        (rules(&[], &["127.0.0.0/8"]).with_loopback(true), DeliveryResult::Blocked),
        (rules(&["127.0.0.0/8"], &[]), DeliveryResult::answered(200)),
        // Only this machine's own names are sent to in development.
        (rules(&[], &[]).with_loopback(true), DeliveryResult::Blocked),
    ] {
        let shown = format!("{rules:?}");
        let client = over(&names(DeliverSettings::default().with_addresses(rules)));

        assert_eq!(send(&client, &url).await, outcome, "{shown}");
    }
    assert_eq!(receiver.connections(), 1);
    let local = DeliverSettings::default().with_addresses(rules(&[], &[]).with_loopback(true));
    let url = format!("http://localhost:{}/", receiver.address.port());
    assert_eq!(send(&over(&names(local)), &url).await, DeliveryResult::answered(200));

    // A public address is no exception.
    let client = over(&DeliverSettings::default().with_names(Names::of([&["192.0.1.1"]])));
    assert_eq!(send(&client, "http://receiver.example.com/").await, DeliveryResult::Blocked);
    assert_eq!(send(&client, "http://192.0.1.1/").await, DeliveryResult::Blocked);
}
