//! OIDC: which keys of a provider's set check a token, and how.

use std::sync::Arc;

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use subscription_core::auth::OidcIdentities;

use super::forge::{ED25519_PEM, OTHER_RSA_PEM, P256_PEM, P384_PEM, RSA_PEM, SMALL_RSA, Signer};
use super::provider::{ScriptedFetch, ada, after, answer, trust};

/// The result for a token when the provider publishes `keys`.
async fn with_keys(keys: &[Value], token: &str) -> &'static str {
    let fetch = Arc::new(ScriptedFetch::answering(&json!({ "keys": keys })));
    let url = "https://id.example.com/keys".parse().unwrap();
    answer(&OidcIdentities::new(trust(), url, fetch), token, after(0)).await
}

async fn with_key(key: &Value, token: &str) -> &'static str {
    with_keys(std::slice::from_ref(key), token).await
}

fn rsa() -> Signer {
    Signer::pem(RSA_PEM, Algorithm::RS256)
}

fn token(signer: &Signer, alg: &str) -> String {
    signer.token(&json!({ "alg": alg, "kid": "k" }), &ada())
}

fn changed(mut jwk: Value, field: &str, value: Value) -> Value {
    jwk[field] = value;
    jwk
}

#[tokio::test]
async fn every_supported_algorithm_checks() {
    for (pem, algorithm) in [
        (RSA_PEM, Algorithm::RS256),
        (RSA_PEM, Algorithm::PS256),
        (P256_PEM, Algorithm::ES256),
        (ED25519_PEM, Algorithm::EdDSA),
    ] {
        let signer = Signer::pem(pem, algorithm);
        let alg = format!("{algorithm:?}");
        let jwk = signer.jwk("k");

        assert_eq!(jwk["alg"], json!(alg));
        assert_eq!(with_key(&jwk, &token(&signer, &alg)).await, "taken", "{alg}");
        for other in ["none", "HS256", "RS256", "PS256", "ES256", "EdDSA", "RS512"] {
            if other != alg {
                let refused = with_key(&jwk, &token(&signer, other)).await;
                assert_eq!(refused, "rejected", "{alg} as {other}");
            }
        }
    }
}

#[tokio::test]
async fn an_rsa_key_is_used_for_the_one_algorithm_that_it_names() {
    let (pkcs1, pss) = (rsa(), Signer::pem(RSA_PEM, Algorithm::PS256));
    let mut unnamed = pkcs1.jwk("k");
    unnamed.as_object_mut().unwrap().remove("alg");
    for (jwk, taken, refused) in [
        (pkcs1.jwk("k"), token(&pkcs1, "RS256"), token(&pss, "PS256")),
        (pss.jwk("k"), token(&pss, "PS256"), token(&pkcs1, "RS256")),
        // Nearly every provider means this.
        (unnamed, token(&pkcs1, "RS256"), token(&pss, "PS256")),
    ] {
        assert_eq!(with_key(&jwk, &taken).await, "taken", "{jwk}");
        assert_eq!(with_key(&jwk, &refused).await, "rejected", "{jwk}");
    }
    for unsupported in ["RS384", "RS512", "PS512", "RSA-OAEP", "none", "ES256", "HS256"] {
        let jwk = changed(pkcs1.jwk("k"), "alg", json!(unsupported));
        assert_ne!(with_keys(&[jwk], &token(&pkcs1, "RS256")).await, "taken", "{unsupported}");
    }
}

#[tokio::test]
async fn a_published_secret_is_no_key() {
    let secret = b"a secret that somebody published by mistake";
    let oct = json!({
        "kty": "oct", "kid": "k", "alg": "HS256",
        "k": "YSBzZWNyZXQgdGhhdCBzb21lYm9keSBwdWJsaXNoZWQgYnkgbWlzdGFrZQ",
    });
    let forged = token(&Signer::hs256(secret), "HS256");

    assert_eq!(with_key(&oct, &forged).await, "unavailable");
    assert_eq!(with_keys(&[oct, rsa().jwk("other")], &forged).await, "rejected");
}

#[tokio::test]
async fn a_providers_public_key_is_no_shared_secret() {
    let jwk = rsa().jwk("k");
    for secret in [jwk.to_string(), jwk["n"].as_str().unwrap().to_owned()] {
        let forged = token(&Signer::hs256(secret.as_bytes()), "HS256");
        assert_eq!(with_key(&jwk, &forged).await, "rejected");
    }
}

#[tokio::test]
async fn keys_for_other_uses_are_passed_over() {
    let good = token(&rsa(), "RS256");
    for (field, value, expected) in [
        ("use", json!("sig"), "taken"),
        ("use", json!("enc"), "unavailable"),
        ("use", json!("other"), "unavailable"),
        ("key_ops", json!(["verify"]), "taken"),
        ("key_ops", json!(["sign", "verify"]), "taken"),
        ("key_ops", json!(["encrypt"]), "unavailable"),
        ("key_ops", json!(["sign"]), "unavailable"),
        ("key_ops", json!([]), "unavailable"),
    ] {
        let jwk = changed(rsa().jwk("k"), field, value.clone());
        assert_eq!(with_keys(&[jwk], &good).await, expected, "{field} {value}");
    }
}

