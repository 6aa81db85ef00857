//! URLs and addresses that deliveries may be sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use subscription_core::webhooks::{AddressRules, BadUrl, IpNet};
use subscription_core::{FaultCode, InvalidValue};

/// The first and the last address of each blocked network of IPv4.
const BLOCKED_IPV4: [(&str, &str); 16] = [
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "239.255.255.255"),
    ("240.0.0.0", "255.255.255.255"),
];

/// The first and the last address of each network of IPv6 that is blocked within `2000::/3`, and around it.
const BLOCKED_IPV6: [(&str, &str); 6] = [
    ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn admits(rules: &AddressRules, ip: &str) -> bool {
    rules.admits(ip.parse().unwrap(), false)
}

/// Each host of a URL that names an address, as W3 lists them and more.
const LOCAL: [&str; 24] = [
    "2130706433",
    "0177.0.0.1",
    "[::ffff:7f00:1]",
    "localhost.",
    "localhost",
    "LOCALHOST",
    "%6cocalhost",
    "a.localhost",
    "a.b.localhost.",
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.255.255.255",
    "0x7f.1",
    "0x7f000001",
    "017700000001",
    "１２７.0.0.1",
    "127。0。0。1",
    "0",
    "0.0.0.0",
    "[::]",
    "[::1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
];

#[test]
fn each_blocked_network_of_ipv4_begins_and_ends_where_it_should() {
    let rules = AddressRules::default();
    for (first, last) in BLOCKED_IPV4 {
        let [first, last] = [first, last].map(|text| text.parse::<Ipv4Addr>().unwrap());
        let admits = |ip: Ipv4Addr| {
            let mapped = IpAddr::V6(ip.to_ipv6_mapped());
            assert_eq!(rules.admits(ip.into(), false), rules.admits(mapped, false), "{ip}");
            rules.admits(ip.into(), false)
        };

        assert!(!admits(first), "{first}");
        assert!(!admits(last), "{last}");
        if let Some(before) = first.to_bits().checked_sub(1).map(Ipv4Addr::from_bits) {
            assert_eq!(admits(before), before != Ipv4Addr::new(239, 255, 255, 255), "{before}");
        }
        if let Some(after) = last.to_bits().checked_add(1).map(Ipv4Addr::from_bits) {
            assert_eq!(admits(after), after != Ipv4Addr::new(240, 0, 0, 0), "{after}");
        }
    }
}

#[test]
fn each_blocked_network_of_ipv6_begins_and_ends_where_it_should() {
    let rules = AddressRules::default();
    let admits = |bits: u128| rules.admits(IpAddr::V6(Ipv6Addr::from_bits(bits)), false);
    for (first, last) in BLOCKED_IPV6 {
        let [first, last] = [first, last].map(|it| it.parse::<Ipv6Addr>().unwrap().to_bits());

        assert!(!admits(first), "{first:x}");
        assert!(!admits(last), "{last:x}");
        if let Some(before) = first.checked_sub(1) {
            assert!(admits(before), "{before:x}");
        }
        if let Some(after) = last.checked_add(1) {
            assert!(admits(after), "{after:x}");
        }
    }
}

#[test]
fn special_addresses_are_blocked_and_public_ones_are_not() {
    let rules = AddressRules::default();

    for ip in [
        "169.254.169.254",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "64:ff9b::a00:1",
        "::ffff:0:10.0.0.1",
        "2002:a00:1::",
    ] {
        assert!(!admits(&rules, ip), "{ip}");
    }
    for ip in ["8.8.8.8", "1.1.1.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"] {
        assert!(admits(&rules, ip), "{ip}");
    }
}

#[test]
fn denied_wins_over_allowed_and_allowed_over_the_list() {
    let rules = AddressRules::default()
        .with_allow(nets(&["10.0.0.0/8", "fd00::/8"]))
        .with_deny(nets(&["10.1.0.0/16", "8.8.8.0/24", "2606:4700::/32"]));

    for (ip, admitted) in [
        ("10.0.0.1", true),
        ("::ffff:10.0.0.1", true),
        ("fd00::1", true),
        ("10.1.0.1", false),
        ("::ffff:10.1.0.1", false),
        ("8.8.8.8", false),
        ("2606:4700::1", false),
        ("8.8.4.4", true),
        ("11.0.0.1", true),
        ("192.168.0.1", false),
        ("127.0.0.1", false),
    ] {
        assert_eq!(admits(&rules, ip), admitted, "{ip}");
    }
}

#[test]
fn plain_http_goes_to_allowed_networks_and_in_development_to_this_machine_only() {
    let plain = |rules: &AddressRules, ip: &str| rules.admits(ip.parse().unwrap(), true);
    let none = AddressRules::default();
    let allowed = AddressRules::default().with_allow(nets(&["10.0.0.0/8"]));
    let development = AddressRules::default().with_loopback(true);
    let denied = AddressRules::default().with_loopback(true).with_deny(nets(&["127.0.0.2/32"]));

    assert!(!plain(&none, "8.8.8.8") && !plain(&none, "127.0.0.1") && !plain(&none, "2a00::1"));
    assert!(plain(&allowed, "10.0.0.1"));
    assert!(!plain(&allowed, "8.8.8.8") && !plain(&allowed, "127.0.0.1"));
    for ip in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
        assert!(plain(&development, ip) && admits(&development, ip), "{ip}");
    }
    assert!(!plain(&development, "8.8.8.8") && admits(&development, "8.8.8.8"));
    assert!(!plain(&development, "10.0.0.1") && !admits(&development, "10.0.0.1"));
    assert!(plain(&denied, "127.0.0.1") && !plain(&denied, "127.0.0.2"));
}

