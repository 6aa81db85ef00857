//! Identity tokens under a shared secret, and in development.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use subscription_core::auth::{BadKey, DevelopmentIdentities, SharedSecretIdentities};
use subscription_core::{Error, ErrorKind};

use super::forge::{P256_PEM, RSA_PEM, Signer};
use super::provider::{ada, after, answer, trust, verify};
use super::world::{AuthWorld, PROVIDER, PROVIDER_SECRET, seconds, secret};

fn verifier() -> SharedSecretIdentities {
    SharedSecretIdentities::new(trust(), &secret(PROVIDER_SECRET)).unwrap()
}

/// A token of the provider, with what `change` makes of its claims.
fn token(change: impl FnOnce(&mut Value)) -> String {
    let mut claims = ada();
    change(&mut claims);
    Signer::hs256(PROVIDER_SECRET).token(&json!({ "alg": "HS256" }), &claims)
}

async fn with(claim: &str, value: Value) -> &'static str {
    answer(&verifier(), &token(|claims| claims[claim] = value), after(0)).await
}

#[tokio::test]
async fn a_good_token_names_the_person() {
    let ada = verify(&verifier(), &token(|_| {}), after(0)).await.unwrap();

    assert_eq!((ada.key.issuer.as_str(), ada.key.subject.as_str()), (PROVIDER, "sub-of-ada"));
    assert_eq!(ada.email.unwrap().as_str(), "ada@example.com");
    assert!(ada.email_verified);
}

#[tokio::test]
async fn a_token_of_another_kind_names_nobody() {
    for kind in ["at+jwt", "logout+jwt", "secevent+jwt"] {
        let header = json!({ "alg": "HS256", "typ": kind });
        let token = Signer::hs256(PROVIDER_SECRET).token(&header, &ada());
        assert_eq!(answer(&verifier(), &token, after(0)).await, "rejected", "{kind}");
    }
}

#[tokio::test]
async fn only_the_secret_signs_and_only_with_hs256() {
    let claims = ada();
    let header = json!({ "alg": "HS256" });
    let good = token(|_| {});
    let message = good.rsplit_once('.').unwrap().0;
    let mut cases = vec![
        (
            "another secret",
            Signer::hs256(b"a secret of somebody else, but as long").token(&header, &claims),
        ),
        ("no secret", Signer::hs256(b"").token(&header, &claims)),
        ("a part of the secret", Signer::hs256(&PROVIDER_SECRET[1..]).token(&header, &claims)),
        ("no signature", format!("{message}.")),
        ("no signature and no dot", message.to_owned()),
        (
            "RS256",
            Signer::pem(RSA_PEM, Algorithm::RS256).token(&json!({ "alg": "RS256" }), &claims),
        ),
        (
            "ES256",
            Signer::pem(P256_PEM, Algorithm::ES256).token(&json!({ "alg": "ES256" }), &claims),
        ),
        ("nothing", String::new()),
        ("blanks", "   ".into()),
    ];
    for alg in ["none", "None", "NONE", "hs256", "HS384", "HS512", "RS256", "EdDSA", ""] {
        let token = Signer::hs256(PROVIDER_SECRET).token(&json!({ "alg": alg }), &claims);
        cases.push((alg, token));
    }
    for field in ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"] {
        let header = json!({ "alg": "HS256", field: "anything" });
        cases.push((field, Signer::hs256(PROVIDER_SECRET).token(&header, &claims)));
    }
    for (case, token) in cases {
        assert_eq!(answer(&verifier(), &token, after(0)).await, "rejected", "{case}");
    }
    assert_eq!(answer(&verifier(), &good, after(0)).await, "taken");
}

