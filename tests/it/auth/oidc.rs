//! OIDC: when the keys of a provider are fetched, and what becomes of them.

use std::sync::Arc;

use serde_json::{Value, json};
use subscription_core::Timestamp;
use subscription_core::auth::{ANSWER_BYTES_MAX, IdentityVerifier as _, OidcIdentities};

use super::forge::Signer;
use super::provider::{ScriptedFetch, ada, after, answer, trust};

fn signer(number: u8) -> Signer {
    Signer::ed25519([number; 32])
}

/// A set of the keys of these numbers, each named `k` and its number.
fn set(numbers: &[u8]) -> Value {
    let keys: Vec<_> =
        numbers.iter().map(|number| signer(*number).jwk(&format!("k{number}"))).collect();
    json!({ "keys": keys })
}

/// A good token of a key.
fn token(number: u8) -> String {
    named(number, &format!("k{number}"))
}

/// A token of a key that says that it is of another.
fn named(number: u8, kid: &str) -> String {
    signer(number).token(&json!({ "alg": "EdDSA", "kid": kid }), &ada())
}

struct Provider {
    fetch: Arc<ScriptedFetch>,
    verifier: Arc<OidcIdentities>,
}

impl Provider {
    fn new(fetch: ScriptedFetch) -> Self {
        let fetch = Arc::new(fetch);
        let url = "https://id.example.com/keys".parse().unwrap();
        let verifier = OidcIdentities::new(trust(), url, Arc::clone(&fetch) as _);
        Self { fetch, verifier: Arc::new(verifier) }
    }

    async fn answer(&self, token: &str, now: Timestamp) -> &'static str {
        answer(&*self.verifier, token, now).await
    }
}

#[tokio::test]
async fn the_keys_are_fetched_once_and_used_for_an_hour() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1, 2])));

    assert_eq!(provider.answer("no token at all", after(0)).await, "rejected");
    for field in ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"] {
        let header = json!({ "alg": "EdDSA", "kid": "k1", field: "https://evil.example.com/" });
        let token = signer(1).token(&header, &ada());
        assert_eq!(provider.answer(&token, after(0)).await, "rejected", "{field}");
    }
    assert_eq!(provider.fetch.count(), 0);
    for (number, now) in [(1, 0), (2, 1), (1, 60), (2, 3_599)] {
        assert_eq!(provider.answer(&token(number), after(now)).await, "taken", "{number} {now}");
    }
    assert_eq!(provider.fetch.count(), 1);
    assert_eq!(provider.answer(&token(1), after(3_600)).await, "taken");
    assert_eq!(provider.fetch.count(), 2);

    let request = &provider.fetch.requests()[0];
    assert_eq!(request.url.as_str(), "https://id.example.com/keys");
    assert!(request.form.is_none() && request.basic.is_none());
}

#[tokio::test]
async fn a_token_of_the_right_key_must_still_be_for_us() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    for (claim, value) in [
        ("iss", json!("https://evil.example.com")),
        ("aud", json!("another")),
        ("exp", json!(0)),
        ("nbf", json!(u64::MAX)),
        ("sub", json!("")),
    ] {
        let mut claims = ada();
        claims[claim] = value;
        let token = signer(1).token(&json!({ "alg": "EdDSA", "kid": "k1" }), &claims);
        assert_eq!(provider.answer(&token, after(0)).await, "rejected", "{claim}");
    }
}

#[tokio::test]
async fn a_token_of_the_wrong_key_is_rejected() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1, 2])));

    assert_eq!(provider.answer(&named(3, "k1"), after(0)).await, "rejected");
    assert_eq!(provider.answer(&named(2, "k1"), after(0)).await, "rejected");
    assert_eq!(provider.answer(&token(1), after(0)).await, "taken");
}

#[tokio::test]
async fn a_storm_of_unknown_keys_fetches_once_in_thirty_seconds() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    assert_eq!(provider.answer(&token(1), after(0)).await, "taken");

    for number in 0..1_000 {
        let token = named(9, &format!("unknown-{number}"));
        assert_eq!(provider.answer(&token, after(30)).await, "rejected", "{number}");
        assert_eq!(provider.answer(&token, after(59)).await, "rejected", "{number}");
    }
    assert_eq!(provider.fetch.count(), 2);
    let tempting = "https://evil.example.com/keys";
    assert_eq!(provider.answer(&named(9, tempting), after(60)).await, "rejected");
    let asked: Vec<_> = provider.fetch.requests().into_iter().map(|asked| asked.url).collect();
    assert_eq!(asked, vec!["https://id.example.com/keys".parse().unwrap(); 3]);
}

