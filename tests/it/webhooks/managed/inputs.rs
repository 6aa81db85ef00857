//! The inputs of the calls, with all their faults at once.

use std::time::Duration;

use subscription_core::webhooks::{
    AddressRules, EndpointChanges, FirstEvent, NewEndpoint, Resend, Rewind, Rotation,
};
use test_support::service_world::{at, faults};

fn new(json: &str) -> Result<NewEndpoint, subscription_core::InputError> {
    NewEndpoint::from_json(json.as_bytes(), &AddressRules::default())
}

fn changes(json: &str) -> Result<EndpointChanges, subscription_core::InputError> {
    EndpointChanges::from_json(json.as_bytes(), &AddressRules::default())
}

#[test]
fn a_new_endpoint_has_all_plan_subscription_and_payment_events_from_now_on_by_default() {
    let least = new(r#"{"url":"https://shop.example/hooks?shop=1"}"#).unwrap();

    assert_eq!(least.url.as_str(), "https://shop.example/hooks?shop=1");
    assert_eq!(least.types.iter().map(ToString::to_string).collect::<Vec<_>>(), ["*"]);
    assert_eq!((&*least.description, least.from), ("", FirstEvent::Now));
}

#[test]
fn a_new_endpoint_may_begin_at_a_sequence_or_at_the_start() {
    let from = |json: &str| new(&format!(r#"{{"url":"https://a.example","from":{json}}}"#));

    assert_eq!(from("\"now\"").unwrap().from, FirstEvent::Now);
    assert_eq!(from("\"start\"").unwrap().from, FirstEvent::Start);
    assert_eq!(from("17").unwrap().from, FirstEvent::After(17));
    for (json, code) in [
        ("\"soon\"", "not_allowed_value"),
        ("-1", "out_of_range"),
        ("9223372036854775808", "out_of_range"),
        ("1.5", "wrong_type"),
        ("true", "wrong_type"),
        ("null", "null_not_allowed"),
    ] {
        assert_eq!(faults(from(json)), [format!("from {code}")], "{json}");
    }
}

#[test]
fn all_faults_of_a_new_endpoint_are_told_at_once() {
    let refused = new(
        r#"{"url":"http://a.example","types":["*","client.*","plan.gone"],"description":"a\u0000","from":"x","secret":"s"}"#,
    );

    let expected = [
        "url not_allowed_value",
        "types[1] not_allowed_value",
        "types[2] not_allowed_value",
        "description control_character",
        "from not_allowed_value",
        "secret unknown_field",
    ];
    assert_eq!(faults(refused), expected);
    assert_eq!(faults(new("{}")), ["url required"]);
}

/// Attack W10, and floods of patterns of W9.
#[test]
fn urls_types_and_descriptions_that_are_not_allowed_are_refused() {
    let long = format!("https://a.example/{}", "a".repeat(2_048));
    for url in [
        "ftp://a.example",
        "https://user@a.example",
        "https://:pass@a.example",
        "https://a.example/#part",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://[::1]/",
        "https://localhost./",
        "https://a.example/\\u0000",
        "https://a.example/\\n",
        "no url",
        "",
        &long,
    ] {
        let json = format!(r#"{{"url":"{url}"}}"#);
        assert_eq!(faults(new(&json)), ["url not_allowed_value"], "{url}");
        assert_eq!(faults(changes(&json)), ["url not_allowed_value"], "{url}");
    }
    for (types, fault) in [
        ("[]".to_owned(), "types too_short"),
        (format!("[{}]", vec!["\"*\""; 51].join(",")), "types too_long"),
        (r#"["session.*"]"#.to_owned(), "types[0] not_allowed_value"),
        (r#"["*","client.created"]"#.to_owned(), "types[1] not_allowed_value"),
        (r#"["*\u0000"]"#.to_owned(), "types[0] not_allowed_value"),
        ("[1]".to_owned(), "types[0] wrong_type"),
        ("\"*\"".to_owned(), "types wrong_type"),
        ("null".to_owned(), "types null_not_allowed"),
    ] {
        assert_eq!(faults(changes(&format!(r#"{{"types":{types}}}"#))), [fault], "{types}");
    }
    for (text, fault) in [
        (format!("\"{}\"", "a".repeat(201)), "description too_long"),
        (r#""a\nb""#.to_owned(), "description control_character"),
        (r#""\u009f""#.to_owned(), "description control_character"),
        ("1".to_owned(), "description wrong_type"),
    ] {
        assert_eq!(faults(changes(&format!(r#"{{"description":{text}}}"#))), [fault], "{text}");
    }
    assert_eq!(
        faults(changes(r#"{"enabled":1,"from":1}"#)),
        ["enabled wrong_type", "from unknown_field"]
    );
}

#[test]
fn the_overlap_of_a_rotation_is_from_0_to_72_hours_and_24_by_default() {
    let overlap = |json: &str| Rotation::from_json(json.as_bytes()).map(|it| it.overlap);

    assert_eq!(overlap("").unwrap(), Duration::from_hours(24));
    assert_eq!(overlap("{}").unwrap(), Duration::from_hours(24));
    assert_eq!(overlap(r#"{"overlap_hours":0}"#).unwrap(), Duration::ZERO);
    assert_eq!(overlap(r#"{"overlap_hours":72}"#).unwrap(), Duration::from_hours(72));
    assert_eq!(
        faults(overlap(r#"{"overlap_hours":73,"x":1}"#)),
        ["overlap_hours out_of_range", "x unknown_field"]
    );
    assert_eq!(faults(overlap(r#"{"overlap_hours":"1"}"#)), ["overlap_hours wrong_type"]);
}

#[test]
fn a_rewind_has_one_place_and_a_resend_one_choice() {
    let rewind = |json: &str| Rewind::from_json(json.as_bytes());
    let resend = |json: &str| Resend::from_json(json.as_bytes());

    assert_eq!(rewind(r#"{"to":3}"#).unwrap(), Rewind::To(3));
    let moment = at("2025-01-31T00:00:00.000000Z");
    assert_eq!(rewind(r#"{"since":"2025-01-31T00:00:00Z"}"#).unwrap(), Rewind::Since(moment));
    assert_eq!(faults(rewind("{}")), ["to required"]);
    let both = r#"{"to":"a","since":"b"}"#;
    let expected = ["since not_allowed_value", "to wrong_type", "since bad_format"];
    assert_eq!(faults(rewind(both)), expected);
    assert_eq!(resend(r#"{"sequence":3}"#).unwrap(), Resend::One(3));
    assert_eq!(resend(r#"{"all":true}"#).unwrap(), Resend::All);
    assert_eq!(faults(resend("{}")), ["sequence required"]);
    assert_eq!(faults(resend(r#"{"all":false}"#)), ["all not_allowed_value"]);
    assert_eq!(faults(resend(r#"{"sequence":1,"all":true}"#)), ["all not_allowed_value"]);
}
