//! The policy, as a settings file has it.

use subscription_core::billing::{Activation, AfterDunning, Policy};
use test_support::service_world::of;

fn read(text: &str) -> Result<Policy, String> {
    serde_json::from_str(text).map_err(|refused| refused.to_string())
}

#[test]
fn what_is_absent_has_its_default() {
    let policy = read("{}").unwrap();

    assert_eq!(policy, Policy::default());
    let spans: Vec<_> =
        (0..5).map(|nth| policy.dunning.next(nth).map(|span| span.to_string())).collect();
    let expected = [Some("P1D"), Some("P3D"), Some("P5D"), Some("P5D"), None];
    assert_eq!(spans, expected.map(|span| span.map(str::to_owned)));
    assert_eq!(policy.remind_before, Some(of("P3D")));
    assert_eq!(policy.missed_periods_max.get(), 3);
}

#[test]
fn every_key_is_read() {
    let policy = read(
        r#"{"dunning":["P1W"],"after_dunning":"expired","activation":"on_payment",
            "remind_before":"P1M","missed_periods_max":0}"#,
    )
    .unwrap();

    let retries = [policy.dunning.next(0), policy.dunning.next(1)];
    assert_eq!(retries, [Some(of("P1W")), None]);
    assert_eq!(policy.after_dunning, AfterDunning::Expired);
    assert_eq!(policy.activation, Activation::OnPayment);
    assert_eq!(policy.remind_before, Some(of("P1M")));
    assert_eq!(policy.missed_periods_max.get(), 0);
    for off in ["null", r#""off""#] {
        let policy = read(&format!(r#"{{"remind_before":{off}}}"#)).unwrap();
        assert_eq!(policy.remind_before, None);
    }
}

#[test]
fn a_value_that_is_refused_says_what_is_allowed() {
    let many = vec![r#""P1D""#; 16].join(",");
    for (text, expected) in [
        (format!(r#"{{"dunning":[{many}]}}"#), "must have at most 15 durations"),
        (r#"{"dunning":["1 day"]}"#.to_owned(), "must be an ISO 8601 duration of one unit"),
        (r#"{"after_dunning":"cancelled"}"#.to_owned(), "must be one of unpaid, expired"),
        (r#"{"activation":"later"}"#.to_owned(), "must be one of at_start, on_payment"),
        (r#"{"remind_before":"never"}"#.to_owned(), "such as P14D or P1M, or off"),
        (r#"{"missed_periods_max":367}"#.to_owned(), "must be from 0 to 366"),
    ] {
        let refused = read(&text).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(read(&format!(r#"{{"dunning":[{}]}}"#, vec![r#""P1D""#; 15].join(","))).is_ok());
}
