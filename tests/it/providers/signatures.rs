//! Signatures of webhooks: vectors, a corpus of forged headers, and every byte flipped.

use secrecy::SecretString;
use subscription_core::Timestamp;
use subscription_core::providers::{ProviderKind, signature_header, verify};

const STRIPE_SECRET: &str = "whsec_test_secret";
const STRIPE_BODY: &str = "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}";
const STRIPE_MAC: &str = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150";
const SIGNED_AT: i64 = 1_700_000_000;

const LEMON_SECRET: &str = "secret_6_to_40_chars";
const LEMON_BODY: &str =
    r#"{"meta":{"event_name":"subscription_updated"},"data":{"type":"subscriptions","id":"1"}}"#;
const LEMON_MAC: &str = "da60072c1c7f8cc43e7ec96ff964b98dfe5f007842c17c11c38155abe27dbb71";

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn now() -> Timestamp {
    at(SIGNED_AT * 1_000_000)
}

fn fits(kind: ProviderKind, header: &[u8], body: &[u8]) -> bool {
    let secrets = [STRIPE_SECRET, LEMON_SECRET].map(SecretString::from);
    verify(kind, &[header], body, &secrets, now())
}

fn stripe(header: &str) -> bool {
    fits(ProviderKind::Stripe, header.as_bytes(), STRIPE_BODY.as_bytes())
}

fn lemon(header: &str) -> bool {
    fits(ProviderKind::LemonSqueezy, header.as_bytes(), LEMON_BODY.as_bytes())
}

fn stripe_header() -> String {
    format!("t={SIGNED_AT},v1={STRIPE_MAC}")
}

/// The signature of these bytes, made here.
fn mac(secret: &str, signed: &str) -> String {
    test_support::fake_provider::mac(secret, signed.as_bytes())
}

#[test]
fn the_vectors_fit() {
    assert_eq!(signature_header(ProviderKind::Stripe), "stripe-signature");
    assert_eq!(signature_header(ProviderKind::LemonSqueezy), "x-signature");
    assert!(stripe(&stripe_header()));
    assert!(lemon(LEMON_MAC));
}

#[test]
fn every_flipped_bit_of_header_and_body_is_refused() {
    let stripe_header = stripe_header();
    for (kind, header, body) in [
        (ProviderKind::Stripe, stripe_header.as_str(), STRIPE_BODY),
        (ProviderKind::LemonSqueezy, LEMON_MAC, LEMON_BODY),
    ] {
        let (header, body) = (header.as_bytes(), body.as_bytes());
        assert!(fits(kind, header, body));
        for bit in 0..8 {
            for at in 0..header.len() {
                let mut forged = header.to_vec();
                forged[at] ^= 1 << bit;
                assert!(!fits(kind, &forged, body), "{kind} header {at} bit {bit}");
            }
            for at in 0..body.len() {
                let mut forged = body.to_vec();
                forged[at] ^= 1 << bit;
                assert!(!fits(kind, header, &forged), "{kind} body {at} bit {bit}");
            }
        }
        for cut in [&body[1..], &body[..body.len() - 1], &body[..0]] {
            assert!(!fits(kind, header, cut));
        }
        assert!(!fits(kind, header, &[body, b" "].concat()));
    }
}

#[test]
fn exactly_one_header_is_read() {
    let secrets = [STRIPE_SECRET, LEMON_SECRET].map(SecretString::from);
    let stripe_header = stripe_header();
    for (kind, header, body) in [
        (ProviderKind::Stripe, stripe_header.as_str(), STRIPE_BODY),
        (ProviderKind::LemonSqueezy, LEMON_MAC, LEMON_BODY),
    ] {
        let header = header.as_bytes();
        for (headers, expected) in [
            (&[][..], false),
            (&[header][..], true),
            (&[header, header][..], false),
            (&[header, b""][..], false),
        ] {
            assert_eq!(verify(kind, headers, body.as_bytes(), &secrets, now()), expected);
        }
        assert!(!verify(kind, &[header], body.as_bytes(), &[], now()));
    }
}

#[test]
fn any_of_the_secrets_may_sign_and_no_other() {
    let secret = |text: &str| SecretString::from(text);
    let header = stripe_header();
    let with = |secrets: &[SecretString]| {
        verify(ProviderKind::Stripe, &[header.as_bytes()], STRIPE_BODY.as_bytes(), secrets, now())
    };

    assert!(with(&[secret(STRIPE_SECRET)]));
    assert!(with(&[
        secret("whsec_another_one"),
        secret("whsec_a_third_one"),
        secret(STRIPE_SECRET)
    ]));
    assert!(!with(&[secret("whsec_another_one"), secret("test_secret"), secret("")]));
}

