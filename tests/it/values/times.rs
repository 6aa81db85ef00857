//! Moments and clocks: RFC 3339 as text, UTC, whole microseconds.

use std::time::Duration;

use chrono::{DateTime, Utc};
use subscription_core::{Clock as _, FaultCode, ManualClock, Timestamp};

#[test]
fn writes_what_chrono_writes_with_six_digits_of_fraction() {
    let mut micros: i64 = 0;
    let mut cases = vec![Timestamp::MIN, Timestamp::MAX];
    // Days, hours and fractions of all kinds; the step is no multiple of any.
    while micros <= Timestamp::MAX.micros() {
        let whole = micros - micros % 1_000_000;
        let moments = [micros, whole, whole + 1_000, whole + 1];
        cases.extend(moments.map(|micros| Timestamp::from_micros(micros).unwrap()));
        micros += 86_399_777_123_457;
    }
    for at in cases {
        let by_chrono =
            DateTime::<Utc>::from(at).to_rfc3339_opts(chrono::SecondsFormat::Micros, true);

        assert_eq!(at.to_string(), by_chrono);
    }
}

#[test]
fn reads_any_offset_and_fraction_and_writes_utc_to_the_microsecond() {
    let cases = [
        ("2025-01-31T00:00:00Z", "2025-01-31T00:00:00.000000Z"),
        ("2025-01-31T00:00:00z", "2025-01-31T00:00:00.000000Z"),
        ("2025-01-31t00:00:00Z", "2025-01-31T00:00:00.000000Z"),
        ("2025-01-31T00:30:00+01:00", "2025-01-30T23:30:00.000000Z"),
        ("2025-01-31T00:00:00-00:30", "2025-01-31T00:30:00.000000Z"),
        ("2025-01-31T00:00:00.5Z", "2025-01-31T00:00:00.500000Z"),
        ("2025-01-31T00:00:00.000001Z", "2025-01-31T00:00:00.000001Z"),
        ("2025-01-31T00:00:00.1234569Z", "2025-01-31T00:00:00.123456Z"),
        ("2025-01-31T00:00:00.123456789012345678Z", "2025-01-31T00:00:00.123456Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ];
    for (given, expected) in cases {
        let read: Timestamp = given.parse().unwrap();

        assert_eq!(read.to_string(), expected, "{given}");
        assert_eq!(read.to_string().parse(), Ok(read), "{given}");
    }
}

#[test]
fn refuses_what_is_no_time_of_1970_to_9999() {
    let cases = [
        ("", FaultCode::BadFormat),
        ("2025-01-31", FaultCode::BadFormat),
        ("2025-01-31 00:00:00Z", FaultCode::BadFormat),
        ("2025-01-31T00:00:00", FaultCode::BadFormat),
        ("2025-02-29T00:00:00Z", FaultCode::BadFormat),
        ("2025-01-31T24:00:00Z", FaultCode::BadFormat),
        ("2025-01-31T00:00:00Z ", FaultCode::BadFormat),
        ("10000-01-01T00:00:00Z", FaultCode::BadFormat),
        ("1969-12-31T23:59:59.999999Z", FaultCode::OutOfRange),
        ("9999-12-31T23:59:59-01:00", FaultCode::OutOfRange),
    ];
    for (given, expected) in cases {
        let refused = given.parse::<Timestamp>().unwrap_err();

        assert_eq!(refused.code(), expected, "{given}");
    }
}

#[test]
fn a_manual_clock_stands_still_and_stops_at_the_end_of_time() {
    let clock = ManualClock::at(Timestamp::MIN);
    let same_clock = clock.clone();

    assert_eq!(clock.now(), Timestamp::MIN);

    clock.advance(Duration::MAX);

    assert_eq!(same_clock.now(), Timestamp::MAX);
}
