//! The mapping of Lemon Squeezy's subscriptions, row by row.

use proptest::prelude::*;
use serde_json::{Value, json};
use subscription_core::providers::{
    Finding, FoundItem, FoundObject, FoundSubscription, ObjectKind, PauseMeans, ProviderKind, Sold,
    Unmapped, map,
};
use subscription_core::subscriptions::Renewal;
use subscription_core::{Quantity, SubscriptionStatus};
use test_support::service_world::{at, of};

pub(crate) const CREATED: &str = "2026-01-05T09:00:00.000000Z";
const RENEWS: &str = "2026-02-05T09:00:00.000000Z";
const TRIAL_ENDS: &str = "2026-01-19T09:00:00.000000Z";
const ENDS: &str = "2026-03-05T09:00:00.000000Z";
const RESUMES: &str = "2026-04-01T00:00:00.000000Z";

/// Maps an object of Lemon Squeezy.
pub(crate) fn mapped(kind: ObjectKind, object: &Value) -> Result<Finding, Unmapped> {
    map(ProviderKind::LemonSqueezy, kind, object, PauseMeans::default())
}

/// An object with some attributes replaced.
pub(crate) fn changed(mut object: Value, attributes: &Value) -> Value {
    for (name, value) in attributes.as_object().unwrap() {
        let all = object.get_mut("attributes").and_then(Value::as_object_mut).unwrap();
        all.insert(name.clone(), value.clone());
    }
    object
}

/// The place at which an object cannot be read.
pub(crate) fn unreadable_at(kind: ObjectKind, object: &Value) -> String {
    match mapped(kind, object) {
        Err(Unmapped::Unreadable { path }) => path.into(),
        other => panic!("{other:?}"),
    }
}

/// An active subscription, as the API returns it.
fn active() -> Value {
    json!({ "type": "subscriptions", "id": "4711", "attributes": {
        "store_id": 7, "customer_id": 31, "order_id": 88, "product_id": 500, "variant_id": 501,
        "product_name": "Tea", "variant_name": "Monthly", "user_name": "Ada",
        "user_email": "ada@example.com", "status": "active", "status_formatted": "Active",
        "pause": null, "cancelled": false, "trial_ends_at": null, "billing_anchor": 5,
        "first_subscription_item": {
            "id": 9, "subscription_id": 4711, "price_id": 77, "quantity": 3, "is_usage_based": false,
        },
        "urls": {
            "customer_portal": "https://tea.lemonsqueezy.com/billing?expires=1&user=31&signature=abc",
        },
        "renews_at": RENEWS, "ends_at": null, "created_at": CREATED, "updated_at": CREATED,
        "test_mode": false,
    }, "links": { "self": "https://elsewhere.example/v1/subscriptions/4711" } })
}

fn found(attributes: &Value) -> FoundSubscription {
    match mapped(ObjectKind::Subscription, &changed(active(), attributes)) {
        Ok(Finding::Subscription(found)) => found,
        other => panic!("{attributes}: {other:?}"),
    }
}

#[test]
fn every_field_of_a_subscription_is_mapped() {
    let found = found(&json!({}));

    assert_eq!(
        found,
        FoundSubscription {
            object: FoundObject {
                id: of("4711"),
                live: true,
                customer: Some(of("31")),
                user_id: None,
                email: Some(of("ada@example.com")),
            },
            external_id: of("ls_4711"),
            former_id: Some(of("4711")),
            status: SubscriptionStatus::Active,
            starts_at: at(CREATED),
            trial_ends_at: None,
            resumes_at: None,
            manage_url: Some(of("https://tea.lemonsqueezy.com/billing")),
            items: vec![FoundItem {
                sold: Sold { price: Some(of("501")), product: Some(of("500")) },
                quantity: Quantity::new(3).unwrap(),
                price: None,
                billing_cycle: None,
                period_start: None,
                renews_at: Renewal::At(at(RENEWS)),
                ends_at: None,
            }],
        }
    );
}

