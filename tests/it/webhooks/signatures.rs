//! Secrets and signatures: the vectors of Standard Webhooks, and all that a receiver must refuse.

use std::time::Duration;

use subscription_core::webhooks::{
    EndpointId, Refused, Secret, SignatureHeaders, TOLERANCE, check, secret, sign, verify,
};
use subscription_core::{ServerKeys, Timestamp};
use test_support::service_world::of;

/// Secret, id, time, body and signature, as Standard Webhooks and its libraries publish them.
const VECTORS: [(&str, &str, i64, &str, &str); 2] = [
    (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        r#"{"test": 2432232314}"#,
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    (
        "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1_649_367_553,
        r#"{"email":"test@example.com","username":"test_user"}"#,
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
    ),
];

const TIME: i64 = 1_614_265_330;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// The first vector, with other headers, verified at its time.
fn verified(change: impl FnOnce(&mut SignatureHeaders<'static>)) -> Result<(), Refused> {
    let (text, id, _, body, signature) = VECTORS[0];
    let mut headers = SignatureHeaders { id, timestamp: "1614265330", signature };
    change(&mut headers);
    verify(&[of(text)], &headers, body.as_bytes(), at(TIME * 1_000_000), TOLERANCE)
}

#[test]
fn the_published_vectors_are_signed_and_verified() {
    for (text, id, time, body, signature) in VECTORS {
        let secrets: [Secret; 1] = [of(text)];

        let signed = sign(&secrets, id, time, body.as_bytes());

        assert_eq!(signed, signature);
        let headers = SignatureHeaders { id, timestamp: &time.to_string(), signature };
        let now = at(time * 1_000_000);
        assert_eq!(verify(&secrets, &headers, body.as_bytes(), now, TOLERANCE), Ok(()));
    }
}

#[test]
fn each_secret_signs_in_the_order_given() {
    let (first, second) = (VECTORS[0].0, VECTORS[1].0);
    let signed = |texts: &[&str]| {
        let secrets: Vec<Secret> = texts.iter().map(|text| of(text)).collect();
        sign(&secrets, "id", 0, b"{}")
    };

    assert_eq!(signed(&[first, second]), format!("{} {}", signed(&[first]), signed(&[second])));
    assert_eq!(signed(&[]), "");
}

#[test]
fn a_secret_is_read_with_and_without_its_prefix() {
    let text = VECTORS[0].0;
    let bare = text.strip_prefix("whsec_").unwrap();

    assert_eq!(of::<Secret>(text).expose(), text);
    assert_eq!(of::<Secret>(bare).expose(), text);
}

#[test]
fn an_empty_or_unreadable_secret_is_refused() {
    for text in
        ["", "whsec_", "whsec_?", "whsec_AAA", "whsec_AAAA ", "WHSEC_AAAA", "whsec_whsec_AA"]
    {
        let refused = text.parse::<Secret>().unwrap_err();

        assert_eq!(refused.to_string(), "must be whsec_ followed by base64", "{text:?}");
    }
}

#[test]
fn a_secret_is_never_printed() {
    let secret: Secret = of(VECTORS[0].0);

    assert_eq!(format!("{secret:?}"), "Secret(SecretBox<[u8]>([REDACTED]))");
}

/// The secret of a server key of this byte, 32 times, and of this number.
fn derived(
    number: u8,
    byte: u8,
    key_id: u8,
    salt: u8,
    id: &str,
    generation: u32,
) -> Option<Secret> {
    let keys = ServerKeys::new(number, vec![byte; 32].into()).unwrap();
    let salt = std::array::from_fn(|at| salt + u8::try_from(at).unwrap());
    secret(&keys, key_id, &salt, of::<EndpointId>(id), generation)
}

const ENDPOINT: &str = "0194b9e4-0000-7000-8000-000000000001";

#[test]
fn a_secret_is_derived_as_it_always_was() {
    let secret = derived(1, 7, 1, 0, ENDPOINT, 258).unwrap();

    // Computed with the hmac module of Python.
    assert_eq!(secret.expose(), "whsec_1jO7lsudbvyKwu4Vi+c5gLsHbtWk/SP3uW9N8Er9BRI=");
    assert_eq!(check(&secret), [35, 50, 80, 127, 175, 238, 114, 201]);
}

#[test]
fn a_secret_depends_on_key_salt_endpoint_and_generation() {
    let other = "0194b9e4-0000-7000-8000-000000000002";
    let all = [
        derived(1, 7, 1, 0, ENDPOINT, 1),
        derived(1, 8, 1, 0, ENDPOINT, 1),
        derived(1, 7, 1, 1, ENDPOINT, 1),
        derived(1, 7, 1, 0, other, 1),
        derived(1, 7, 1, 0, ENDPOINT, 2),
    ];

    let mut texts = all.map(|secret| secret.unwrap().expose());

    texts.sort();
    assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "{texts:?}");
    assert!(derived(1, 7, 2, 0, ENDPOINT, 1).is_none(), "no key has the number 2");
}

#[test]
fn a_delivery_without_one_of_its_headers_is_refused() {
    assert_eq!(verified(|headers| headers.id = ""), Err(Refused::HeaderMissing));
    assert_eq!(verified(|headers| headers.timestamp = ""), Err(Refused::HeaderMissing));
    assert_eq!(verified(|headers| headers.signature = ""), Err(Refused::HeaderMissing));
}

#[test]
fn a_time_that_is_no_number_of_seconds_is_refused() {
    for text in [
        "+1614265330",
        "-1614265330",
        " 1614265330",
        "1614265330.0",
        "1614265330s",
        "now",
        // Too many seconds for a number of microseconds, and for any number.
        "9223372036855",
        "99999999999999999999",
    ] {
        assert_eq!(verified(|it| it.timestamp = text), Err(Refused::BadTimestamp), "{text:?}");
    }
}

#[test]
fn a_delivery_is_refused_beyond_the_tolerance_both_ways() {
    let (text, id, _, body, signature) = VECTORS[0];
    let headers = SignatureHeaders { id, timestamp: "1614265330", signature };
    let verified = |moved: i64, tolerance| {
        let now = at(TIME * 1_000_000 + moved);
        verify(&[of(text)], &headers, body.as_bytes(), now, tolerance)
    };

    assert_eq!(TOLERANCE, Duration::from_mins(5));
    assert_eq!(verified(300_000_000, TOLERANCE), Ok(()));
    assert_eq!(verified(-300_000_000, TOLERANCE), Ok(()));
    assert_eq!(verified(300_000_001, TOLERANCE), Err(Refused::TooOld));
    assert_eq!(verified(-300_000_001, TOLERANCE), Err(Refused::TooNew));
    assert_eq!(verified(301_000_000, TOLERANCE), Err(Refused::TooOld));
    assert_eq!(verified(301_000_000, Duration::from_secs(301)), Ok(()));
    assert_eq!(verified(1, Duration::ZERO), Err(Refused::TooOld));
}

#[test]
fn a_delivery_is_refused_if_no_signature_is_right() {
    let right = VECTORS[0].4;
    let wrong: &[&str] = &[
        "v1,",
        "v1",
        "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        // Cut, longer, of another version, of another case, for another delivery.
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE==",
        "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "V1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1,G0HM9SSE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        VECTORS[1].4,
        " ",
    ];

    for signature in wrong {
        let refused = verified(|headers| headers.signature = signature);
        assert_eq!(refused, Err(Refused::WrongSignature), "{signature:?}");
    }
    assert_eq!(verified(|headers| headers.signature = right), Ok(()));
}

#[test]
fn any_of_several_signatures_and_secrets_is_enough() {
    let (text, id, _, body, signature) = VECTORS[0];
    let third = format!("v1a,AAAA {} {signature} v1,", VECTORS[1].4);
    let headers = SignatureHeaders { id, timestamp: "1614265330", signature: &third };
    let verified = |texts: &[&str]| {
        let secrets: Vec<Secret> = texts.iter().map(|text| of(text)).collect();
        verify(&secrets, &headers, body.as_bytes(), at(TIME * 1_000_000), TOLERANCE)
    };

    assert_eq!(verified(&[text]), Ok(()));
    assert_eq!(verified(&[VECTORS[1].0, text]), Ok(()));
    assert_eq!(verified(&[text, VECTORS[1].0]), Ok(()));
    assert_eq!(verified(&[VECTORS[1].0]), Err(Refused::WrongSignature));
    assert_eq!(verified(&[]), Err(Refused::WrongSignature));
}

#[test]
fn a_delivery_with_any_flipped_byte_is_refused() {
    let (text, id, time, body, signature) = VECTORS[0];
    let timestamp = time.to_string();
    let verified = |parts: [&[u8]; 4]| {
        let [id, timestamp, signature] =
            [parts[0], parts[1], parts[2]].map(|part| std::str::from_utf8(part).unwrap());
        let headers = SignatureHeaders { id, timestamp, signature };
        verify(&[of(text)], &headers, parts[3], at(TIME * 1_000_000), TOLERANCE)
    };
    let whole = [id.as_bytes(), timestamp.as_bytes(), signature.as_bytes(), body.as_bytes()];
    assert_eq!(verified(whole), Ok(()));

    for (part, bytes) in whole.iter().enumerate() {
        for place in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[place] ^= 1;
            let mut parts = whole;
            parts[part] = &flipped;

            assert!(verified(parts).is_err(), "byte {place} of part {part}");
        }
    }
}

#[test]
fn the_parts_of_a_delivery_cannot_be_moved_into_each_other() {
    let secrets: [Secret; 1] = [of(VECTORS[0].0)];

    let signed = sign(&secrets, "a", 1, b"2.{}");

    assert_ne!(signed, sign(&secrets, "a", 12, b"{}"));
    assert_ne!(signed, sign(&secrets, "a", 1, b"{}"));
}
