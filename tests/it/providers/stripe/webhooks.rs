//! Webhooks of Stripe: which object an event is about.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use subscription_core::providers::{
    Hint, ObjectKind, ObjectRef, ProviderKind, Webhook, intent_of, invoice_of, session, webhook,
};
use test_support::service_world::of;

use super::{USER, with};

fn event(event_type: &str, object: &Value) -> Value {
    json!({
        "id": "evt_1", "object": "event", "api_version": "2025-08-27.basil", "livemode": true,
        "type": event_type, "data": { "object": object, "previous_attributes": {} },
    })
}

fn taken(event: &Value) -> Webhook {
    webhook(ProviderKind::Stripe, event.to_string().as_bytes())
}

fn hint(event_type: &str, kind: ObjectKind, id: &str) -> Webhook {
    Webhook::Hint(Hint {
        event_type: event_type.into(),
        event_id: Some(of("evt_1")),
        object: ObjectRef { kind, id: of(id) },
        live: true,
        user_id: None,
    })
}

/// Every type that is followed, with the object it is about and the field that names it.
const FOLLOWED: [(&str, ObjectKind, &str); 18] = [
    ("customer.subscription.created", ObjectKind::Subscription, "id"),
    ("customer.subscription.updated", ObjectKind::Subscription, "id"),
    ("customer.subscription.deleted", ObjectKind::Subscription, "id"),
    ("customer.subscription.paused", ObjectKind::Subscription, "id"),
    ("customer.subscription.resumed", ObjectKind::Subscription, "id"),
    ("customer.subscription.pending_update_applied", ObjectKind::Subscription, "id"),
    ("customer.subscription.pending_update_expired", ObjectKind::Subscription, "id"),
    ("checkout.session.completed", ObjectKind::CheckoutSession, "id"),
    ("invoice.paid", ObjectKind::Invoice, "id"),
    ("invoice.payment_failed", ObjectKind::Invoice, "id"),
    ("invoice.voided", ObjectKind::Invoice, "id"),
    ("invoice.marked_uncollectible", ObjectKind::Invoice, "id"),
    ("invoice_payment.paid", ObjectKind::Invoice, "invoice"),
    ("charge.refunded", ObjectKind::PaymentIntent, "payment_intent"),
    ("charge.dispute.created", ObjectKind::PaymentIntent, "payment_intent"),
    ("charge.dispute.closed", ObjectKind::PaymentIntent, "payment_intent"),
    ("payment_intent.processing", ObjectKind::PaymentIntent, "id"),
    ("payment_intent.canceled", ObjectKind::PaymentIntent, "id"),
];

#[test]
fn every_followed_type_names_its_object() {
    let object =
        json!({ "id": "x_id", "invoice": "x_invoice", "payment_intent": "x_payment_intent" });
    for (event_type, kind, field) in FOLLOWED {
        let expected = hint(event_type, kind, &format!("x_{field}"));
        assert_eq!(taken(&event(event_type, &object)), expected);
    }
}

#[test]
fn a_thin_event_names_its_object_but_neither_an_intent_nor_an_invoice() {
    for (event_type, kind, field) in FOLLOWED {
        for event_type in [event_type.to_owned(), format!("v1.{event_type}")] {
            let related =
                json!({ "id": "x_1", "type": "x", "url": "https://elsewhere.example/x_1" });
            let thin = json!({
                "id": "evt_1", "object": "v2.core.event", "livemode": true, "type": event_type,
                "related_object": related,
            });

            let expected = match field {
                "id" => hint(&event_type, kind, "x_1"),
                _ => Webhook::Unreadable {
                    event_type: Some(event_type.into()),
                    path: "/related_object".into(),
                },
            };
            assert_eq!(taken(&thin), expected);
        }
    }
}

#[test]
fn other_types_are_not_followed() {
    for event_type in [
        "customer.subscription.trial_will_end",
        "v1.customer.subscription.trial_will_end",
        "customer.subscription",
        "customer.updated",
        "invoice.created",
        "invoice.updated",
        "invoice.payment_succeeded",
        "charge.succeeded",
        "charge.dispute.funds_withdrawn",
        "payment_intent.succeeded",
        "ping",
        "",
    ] {
        assert_eq!(taken(&event(event_type, &json!({ "id": "x" }))), Webhook::Unlisted);
        // Its content is not looked at.
        assert_eq!(taken(&json!({ "type": event_type, "id": 17 })), Webhook::Unlisted);
    }
}

