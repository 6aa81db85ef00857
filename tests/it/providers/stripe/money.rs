//! Amounts of Stripe: every currency of ISO 4217.

use serde_json::json;
use subscription_core::Currency;
use subscription_core::providers::{ObjectKind, PauseMeans};
use test_support::service_world::of;

use super::{found_subscription, mapped, subscription, with};

/// The price of a subscription, as text; none if it is unreadable.
fn price(units: i64, currency: &str) -> Option<String> {
    let price = json!({ "unit_amount": units, "currency": currency.to_lowercase() });
    let object = with(subscription(), &json!({ "items": { "data": { "price": price } } }));
    mapped(ObjectKind::Subscription, &object, PauseMeans::Keep).ok()?;
    let (amount, found) = found_subscription(&object, PauseMeans::Keep).items[0].price?;
    assert_eq!(found, of(currency));
    Some(amount.value().to_string())
}

/// Every currency of ISO 4217, found by trying all codes.
fn currencies() -> Vec<Currency> {
    let letters = || b'A'..=b'Z';
    let codes = letters().flat_map(|a| {
        letters()
            .flat_map(move |b| letters().map(move |c| String::from_utf8(vec![a, b, c]).unwrap()))
    });
    codes.filter_map(|code| code.parse().ok()).collect()
}

#[test]
fn every_currency_has_the_digits_that_stripe_uses() {
    let whole = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF";
    let thousandths = "BHD JOD KWD OMR TND";
    let all = currencies();
    assert!(all.len() > 150, "{}", all.len());
    for currency in all {
        let code = currency.code();
        let digits = match code {
            code if whole.contains(code) => 0,
            code if thousandths.contains(code) => 3,
            _ => 2,
        };
        let iso = usize::try_from(currency.digits()).unwrap();
        for units in [0_i64, 1, 99, 100, 101] {
            // The digits of the units, shifted by hand: 101 and 2 digits are 1 and 01.
            let padded = format!("{units:0>width$}", width = digits + 1);
            let (integer, fraction) = padded.split_at(padded.len() - digits);
            let cut = fraction.get(iso..).unwrap_or_default();
            let expected = cut.bytes().all(|digit| digit == b'0').then(|| {
                let kept = &fraction[..fraction.len().min(iso)];
                let point = if iso == 0 { "" } else { "." };
                format!("{integer}{point}{kept:0<iso$}")
            });
            assert_eq!(price(units, code), expected, "{units} {code}");
        }
    }
}

#[test]
fn known_amounts_are_right() {
    for (units, currency, expected) in [
        (1_999, "USD", Some("19.99")),
        (500, "JPY", Some("500")),
        (1_234, "KWD", Some("1.234")),
        (500, "ISK", Some("5")),
        (501, "ISK", None),
        (1_000_000, "UGX", Some("10000")),
        (1_000_050, "UGX", None),
        (5_000, "MGA", Some("5000.00")),
        (250, "MRU", Some("2.50")),
        (-1, "USD", None),
        (i64::MAX, "USD", None),
        (99_999_999_999_999_999, "USD", Some("999999999999999.99")),
        (100_000_000_000_000_000, "USD", None),
    ] {
        assert_eq!(price(units, currency).as_deref(), expected, "{units} {currency}");
    }
}