#[test]
fn a_url_of_this_machine_is_refused_however_it_is_written() {
    for host in LOCAL {
        let read = AddressRules::default().read(&format!("https://{host}/hooks"));

        assert_eq!(read, Err(BadUrl::Address), "{host}");
    }
}

#[test]
fn a_url_of_this_machine_is_allowed_in_development() {
    let rules = AddressRules::default().with_loopback(true);

    for host in
        LOCAL.iter().filter(|host| !matches!(**host, "0" | "0.0.0.0" | "[::]" | "[::7f00:1]"))
    {
        for scheme in ["http", "https"] {
            let read = rules.read(&format!("{scheme}://{host}:8080/hooks"));
            assert!(read.is_ok(), "{scheme} {host}: {read:?}");
        }
    }
    assert_eq!(rules.read("http://0.0.0.0/"), Err(BadUrl::Address));
}

#[test]
fn names_are_left_to_the_resolver() {
    let rules = AddressRules::default();
    for url in [
        "https://shop.example",
        "https://shop.example:8443/a/b?c=d",
        "https://localhost.example/",
        "https://notlocalhost/",
        "https://bücher.example/",
        "https://8.8.8.8/",
        "https://[2606:4700::1]/",
    ] {
        assert!(rules.read(url).is_ok(), "{url}");
    }
}

#[test]
fn a_url_needs_https_unless_an_address_is_allowed_without_tls() {
    let none = AddressRules::default();
    let allowed = AddressRules::default().with_allow(nets(&["10.0.0.0/8"]));
    let development = AddressRules::default().with_loopback(true);

    for url in
        ["ftp://shop.example/", "ws://shop.example/", "file:///etc/passwd", "mailto:a@b.example"]
    {
        for rules in [&none, &allowed, &development] {
            assert_eq!(rules.read(url), Err(BadUrl::Scheme), "{url}");
        }
    }
    assert_eq!(none.read("http://shop.example/"), Err(BadUrl::Scheme));
    assert_eq!(none.read("http://8.8.8.8/"), Err(BadUrl::Scheme));
    assert!(allowed.read("http://shop.example/").is_ok(), "its resolver decides");
    assert!(allowed.read("http://10.0.0.1/").is_ok());
    assert!(allowed.read("https://10.0.0.1/").is_ok());
    assert_eq!(allowed.read("http://8.8.8.8/"), Err(BadUrl::Address));
    assert_eq!(allowed.read("http://[2606:4700::1]/"), Err(BadUrl::Address));
    assert_eq!(development.read("http://8.8.8.8/"), Err(BadUrl::Address));
    assert_eq!(allowed.read("http://localhost/"), Err(BadUrl::Address));
}

#[test]
fn a_url_has_no_user_password_fragment_or_control_character() {
    let rules = AddressRules::default();
    for (url, refused) in [
        ("https://user@shop.example/", BadUrl::Credentials),
        ("https://user:secret@shop.example/", BadUrl::Credentials),
        ("https://:secret@shop.example/", BadUrl::Credentials),
        ("https://shop.example/#part", BadUrl::Fragment),
        ("https://shop.example/#", BadUrl::Fragment),
        ("https://shop.example/\n", BadUrl::ControlCharacter),
        ("https://shop.example/\ta", BadUrl::ControlCharacter),
        ("https://shop.example/\0", BadUrl::ControlCharacter),
        ("https://shop.example/\u{7f}", BadUrl::ControlCharacter),
        ("https://shop.example/\u{85}", BadUrl::ControlCharacter),
        ("", BadUrl::Unreadable),
        ("shop.example", BadUrl::Unreadable),
        ("https://", BadUrl::Unreadable),
        ("https://256.0.0.1/", BadUrl::Unreadable),
        ("https://shop.example:99999/", BadUrl::Unreadable),
    ] {
        assert_eq!(rules.read(url), Err(refused), "{url:?}");
    }
}

#[test]
fn a_url_has_at_most_2048_characters() {
    let rules = AddressRules::default();
    let url = |length: usize| format!("{:a<length$}", "https://shop.example/");

    assert!(rules.read(&url(2_048)).is_ok());
    assert_eq!(rules.read(&url(2_049)), Err(BadUrl::TooLong));
    let encoded = format!("https://shop.example/{}", "ü".repeat(400));
    assert_eq!(rules.read(&encoded), Err(BadUrl::TooLong), "as it is stored and sent");
}

#[test]
fn a_refused_url_is_a_fault_of_its_field() {
    for (bad, message) in [
        (BadUrl::Unreadable, "must be a URL such as https://shop.example/webhooks"),
        (BadUrl::TooLong, "must have at most 2048 characters"),
        (BadUrl::ControlCharacter, "must not have control characters"),
        (BadUrl::Scheme, "must begin with https://"),
        (BadUrl::Credentials, "must not have a user name or a password"),
        (BadUrl::Fragment, "must not have a fragment"),
        (BadUrl::Address, "must not be a private, local or reserved address"),
    ] {
        let fault = InvalidValue::from(bad);

        assert_eq!(fault.code(), FaultCode::NotAllowedValue);
        assert_eq!(fault.to_string(), message);
    }
}
