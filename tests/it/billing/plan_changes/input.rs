//! The JSON of a change of plan.

use subscription_core::subscriptions::AgreedQuote;
use subscription_core::{BillingCycle, Effective, InputError, PlanChange, PlanId, Proration};
use test_support::billing::life::other_plan;
use test_support::service_world::{at, faults, of};

use super::{HALF, monthly, seats};

const ID: &str = "0195a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

fn read(json: &str) -> Result<PlanChange, InputError> {
    PlanChange::from_json(json.as_bytes())
}

#[test]
fn one_field_is_enough_and_the_rest_has_defaults() {
    let id: PlanId = of(ID);
    let yearly = PlanChange::default().with_billing_cycle(BillingCycle::YEARLY);

    for (json, expected) in [
        (format!(r#"{{"subscription_plan_id":"{ID}"}}"#), PlanChange::to_plan(id)),
        (r#"{"quantity":5}"#.into(), PlanChange::to_quantity(seats(5))),
        (r#"{"billing_cycle":"yearly"}"#.into(), yearly),
    ] {
        let change = read(&json).unwrap();

        assert_eq!(change, expected);
        assert_eq!((change.effective, change.proration), (Effective::Now, Proration::Prorated));
        assert_eq!(change.agreed, None);
    }
}

#[test]
fn every_field_is_read() {
    let json = format!(
        r#"{{"subscription_plan_id":"{ID}","billing_cycle":"monthly","quantity":3,
            "effective":"period_end","proration":"none",
            "at":"{HALF}","amount_due":13.33,"next_amount":29.90,"credit_after":0.5}}"#
    );
    let mut expected = PlanChange::to_plan(of(ID))
        .with_billing_cycle(BillingCycle::MONTHLY)
        .with_quantity(seats(3))
        .at_period_end()
        .unprorated();
    expected.agreed = Some(AgreedQuote {
        at: at(HALF),
        amount_due: of("13.33"),
        next_amount: Some(of("29.90")),
        credit_after: Some(of("0.5")),
    });

    assert_eq!(read(&json).unwrap(), expected);
}

#[test]
fn the_next_amount_may_be_absent_or_null() {
    for next in ["", r#","next_amount":null"#] {
        let json = format!(r#"{{"quantity":5,"at":"{HALF}","amount_due":0{next}}}"#);

        let agreed = read(&json).unwrap().agreed.unwrap();

        assert_eq!((agreed.at, agreed.amount_due, agreed.next_amount), (at(HALF), of("0"), None));
    }
}

#[test]
fn a_quote_is_agreed_to_by_its_moment_and_its_amounts() {
    let to = other_plan("20", "USD", "monthly");
    let change = PlanChange::to_plan(to.id);
    let quote = monthly("10").quote(Some(&to), &change).unwrap();

    let agreed = change.as_quoted(&quote).agreed.unwrap();

    assert_eq!((agreed.at, agreed.amount_due), (quote.at, of("10.00")));
    assert_eq!(agreed.next_amount, Some(of("20.00")));
    let json = serde_json::to_value(agreed).unwrap();
    assert!(json.get("next_amount").is_some());
    let without = AgreedQuote { next_amount: None, ..agreed };
    assert!(serde_json::to_value(without).unwrap().get("next_amount").is_none());
}

#[test]
fn something_must_change() {
    for json in ["{}", r#"{"effective":"now"}"#, r#"{"proration":"none","effective":"period_end"}"#]
    {
        assert_eq!(faults(read(json)), ["subscription_plan_id required"], "{json}");
    }
}

#[test]
fn the_moment_and_the_amount_of_a_quote_come_together() {
    for (fields, expected) in [
        (format!(r#""at":"{HALF}""#), vec!["amount_due required"]),
        (r#""amount_due":1"#.into(), vec!["at required"]),
        (r#""next_amount":1"#.into(), vec!["at required", "amount_due required"]),
        (format!(r#""next_amount":1,"at":"{HALF}""#), vec!["amount_due required"]),
        (r#""next_amount":null,"amount_due":1"#.into(), vec!["at required"]),
        // One that is wrong is not missing.
        (r#""at":"soon","amount_due":1"#.into(), vec!["at bad_format"]),
        (r#""at":null,"amount_due":1"#.into(), vec!["at null_not_allowed"]),
    ] {
        assert_eq!(faults(read(&format!(r#"{{"quantity":5,{fields}}}"#))), expected, "{fields}");
    }
}

#[test]
fn all_faults_come_at_once() {
    let all = r#"{"subscription_plan_id":"x","billing_cycle":"never","quantity":0,
        "effective":"soon","proration":"half","at":"yesterday","amount_due":-1,"next_amount":"x",
        "colour":"red"}"#;
    assert_eq!(
        faults(read(all)),
        [
            "subscription_plan_id bad_format",
            "billing_cycle not_allowed_value",
            "quantity out_of_range",
            "effective not_allowed_value",
            "proration not_allowed_value",
            "at bad_format",
            "amount_due out_of_range",
            "next_amount bad_format",
            "colour unknown_field",
        ]
    );
    let nulls = r#"{"subscription_plan_id":null,"billing_cycle":null,"quantity":null,
        "effective":null,"proration":null,"at":null,"amount_due":null,"next_amount":null}"#;
    let fields = [
        "subscription_plan_id",
        "billing_cycle",
        "quantity",
        "effective",
        "proration",
        "at",
        "amount_due",
    ];
    assert_eq!(faults(read(nulls)), fields.map(|field| format!("{field} null_not_allowed")));
    assert_eq!(faults(read("[]")), [" wrong_type"]);
    assert!(matches!(read("{"), Err(InputError::Malformed(_))));
    let twice = r#"{"quantity":1,"quantity":1}"#;
    assert!(matches!(read(twice), Err(InputError::Malformed(_))));
}
