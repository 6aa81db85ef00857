//! Metadata of plans, subscriptions and payments: limits, faults, changes.

use serde_json::{Value, json};
use subscription_core::events::Change;
use subscription_core::store::PageLimit;
use subscription_core::{
    Error, ErrorKind, Field, InputError, Metadata, NewPayment, NewPlan, NewSubscription,
    PaymentChanges, PaymentStatus, PlanChanges, SubscriptionChanges,
};
use test_support::service_world::{ServiceWorld, faults, new_plan, of, once, wrong};

const ID: &str = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";

fn metadata<const N: usize>(pairs: [(&str, &str); N]) -> Option<Metadata> {
    Metadata::new(pairs).unwrap()
}

/// Reads metadata by each of the six inputs, which must agree on it.
fn read(json: &str) -> Result<Field<Metadata>, InputError> {
    let plan = r#""name":"Pro","slug":"pro","price":1,"billing_cycle":"monthly""#;
    let subscription = format!(r#""user_id":"{ID}","subscription_plan_id":"{ID}""#);
    let payment = format!(r#""subscription_id":"{ID}","amount":1,"currency":"EUR""#);
    let body = |more: &str| format!("{{{more}\"metadata\":{json}}}").into_bytes();
    let with = |required: &str| body(&format!("{required},"));
    let made = [
        NewPlan::from_json(&with(plan)).map(|new| new.metadata),
        NewSubscription::from_json(&with(&subscription)).map(|new| new.metadata),
        NewPayment::from_json(&with(&payment)).map(|new| new.metadata),
    ];
    let changed = [
        PlanChanges::from_json(&body("")).map(|changes| changes.metadata),
        SubscriptionChanges::from_json(&body("")).map(|changes| changes.metadata),
        PaymentChanges::from_json(&body("")).map(|changes| changes.metadata),
    ];
    let all: Vec<_> = made.into_iter().map(|new| new.map(Field::from)).chain(changed).collect();
    let first = format!("{:?}", all.first());
    assert!(all.iter().all(|read| format!("{:?}", Some(read)) == first), "{all:?}");
    all.into_iter().next().unwrap()
}

/// The faults of each of the six inputs.
fn refused(json: &str) -> Vec<String> {
    faults(read(json))
}

#[test]
fn metadata_at_its_limits_is_taken_as_it_was_sent() {
    let key = |n: usize| format!("{n:é>40}");
    let long: Vec<_> = (0..18).rev().map(|n| (key(n), "é".repeat(500))).collect();
    let short = [(" b ", ""), ("a", " x\u{2028}'\"\\ ")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let pairs: Vec<_> = short.into_iter().chain(long).collect();
    let members: Vec<_> = pairs.iter().map(|(k, v)| format!("{}:{}", json!(k), json!(v))).collect();
    let json = format!("{{{}}}", members.join(","));

    let Field::Value(taken) = read(&json).unwrap() else { panic!("{json}") };

    assert!(taken.iter().eq(pairs.iter().map(|(key, value)| (&**key, &**value))));
    assert_eq!(taken.get("a"), Some(" x\u{2028}'\"\\ "));
    assert_eq!(taken.get("c"), None);
    assert_eq!(serde_json::to_string(&taken).unwrap(), json);
    assert_eq!(serde_json::from_str::<Metadata>(&json).unwrap(), taken);
}

#[test]
fn an_empty_object_and_null_are_no_metadata() {
    assert_eq!(read("{}").unwrap(), Field::Null);
    assert_eq!(read("null").unwrap(), Field::Null);
    assert_eq!(Metadata::new([("", ""); 0]), Ok(None));
}

#[test]
fn metadata_that_is_no_object_of_texts_is_refused() {
    for json in ["[]", "\"a\"", "1", "true", "[{}]", "\"{}\""] {
        assert_eq!(refused(json), ["metadata wrong_type"], "{json}");
    }
    for value in ["1", "true", "null", "[]", "{}", "{\"b\":\"c\"}", "[\"b\"]"] {
        let json = format!("{{\"a\":{value}}}");
        assert_eq!(refused(&json), ["metadata.a wrong_type"], "{json}");
    }
    assert_eq!(refused(r#"{"\ud800":"a"}"#), ["metadata bad_format"]);
    assert_eq!(refused(r#"{"a":"\ud800"}"#), ["metadata.a bad_format"]);
}

#[test]
fn a_key_that_is_there_twice_is_refused_however_it_is_spelled() {
    assert_eq!(refused(r#"{"a":"1","b":"2","\u0061":"3"}"#), ["metadata.a bad_format"]);
    let twice = Metadata::new([("a", "1"), ("a", "1")]).unwrap_err();
    assert_eq!(twice.to_string(), "metadata.a must not be a repeated key");
}

#[test]
fn more_keys_than_twenty_are_one_fault() {
    let pairs: Vec<_> = (0..21).map(|n| format!("\"{n}\":{n}")).collect();

    assert_eq!(refused(&format!("{{{}}}", pairs.join(","))), ["metadata too_long"]);
}

#[test]
fn every_fault_of_a_key_and_of_its_value_is_told_at_once() {
    let (key, value) = ("k".repeat(41), "v".repeat(501));
    let json = json!({ "": "a", "line\n": "a\u{0}", "long": value, key.clone(): 1, "ok": "" });

    let told = refused(&json.to_string());

    let expected = [
        "metadata. too_short".to_owned(),
        format!("metadata.{key} too_long"),
        format!("metadata.{key} wrong_type"),
        "metadata.line\n control_character".to_owned(),
        "metadata.line\n control_character".to_owned(),
        "metadata.long too_long".to_owned(),
    ];
    assert_eq!(told, expected);
    // Beside the faults of other fields.
    let body = br#"{"price":-1,"metadata":{"a":1},"typo":1}"#;
    let told = faults(PlanChanges::from_json(body));
    assert_eq!(told, ["price out_of_range", "metadata.a wrong_type", "typo unknown_field"]);
}

#[test]
fn a_fault_shows_no_more_of_a_key_than_finds_it() {
    let told = refused(&json!({ "k".repeat(10_000): "" }).to_string());

    assert_eq!(told, [format!("metadata.{} too_long", "k".repeat(100))]);
}

#[test]
fn a_record_without_metadata_has_eight_bytes_for_it() {
    assert_eq!(size_of::<Option<Metadata>>(), 8);
}

/// The fields that the last event names.
async fn last_changed(world: &ServiceWorld) -> Vec<String> {
    let events = world.service.events(0, PageLimit::MAX).await.unwrap();
    let change = &events.last().unwrap().event.change;
    let Change::Updated { fields } = change else { panic!("no update, but {change:?}") };
    fields.iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn metadata_is_replaced_whole_cleared_and_named_by_the_event() {
    let world = ServiceWorld::new();
    let first = metadata([("b", "1"), ("a", "2")]);
    let plan = NewPlan { metadata: first.clone(), ..new_plan("pro") };
    let plan = world.service.create_plan(plan).await.unwrap();
    let held = world.subscription(|new| new.metadata = first.clone()).await;
    let payment = world.payment(held.id, |new| new.metadata = first.clone()).await;
    assert_eq!((&plan.metadata, &held.metadata, &payment.metadata), (&first, &first, &first));

    // Another order of the same keys is a change as well.
    let other = metadata([("a", "2"), ("b", "1")]);
    for (version, next) in [(2, other), (3, metadata([("c", "")])), (4, None)] {
        let sent = Field::from(next.clone());
        let changes = PlanChanges { metadata: sent.clone(), ..PlanChanges::default() };
        let plan = world.service.update_plan(&plan.slug, changes).await.unwrap();
        assert_eq!((&plan.metadata, plan.version.get()), (&next, version));
        assert_eq!(last_changed(&world).await, ["metadata"]);

        let changes =
            SubscriptionChanges { metadata: sent.clone(), ..SubscriptionChanges::default() };
        let held = world.service.update_subscription(held.id, changes).await.unwrap();
        assert_eq!((&held.metadata, held.version.get()), (&next, version));
        assert_eq!(last_changed(&world).await, ["metadata"]);

        let changes = PaymentChanges { metadata: sent, ..PaymentChanges::default() };
        let payment = world.service.update_payment(payment.id, changes.clone()).await.unwrap();
        assert_eq!((&payment.metadata, payment.version.get()), (&next, version));
        assert_eq!(last_changed(&world).await, ["metadata"]);
        // The same once more changes nothing.
        let same = world.service.update_payment(payment.id, changes).await.unwrap();
        assert_eq!(same.version.get(), version);
    }
}

#[tokio::test]
async fn a_change_of_other_fields_leaves_metadata_as_it_is() {
    let world = ServiceWorld::new();
    let kept = metadata([("a", "1")]);
    let held = world.subscription(|new| new.metadata = kept.clone()).await;
    let payment = world.payment(held.id, |new| new.metadata = kept.clone()).await;

    let yearly = SubscriptionChanges::from_json(br#"{"billing_cycle":"yearly"}"#).unwrap();
    let held = world.service.update_subscription(held.id, yearly).await.unwrap();
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    let payment = world.service.update_payment(payment.id, paid).await.unwrap();

    assert_eq!((&held.metadata, &payment.metadata), (&kept, &kept));
    assert_eq!(held.expire(world.service.now()).unwrap().metadata, kept);
    // Money has changed hands, but metadata says nothing about it.
    let cleared = PaymentChanges { metadata: Field::Null, ..PaymentChanges::default() };
    assert_eq!(world.service.update_payment(payment.id, cleared).await.unwrap().metadata, None);
}

#[tokio::test]
async fn metadata_is_part_of_the_request_that_a_key_repeats() {
    let world = ServiceWorld::new();
    let create = async |metadata| {
        let new = NewPlan { metadata, ..new_plan("pro") };
        world.service.create_plan_once(new, once("shop", "k1")).await
    };
    let first = create(metadata([("a", "1")])).await.unwrap().record;

    let again = create(metadata([("a", "1")])).await.unwrap();
    let other = create(metadata([("a", "2")])).await;

    assert!(again.replayed && again.record == first);
    assert_eq!(wrong(other), (ErrorKind::Invalid, "idempotency_key_reused"));
    assert_eq!(wrong(create(None).await), (ErrorKind::Invalid, "idempotency_key_reused"));
}

/// Or a request that was begun before an upgrade could not be repeated after it.
#[test]
fn a_request_without_metadata_has_the_fingerprint_of_the_release_before() {
    let inputs: [Value; 3] = [
        serde_json::to_value(new_plan("pro")).unwrap(),
        serde_json::to_value(NewSubscription::new(of(ID), of(ID))).unwrap(),
        serde_json::to_value(NewPayment::new(of(ID), of("1"), of("EUR"))).unwrap(),
    ];

    for input in inputs {
        assert!(input.get("metadata").is_none(), "{input}");
    }
}

#[test]
fn a_record_of_an_earlier_release_reads_without_metadata() {
    let now = of("2025-01-31T00:00:00Z");
    let plan = subscription_core::Plan::create(new_plan("pro"), of(ID), now).unwrap();
    let json = serde_json::to_string(&plan).unwrap();
    let before = json.replace(r#""metadata":null,"#, "");

    assert_ne!(before, json);
    assert_eq!(serde_json::from_str::<subscription_core::Plan>(&before).unwrap(), plan);
    assert!(matches!(Error::from(read("[]").unwrap_err()), Error::Invalid(_)));
}
