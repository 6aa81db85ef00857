//! Text that callers and senders of webhooks choose: signature headers, types of events, URLs.
//!
//! The first byte picks the reader. Nothing panics, no signature is right but ours, a type that was read and is written
//! reads as itself again, and a URL that is allowed never names a blocked address.

#![no_main]

use libfuzzer_sys::fuzz_target;
use subscription_core::Timestamp;
use subscription_core::events::TypePattern;
use subscription_core::webhooks::{
    AddressRules, Secret, SignatureHeaders, TOLERANCE, sign, verify,
};

const BODY: &[u8] = b"{}";

/// Lines of id, time and signature. The secret is a constant, so only `sign` can make a right signature.
fn signature(text: &str) {
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("a secret");
    let now = Timestamp::from_micros(1_614_265_330_000_000).expect("a time");
    let mut lines = text.splitn(3, '\n').chain(["", "", ""]);
    let mut line = || lines.next().unwrap_or_default();
    let headers = SignatureHeaders { id: line(), timestamp: line(), signature: line() };
    let secrets = [secret];
    if verify(&secrets, &headers, BODY, now, TOLERANCE).is_ok() {
        let seconds = headers.timestamp.parse().expect("a number");
        let ours = sign(&secrets, headers.id, seconds, BODY);
        // Zeros before a number are signed too.
        let is_short = seconds.to_string() == headers.timestamp;
        assert!(!is_short || headers.signature.split(' ').any(|given| given == ours));
    }
    if let Ok(secret) = text.parse::<Secret>() {
        let again: Secret = secret.expose().parse().expect("what was written can be read");
        assert_eq!(again.expose(), secret.expose());
    }
}

fn pattern(text: &str) {
    if let Ok(read) = text.parse::<TypePattern>() {
        assert_eq!(read.to_string(), text);
    }
}

fn url(text: &str) {
    let public = AddressRules::default();
    let development = AddressRules::default().with_loopback(true);
    for rules in [&public, &development] {
        let Ok(url) = rules.read(text) else { continue };
        assert!(url.as_str().len() <= 2_048);
        assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
        assert!(rules.check(&url).is_ok());
        assert_eq!(rules.read(url.as_str()).as_ref(), Ok(&url));
        // A host that the standard library reads as an address is judged as one.
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
        if let Ok(ip) = host.parse() {
            assert!(rules.admits(ip, url.scheme() == "http"));
        }
    }
    if let Ok(url) = public.read(text) {
        assert_eq!(url.scheme(), "https");
        assert!(development.check(&url).is_ok(), "development allows more");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match kind % 3 {
        0 => signature(text),
        1 => pattern(text),
        _ => url(text),
    }
});
