//! Whatever is read from text: bodies as JSON, and the small values in them.
//!
//! The first byte picks the reader. Nothing panics, the same text reads the same twice, and what was
//! read and is written reads as itself again.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use subscription_core::auth::{ProofOfIdentity, RefreshRequest, Scope};
use subscription_core::{
    Amount, BillingCycle, Currency, Email, ExternalId, Features, Href, InputError, Metadata, Name,
    NewPayment, NewPlan, NewSubscription, PaymentChanges, PaymentStatus, PlanChange, PlanChanges,
    Slug, SubscriptionChanges, SubscriptionId, SubscriptionStatus, Timestamp,
};

fn body<T: Debug>(json: &[u8], read: impl Fn(&[u8]) -> Result<T, InputError>) {
    match (read(json), read(json)) {
        (Ok(first), Ok(second)) => assert_eq!(format!("{first:?}"), format!("{second:?}")),
        (Err(first), Err(second)) => {
            assert_eq!(first.to_string(), second.to_string());
            assert!(!first.to_string().is_empty());
        }
        (first, second) => panic!("{first:?} and then {second:?}"),
    }
}

fn value<T: FromStr<Err: Debug> + Display + Debug + PartialEq>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        let again = read.to_string().parse::<T>();
        assert_eq!(again.expect("what was written can be read"), read);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 10 {
        0 => body(rest, NewPlan::from_json),
        1 => body(rest, PlanChanges::from_json),
        2 => body(rest, NewSubscription::from_json),
        3 => body(rest, SubscriptionChanges::from_json),
        4 => body(rest, NewPayment::from_json),
        5 => body(rest, PaymentChanges::from_json),
        6 => body(rest, ProofOfIdentity::from_json),
        7 => body(rest, RefreshRequest::from_json),
        8 => body(rest, PlanChange::from_json),
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            value::<Amount>(text);
            value::<BillingCycle>(text);
            value::<Currency>(text);
            value::<Email>(text);
            value::<ExternalId>(text);
            value::<Features>(text);
            value::<Href>(text);
            value::<Metadata>(text);
            value::<Name>(text);
            value::<PaymentStatus>(text);
            value::<Slug>(text);
            value::<SubscriptionId>(text);
            value::<SubscriptionStatus>(text);
            value::<Timestamp>(text);
            text.parse::<Scope>().ok();
        }
    }
});
