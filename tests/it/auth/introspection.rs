//! Introspection: the provider is asked about each token.

use std::sync::Arc;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_core::auth::{ANSWER_BYTES_MAX, IntrospectedIdentities};

use super::provider::{ScriptedFetch, after, answer, trust, verify};
use super::world::{AUDIENCE, PROVIDER, seconds};

fn verifier(fetch: &Arc<ScriptedFetch>) -> IntrospectedIdentities {
    let endpoint = "https://id.example.com/introspect".parse().unwrap();
    let client = ("our-app".into(), "the password of our app".into());
    IntrospectedIdentities::new(trust(), endpoint, client, Arc::clone(fetch) as _)
}

fn active() -> Value {
    json!({
        "active": true, "iss": PROVIDER, "aud": AUDIENCE, "sub": "sub-of-ada",
        "exp": seconds(after(300)), "email": "ada@example.com", "email_verified": true,
    })
}

async fn told(told: &Value) -> &'static str {
    let fetch = Arc::new(ScriptedFetch::answering(told));
    answer(&verifier(&fetch), "opaque", after(0)).await
}

#[tokio::test]
async fn the_token_goes_in_the_form_and_the_password_in_the_header() {
    let fetch = Arc::new(ScriptedFetch::answering(&active()));

    let ada = verify(&verifier(&fetch), "opaque & token=1", after(0)).await.unwrap();

    assert_eq!((ada.key.issuer.as_str(), ada.key.subject.as_str()), (PROVIDER, "sub-of-ada"));
    assert!(ada.email_verified);
    let requests = fetch.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].url.as_str(), "https://id.example.com/introspect");
    let form: Vec<_> = requests[0].form.as_ref().unwrap().iter().collect();
    let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
    assert_eq!(form, [("token", "opaque & token=1"), ("token_type_hint", "access_token")]);
    let (user, password) = requests[0].basic.as_ref().unwrap();
    assert_eq!(
        (user.expose_secret(), password.expose_secret()),
        ("our-app", "the password of our app")
    );
    let shown = format!("{requests:?} {:?}", verifier(&fetch));
    assert!(!shown.contains("opaque") && !shown.contains("the password"), "{shown}");
}

#[tokio::test]
async fn only_an_active_token_of_the_issuer_for_us_is_taken() {
    let now = seconds(after(0));
    for (field, value, expected) in [
        ("active", json!(true), "taken"),
        ("active", json!(false), "rejected"),
        ("iss", json!("https://evil.example.com"), "rejected"),
        ("iss", json!(null), "taken"),
        ("aud", json!(["another", AUDIENCE]), "taken"),
        ("aud", json!("another"), "rejected"),
        ("aud", json!([]), "rejected"),
        ("aud", json!(null), "rejected"),
        ("sub", json!(null), "rejected"),
        ("sub", json!(""), "rejected"),
        ("sub", json!(" ada"), "rejected"),
        ("sub", json!("x".repeat(256)), "rejected"),
        ("exp", json!(now - 29), "taken"),
        ("exp", json!(now - 30), "rejected"),
        ("exp", json!(null), "taken"),
        ("nbf", json!(now + 30), "taken"),
        ("nbf", json!(now + 31), "rejected"),
        ("scope", json!("anything else"), "taken"),
    ] {
        let mut answer = active();
        answer[field] = value.clone();
        assert_eq!(told(&answer).await, expected, "{field} {value}");
    }
    for field in ["aud", "sub"] {
        let mut answer = active();
        answer.as_object_mut().unwrap().remove(field);
        assert_eq!(told(&answer).await, "rejected", "no {field}");
    }
    // All that a provider says of a token that is not good.
    assert_eq!(told(&json!({ "active": false })).await, "rejected");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_lets_nobody_in() {
    let fetch = Arc::new(ScriptedFetch::answering(&active()));
    let verifier = verifier(&fetch);
    let in_order = ["active", "iss", "aud", "sub", "exp", "nbf", "email", "email_verified"]
        .map(|field| active().get(field).cloned().unwrap_or_default());
    let too_long = format!("{}{}", active(), " ".repeat(ANSWER_BYTES_MAX));
    let mut bodies = vec![
        String::new(),
        "true".into(),
        "{}".into(),
        "<html>".into(),
        json!(in_order).to_string(),
        active().to_string().replacen('{', r#"{"active":false,"#, 1),
        format!("{}{}", active(), active()),
        too_long,
    ];
    for active_as in [json!("true"), json!(1), json!(null), json!([true])] {
        let mut answer = active();
        answer["active"] = active_as;
        bodies.push(answer.to_string());
    }
    for body in bodies {
        fetch.answer_bytes(body.clone().into_bytes());
        let shown: String = body.chars().take(100).collect();
        assert_ne!(answer(&verifier, "opaque", after(0)).await, "taken", "{shown}");
    }
}

#[tokio::test]
async fn a_provider_out_of_reach_is_no_verdict() {
    let fetch = Arc::new(ScriptedFetch::failing());
    assert_eq!(answer(&verifier(&fetch), "opaque", after(0)).await, "unavailable");
}

#[tokio::test]
async fn blank_and_endless_tokens_are_not_asked_about() {
    let fetch = Arc::new(ScriptedFetch::answering(&active()));
    for token in ["", "  ", &"x".repeat(16_385), &"x".repeat(1 << 20)] {
        assert_eq!(answer(&verifier(&fetch), token, after(0)).await, "rejected");
    }
    assert_eq!(fetch.count(), 0);
    assert_eq!(answer(&verifier(&fetch), &"x".repeat(16_384), after(0)).await, "taken");
}
