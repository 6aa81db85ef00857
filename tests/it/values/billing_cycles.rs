//! Billing cycles by name, by alias and as ISO 8601 durations.

use subscription_core::{BillingCycle, FaultCode};

/// Every cycle that has a name, with its aliases.
const NAMED: [(&str, BillingCycle, &[&str]); 10] = [
    ("daily", BillingCycle::DAILY, &["day"]),
    ("weekly", BillingCycle::WEEKLY, &["week"]),
    ("biweekly", BillingCycle::BIWEEKLY, &[]),
    ("monthly", BillingCycle::MONTHLY, &["month"]),
    ("bimonthly", BillingCycle::BIMONTHLY, &[]),
    ("quarterly", BillingCycle::QUARTERLY, &["quarter"]),
    ("semiannual", BillingCycle::SEMIANNUAL, &["half_yearly", "semi_annual"]),
    ("yearly", BillingCycle::YEARLY, &["annual", "annually", "year"]),
    ("biennial", BillingCycle::BIENNIAL, &[]),
    ("one_time", BillingCycle::ONE_TIME, &["lifetime", "once", "onetime"]),
];

#[test]
fn every_name_and_alias_is_read_in_any_case_and_written_canonically() {
    for (name, cycle, aliases) in NAMED {
        for given in std::iter::once(&name).chain(aliases) {
            assert_eq!(given.parse(), Ok(cycle), "{given}");
            assert_eq!(given.to_uppercase().parse(), Ok(cycle), "{given}");
        }
        assert_eq!(cycle.to_string(), name);
        assert_eq!(format!("{cycle:>10}"), format!("{name:>10}"));
    }
    assert_eq!(BillingCycle::names().collect::<Vec<_>>(), NAMED.map(|(name, ..)| name));
}

#[test]
fn durations_of_one_unit_are_cycles() {
    let cases = [
        ("P14D", "P14D"),
        ("P18M", "P18M"),
        ("p5y", "P5Y"),
        ("P1M", "monthly"),
        ("P2W", "biweekly"),
        ("P007D", "P7D"),
        ("P36500D", "P36500D"),
    ];
    for (given, expected) in cases {
        assert_eq!(given.parse::<BillingCycle>().unwrap().to_string(), expected, "{given}");
    }
}

#[test]
fn refuses_other_lengths() {
    let cases = [
        ("", FaultCode::NotAllowedValue),
        ("fortnightly", FaultCode::NotAllowedValue),
        ("P", FaultCode::NotAllowedValue),
        ("PD", FaultCode::NotAllowedValue),
        ("PT1M", FaultCode::NotAllowedValue),
        ("P1M2D", FaultCode::NotAllowedValue),
        ("P-1M", FaultCode::NotAllowedValue),
        ("P1.5M", FaultCode::NotAllowedValue),
        ("Pé", FaultCode::NotAllowedValue),
        ("P0D", FaultCode::OutOfRange),
        ("P36501D", FaultCode::OutOfRange),
        ("P1201M", FaultCode::OutOfRange),
        ("P99999999999999999999Y", FaultCode::OutOfRange),
    ];
    for (given, expected) in cases {
        let refused = given.parse::<BillingCycle>().unwrap_err();

        assert_eq!(refused.code(), expected, "{given}");
    }
}