#[test]
fn a_charge_without_intent_has_no_subscription() {
    for event_type in ["charge.refunded", "charge.dispute.created", "charge.dispute.closed"] {
        for object in [json!({ "id": "ch_1" }), json!({ "id": "ch_1", "payment_intent": null })] {
            let expected = Webhook::NotASubscription {
                event_type: event_type.into(),
                event_id: Some(of("evt_1")),
            };
            assert_eq!(taken(&event(event_type, &object)), expected);
        }
    }
}

#[test]
fn a_field_that_cannot_be_read_is_named() {
    let paid = || event("invoice.paid", &json!({ "id": "in_1" }));
    for (event, path) in [
        (with(paid(), &json!({ "id": null })), "/id"),
        (with(paid(), &json!({ "id": "evt_1/../x" })), "/id"),
        (with(paid(), &json!({ "livemode": null })), "/livemode"),
        (with(paid(), &json!({ "livemode": "true" })), "/livemode"),
        (with(paid(), &json!({ "data": null })), "/data"),
        (with(paid(), &json!({ "data": [] })), "/data"),
        (with(paid(), &json!({ "data": { "object": null } })), "/data/object"),
        (with(paid(), &json!({ "data": { "object": "in_1" } })), "/data/object"),
        (with(paid(), &json!({ "related_object": "in_1" })), "/related_object"),
        (with(paid(), &json!({ "related_object": { "id": null } })), "/related_object/id"),
        (event("invoice_payment.paid", &json!({ "id": "x" })), "/data/object/invoice"),
        (
            event("charge.refunded", &json!({ "id": "x", "payment_intent": 1 })),
            "/data/object/payment_intent",
        ),
    ] {
        let event_type = event["type"].as_str().map(Into::into);
        assert_eq!(taken(&event), Webhook::Unreadable { event_type, path: path.into() }, "{event}");
    }
    for event_type in [json!(null), json!(7), json!("invoice paid"), json!("x".repeat(101))] {
        let event = with(paid(), &json!({ "type": event_type }));
        let expected = Webhook::Unreadable { event_type: None, path: "/type".into() };
        assert_eq!(taken(&event), expected);
    }
}

#[test]
fn an_id_is_safe_in_a_path() {
    for id in ["", "sub_1/../x", "sub_1?x=1", "sub 1", "sub_1#", "süb", "sub_1%2f", "..", "sub_1\n"]
    {
        let event = event("customer.subscription.updated", &json!({ "id": id }));
        let event_type = Some("customer.subscription.updated".into());
        let expected = Webhook::Unreadable { event_type, path: "/data/object/id".into() };
        assert_eq!(taken(&event), expected, "{id:?}");
    }
    let long = "x".repeat(256);
    let event = event("invoice.paid", &json!({ "id": long }));
    assert!(matches!(taken(&event), Webhook::Unreadable { .. }));
}

/// Bodies of 1 MiB that cost much in a careless reader.
fn hostile() -> Vec<Vec<u8>> {
    const SIZE: usize = 1_048_576;
    let head = r#"{"id":"evt_1","livemode":true,"type":"invoice.paid","data":"#;
    let within = |text: String| format!("{head}{text}").into_bytes();
    vec![
        vec![b'['; SIZE],
        b"{\"a\":".repeat(SIZE / 5),
        within("[".repeat(SIZE - head.len())),
        within("{\"object\":".repeat(SIZE / 10)),
        within(format!("{}}}", "9".repeat(SIZE - 100))),
        within(format!("1e{}}}", "9".repeat(SIZE - 100))),
        within(format!("\"{}\"}}", "\\u0000".repeat(SIZE / 6 - 20))),
        within(format!("[{}0]}}", "0,".repeat(SIZE / 2 - 50))),
        vec![0xff; SIZE],
        Vec::new(),
    ]
}

