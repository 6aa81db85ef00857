//! Inputs as JSON: every fault at once, every field that is not theirs refused.

use serde_json::{Value, json};
use subscription_core::{
    Error, Field, InputError, MalformedJson, NewPayment, NewPlan, NewSubscription, PaymentChanges,
    PlanChanges, SubscriptionChanges,
};
use test_support::service_world::{faults, of};

type Reader = fn(&[u8]) -> Result<(), InputError>;

fn readers() -> [(&'static str, Reader, Value); 6] {
    let id = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";
    let subscription = json!({
        "user_id": id, "subscription_plan_id": id, "external_subscription_id": "sub_1",
        "billing_cycle": "yearly", "status": "active", "is_active": true,
        "renews_at": "2025-02-28T00:00:00.000000Z", "starts_at": "2025-01-31T00:00:00.000000Z",
        "ends_at": "2026-01-31T00:00:00.000000Z", "metadata": { "a": "b" },
    });
    let payment = json!({
        "subscription_id": id, "amount": 19.99, "currency": "USD",
        "external_payment_id": "pay_1", "status": "succeeded", "metadata": { "a": "b" },
    });
    [
        (
            "NewPlan",
            |json| NewPlan::from_json(json).map(drop),
            json!({
                "name": "Pro", "product_id": "prod_1", "variants": ["a", "b"], "slug": "pro",
                "price": 19.99, "href": "https://example.com", "billing_cycle": "monthly",
                "description": "a\nb", "node_quota": 5, "features": "a,b", "most_popular": true,
                "tier": 1, "metadata": { "a": "b" },
            }),
        ),
        (
            "PlanChanges",
            |json| PlanChanges::from_json(json).map(drop),
            json!({
                "price": 19.99, "billing_cycle": "monthly", "description": "", "node_quota": 5,
                "features": "", "most_popular": true, "tier": 1, "is_active": false,
                "metadata": { "a": "b" },
            }),
        ),
        (
            "NewSubscription",
            |json| NewSubscription::from_json(json).map(drop),
            subscription.clone(),
        ),
        (
            "SubscriptionChanges",
            |json| SubscriptionChanges::from_json(json).map(drop),
            subscription,
        ),
        ("NewPayment", |json| NewPayment::from_json(json).map(drop), payment.clone()),
        ("PaymentChanges", |json| PaymentChanges::from_json(json).map(drop), payment),
    ]
}

fn told(read: Reader, input: &Value) -> Vec<String> {
    match read(input.to_string().as_bytes()) {
        Ok(()) => Vec::new(),
        refused => faults(refused),
    }
}

#[test]
fn every_field_of_every_input_is_taken() {
    for (name, read, full) in readers() {
        assert_eq!(told(read, &full), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_the_server_sets_cannot_be_sent() {
    for (name, read, full) in readers() {
        for field in
            ["id", "created_at", "updated_at", "version", "blocked", "anchor_at", "is_admin"]
        {
            let mut input = full.clone();
            input[field] = json!("x");

            assert_eq!(told(read, &input), [format!("{field} unknown_field")], "{name}");
        }
    }
    let mut renamed = readers()[1].2.clone();
    renamed["slug"] = json!("other");
    assert_eq!(told(readers()[1].1, &renamed), ["slug unknown_field"]);
}

#[test]
fn a_value_of_a_wrong_type_is_told_for_every_field_of_every_input() {
    for (name, read, full) in readers() {
        for field in full.as_object().unwrap().keys() {
            // An empty object is no metadata.
            for wrong in [json!({ "a": 1 }), json!([[]])] {
                let mut input = full.clone();
                input[field] = wrong.clone();

                let told = told(read, &input);

                assert_eq!(told.len(), 1, "{name} {field} {wrong}: {told:?}");
                assert!(told[0].ends_with(" wrong_type"), "{name} {field} {wrong}: {told:?}");
            }
        }
    }
}

#[test]
fn control_characters_are_refused_in_every_text() {
    for (name, read, full) in readers() {
        for (field, value) in full.as_object().unwrap() {
            if !value.is_string() {
                continue;
            }
            let mut input = full.clone();
            input[field] = json!("a\u{0}b");

            let told = told(read, &input);

            assert_eq!(told.len(), 1, "{name} {field}: {told:?}");
            assert!(!told[0].ends_with(" wrong_type"), "{name} {field}: {told:?}");
        }
    }
}

#[test]
fn null_is_taken_only_where_a_field_may_be_empty() {
    let nullable = [
        "product_id",
        "href",
        "external_subscription_id",
        "renews_at",
        "ends_at",
        "external_payment_id",
        "metadata",
    ];
    for (name, read, full) in readers() {
        for field in full.as_object().unwrap().keys() {
            let mut input = full.clone();
            input[field] = Value::Null;

            let expected = if nullable.contains(&field.as_str()) {
                vec![]
            } else {
                vec![format!("{field} null_not_allowed")]
            };
            assert_eq!(told(read, &input), expected, "{name}");
        }
    }
}

#[test]
fn everything_wrong_is_told_in_one_answer() {
    let input = br#"{
        "name": 5, "slug": "-Bad-", "price": "1e9", "billing_cycle": "fortnightly",
        "product_id": "", "variants": ["ok", "", 7], "href": "javascript:alert(1)",
        "description": "\u0000", "node_quota": 1.0, "features": null, "most_popular": "yes",
        "tier": 10001, "is_active": true
    }"#;

    assert_eq!(
        faults(NewPlan::from_json(input)),
        [
            "name wrong_type",
            "slug bad_format",
            "price bad_format",
            "billing_cycle not_allowed_value",
            "product_id too_short",
            "variants[1] too_short",
            "variants[2] wrong_type",
            "href bad_format",
            "description control_character",
            "node_quota wrong_type",
            "features null_not_allowed",
            "most_popular wrong_type",
            "tier out_of_range",
            "is_active unknown_field",
        ]
    );
    assert_eq!(
        faults(NewSubscription::from_json(
            br#"{"user_id": "me", "status": "dead", "starts_at": "2025-01-01T00:00:00.000000Z",
                "ends_at": "2024-01-01T00:00:00.000000Z", "renews_at": "soon"}"#
        )),
        [
            "user_id bad_format",
            "subscription_plan_id required",
            "status not_allowed_value",
            "renews_at bad_format",
            "ends_at out_of_range",
        ]
    );
    assert_eq!(
        faults(NewPayment::from_json(br#"{"amount": 0.001, "currency": "USD", "status": 1}"#)),
        ["subscription_id required", "status wrong_type", "amount out_of_range"]
    );
    let half_a_character = br#"{"description": "\ud800"}"#;
    assert_eq!(faults(PlanChanges::from_json(half_a_character)), ["description bad_format"]);
}

#[test]
fn integers_keep_to_their_range() {
    for (quota, expected) in [
        ("0", None),
        ("9007199254740991", None),
        ("9007199254740992", Some("node_quota out_of_range")),
        ("9223372036854775808", Some("node_quota out_of_range")),
        ("-1", Some("node_quota out_of_range")),
        ("1e3", Some("node_quota wrong_type")),
        ("\"5\"", Some("node_quota wrong_type")),
    ] {
        let json = format!(r#"{{"node_quota": {quota}}}"#);

        let result = PlanChanges::from_json(json.as_bytes());

        match expected {
            None => assert_eq!(result.unwrap().node_quota.unwrap().to_string(), quota),
            Some(expected) => assert_eq!(faults(result), [expected], "{quota}"),
        }
    }
}

fn malformed(json: &[u8]) -> MalformedJson {
    match PlanChanges::from_json(json) {
        Err(InputError::Malformed(malformed)) => malformed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for json in [
        "",
        "{",
        "{\"a\":1",
        "{\"a\":1}x",
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{'a':1}",
        "{\"a\":1,}",
        "{\"a\":\"\n\"}",
        "nul",
    ] {
        let found = malformed(json.as_bytes());

        assert!(!found.message.contains("line"), "{json}: {found}");
    }
    assert!(malformed(b"{\"a\":\"\xff\"}").message.contains("unicode"));
    let found = malformed(b"{\n  \"a\": oops\n}");
    assert_eq!((found.line, found.column), (2, 8));
}

#[test]
fn a_repeated_field_is_malformed_even_if_spelled_with_escapes() {
    let found = malformed(b"{\"ab\":1,\n\"\\u0061b\":2}");

    assert_eq!(found.message, "repeated field \"ab\"");
    assert_eq!(found.line, 2);
}

#[test]
fn deep_nesting_costs_nothing_and_breaks_nothing() {
    let open = "[".repeat(100_000);
    malformed(open.as_bytes());
    malformed(format!("{{\"tier\":{open}").as_bytes());

    let deep = format!("{open}{}", "]".repeat(100_000));
    let flag = PlanChanges::from_json(format!("{{\"is_active\":{deep}}}").as_bytes());
    let list = NewPlan::from_json(
        format!(r#"{{"name":"a","slug":"a","price":1,"billing_cycle":"day","variants":{deep}}}"#)
            .as_bytes(),
    );

    assert_eq!(faults(flag), ["is_active wrong_type"]);
    assert_eq!(faults(list), ["variants[0] wrong_type"]);
}

#[test]
fn absent_null_and_value_differ() {
    let input = br#"{"ends_at": null, "renews_at": "2025-01-31T00:00:00Z"}"#;

    let changes = SubscriptionChanges::from_json(input).unwrap();

    assert_eq!(changes.ends_at, Field::Null);
    assert_eq!(changes.renews_at, Field::Value(of("2025-01-31T00:00:00Z")));
    assert_eq!(changes.external_subscription_id, Field::Absent);
}

#[test]
fn a_body_of_unknown_fields_alone_gets_a_short_answer() {
    let fields: Vec<_> = (0..10_000).map(|n| format!("\"{n}\":0")).collect();
    let json = format!("{{{}}}", fields.join(","));

    let refused = faults(PlanChanges::from_json(json.as_bytes()));

    assert_eq!(refused.len(), 100);
}

#[test]
fn an_input_that_is_no_object_is_of_the_wrong_type() {
    for json in ["[]", "1", "\"{}\"", "null", " [1, 2] "] {
        let Err(InputError::Invalid(faults)) = PlanChanges::from_json(json.as_bytes()) else {
            panic!("{json}");
        };

        assert_eq!(faults.to_string(), "the input must be a JSON object", "{json}");
    }
}

#[test]
fn malformed_json_is_an_error_of_its_own() {
    let error = Error::from(PlanChanges::from_json(b"{\"tier\": 1,\n \"tier\": 2}").unwrap_err());

    assert_eq!(error.code(), "malformed_json");
    assert_eq!(error.to_string(), "repeated field \"tier\" at line 2, column 7");
}

#[test]
fn values_are_read_in_any_case_and_by_their_aliases() {
    let new = NewSubscription::from_json(
        br#"{"user_id": "01933B6E-7A5C-7CC0-8F3E-2D9C5B1A4E77", "status": "TRIALING",
            "subscription_plan_id": "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77",
            "billing_cycle": "Annual", "starts_at": "2025-01-31T02:00:00.1234567+02:00"}"#,
    )
    .unwrap();

    assert_eq!(new.status, Some(of("on_trial")));
    assert_eq!(new.billing_cycle, Some(of("yearly")));
    assert_eq!(new.starts_at, Some(of("2025-01-31T00:00:00.123456Z")));
}
