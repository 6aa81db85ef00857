//! The claims that an access token must have, and when. Every token here is signed with our own key.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::forge::{Signer, Target};
use super::world::seconds;

const CLAIMS: [&str; 10] =
    ["iss", "aud", "sub", "client_id", "sid", "jti", "iat", "exp", "auth_time", "gen"];

#[tokio::test]
async fn every_claim_is_required_once() {
    let target = Target::new().await;
    for claim in CLAIMS {
        let token = target.with_claims(|claims| {
            claims.as_object_mut().unwrap().remove(claim);
        });
        assert_eq!(target.answer(&token).await, "token_invalid", "no {claim}");

        let text = target.claims.to_string();
        let twice = text.replacen('{', &format!("{{\"{claim}\":{},", target.claims[claim]), 1);
        let token = Signer::ours().sign(&target.header.to_string(), &twice);
        assert_eq!(target.answer(&token).await, "token_invalid", "{claim} twice");
    }
}

#[tokio::test]
async fn a_claim_that_nobody_reads_is_not_passed_over() {
    let target = Target::new().await;
    let now = seconds(target.world.service.now());
    for (claim, value) in [
        ("nbf", json!(now + 3_600)),
        ("nbf", json!(now - 3_600)),
        ("email", json!("ada@example.com")),
        ("scope", json!("admin")),
        ("ISS", json!("subscription")),
        ("generation", json!(1)),
        ("", json!(null)),
    ] {
        let token = target.with_claims(|claims| claims[claim] = value.clone());
        assert_eq!(target.answer(&token).await, "token_invalid", "{claim} {value}");
    }
}

#[tokio::test]
async fn claims_of_another_shape_are_refused() {
    let target = Target::new().await;
    let in_order: Vec<_> = CLAIMS.iter().map(|claim| &target.claims[claim]).collect();
    for claims in [
        json!(in_order).to_string(),
        json!([target.claims]).to_string(),
        json!(target.claims.to_string()).to_string(),
        format!("{}{}", target.claims, target.claims),
        format!("{}x", target.claims),
        format!("\u{feff}{}", target.claims),
        target.claims.to_string().replace('"', "'"),
        "null".into(),
        "{}".into(),
        String::new(),
        "[".repeat(3_000),
    ] {
        let token = Signer::ours().sign(&target.header.to_string(), &claims);
        assert_eq!(target.answer(&token).await, "token_invalid", "{claims}");
    }
}

#[tokio::test]
async fn the_token_must_be_ours_and_for_us() {
    let target = Target::new().await;
    for (claim, value) in [
        ("iss", "https://evil.example.com"),
        ("iss", "Subscription"),
        ("iss", "subscription/"),
        ("iss", ""),
        ("aud", "another"),
        ("aud", "subscription "),
        ("aud", ""),
        ("client_id", "other"),
        ("client_id", "WEB"),
    ] {
        let token = target.with_claims(|claims| claims[claim] = json!(value));
        assert_eq!(target.answer(&token).await, "token_invalid", "{claim} {value}");
    }
}

#[tokio::test]
async fn a_token_is_good_until_thirty_seconds_after_its_end_whenever_it_was_made() {
    let target = Target::new().await;
    let now = seconds(target.world.service.now());
    for (claim, offset, expected) in [
        ("exp", 1, "taken"),
        ("exp", 0, "taken"),
        ("exp", -29, "taken"),
        ("exp", -30, "token_expired"),
        ("exp", -31, "token_expired"),
        ("exp", -60, "token_expired"),
        ("iat", 29, "taken"),
        ("iat", 30, "taken"),
        // Another instance signed it, whose clock is ahead.
        ("iat", 31, "taken"),
        ("iat", 600, "taken"),
    ] {
        let token = target.with_claims(|claims| claims[claim] = json!(now + offset));
        assert_eq!(target.answer(&token).await, expected, "{claim} {offset}");
    }
}

#[tokio::test]
async fn a_token_lasts_ten_minutes_by_the_clock_that_is_in_hand() {
    let target = Target::new().await;
    let start = target.world.service.now();
    for (after, expected) in [
        (600, "taken"),
        (629, "taken"),
        (630, "token_expired"),
        (3_600, "token_expired"),
        // Turned back again: the token is what it was.
        (0, "taken"),
    ] {
        target.world.clock.set(start.saturating_add(Duration::from_secs(after)));
        assert_eq!(target.answer(&target.token).await, expected, "after {after} s");
    }
}

#[tokio::test]
async fn a_clock_that_jumps_back_leaves_tokens_good() {
    let target = Target::new().await;
    let start = target.world.service.now();
    for back in [600, 31, 30] {
        let earlier = start.micros() - back * 1_000_000;
        target.world.clock.set(subscription_core::Timestamp::from_micros(earlier).unwrap());
        assert_eq!(target.answer(&target.token).await, "taken", "{back} s back");
    }
}

/// A JSON value of any type, the nasty numbers among them.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        Just(json!(-1)),
        Just(json!(1e308)),
        Just(json!(1_738_281_600.5)),
        ".{0,40}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|values| json!(values)),
            prop::collection::btree_map(".{0,8}", inner, 0..3)
                .prop_map(|values| Value::Object(values.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// True if a claim of this name may look like this; times and counts may be any number.
fn is_of_its_type(claim: &str, value: &Value) -> bool {
    match claim {
        "iat" | "exp" | "auth_time" => value.is_u64(),
        "gen" => value.as_u64().is_some_and(|generation| u32::try_from(generation).is_ok()),
        _ => false,
    }
}

proptest! {
    #[test]
    fn a_claim_of_another_type_is_never_taken(claim in prop::sample::select(&CLAIMS[..]), value in any_json()) {
        prop_assume!(!is_of_its_type(claim, &value));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(async {
            let target = Target::new().await;
            let token = target.with_claims(|claims| claims[claim] = value.clone());
            target.answer(&token).await
        });
        prop_assert_eq!(answer, "token_invalid");
    }
}

#[tokio::test]
async fn a_number_in_another_guise_is_no_number() {
    let target = Target::new().await;
    for claim in ["iat", "exp", "auth_time", "gen"] {
        let number = target.claims[claim].to_string();
        for guise in [
            format!("\"{number}\""),
            format!("{number}.0"),
            format!("{number}e0"),
            format!("[{number}]"),
            format!("-{number}"),
            format!("+{number}"),
            format!("0{number}"),
            "1e308".into(),
            "1e999".into(),
            "18446744073709551616".into(),
            "-1".into(),
            "null".into(),
            "true".into(),
            "NaN".into(),
        ] {
            let text = target.claims.to_string();
            let field = |value: &str| format!("\"{claim}\":{value}");
            let forged = text.replace(&field(&number), &field(&guise));
            assert_ne!(forged, text, "{claim} {guise}");
            let token = Signer::ours().sign(&target.header.to_string(), &forged);
            assert_eq!(target.answer(&token).await, "token_invalid", "{claim} {guise}");
        }
    }
}
