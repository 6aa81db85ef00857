//! The currencies of ISO 4217, and their digits.

use subscription_core::{Currency, FaultCode};

#[test]
fn digits_are_those_of_iso_4217() {
    for (code, digits) in [
        ("USD", 2),
        ("eur", 2),
        ("Jpy", 0),
        ("ISK", 0),
        ("KRW", 0),
        ("BHD", 3),
        ("KWD", 3),
        ("CLF", 4),
        ("HUF", 2),
        ("MGA", 2),
    ] {
        let currency: Currency = code.parse().unwrap();

        assert_eq!(currency.digits(), digits, "{code}");
        assert_eq!(currency.to_string(), code.to_uppercase());
        assert_eq!(format!("{currency:?}"), code.to_uppercase());
    }
}

#[test]
fn refuses_what_cannot_be_paid_in() {
    for code in ["", "US", "USDX", "ABC", "U$D", "ＵＳＤ", "XAU", "XXX", "XTS", "BGN", "HRK"] {
        let refused = code.parse::<Currency>().unwrap_err();

        assert_eq!(refused.code(), FaultCode::NotAllowedValue, "{code}");
    }
}
