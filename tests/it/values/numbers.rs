//! Exact numbers: amounts digit for digit, and whole numbers in a range.

use rust_decimal::Decimal;
use subscription_core::{Amount, Bounded, FaultCode};

#[test]
fn amounts_survive_json_byte_for_byte() {
    for text in [
        "0",
        "0.00",
        "19.99",
        "0.10",
        "123456789012345.123456",
        "999999999999999.999999",
        "0.000001",
        "100",
    ] {
        let read: Amount = serde_json::from_str(text).unwrap();
        let read_from_string: Amount = serde_json::from_str(&format!("\"{text}\"")).unwrap();

        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read, read_from_string, "{text}");
    }
}

#[test]
fn refuses_what_is_no_plain_number_or_too_long() {
    let million_digits = "9".repeat(1_000_000);
    let cases = [
        ("", FaultCode::BadFormat),
        (".5", FaultCode::BadFormat),
        ("5.", FaultCode::BadFormat),
        ("1.2.3", FaultCode::BadFormat),
        ("+1", FaultCode::BadFormat),
        ("--1", FaultCode::BadFormat),
        ("007", FaultCode::BadFormat),
        ("1e5", FaultCode::BadFormat),
        ("1e999999", FaultCode::BadFormat),
        ("NaN", FaultCode::BadFormat),
        ("Infinity", FaultCode::BadFormat),
        ("1_000", FaultCode::BadFormat),
        (" 1", FaultCode::BadFormat),
        ("١", FaultCode::BadFormat),
        ("-1", FaultCode::OutOfRange),
        ("-0", FaultCode::OutOfRange),
        ("0.0000001", FaultCode::OutOfRange),
        ("1000000000000000", FaultCode::OutOfRange),
        (million_digits.as_str(), FaultCode::OutOfRange),
    ];
    for (given, expected) in cases {
        let refused = given.parse::<Amount>().unwrap_err();

        assert_eq!(refused.code(), expected, "{}", given.get(..20).unwrap_or(given));
    }
}

#[test]
fn a_decimal_that_is_out_of_range_is_no_amount() {
    assert!(Amount::try_from(Decimal::MAX).is_err());
    assert!(Amount::try_from(Decimal::NEGATIVE_ONE).is_err());
    assert_eq!(Amount::try_from(Decimal::new(1990, 2)).unwrap().to_string(), "19.90");
}

#[test]
fn whole_numbers_keep_to_their_range() {
    type Quota = Bounded<9_007_199_254_740_991>;
    let cases = [
        ("0", Ok(0)),
        ("9007199254740991", Ok(9_007_199_254_740_991)),
        ("9007199254740992", Err(FaultCode::OutOfRange)),
        ("-1", Err(FaultCode::OutOfRange)),
        ("99999999999999999999999", Err(FaultCode::OutOfRange)),
        ("1.0", Err(FaultCode::WrongType)),
        ("1e3", Err(FaultCode::WrongType)),
        ("", Err(FaultCode::WrongType)),
    ];
    for (given, expected) in cases {
        let read = given.parse::<Quota>().map(Quota::get).map_err(|refused| refused.code());

        assert_eq!(read, expected, "{given}");
    }
}
