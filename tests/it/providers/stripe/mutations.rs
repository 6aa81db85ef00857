//! Objects of Stripe that are changed at random: read the same, or unreadable, and never a panic.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use subscription_core::providers::{
    ObjectKind, PauseMeans, email_of, intent_of, invoice_of, session,
};

use super::{former_invoice, former_subscription, invoice, mapped, subscription};

/// Any JSON, of a few levels, with names that the mapping reads.
fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "id",
        "status",
        "items",
        "data",
        "price",
        "payments",
        "payment",
        "payment_intent",
        "lines",
        "parent",
        "latest_charge",
        "disputes",
        "charge",
        "period",
        "metadata",
        "recurring",
        "amount_paid",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["active", "paid", "succeeded", "usd"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(names.clone(), inner, 0..6).prop_map(|fields| {
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

/// The JSON pointers of all values in an object.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{path}/{name}"), found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| places(value, &format!("{path}/{at}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn objects() -> [(ObjectKind, Value); 4] {
    [
        (ObjectKind::Subscription, subscription()),
        (ObjectKind::Subscription, former_subscription()),
        (ObjectKind::Invoice, invoice()),
        (ObjectKind::Invoice, former_invoice()),
    ]
}

/// The fields that may be null or missing, or whose value is free: the mapping may change with them.
const FREE: &[&str] = &[
    "/id",
    "/customer",
    "/customer_email",
    "/metadata",
    "/user_id",
    "/quantity",
    "/unit_amount",
    "/cancel_at",
    "/pause_collection",
    "/billing_reason",
    "/pricing",
    "/price_details",
    "/price",
    "/product",
    "/subscription",
    "/payment_intent",
    "/charge",
    "/amount_paid",
    "/payments",
    "/items/data",
    "/lines/data",
    "/lines/data/0",
];

#[test]
fn a_field_of_a_wrong_type_is_never_mapped_to_something_else() {
    for (kind, object) in objects() {
        let before = mapped(kind, &object, PauseMeans::Stop);
        assert!(before.is_ok(), "{before:?}");
        let mut all = Vec::new();
        places(&object, "", &mut all);
        for place in all {
            for wrong in
                [json!(null), json!("nonsense"), json!(-7), json!([]), json!({}), json!(1.5)]
            {
                let mut changed = object.clone();
                *changed.pointer_mut(&place).unwrap() = wrong.clone();
                let after = mapped(kind, &changed, PauseMeans::Stop);
                let free = FREE.iter().any(|name| place.ends_with(name));
                assert!(
                    after.is_err() || after == before || free,
                    "{kind:?} with {place} = {wrong}: {after:?}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn any_json_is_mapped_or_refused_without_a_panic(value in any_json()) {
        for kind in ObjectKind::ALL {
            for pause in [PauseMeans::Keep, PauseMeans::Stop] {
                let _ = mapped(kind, &value, pause);
            }
        }
        let _ = (session(&value), invoice_of(&value), intent_of(&value), email_of(&value));
    }

    #[test]
    fn any_json_in_any_place_is_mapped_or_refused_without_a_panic(
        which in 0..4_usize, place in any::<prop::sample::Index>(), value in any_json(),
    ) {
        let (kind, mut object) = objects()[which].clone();
        let mut all = Vec::new();
        places(&object, "", &mut all);
        let place = place.get(&all);

        *object.pointer_mut(place).unwrap() = value;

        let _ = mapped(kind, &object, PauseMeans::Stop);
    }
}