#[tokio::test]
async fn a_token_must_be_of_the_issuer_and_for_us() {
    for (claim, value, expected) in [
        ("iss", json!("https://evil.example.com"), "rejected"),
        ("iss", json!(format!("{PROVIDER}/")), "rejected"),
        ("iss", json!([PROVIDER]), "rejected"),
        ("iss", json!(null), "rejected"),
        ("aud", json!("our-app"), "taken"),
        ("aud", json!(["another", "our-app"]), "taken"),
        ("aud", json!(["our-app"]), "taken"),
        ("aud", json!("another"), "rejected"),
        ("aud", json!("our-app our-app"), "rejected"),
        ("aud", json!(["another"]), "rejected"),
        ("aud", json!([]), "rejected"),
        ("aud", json!([["our-app"]]), "rejected"),
        ("aud", json!(["our-app", 7]), "rejected"),
        ("aud", json!({ "our-app": true }), "rejected"),
        ("aud", json!(null), "rejected"),
    ] {
        assert_eq!(with(claim, value.clone()).await, expected, "{claim} {value}");
    }
    for claim in ["iss", "aud", "sub", "exp"] {
        let without = token(|claims| {
            claims.as_object_mut().unwrap().remove(claim);
        });
        assert_eq!(answer(&verifier(), &without, after(0)).await, "rejected", "no {claim}");
    }
}

#[tokio::test]
async fn times_have_thirty_seconds_of_leeway() {
    let now = seconds(after(0));
    for (claim, offset, expected) in [
        ("exp", 1, "taken"),
        ("exp", -29, "taken"),
        ("exp", -30, "rejected"),
        ("exp", -31, "rejected"),
        ("nbf", -1, "taken"),
        ("nbf", 30, "taken"),
        ("nbf", 31, "rejected"),
        ("nbf", 3_600, "rejected"),
        ("iat", 30, "taken"),
        ("iat", 31, "rejected"),
    ] {
        assert_eq!(with(claim, json!(now + offset)).await, expected, "{claim} {offset}");
    }
    for claim in ["exp", "nbf", "iat"] {
        for value in
            [json!("1738281600"), json!(-1), json!(1.5), json!(1e308), json!([1]), json!(true)]
        {
            assert_eq!(with(claim, value.clone()).await, "rejected", "{claim} {value}");
        }
    }
    assert_eq!(with("exp", json!(null)).await, "rejected");
}

#[tokio::test]
async fn a_subject_is_taken_as_it_is_or_not_at_all() {
    for (subject, expected) in [
        (json!("a"), "taken"),
        (json!("auth0|5f7c8ec7c33c6c004bbafe82"), "taken"),
        (json!("inner blank"), "taken"),
        (json!("x".repeat(255)), "taken"),
        (json!("x".repeat(256)), "rejected"),
        (json!(""), "rejected"),
        (json!("  "), "rejected"),
        (json!(" sub-of-ada"), "rejected"),
        (json!("sub-of-ada "), "rejected"),
        (json!("sub-of-ada\n"), "rejected"),
        (json!("sub\0of-ada"), "rejected"),
        (json!("sub\u{1b}[2J"), "rejected"),
        (json!(7), "rejected"),
        (json!(null), "rejected"),
        (json!(["sub-of-ada"]), "rejected"),
    ] {
        assert_eq!(with("sub", subject.clone()).await, expected, "{subject}");
    }
}

#[tokio::test]
async fn an_address_counts_as_verified_only_if_that_is_said() {
    for (verified, expected) in [
        (json!(true), Some(true)),
        (json!("true"), Some(true)),
        (json!(false), Some(false)),
        (json!("false"), Some(false)),
        (json!("TRUE"), Some(false)),
        (json!("1"), Some(false)),
        (json!(null), Some(false)),
        (json!(1), None),
        (json!([true]), None),
    ] {
        let token = token(|claims| claims["email_verified"] = verified.clone());
        let found = verify(&verifier(), &token, after(0)).await.ok();
        assert_eq!(found.map(|found| found.email_verified), expected, "{verified}");
    }
    for email in [json!("no address"), json!(""), json!(null)] {
        let token = token(|claims| claims["email"] = email.clone());
        let found = verify(&verifier(), &token, after(0)).await.unwrap();
        assert_eq!(found.email, None, "{email}");
    }
}