/// Requests read the clock before they wait for each other, so that they come out of order.
#[tokio::test]
async fn a_request_that_read_the_clock_earlier_does_not_fetch_again() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    for back in 0..20 {
        assert_eq!(provider.answer(&named(9, "unknown"), after(100 - back)).await, "rejected");
    }
    assert_eq!(provider.fetch.count(), 1);
}

#[tokio::test]
async fn a_new_key_is_taken_as_soon_as_a_fetch_is_due() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    assert_eq!(provider.answer(&token(1), after(0)).await, "taken");

    provider.fetch.answer(&set(&[2]));

    assert_eq!(provider.answer(&token(2), after(29)).await, "rejected");
    assert_eq!(provider.answer(&token(2), after(30)).await, "taken");
    assert_eq!(provider.answer(&token(1), after(31)).await, "rejected");
    assert_eq!(provider.fetch.count(), 2);
}

#[tokio::test]
async fn many_wait_for_one_fetch() {
    let provider = Provider::new(ScriptedFetch::slow(&set(&[1])));
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let verifier = Arc::clone(&provider.verifier);
            tokio::spawn(async move { answer(&*verifier, &token(1), after(0)).await })
        })
        .collect();
    while provider.fetch.count() == 0 {
        tokio::task::yield_now().await;
    }

    provider.fetch.open();

    for waiter in waiting {
        assert_eq!(waiter.await.unwrap(), "taken");
    }
    assert_eq!(provider.fetch.count(), 1);
}

/// A caller that hangs up must not leave the others without keys until the next fetch is due.
#[tokio::test]
async fn a_caller_that_gives_up_leaves_its_fetch_to_the_next() {
    let provider = Provider::new(ScriptedFetch::slow(&set(&[1])));
    let verifier = Arc::clone(&provider.verifier);
    let first = tokio::spawn(async move { answer(&*verifier, &token(1), after(0)).await });
    while provider.fetch.count() == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());

    provider.fetch.open();

    assert_eq!(provider.answer(&token(1), after(1)).await, "taken");
    assert_eq!(provider.fetch.count(), 1);
}

/// An embedder supplies the HTTP client; one that panics must not end the process.
#[tokio::test]
async fn a_fetch_that_panics_is_made_again() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    provider.fetch.panic();
    let verifier = Arc::clone(&provider.verifier);
    let first = tokio::spawn(async move { answer(&*verifier, &token(1), after(0)).await });
    assert!(first.await.unwrap_err().is_panic());
    provider.fetch.answer(&set(&[1]));

    assert_eq!(provider.answer(&token(1), after(29)).await, "unavailable");
    assert_eq!(provider.answer(&token(1), after(30)).await, "taken");
}

/// A provider that hangs holds up one caller, not everybody whose key is known.
#[tokio::test]
async fn known_keys_go_on_while_one_caller_waits_for_fresh_ones() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    assert_eq!(provider.answer(&token(1), after(0)).await, "taken");
    provider.fetch.close();
    let verifier = Arc::clone(&provider.verifier);
    let first = tokio::spawn(async move { answer(&*verifier, &token(1), after(3_600)).await });
    while provider.fetch.count() == 1 {
        tokio::task::yield_now().await;
    }

    assert_eq!(provider.answer(&token(1), after(3_601)).await, "taken");

    provider.fetch.open();
    assert_eq!(first.await.unwrap(), "taken");
    assert_eq!(provider.fetch.count(), 2);
}

#[tokio::test]
async fn good_keys_survive_whatever_the_provider_does() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    assert_eq!(provider.answer(&token(1), after(0)).await, "taken");
    let too_large = {
        let mut body = set(&[2]).to_string().into_bytes();
        body.resize(ANSWER_BYTES_MAX + 1, b' ');
        body
    };
    let bad: [Result<Vec<u8>, &str>; 8] = [
        Err("connection refused"),
        Err("302 to http://169.254.169.254/"),
        Ok(b"".to_vec()),
        Ok(b"<html>we are sorry</html>".to_vec()),
        Ok(b"{}".to_vec()),
        Ok(br#"{"keys":{}}"#.to_vec()),
        Ok(vec![b'['; 100_000]),
        Ok(too_large),
    ];
    let mut now = 3_600;
    for (number, bad) in bad.into_iter().enumerate() {
        match bad {
            Err(why) => provider.fetch.fail(why),
            Ok(body) => provider.fetch.answer_bytes(body),
        }
        for step in [0, 29, 30] {
            let taken = provider.answer(&token(1), after(now + step)).await;
            assert_eq!(taken, "taken", "case {number} after {step} s");
        }
        assert_ne!(provider.answer(&token(2), after(now + 30)).await, "taken", "case {number}");
        now += 100;
    }
    assert_eq!(provider.fetch.count(), 1 + 8 * 2);
}

