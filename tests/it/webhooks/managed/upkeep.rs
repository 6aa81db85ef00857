//! The facts that upkeep, key rotation and imports need.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::providers;
use subscription_core::store::{Collection, Document};
use subscription_core::webhooks::{
    AddressRules, EndpointChanges, FirstEvent, NewEndpoint, check_imported, disable_imported,
    server_keys_named,
};

use super::world::{WebhookWorld, new_endpoint};

#[tokio::test]
async fn events_are_kept_from_the_lowest_cursor_of_an_enabled_endpoint_on() {
    let world = WebhookWorld::new();
    world.events(4).await;
    assert_eq!(world.webhooks.lowest_cursor().await.unwrap(), None);
    let mut ids = Vec::new();
    for from in [FirstEvent::After(1), FirstEvent::Now, FirstEvent::After(3)] {
        let created = world.webhooks.create(NewEndpoint { from, ..new_endpoint() }).await;
        ids.push(created.unwrap().endpoint.id);
    }
    assert_eq!(world.webhooks.lowest_cursor().await.unwrap(), Some(1));

    let off = EndpointChanges { enabled: Some(false), ..EndpointChanges::default() };
    world.webhooks.update_if(ids[0], None, off).await.unwrap();

    assert_eq!(world.webhooks.lowest_cursor().await.unwrap(), Some(3));
}

#[tokio::test]
async fn the_server_keys_of_secrets_that_sign_or_signed_are_named() {
    let world = WebhookWorld::new();
    assert!(server_keys_named(&world.service).await.unwrap().is_empty());
    let id = world.endpoint().await.endpoint.id;
    world.rewrite("webhook_endpoint", id, |body| body["secret"]["key_id"] = 7.into()).await;
    let other = world.endpoint().await.endpoint.id;
    world.webhooks.rotate_secret(other, Duration::from_hours(1)).await.unwrap();
    world
        .rewrite("webhook_endpoint", other, |body| body["secret"]["previous"]["key_id"] = 4.into())
        .await;

    let named = server_keys_named(&world.service).await.unwrap();

    assert_eq!(named.into_iter().collect::<Vec<_>>(), [1, 4, 7]);
}

#[tokio::test]
async fn an_endpoint_that_is_imported_is_disabled_and_nothing_else_changes() {
    let world = WebhookWorld::new();
    let id = world.endpoint().await.endpoint.id;
    let now = world.service.now();
    let stored = world.documents("webhook_endpoint").await.remove(0);

    let disabled = disable_imported(&stored, now).unwrap().unwrap();

    assert_eq!((&disabled.key, disabled.version), (&stored.key, stored.version));
    assert_eq!(disabled.label.as_ref().unwrap().as_str(), "disabled");
    assert_eq!(disable_imported(&disabled, now).unwrap(), None);
    let delivery = world.documents("webhook_delivery").await.remove(0);
    assert_eq!(disable_imported(&delivery, now).unwrap(), None);
    let body: Value = serde_json::from_str(&disabled.body).unwrap();
    world.rewrite("webhook_endpoint", id, |stored| *stored = body).await;
    let shown = world.webhooks.get(id).await.unwrap();
    assert_eq!(shown.disabled_reason.unwrap().to_string(), "imported");
}

/// A document that the server cannot read would stop its part for all others, so an import refuses it.
#[tokio::test]
async fn an_import_takes_only_documents_that_can_be_read_and_endpoints_that_a_caller_may_make() {
    let world = WebhookWorld::new();
    world.endpoint().await;
    let rules = AddressRules::default();
    let endpoint = world.documents("webhook_endpoint").await.remove(0);
    let endpoint = Document::clone(&endpoint);
    let check = |document: &Document| check_imported(document, Some(&rules));
    assert!(check(&endpoint).is_ok());

    let long = "x".repeat(5_000);
    for (field, value) in [
        ("url", json!("file:///etc/passwd")),
        ("url", json!("x")),
        ("url", json!("https://10.0.0.7/")),
        ("description", json!("\u{1b}[2J")),
        ("types", json!([])),
        ("types", json!(["session.*"])),
        ("types", json!([long])),
        ("secret", json!(null)),
        ("id", json!("01933b6e-7a5d-7000-8a1b-2c3d4e5f6071")),
    ] {
        let mut body: Value = serde_json::from_str(&endpoint.body).unwrap();
        body[field] = value.clone();
        let document = Document { body: body.to_string().into(), ..endpoint.clone() };
        assert!(check(&document).is_err(), "{field} {value}");
        // A server without webhooks does not know which networks are allowed.
        assert_eq!(check_imported(&document, None).is_ok(), field == "url", "{field} {value}");
    }
    let with = |collection, body: &str| {
        let mut document = Document { body: body.into(), ..endpoint.clone() };
        document.key.collection = Collection::named(collection);
        document
    };
    for collection in ["webhook_endpoint", "webhook_delivery", "webhook_parked", "webhook_request"]
    {
        for body in ["[]", "7", r#"{"cursor":-1}"#] {
            assert!(check(&with(collection, body)).is_err(), "{collection} {body}");
        }
    }
    for collection in ["provider_event", "provider_link", "provider_progress"] {
        for body in ["[]", "7", r#"{"source":1,"run":1}"#] {
            let checked = providers::check_imported(&with(collection, body));
            assert!(checked.is_err(), "{collection} {body}");
        }
    }
    assert!(check(&with("another", "7")).is_ok());
}