#[tokio::test]
async fn claims_are_an_object_whose_fields_come_once() {
    let text = ada().to_string();
    let signer = Signer::hs256(PROVIDER_SECRET);
    let in_order = ["iss", "aud", "sub", "exp", "iat", "nbf", "email", "email_verified"]
        .map(|claim| ada().get(claim).cloned().unwrap_or_default());
    for claims in [
        json!(in_order).to_string(),
        text.replacen('{', r#"{"sub":"sub-of-eve","#, 1),
        text.replacen('{', r#"{"email":"eve@example.com","#, 1),
        text.replacen('{', r#"{"unread":1,"unread":2,"#, 1),
        format!("{text} x"),
    ] {
        let token = signer.sign(r#"{"alg":"HS256"}"#, &claims);
        assert_eq!(answer(&verifier(), &token, after(0)).await, "rejected", "{claims}");
    }
    let unread = token(|claims| claims["unread"] = json!({ "deep": [1, 2, 3] }));
    assert_eq!(answer(&verifier(), &unread, after(0)).await, "taken");
}

#[tokio::test]
async fn a_long_token_is_refused() {
    let padded = |blanks: usize| token(|claims| claims["pad"] = json!(" ".repeat(blanks)));

    assert_eq!(answer(&verifier(), &padded(11_000), after(0)).await, "taken");
    assert_eq!(answer(&verifier(), &padded(12_300), after(0)).await, "rejected");
    assert_eq!(answer(&verifier(), &padded(1 << 20), after(0)).await, "rejected");
    assert_eq!(answer(&verifier(), &".".repeat(1_000_000), after(0)).await, "rejected");
}

#[tokio::test]
async fn every_refusal_reads_the_same_whether_or_not_there_is_an_account() {
    let world = AuthWorld::new();
    world.sign_up("ada").await;
    let mut refusals = Vec::new();
    for name in ["ada", "nobody"] {
        for claim in ["iss", "aud", "exp", "sub"] {
            let mut person = world.person(name);
            person.access_token = world.identity_token(name, |claims| claims[claim] = json!(0));
            refusals.push(world.auth.sign_in(person.clone()).await.unwrap_err());
            refusals.push(world.auth.sign_up(person).await.unwrap_err());
        }
        let mut person = world.person(name);
        person.access_token = "garbage".into();
        refusals.push(world.auth.sign_in(person).await.unwrap_err());
    }
    let told = |error: &Error| (error.kind(), error.code(), error.to_string());
    assert_eq!(told(&refusals[0]).0, ErrorKind::Unauthenticated);
    assert_eq!(told(&refusals[0]).1, "identity_rejected");
    for refusal in &refusals {
        assert_eq!(told(refusal), told(&refusals[0]));
    }
}

#[test]
fn a_short_secret_is_refused_and_a_long_one_is_not_shown() {
    let new = |bytes: &[u8]| SharedSecretIdentities::new(trust(), &secret(bytes));

    assert_eq!(new(&[7; 31]).unwrap_err(), BadKey::TooShort);
    assert_eq!(new(b"").unwrap_err(), BadKey::TooShort);
    assert!(new(&[7; 32]).is_ok());
    let shown = format!("{:?}", verifier());
    assert!(!shown.contains("a secret") && !shown.contains("97, 32, 115"), "{shown}");
}

#[tokio::test]
async fn in_development_anything_but_a_blank_proves_the_address() {
    for blank in ["", " ", "\t\n", "\u{a0}"] {
        assert_eq!(answer(&DevelopmentIdentities, blank, after(0)).await, "rejected", "{blank:?}");
    }
    let found = verify(&DevelopmentIdentities, "x", after(0)).await.unwrap();
    assert_eq!(found.key.issuer.as_str(), "development");
    assert_eq!(found.key.subject.as_str(), "ada@example.com");
    assert!(found.email_verified);
}