#[test]
fn a_signature_of_one_provider_is_none_of_the_other() {
    assert!(!fits(ProviderKind::LemonSqueezy, STRIPE_MAC.as_bytes(), STRIPE_BODY.as_bytes()));
    assert!(!fits(
        ProviderKind::Stripe,
        format!("t={SIGNED_AT},v1={LEMON_MAC}").as_bytes(),
        LEMON_BODY.as_bytes()
    ));
}

#[test]
fn a_signature_of_stripe_is_good_for_five_minutes_around_its_time() {
    let secrets = [SecretString::from(STRIPE_SECRET)];
    let signed = SIGNED_AT * 1_000_000;
    for (micros, expected) in [
        (0, true),
        (300_000_000, true),
        (-300_000_000, true),
        (300_000_001, false),
        (-300_000_001, false),
        (86_400_000_000 * 365, false),
    ] {
        let header = stripe_header();
        let (headers, now) = ([header.as_bytes()], at(signed + micros));
        let fits = verify(ProviderKind::Stripe, &headers, STRIPE_BODY.as_bytes(), &secrets, now);
        assert_eq!(fits, expected, "{micros}");
    }
    let far = [SecretString::from(LEMON_SECRET)];
    let (headers, body) = ([LEMON_MAC.as_bytes()], LEMON_BODY.as_bytes());
    assert!(verify(ProviderKind::LemonSqueezy, &headers, body, &far, Timestamp::MAX));
}

#[test]
fn forged_headers_of_stripe_are_refused() {
    let (t, good) = (SIGNED_AT, STRIPE_MAC);
    let zeros = "0".repeat(64);
    let other = |time: &str| mac(STRIPE_SECRET, &format!("{time}.{STRIPE_BODY}"));
    for header in [
        String::new(),
        ",".into(),
        "t".into(),
        "t=,v1=".into(),
        format!("t={t}"),
        format!("v1={good}"),
        format!("t={t},v0={good}"),
        format!("t={t},v2={good}"),
        format!("t={t},V1={good}"),
        format!("T={t},v1={good}"),
        format!("t={t},t={t},v1={good}"),
        format!("t={t},v1={good},t={}", t + 1),
        format!("t={t}, v1={good}"),
        format!(" t={t},v1={good}"),
        format!("t={t},v1= {good}"),
        format!("t={t};v1={good}"),
        format!("t={t},v1={}", good.to_uppercase()),
        format!("t={t},v1={}", &good[..63]),
        format!("t={t},v1={good}0"),
        format!("t={t},v1={good}{good}"),
        format!("t={t},v1=0x{}", &good[2..]),
        format!("t={t},v1="),
        format!("t={t},v1={zeros}"),
        // One that is malformed spoils the others.
        format!("t={t},v1={good},v1=xyz"),
        // A time that was not signed, or is not a plain number.
        format!("t={},v1={good}", t + 1),
        format!("t=0{t},v1={good}"),
        format!("t=+{t},v1={}", other(&format!("+{t}"))),
        format!("t={t}.0,v1={}", other(&format!("{t}.0"))),
        format!("t=-1,v1={}", other("-1")),
        format!("t=,v1={}", other("")),
        format!("t=99999999999999999999999,v1={}", other("99999999999999999999999")),
        format!("t={},v1={}", i64::MAX, other(&i64::MAX.to_string())),
        // Sixteen parts at most.
        format!("t={t},{}v1={good}", format!("v1={zeros},").repeat(15)),
        format!("t={t}{},v1={good}", format!(",v1={zeros}").repeat(10_000)),
    ] {
        assert!(!stripe(&header), "{}", &header[..header.len().min(200)]);
    }
    assert!(!fits(ProviderKind::Stripe, &[0xff; 80], STRIPE_BODY.as_bytes()));
}

#[test]
fn a_header_of_stripe_may_have_several_signatures_and_other_versions() {
    let (t, good, zeros) = (SIGNED_AT, STRIPE_MAC, "0".repeat(64));
    for header in [
        format!("v1={good},t={t}"),
        format!("t={t},v1={zeros},v1={good}"),
        format!("t={t},v1={good},v1={zeros}"),
        format!("t={t},v1={good},v0=anything"),
        format!("t={t},{}v1={good}", format!("v1={zeros},").repeat(14)),
    ] {
        assert!(stripe(&header), "{header}");
    }
}

#[test]
fn forged_headers_of_lemon_squeezy_are_refused() {
    for header in [
        String::new(),
        LEMON_MAC.to_uppercase(),
        LEMON_MAC[..63].to_owned(),
        LEMON_MAC[..62].to_owned(),
        format!("{LEMON_MAC}0"),
        format!("{LEMON_MAC}{LEMON_MAC}"),
        format!("sha256={LEMON_MAC}"),
        format!(" {LEMON_MAC}"),
        format!("{LEMON_MAC},{LEMON_MAC}"),
        "0".repeat(64),
        "g".repeat(64),
        mac("another_secret_here", LEMON_BODY),
    ] {
        assert!(!lemon(&header), "{header}");
    }
}