#[test]
fn every_status_has_its_row() {
    use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Unpaid};
    let (none, kept) = (None::<&str>, Renewal::Kept);
    let pause = |mode: &str| json!({ "mode": mode, "resumes_at": RESUMES });
    // All dates are there, so a row that reads one too many is found.
    for (attributes, status, trial_ends_at, resumes_at, renews_at, ends_at) in [
        (
            json!({ "status": "on_trial" }),
            OnTrial,
            Some(TRIAL_ENDS),
            none,
            Renewal::At(at(TRIAL_ENDS)),
            none,
        ),
        (
            json!({ "status": "on_trial", "trial_ends_at": null }),
            OnTrial,
            none,
            none,
            Renewal::At(at(RENEWS)),
            none,
        ),
        (json!({ "status": "active" }), Active, none, none, Renewal::At(at(RENEWS)), none),
        (json!({ "status": "past_due" }), PastDue, none, none, kept, none),
        (json!({ "status": "unpaid" }), Unpaid, none, none, kept, none),
        (json!({ "status": "paused" }), Paused, none, Some(RESUMES), kept, none),
        (json!({ "status": "pause" }), Paused, none, Some(RESUMES), kept, none),
        (
            json!({ "status": "paused", "pause": { "mode": "void" } }),
            Paused,
            none,
            none,
            kept,
            none,
        ),
        (
            json!({ "status": "paused", "pause": pause("free") }),
            Active,
            none,
            Some(RESUMES),
            kept,
            none,
        ),
        (json!({ "status": "pause", "pause": { "mode": "free" } }), Active, none, none, kept, none),
        (json!({ "status": "cancelled" }), Cancelled, none, none, Renewal::None, Some(ENDS)),
        (json!({ "status": "expired" }), Expired, none, none, Renewal::None, Some(ENDS)),
    ] {
        let dates = json!({ "trial_ends_at": TRIAL_ENDS, "ends_at": ENDS, "pause": pause("void") });
        let all = changed(json!({ "attributes": dates }), &attributes);

        let found = found(&all["attributes"]);

        assert_eq!(found.status, status, "{attributes}");
        assert_eq!(found.trial_ends_at, trial_ends_at.map(at), "{attributes}");
        assert_eq!(found.resumes_at, resumes_at.map(at), "{attributes}");
        assert_eq!(found.items[0].renews_at, renews_at, "{attributes}");
        assert_eq!(found.items[0].ends_at, ends_at.map(at), "{attributes}");
    }
}

#[test]
fn the_quantity_is_1_without_an_item_and_with_billing_by_usage() {
    for (item, quantity) in [
        (json!(null), 1),
        (json!({ "quantity": 1_000_000, "is_usage_based": false }), 1_000_000),
        (json!({ "quantity": 5 }), 5),
        (json!({ "quantity": 0, "is_usage_based": true }), 1),
    ] {
        let found = found(&json!({ "first_subscription_item": item }));

        assert_eq!(found.items[0].quantity, Quantity::new(quantity).unwrap(), "{item}");
    }
}

#[test]
fn the_page_of_the_subscriber_is_https_and_has_no_query() {
    let page = "https://tea.lemonsqueezy.com/billing";
    for (url, expected) in [
        (json!("https://tea.lemonsqueezy.com/billing?expires=1&signature=abc#top"), Some(page)),
        (json!("https://tea.lemonsqueezy.com/billing#?signature=abc"), Some(page)),
        (json!("https://tea.lemonsqueezy.com/billing"), Some(page)),
        (json!("http://tea.lemonsqueezy.com/billing?signature=abc"), None),
        (json!("javascript:alert(1)"), None),
        (json!("https://"), None),
        (json!("https://tea.example/\"><script>"), None),
        (json!(17), None),
        (json!(null), None),
    ] {
        let found = found(&json!({ "urls": { "customer_portal": url } }));

        assert_eq!(found.manage_url.as_ref().map(AsRef::as_ref), expected, "{url}");
        assert!(!format!("{found:?}").contains("signature"), "{url}: {found:?}");
    }
    assert_eq!(found(&json!({ "urls": null })).manage_url, None);
}

#[test]
fn an_address_that_is_none_of_ours_is_left_out() {
    for email in [json!("no address"), json!(null), json!(5)] {
        assert_eq!(found(&json!({ "user_email": email })).object.email, None, "{email}");
    }
}

#[test]
fn test_data_is_not_live() {
    assert!(!found(&json!({ "test_mode": true })).object.live);
}

