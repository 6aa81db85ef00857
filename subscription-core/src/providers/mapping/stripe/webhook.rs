//! Webhooks of Stripe: which object an event is about. The state in the payload is not read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::providers::mapping::finding::{Hint, Webhook};
use crate::providers::mapping::object::{ObjectId, ObjectKind, ObjectRef};

/// The fields that are read: of an event, of its `data`, and of the object in it. One type serves for all three. Each
/// field is parsed on its own, so that a faulty field can be named. The rest of the body is skipped.
#[derive(Deserialize)]
#[rustfmt::skip]
struct Fields<'a> {
    #[serde(borrow)] id: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")] event_type: Option<&'a RawValue>,
    #[serde(borrow)] livemode: Option<&'a RawValue>,
    #[serde(borrow)] data: Option<&'a RawValue>,
    #[serde(borrow)] object: Option<&'a RawValue>,
    #[serde(borrow)] related_object: Option<&'a RawValue>,
    #[serde(borrow)] invoice: Option<&'a RawValue>,
    #[serde(borrow)] payment_intent: Option<&'a RawValue>,
}

/// The field of the event's object that has the id of the object to fetch from Stripe.
#[derive(Clone, Copy)]
enum Named {
    Id,
    Invoice,
    PaymentIntent,
}

/// The type of the object that events of a type are about, and the field that has its id; `None` if this service does
/// not use events of this type.
fn followed(event_type: &str) -> Option<(ObjectKind, Named)> {
    // The types of thin events (events that contain only the id of their object) about objects of API version 1 have
    // the prefix `v1.`.
    Some(match event_type.strip_prefix("v1.").unwrap_or(event_type) {
        "customer.subscription.trial_will_end" => return None,
        name if name.starts_with("customer.subscription.") => (ObjectKind::Subscription, Named::Id),
        "checkout.session.completed" => (ObjectKind::CheckoutSession, Named::Id),
        "invoice.paid"
        | "invoice.payment_failed"
        | "invoice.voided"
        | "invoice.marked_uncollectible" => (ObjectKind::Invoice, Named::Id),
        "invoice_payment.paid" => (ObjectKind::Invoice, Named::Invoice),
        "charge.refunded" | "charge.dispute.created" | "charge.dispute.closed" => {
            (ObjectKind::PaymentIntent, Named::PaymentIntent)
        }
        "payment_intent.processing" | "payment_intent.canceled" => {
            (ObjectKind::PaymentIntent, Named::Id)
        }
        _ => return None,
    })
}

/// Reads the body of a webhook.
pub(crate) fn webhook(body: &[u8]) -> Webhook {
    let visible =
        |text: &Cow<'_, str>| text.len() <= 100 && text.bytes().all(|b| b.is_ascii_graphic());
    let event: Option<Fields<'_>> = serde_json::from_slice(body).ok();
    let event_type = event.as_ref().and_then(|event| read(event.event_type)).filter(visible);
    let (Some(event), Some(event_type)) = (event, event_type) else {
        return Webhook::Unreadable { event_type: None, path: "/type".into() };
    };
    let Some((kind, named)) = followed(&event_type) else { return Webhook::Unlisted };
    let event_type: Box<str> = event_type.into();
    match hint(&event, named) {
        Ok((event_id, live, Some(id))) => Webhook::Hint(Hint {
            event_type,
            event_id: Some(event_id),
            object: ObjectRef { kind, id },
            live,
            user_id: None,
        }),
        Ok((event_id, ..)) => Webhook::NotASubscription { event_type, event_id: Some(event_id) },
        Err(path) => Webhook::Unreadable { event_type: Some(event_type), path: path.into() },
    }
}

/// The id of the event, true if it is about live data, and the id of the object to fetch, or `None` if the event names
/// no such object. The error is the path of the field that cannot be read.
fn hint(
    event: &Fields<'_>,
    named: Named,
) -> Result<(ObjectId, bool, Option<ObjectId>), &'static str> {
    let event_id = read(event.id).ok_or("/id")?;
    let live = read(event.livemode).ok_or("/livemode")?;
    if let Some(object) = event.related_object {
        // A thin event has only the id of its own object (such as a charge), and no field that names the payment intent
        // or the invoice of this object.
        let Named::Id = named else { return Err("/related_object") };
        let object: Fields<'_> = read(Some(object)).ok_or("/related_object")?;
        return Ok((event_id, live, Some(read(object.id).ok_or("/related_object/id")?)));
    }
    let data: Fields<'_> = read(event.data).ok_or("/data")?;
    let object: Fields<'_> = read(data.object).ok_or("/data/object")?;
    let (id, path) = match named {
        Named::Id => (object.id, "/data/object/id"),
        Named::Invoice => (object.invoice, "/data/object/invoice"),
        Named::PaymentIntent if object.payment_intent.is_none() => {
            return Ok((event_id, live, None));
        }
        Named::PaymentIntent => (object.payment_intent, "/data/object/payment_intent"),
    };
    Ok((event_id, live, Some(read(id).ok_or(path)?)))
}

fn read<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(value?.get()).ok()
}