/// Nobody could tell this service that a key was stolen, while its provider cannot be reached.
#[tokio::test]
async fn keys_are_believed_for_a_day_without_their_provider() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    let long = |number| {
        let mut claims = ada();
        claims["exp"] = json!(u32::MAX);
        signer(number).token(&json!({ "alg": "EdDSA", "kid": format!("k{number}") }), &claims)
    };
    assert_eq!(provider.answer(&long(1), after(0)).await, "taken");
    assert_eq!(provider.verifier.keys_fetched_at(), Some(after(0)));

    provider.fetch.fail("connection refused");

    for (number, now, expected) in [
        (1, 86_399, "taken"),
        (1, 86_400, "unavailable"),
        (2, 86_401, "unavailable"),
        (1, 365 * 86_400, "unavailable"),
    ] {
        assert_eq!(provider.answer(&long(number), after(now)).await, expected, "{now}");
    }
    provider.fetch.answer(&set(&[1]));
    assert_eq!(provider.answer(&long(1), after(366 * 86_400)).await, "taken");
}

#[tokio::test]
async fn a_provider_that_withdraws_all_keys_is_heard() {
    let unusable = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0", "kid": "k1" }] });
    for none in [json!({ "keys": [] }), unusable] {
        let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
        assert_eq!(provider.answer(&token(1), after(0)).await, "taken");

        provider.fetch.answer(&none);

        assert_eq!(provider.answer(&token(1), after(3_600)).await, "unavailable", "{none}");
        provider.fetch.answer(&set(&[1]));
        assert_eq!(provider.answer(&token(1), after(3_629)).await, "unavailable", "{none}");
        assert_eq!(provider.answer(&token(1), after(3_630)).await, "taken", "{none}");
    }
}

/// A provider signs tokens of other kinds with the same keys.
#[tokio::test]
async fn a_token_of_another_kind_names_nobody() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    for (kind, expected) in [
        (json!("JWT"), "taken"),
        (json!("jwt"), "taken"),
        (json!("at+jwt"), "rejected"),
        (json!("application/at+jwt"), "rejected"),
        (json!("logout+jwt"), "rejected"),
        (json!("secevent+jwt"), "rejected"),
        (json!("dpop+jwt"), "rejected"),
        (json!(""), "rejected"),
        (json!(["JWT"]), "rejected"),
    ] {
        let header = json!({ "alg": "EdDSA", "kid": "k1", "typ": kind });
        let token = signer(1).token(&header, &ada());
        assert_eq!(provider.answer(&token, after(0)).await, expected, "{kind}");
    }
}

#[tokio::test]
async fn an_outage_at_the_start_is_nobodys_fault_and_soon_over() {
    let provider = Provider::new(ScriptedFetch::failing());

    assert_eq!(provider.answer(&token(1), after(0)).await, "unavailable");
    assert_eq!(provider.answer(&token(1), after(1)).await, "unavailable");
    assert_eq!(provider.fetch.count(), 1);

    provider.fetch.answer(&set(&[1]));

    assert_eq!(provider.answer(&token(1), after(29)).await, "unavailable");
    assert_eq!(provider.answer(&token(1), after(30)).await, "taken");
}

#[tokio::test]
async fn a_clock_turned_back_does_not_stop_the_fetching() {
    let provider = Provider::new(ScriptedFetch::answering(&set(&[1])));
    assert_eq!(provider.answer(&token(1), after(40_000)).await, "taken");

    provider.fetch.answer(&set(&[2]));

    assert_eq!(provider.answer(&token(1), after(0)).await, "rejected");
    assert_eq!(provider.answer(&token(2), after(0)).await, "taken");
    assert_eq!(provider.fetch.count(), 2);
}