/// A subscription that cannot be read says where.
#[test]
fn nothing_is_guessed() {
    let paused = |pause: Value| json!({ "status": "paused", "pause": pause });
    for (attributes, path) in [
        (json!({ "status": "frozen" }), "/attributes/status"),
        (json!({ "status": "Active" }), "/attributes/status"),
        (json!({ "status": null }), "/attributes/status"),
        (json!({ "renews_at": null }), "/attributes/renews_at"),
        (json!({ "renews_at": 1_767_603_600 }), "/attributes/renews_at"),
        (json!({ "renews_at": "soon" }), "/attributes/renews_at"),
        (json!({ "status": "on_trial", "trial_ends_at": "soon" }), "/attributes/trial_ends_at"),
        (json!({ "status": "on_trial", "renews_at": null }), "/attributes/renews_at"),
        (json!({ "status": "cancelled" }), "/attributes/ends_at"),
        (json!({ "status": "expired" }), "/attributes/ends_at"),
        (paused(json!(null)), "/attributes/pause/mode"),
        (paused(json!({ "mode": "half" })), "/attributes/pause/mode"),
        (paused(json!({ "mode": "void", "resumes_at": "soon" })), "/attributes/pause/resumes_at"),
        (json!({ "created_at": null }), "/attributes/created_at"),
        (json!({ "created_at": "1969-12-31T23:59:59Z" }), "/attributes/created_at"),
        (json!({ "variant_id": null }), "/attributes/variant_id"),
        (json!({ "product_id": 1.5 }), "/attributes/product_id"),
        (json!({ "customer_id": -1 }), "/attributes/customer_id"),
        (json!({ "test_mode": "false" }), "/attributes/test_mode"),
        (json!({ "test_mode": null }), "/attributes/test_mode"),
        (
            json!({ "first_subscription_item": { "quantity": 0 } }),
            "/attributes/first_subscription_item/quantity",
        ),
        (
            json!({ "first_subscription_item": { "quantity": 1_000_001 } }),
            "/attributes/first_subscription_item/quantity",
        ),
        (json!({ "first_subscription_item": {} }), "/attributes/first_subscription_item/quantity"),
    ] {
        let object = changed(active(), &attributes);
        assert_eq!(unreadable_at(ObjectKind::Subscription, &object), path, "{attributes}");
    }
}

#[test]
fn an_object_of_another_type_is_refused() {
    for kind in ObjectKind::ALL {
        if kind != ObjectKind::Subscription {
            assert_eq!(unreadable_at(kind, &active()), "/type", "{kind:?}");
        }
    }
    for object in [json!(null), json!([]), json!({ "type": "subscription", "id": "1" })] {
        assert_eq!(unreadable_at(ObjectKind::Subscription, &object), "/type", "{object}");
    }
    let mut object = active();
    object["id"] = json!("1/../2");
    assert_eq!(unreadable_at(ObjectKind::Subscription, &object), "/id");
}

/// Any JSON of a few levels.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(json!("paid")),
        Just(json!(CREATED)),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let fields = prop::collection::btree_map(any_name(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    let known =
        vec!["meta", "page", "data", "id", "type", "mode", "quantity", "total", "custom_data"];
    prop_oneof![prop::sample::select(known).prop_map(str::to_owned), "[a-z_]{0,12}"]
}

proptest! {
    /// One attribute of an object is replaced by something else.
    #[test]
    fn no_attribute_makes_it_panic(at in any::<prop::sample::Index>(), value in any_json()) {
        let mut object = active();
        let names: Vec<String> =
            object["attributes"].as_object().unwrap().keys().cloned().collect();
        object["attributes"][at.get(&names)] = value;

        let _ = mapped(ObjectKind::Subscription, &object);
    }

    #[test]
    fn no_object_makes_it_panic(value in any_json(), attributes in any_json()) {
        for kind in ObjectKind::ALL {
            let _ = mapped(kind, &value);
        }
        for (name, kind) in [
            ("subscriptions", ObjectKind::Subscription),
            ("subscription-invoices", ObjectKind::Invoice),
            ("orders", ObjectKind::Order),
        ] {
            let _ = mapped(kind, &json!({ "type": name, "id": "1", "attributes": attributes }));
        }
    }
}
