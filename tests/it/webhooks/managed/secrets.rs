//! Secrets: derived, rotated, and stored nowhere.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use subscription_core::ErrorKind;
use subscription_core::webhooks::{Secret, SignatureHeaders, TOLERANCE, verify};
use test_support::service_world::wrong;

use super::world::WebhookWorld;

const DAY: Duration = Duration::from_hours(24);

/// True if a ping is signed by this secret.
async fn signs(
    world: &WebhookWorld,
    id: subscription_core::webhooks::EndpointId,
    secret: &Secret,
) -> bool {
    world.webhooks.ping(id).await.unwrap();
    let sent = world.receiver.sent().pop().unwrap();
    let timestamp = sent.timestamp.to_string();
    let headers =
        SignatureHeaders { id: &sent.id, timestamp: &timestamp, signature: &sent.signature };
    let now = world.service.now();
    verify(std::slice::from_ref(secret), &headers, &sent.body, now, TOLERANCE).is_ok()
}

/// Attack W7: the database. The log is searched by its own suite, the export in the tests of the program.
#[tokio::test]
async fn no_document_has_a_secret_in_any_form() {
    let world = WebhookWorld::new();
    let created = world.endpoint().await;
    let rotated = world.webhooks.rotate_secret(created.endpoint.id, DAY).await.unwrap();

    for secret in [created.secret.unwrap(), rotated.secret.unwrap()] {
        let text = secret.expose();
        test_support::logs::note(&text);
        let base64 = text.strip_prefix("whsec_").unwrap();
        let bytes = STANDARD.decode(base64).unwrap();
        let hex = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let list = serde_json::to_string(&bytes).unwrap();
        for collection in ["webhook_endpoint", "webhook_delivery"] {
            for document in world.documents(collection).await {
                let body = &document.body;
                for form in [base64, &hex, list.trim_matches(['[', ']'])] {
                    assert!(!body.contains(form), "{collection} {body}");
                }
            }
        }
        assert_eq!(bytes.len(), 32);
        let shown = format!("{secret:?}{:?}", created.endpoint);
        assert!(!shown.contains(base64), "{shown}");
    }
}

#[tokio::test]
async fn both_secrets_sign_during_the_overlap_and_only_the_new_one_after_it() {
    let world = WebhookWorld::new();
    let created = world.endpoint().await;
    let (id, first) = (created.endpoint.id, created.secret.unwrap());
    assert!(signs(&world, id, &first).await);

    let rotated = world.webhooks.rotate_secret(id, DAY).await.unwrap();

    let second = rotated.secret.unwrap();
    let until = world.service.now().saturating_add(DAY);
    assert_eq!(rotated.endpoint.previous_secret_until, Some(until));
    assert_eq!(rotated.endpoint.version, 2.into());
    assert!(signs(&world, id, &first).await && signs(&world, id, &second).await);
    world.clock.advance(DAY);
    assert!(!signs(&world, id, &first).await && signs(&world, id, &second).await);
    let after = world.webhooks.get(id).await.unwrap();
    assert_eq!(after.previous_secret_until, None);
}

#[tokio::test]
async fn a_rotation_is_refused_while_one_runs_unless_it_ends_the_old_secrets_at_once() {
    let world = WebhookWorld::new();
    let created = world.endpoint().await;
    let (id, first) = (created.endpoint.id, created.secret.unwrap());
    let second = world.webhooks.rotate_secret(id, DAY).await.unwrap().secret.unwrap();

    let refused = world.webhooks.rotate_secret(id, Duration::from_hours(1)).await;
    let third = world.webhooks.rotate_secret(id, Duration::ZERO).await.unwrap();

    assert_eq!(wrong(refused), (ErrorKind::Conflict, "rotation_in_progress"));
    assert_eq!(third.endpoint.previous_secret_until, None);
    assert!(!signs(&world, id, &first).await && !signs(&world, id, &second).await);
    assert!(signs(&world, id, &third.secret.unwrap()).await);
    world.webhooks.rotate_secret(id, DAY).await.unwrap();
    world.clock.advance(DAY);
    assert!(world.webhooks.rotate_secret(id, DAY).await.is_ok(), "the one before has ended");
}

/// Attack W14, in part: a database that was copied to other server keys.
#[tokio::test]
async fn a_rotation_repairs_an_endpoint_whose_server_key_is_missing_or_another_one() {
    let world = WebhookWorld::new();
    let created = world.endpoint().await;
    let (id, first) = (created.endpoint.id, created.secret.unwrap());
    let world = world.with_other_keys();
    for key in [1, 9] {
        world.rewrite("webhook_endpoint", id, |body| body["secret"]["key_id"] = json!(key)).await;
        let refused = world.webhooks.ping(id).await;
        assert_eq!(wrong(refused), (ErrorKind::Conflict, "key_missing"));
        assert_eq!(world.receiver.sent().len(), 0);
    }

    let rotated = world.webhooks.rotate_secret(id, DAY).await.unwrap();

    assert_eq!(rotated.endpoint.previous_secret_until, None, "the old one cannot sign");
    assert!(signs(&world, id, &rotated.secret.unwrap()).await && !signs(&world, id, &first).await);
}
