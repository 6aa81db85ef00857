//! Working providers: OIDC keys and introspection, from the first request to the session.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use subscription_core::auth::IntrospectedIdentities;
use subscription_http::{FetchSettings, HttpFetch};

use super::provider::{Provider, Script, enter, keys, token, world_of};
use crate::auth::provider::{ada, trust};
use crate::http::world::problem;

#[tokio::test]
async fn people_sign_up_and_in_with_the_keys_that_their_provider_publishes() {
    let provider = Provider::new(keys()).await;
    let world = provider.world(&FetchSettings::default()).await;

    assert_eq!(enter(&world, "sign-up", &token("k1")).await.status, 201);
    assert_eq!(enter(&world, "sign-in", &token("k1")).await.status, 200);

    let asked = provider.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("GET /keys HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].contains(&format!("host: {}\r\n", provider.address)), "{asked:?}");
    assert!(!asked[0].to_lowercase().contains("authorization"), "{asked:?}");
}

#[tokio::test]
async fn an_outage_keeps_the_keys_that_were_good() {
    let mut provider = Provider::new(keys()).await;
    let world = provider.world(&FetchSettings::default()).await;
    assert_eq!(enter(&world, "sign-up", &token("k1")).await.status, 201);

    provider.plays(Script::body(500, "", "sorry"));
    world.auth.clock.advance(Duration::from_hours(2));
    assert_eq!(enter(&world, "sign-in", &token("k1")).await.status, 200);
    assert_eq!(provider.asked().len(), 2);

    provider.gone().await;
    world.auth.clock.advance(Duration::from_hours(2));
    assert_eq!(enter(&world, "sign-in", &token("k1")).await.status, 200);
    let unknown = enter(&world, "sign-in", &token("k2")).await;
    assert_eq!(unknown.problem(), problem(401, "identity_rejected"));
}

#[tokio::test]
async fn a_storm_of_unknown_keys_asks_once_in_thirty_seconds() {
    let provider = Provider::new(keys()).await;
    let world = Arc::new(provider.world(&FetchSettings::default()).await);
    assert_eq!(enter(&world, "sign-up", &token("k1")).await.status, 201);
    world.auth.clock.advance(Duration::from_secs(30));

    let storm = (0..50).map(|nth| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { enter(&world, "sign-in", &token(&format!("x{nth}"))).await })
    });
    for drop_of_it in storm.collect::<Vec<_>>() {
        let refused = drop_of_it.await.unwrap();
        assert_eq!(refused.problem(), problem(401, "identity_rejected"));
    }

    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn a_provider_is_asked_about_each_token_with_our_own_credentials() {
    let mut active = ada();
    active["active"] = json!(true);
    let provider = Provider::new(Script::json(&active)).await;
    let fetch = Arc::new(HttpFetch::new(&FetchSettings::default()).unwrap());
    let client = ("our app".into(), "p:ss wörd".into());
    let url = provider.url("/introspect");
    let verifier = IntrospectedIdentities::new(trust(), url, client, fetch);
    let world = world_of(Arc::new(verifier)).await;

    assert_eq!(enter(&world, "sign-up", "opaque & more=1").await.status, 201);
    provider.plays(Script::json(&json!({ "active": false })));
    let refused = enter(&world, "sign-in", "opaque & more=1").await;
    assert_eq!(refused.problem(), problem(401, "identity_rejected"));

    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    let (head, body) = asked[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /introspect HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-www-form-urlencoded"), "{head}");
    let pair = STANDARD.encode("our+app:p%3Ass+w%C3%B6rd");
    assert!(head.contains(&format!("authorization: Basic {pair}")), "{head}");
    assert_eq!(body, "token=opaque+%26+more%3D1&token_type_hint=access_token");
}
