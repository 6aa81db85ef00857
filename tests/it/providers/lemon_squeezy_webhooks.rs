//! The webhooks of Lemon Squeezy.

use proptest::prelude::*;
use serde_json::{Value, json};
use subscription_core::providers::{Hint, ObjectKind, ObjectRef, ProviderKind, Webhook, webhook};
use test_support::service_world::of;

use super::lemon_squeezy::any_json;

const USER: &str = "0193f1a8-7c65-7d40-9a53-0c1f2e3d4b5a";

fn read(payload: &Value) -> Webhook {
    webhook(ProviderKind::LemonSqueezy, payload.to_string().as_bytes())
}

fn payload(r#type: &str) -> Value {
    json!({
        "meta": {
            "event_name": "subscription_updated", "test_mode": false,
            "custom_data": { "user_id": USER },
        },
        "data": { "type": r#type, "id": "4711", "attributes": { "test_mode": true, "status": "x" } },
    })
}

fn hint(payload: &Value) -> Hint {
    let read = read(payload);
    let Webhook::Hint(hint) = read else { panic!("{payload}: {read:?}") };
    hint
}

fn unreadable_at(payload: &Value) -> (Option<String>, String) {
    let read = read(payload);
    let Webhook::Unreadable { event_type, path } = read else { panic!("{payload}: {read:?}") };
    (event_type.map(Into::into), path.into())
}

#[test]
fn a_webhook_names_its_object_by_type_and_id() {
    for (r#type, kind) in [
        ("subscriptions", ObjectKind::Subscription),
        ("subscription-invoices", ObjectKind::Invoice),
        ("orders", ObjectKind::Order),
    ] {
        let hint = hint(&payload(r#type));

        let object = ObjectRef { kind, id: of("4711") };
        let event_type = "subscription_updated".into();
        let user_id = Some(of(USER));
        assert_eq!(hint, Hint { event_type, event_id: None, object, live: true, user_id });
    }
}

#[test]
fn the_name_of_the_event_does_not_matter() {
    let long = "n".repeat(101);
    for (name, shown) in [
        (json!("never_heard_of"), "never_heard_of"),
        (json!("n".repeat(100)), &long[1..]),
        (json!(long), "orders"),
        (json!("two words"), "orders"),
        (json!("line\nbreak"), "orders"),
        (json!(""), "orders"),
        (json!(7), "orders"),
        (json!(null), "orders"),
    ] {
        let mut payload = payload("orders");
        payload["meta"]["event_name"] = name;

        assert_eq!(&*hint(&payload).event_type, shown, "{payload}");
    }
}

#[test]
fn other_objects_are_not_followed() {
    for r#type in ["license-keys", "affiliates", "Subscriptions", ""] {
        assert_eq!(read(&payload(r#type)), Webhook::Unlisted, "{type}");
    }
}

#[test]
fn the_mode_is_that_of_the_event_or_else_of_the_object() {
    for (event, object, live) in [
        (json!(false), json!(true), true),
        (json!(true), json!(false), false),
        (json!(null), json!(true), false),
        (json!(null), json!(false), true),
    ] {
        let mut payload = payload("orders");
        payload["meta"]["test_mode"] = event;
        payload["data"]["attributes"]["test_mode"] = object;

        assert_eq!(hint(&payload).live, live, "{payload}");
    }
}

#[test]
fn only_a_uuid_names_a_user() {
    for custom_data in [
        json!({ "user_id": "42" }),
        json!({ "user_id": 42 }),
        json!({ "user_id": null }),
        json!({ "user": USER }),
        json!([]),
        json!(null),
    ] {
        let mut payload = payload("orders");
        payload["meta"]["custom_data"] = custom_data;

        assert_eq!(hint(&payload).user_id, None, "{payload}");
    }
}

#[test]
fn a_webhook_that_cannot_be_read_says_where() {
    let name = || Some("subscription_updated".to_owned());
    let with = |change: fn(&mut Value)| {
        let mut payload = payload("orders");
        change(&mut payload);
        payload
    };
    for (payload, expected) in [
        (json!([]), (None, "/data/type")),
        (json!({}), (None, "/data/type")),
        (with(|it| it["data"]["type"] = json!(null)), (name(), "/data/type")),
        (with(|it| it["data"]["type"] = json!(["orders"])), (name(), "/data/type")),
        (with(|it| it["data"]["id"] = json!(4711)), (name(), "/data/id")),
        (with(|it| it["data"]["id"] = json!("")), (name(), "/data/id")),
        (with(|it| it["data"]["id"] = json!("1/../2")), (name(), "/data/id")),
        (with(|it| it["data"]["id"] = json!("1?x=2")), (name(), "/data/id")),
        (with(|it| it["meta"]["test_mode"] = json!("false")), (name(), "/meta/test_mode")),
        (
            with(|it| {
                it["meta"]["test_mode"] = json!(null);
                it["data"]["attributes"] = json!(null);
            }),
            (name(), "/data/attributes/test_mode"),
        ),
    ] {
        assert_eq!(unreadable_at(&payload), (expected.0, expected.1.to_owned()), "{payload}");
    }
    let deep = "[".repeat(1_048_576);
    for body in ["", "{", "nonsense", "\u{feff}{}", deep.as_str()] {
        let unreadable = Webhook::Unreadable { event_type: None, path: "".into() };
        assert_eq!(webhook(ProviderKind::LemonSqueezy, body.as_bytes()), unreadable);
    }
    assert!(matches!(webhook(ProviderKind::LemonSqueezy, b"\xff"), Webhook::Unreadable { .. }));
}

proptest! {
    #[test]
    fn no_webhook_makes_it_panic(
        meta in any_json(),
        data in any_json(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        read(&json!({ "meta": meta, "data": data }));
        read(&data);
        webhook(ProviderKind::LemonSqueezy, &bytes);
    }
}
