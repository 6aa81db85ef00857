//! Decimals through JSON: digit for digit, and bombs refused before they go off.

use std::time::Instant;

use proptest::prelude::*;
use rust_decimal::Decimal;
use subscription_core::{Amount, NewPlan, Plan, PlanId, Timestamp};
use test_support::service_world::faults;

fn plan_json(price: &str) -> String {
    format!(r#"{{"name":"Pro","slug":"pro","billing_cycle":"monthly","price":{price}}}"#)
}

fn plan_of(price: &str) -> Plan {
    let new = NewPlan::from_json(plan_json(price).as_bytes()).unwrap();
    Plan::create(new, PlanId::from(uuid::Uuid::nil()), Timestamp::MIN).unwrap()
}

#[test]
fn a_price_survives_byte_for_byte_from_request_to_answer() {
    for price in ["19.99", "0.10", "123456789012345.123456", "0", "0.000000", "100"] {
        let answer = serde_json::to_string(&plan_of(price)).unwrap();

        assert!(answer.contains(&format!(r#""price":{price},"#)), "{answer}");
        assert_eq!(serde_json::from_str::<Plan>(&answer).unwrap(), plan_of(price), "{price}");
    }
    assert_eq!(plan_of(r#""19.90""#), plan_of("19.90"));
}

#[test]
fn bombs_are_refused_without_being_parsed() {
    let million = "9".repeat(1_000_000);
    let million_fraction = format!("0.{million}");
    let cases = [
        ("1e999999", "price bad_format"),
        ("1e9999999", "price bad_format"),
        ("1E5", "price bad_format"),
        (million.as_str(), "price out_of_range"),
        (million_fraction.as_str(), "price out_of_range"),
        ("\"NaN\"", "price bad_format"),
        ("0.1234567", "price out_of_range"),
        ("1234567890123456", "price out_of_range"),
        ("-0", "price out_of_range"),
        ("-1", "price out_of_range"),
        ("\"\"", "price bad_format"),
        ("true", "price wrong_type"),
        ("[19.99]", "price wrong_type"),
        ("{}", "price wrong_type"),
    ];
    for (price, expected) in cases {
        let refused = NewPlan::from_json(plan_json(price).as_bytes());

        assert_eq!(faults(refused), [expected], "{}", price.get(..20).unwrap_or(price));
    }
    // Told, not asserted: the machine may be busy.
    let begun = Instant::now();
    assert!(million.parse::<Amount>().is_err());
    println!("a million digits were refused in {:?}", begun.elapsed());
}

#[test]
fn what_is_no_json_number_is_no_json() {
    for price in ["NaN", "Infinity", ".5", "5.", "+1", "007", "0x10", "1_000"] {
        let refused = NewPlan::from_json(plan_json(price).as_bytes()).unwrap_err();

        assert!(matches!(refused, subscription_core::InputError::Malformed(_)), "{price}");
    }
}

proptest! {
    #[test]
    fn every_allowed_number_survives(text in "(0|[1-9][0-9]{0,14})(\\.[0-9]{1,6})?") {
        let amount: Amount = serde_json::from_str(&text).unwrap();

        prop_assert_eq!(serde_json::to_string(&amount).unwrap(), text.clone());
        prop_assert_eq!(amount.to_string(), text);
    }

    #[test]
    fn a_number_is_an_amount_if_its_text_is_one(
        (digits, scale) in (prop_oneof![-9..9_i128, -9..10_i128.pow(23)], 0..10_u32),
    ) {
        // Also the numbers beside a power of ten.
        for mantissa in [digits, 10_i128.pow(15 + scale.min(6)) + digits % 2] {
            let number = Decimal::from_i128_with_scale(mantissa, scale);

            let amount = Amount::try_from(number);

            prop_assert_eq!(amount, number.to_string().parse());
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,40}") {
        if let Ok(amount) = text.parse::<Amount>() {
            prop_assert_eq!(amount.to_string(), text);
        }
    }
}