#[tokio::test]
async fn a_key_that_nobody_knows_does_not_hide_the_others() {
    let good = token(&rsa(), "RS256");
    for strange in [
        json!({ "kty": "AKP", "alg": "ML-DSA-65", "kid": "k9", "pub": "AA" }),
        json!({ "kty": "RSA", "kid": "k9" }),
        json!({ "kty": "OKP", "crv": "Ed448", "kid": "k9", "x": "AA" }),
        Signer::pem(P384_PEM, Algorithm::ES384).jwk("k9"),
        json!({}),
        json!(null),
        json!("key"),
        json!([[]]),
        changed(rsa().jwk("k9"), "kid", json!(7)),
    ] {
        let keys = [strange.clone(), rsa().jwk("k"), strange.clone()];
        assert_eq!(with_keys(&keys, &good).await, "taken", "{strange}");
    }
}

#[tokio::test]
async fn weak_and_broken_keys_check_nothing() {
    // Rightly signed, but with 1,024 bits.
    let small: Value = serde_json::from_slice(SMALL_RSA).unwrap();
    let token_of_small = small["token"].as_str().unwrap();
    assert_eq!(with_keys(&[small["jwk"].clone()], token_of_small).await, "rejected");

    let ec = Signer::pem(P256_PEM, Algorithm::ES256);
    let zero = json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let ed = Signer::pem(ED25519_PEM, Algorithm::EdDSA);
    for (jwk, token) in [
        // Off the curve, too short, and the point of order four.
        (changed(ec.jwk("k"), "y", zero.clone()), token(&ec, "ES256")),
        (changed(ec.jwk("k"), "x", json!("AA")), token(&ec, "ES256")),
        (changed(ed.jwk("k"), "x", zero), token(&ed, "EdDSA")),
        (changed(ed.jwk("k"), "x", json!("")), token(&ed, "EdDSA")),
        (changed(rsa().jwk("k"), "e", json!("AQ")), token(&rsa(), "RS256")),
        (changed(rsa().jwk("k"), "n", json!("")), token(&rsa(), "RS256")),
    ] {
        assert_ne!(with_key(&jwk, &token).await, "taken", "{jwk}");
    }
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_provider_with_one_key() {
    let (first, second) = (rsa(), Signer::pem(OTHER_RSA_PEM, Algorithm::RS256));
    let nameless = |mut jwk: Value| {
        jwk.as_object_mut().unwrap().remove("kid");
        jwk
    };
    let bare = first.token(&json!({ "alg": "RS256" }), &ada());
    for (keys, expected) in [
        (vec![first.jwk("a")], "taken"),
        (vec![nameless(first.jwk("a"))], "taken"),
        (vec![second.jwk("b")], "rejected"),
        (vec![first.jwk("a"), second.jwk("b")], "rejected"),
        (vec![nameless(first.jwk("a")), nameless(second.jwk("b"))], "rejected"),
        (vec![nameless(second.jwk("a")), nameless(first.jwk("b"))], "rejected"),
    ] {
        assert_eq!(with_keys(&keys, &bare).await, expected, "{keys:?}");
    }
    let named_empty = first.token(&json!({ "alg": "RS256", "kid": "" }), &ada());
    assert_eq!(with_keys(&[nameless(first.jwk("a"))], &named_empty).await, "rejected");
}

/// The first key wins: a later key of the same id cannot replace it.
#[tokio::test]
async fn two_keys_of_one_id_do_not_stand_in_for_each_other() {
    let (first, second) = (rsa(), Signer::pem(OTHER_RSA_PEM, Algorithm::RS256));
    let keys = [first.jwk("k"), second.jwk("k")];

    assert_eq!(with_keys(&keys, &token(&first, "RS256")).await, "taken");
    assert_eq!(with_keys(&keys, &token(&second, "RS256")).await, "rejected");
}

#[tokio::test]
async fn a_flood_of_keys_is_cut_off() {
    let signer = Signer::pem(ED25519_PEM, Algorithm::EdDSA);
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": signer.jwk("")["x"] });
    let keys = |count: usize| -> Vec<_> {
        (0..count).map(|number| changed(jwk.clone(), "kid", json!(number.to_string()))).collect()
    };
    let token = |kid: &str| signer.token(&json!({ "alg": "EdDSA", "kid": kid }), &ada());

    assert_eq!(with_keys(&keys(10_000), &token("0")).await, "unavailable");
    assert_eq!(with_keys(&keys(2_000), &token("99")).await, "taken");
    assert_eq!(with_keys(&keys(2_000), &token("100")).await, "rejected");
}