/// The least time that a reading takes of ten: other tests run at the same time.
fn least_time(read: impl Fn()) -> Duration {
    time_below(Duration::ZERO, read)
}

/// The time of the first reading of ten that takes less than `max`, or the least time of all.
fn time_below(max: Duration, read: impl Fn()) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        let began = Instant::now();
        read();
        least = least.min(began.elapsed());
        if least < max {
            break;
        }
    }
    least
}

/// A webhook of nearly a megabyte.
fn large() -> String {
    let object =
        json!({ "id": "in_1", "lines": vec![json!({ "amount": 1, "text": "tea" }); 36_000] });
    let body = event("invoice.paid", &object).to_string();
    assert!((900_000..1_048_576).contains(&body.len()), "{}", body.len());
    body
}

/// Not slower than ten times an honest body of the same size.
#[test]
fn a_hostile_body_is_refused_as_fast_as_an_honest_one_is_read() {
    let large = large();
    let honest = least_time(|| drop(webhook(ProviderKind::Stripe, large.as_bytes())));
    for body in hostile() {
        let read = webhook(ProviderKind::Stripe, &body);

        assert!(matches!(read, Webhook::Unreadable { .. }), "{read:?}");
        let took = time_below(10 * honest, || drop(webhook(ProviderKind::Stripe, &body)));
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]);
        assert!(took < 10 * honest, "{took:?} for {shown}, {honest:?} for an honest one");
    }
}

/// Not slower than ten times a reader of JSON.
#[test]
fn a_large_honest_body_is_read_fast() {
    let body = large();

    let read = webhook(ProviderKind::Stripe, body.as_bytes());

    assert_eq!(read, hint("invoice.paid", ObjectKind::Invoice, "in_1"));
    let parsed = least_time(|| drop(serde_json::from_str::<Value>(&body)));
    let took = time_below(10 * parsed, || drop(webhook(ProviderKind::Stripe, body.as_bytes())));
    assert!(took < 10 * parsed, "{took:?}, {parsed:?} for JSON alone");
}

#[test]
fn a_session_names_its_subscription_and_its_user() {
    let of_session = |changes: Value| {
        let object = json!({ "id": "cs_1", "subscription": "sub_1", "client_reference_id": USER });
        session(&with(object, &changes)).map_err(|error| error.to_string())
    };

    assert_eq!(of_session(json!({})), Ok((of("sub_1"), Some(of(USER)))));
    assert_eq!(
        of_session(json!({ "subscription": { "id": "sub_1" } })),
        Ok((of("sub_1"), Some(of(USER))))
    );
    assert_eq!(of_session(json!({ "client_reference_id": "cart 7" })), Ok((of("sub_1"), None)));
    assert_eq!(of_session(json!({ "client_reference_id": null })), Ok((of("sub_1"), None)));
    assert_eq!(
        of_session(json!({ "subscription": null })),
        Err("the object has no subscription".to_owned())
    );
}

#[test]
fn a_refund_names_its_intent_and_an_invoice_payment_its_invoice() {
    assert_eq!(invoice_of(&json!({ "id": "inpay_1", "invoice": "in_1" })), Ok(of("in_1")));
    assert!(invoice_of(&json!({ "id": "inpay_1" })).is_err());
    assert_eq!(intent_of(&json!({ "id": "re_1", "payment_intent": "pi_1" })), Ok(of("pi_1")));
    assert!(intent_of(&json!({ "id": "re_1", "payment_intent": null })).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(body in any::<Vec<u8>>()) {
        webhook(ProviderKind::Stripe, &body);
    }

    #[test]
    fn a_cut_or_changed_event_never_names_an_object_that_it_did_not_have(
        place in 0..300_usize, byte in any::<u8>(),
    ) {
        let event = event("charge.refunded", &json!({ "id": "ch_1", "payment_intent": "pi_1" }));
        let mut body = event.to_string().into_bytes();
        let place = place % body.len();

        let cut = webhook(ProviderKind::Stripe, &body[..place]);
        let refused = matches!(cut, Webhook::Unreadable { .. });
        prop_assert!(refused);
        body[place] = byte;
        webhook(ProviderKind::Stripe, &body);
    }
}
