//! Access tokens under attack: what a header may say, and how a token may be written.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use subscription_core::ErrorKind;
use test_support::service_world::wrong;

use super::forge::{P256_PEM, Signer, Target};
use super::world::web;

/// The prefix of the 32 bytes of an Ed25519 public key in DER.
const ED25519_SPKI: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

#[tokio::test]
async fn a_token_says_just_enough_and_nothing_of_the_person() {
    let target = Target::new().await;

    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();

    assert_eq!(names(&target.header), ["alg", "kid", "typ"]);
    assert_eq!((&target.header["alg"], &target.header["typ"]), (&json!("EdDSA"), &json!("at+jwt")));
    assert_eq!(
        names(&target.claims),
        ["aud", "auth_time", "client_id", "exp", "gen", "iat", "iss", "jti", "sid", "sub"]
    );
    assert!(!target.claims.to_string().contains("ada"));
    assert_eq!(target.with_header(|_| {}).len(), target.token.len());
    assert_eq!(target.answer(&target.with_header(|_| {})).await, "taken");
}

#[tokio::test]
async fn a_token_without_a_signature_is_refused_however_none_is_spelt() {
    let target = Target::new().await;
    let [header, claims, signature] = *target.token.split('.').collect::<Vec<_>>() else {
        panic!("three parts")
    };
    for spelling in 0..16_u8 {
        let alg: String = "none"
            .chars()
            .enumerate()
            .map(|(at, c)| if spelling >> at & 1 == 1 { c.to_ascii_uppercase() } else { c })
            .collect();
        let unsigned = target.with_header(|header| header["alg"] = json!(alg));
        let message = unsigned.rsplit_once('.').unwrap().0;
        for token in [format!("{message}."), message.to_owned(), format!("{message}.{signature}")] {
            assert_eq!(target.answer(&token).await, "token_invalid", "{alg} {token}");
        }
    }
    for token in [
        format!("{header}.{claims}."),
        format!("{header}.{claims}"),
        format!("{header}..{signature}"),
        format!(".{claims}.{signature}"),
        format!("{header}.{claims}.{signature}."),
        format!("{header}.{claims}.{signature}.{signature}"),
        format!(".{header}.{claims}.{signature}"),
        format!("Bearer {header}.{claims}.{signature}"),
        "..".into(),
        ".".into(),
        String::new(),
    ] {
        assert_eq!(target.answer(&token).await, "token_invalid", "{token}");
    }
}

#[tokio::test]
async fn our_public_key_is_no_shared_secret() {
    let target = Target::new().await;
    let keys = target.world.auth.public_keys();
    let jwk = &keys["keys"][0];
    let text = jwk["x"].as_str().unwrap();
    let raw = URL_SAFE_NO_PAD.decode(text).unwrap();
    let der = [&ED25519_SPKI[..], &raw].concat();
    let pem = |end: &str| {
        let body = STANDARD.encode(&der);
        format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----{end}")
    };
    let secrets: [Vec<u8>; 10] = [
        raw,
        text.into(),
        STANDARD.encode(&der).into(),
        pem("").into(),
        pem("\n").into(),
        pem("\r\n").into(),
        jwk.to_string().into(),
        keys.to_string().into(),
        jwk["kid"].as_str().unwrap().into(),
        der,
    ];
    for secret in secrets {
        for alg in ["HS256", "EdDSA"] {
            let header = json!({ "alg": alg, "typ": "at+jwt", "kid": target.header["kid"] });
            let token = Signer::hs256(&secret).token(&header, &target.claims);
            assert_eq!(target.answer(&token).await, "token_invalid", "{alg} {secret:?}");
        }
    }
}

#[tokio::test]
async fn the_key_fixes_the_algorithm() {
    let target = Target::new().await;
    for alg in ["ES256", "HS256", "RS256", "PS256", "HS512", "ES384", "eddsa", "EDDSA", "Ed25519"] {
        let token = target.with_header(|header| header["alg"] = json!(alg));
        assert_eq!(target.answer(&token).await, "token_invalid", "{alg}");
    }
    for alg in ["ES256", "EdDSA"] {
        let header = json!({ "alg": alg, "typ": "at+jwt", "kid": target.header["kid"] });
        let token = Signer::pem(P256_PEM, Algorithm::ES256).token(&header, &target.claims);
        assert_eq!(target.answer(&token).await, "token_invalid", "{alg} by another key");
    }
}

#[tokio::test]
async fn a_key_id_is_only_ever_looked_up() {
    let target = Target::new().await;
    let ours = target.header["kid"].as_str().unwrap();
    for kid in [
        json!("../../../../dev/null"),
        json!("/proc/self/environ"),
        json!("' or '1'='1"),
        json!("x' union select 'secret' --"),
        json!("https://evil.example.com/key"),
        json!("file:///etc/passwd"),
        json!("| id"),
        json!(format!("{ours}\0")),
        json!(format!("\0{ours}")),
        json!(format!(" {ours}")),
        json!(format!("{ours} ")),
        json!(ours.to_uppercase()),
        json!(&ours[1..]),
        json!("k".repeat(1_000)),
        json!("k".repeat(1_000_000)),
        json!("ключ"),
        json!(""),
        json!(null),
        json!(7),
        json!(true),
        json!([ours]),
        json!({ "kid": ours }),
    ] {
        let token = target.with_header(|header| header["kid"] = kid.clone());
        let shown: String = kid.to_string().chars().take(60).collect();
        assert_eq!(target.answer(&token).await, "token_invalid", "{shown}");
    }
}

#[tokio::test]
async fn a_header_has_exactly_three_fields() {
    let target = Target::new().await;
    let jwk = Signer::ours().jwk("own");
    for (field, value) in [
        ("jwk", jwk.clone()),
        ("jku", json!("https://evil.example.com/jwks.json")),
        ("x5u", json!("https://evil.example.com/cert.pem")),
        ("x5c", json!(["MIIB"])),
        ("crit", json!([])),
        ("crit", json!(["exp"])),
        ("b64", json!(true)),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
        ("cty", json!("JWT")),
        ("x5t", json!("AA")),
        ("Alg", json!("EdDSA")),
        ("", json!(null)),
    ] {
        let token = target.with_header(|header| header[field] = value.clone());
        assert_eq!(target.answer(&token).await, "token_invalid", "{field}");
        // In the place of a field that belongs there, so that the number is right.
        let token = target.with_header(|header| {
            header.as_object_mut().unwrap().remove("kid");
            header[field] = value;
        });
        assert_eq!(target.answer(&token).await, "token_invalid", "{field} for kid");
    }
    for field in ["alg", "kid", "typ"] {
        let token = target.with_header(|header| {
            header.as_object_mut().unwrap().remove(field);
        });
        assert_eq!(target.answer(&token).await, "token_invalid", "no {field}");
        let text = target.header.to_string();
        let twice = text.replacen('{', &format!("{{\"{field}\":{},", target.header[field]), 1);
        let token = Signer::ours().sign(&twice, &target.claims.to_string());
        assert_eq!(target.answer(&token).await, "token_invalid", "{field} twice");
    }
}

#[tokio::test]
async fn a_token_of_another_type_is_refused() {
    let target = Target::new().await;
    for typ in [
        json!("JWT"),
        json!("jwt"),
        json!("AT+JWT"),
        json!("application/at+jwt"),
        json!("id+jwt"),
        json!("at+jwt "),
        json!(""),
        json!(null),
        json!(["at+jwt"]),
    ] {
        let token = target.with_header(|header| header["typ"] = typ.clone());
        assert_eq!(target.answer(&token).await, "token_invalid", "{typ}");
    }
}

#[tokio::test]
async fn no_kind_of_token_passes_for_another() {
    let target = Target::new().await;
    let world = &target.world;
    let signed_in = world.sign_in("ada").await;
    let identity = world.identity_token("ada", |_| {});
    let (access, refresh) = (&signed_in.access_token, &signed_in.refresh_token);

    for token in [refresh, &identity] {
        let refused = world.auth.authenticate(&web(), token).await;
        assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "token_invalid"));
        assert_eq!(wrong(world.auth.logout(&web(), token).await).1, "token_invalid");
    }
    for token in [access, &identity] {
        let refused = world.auth.refresh(&web(), token).await;
        assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "refresh_token_invalid"));
    }
    for token in [access, refresh] {
        let mut person = world.person("ada");
        person.access_token = token.clone();
        let refused = world.auth.sign_in(person).await;
        assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "identity_rejected"));
    }
}

#[tokio::test]
async fn a_token_of_another_ring_is_refused_even_under_our_key_id() {
    let target = Target::new().await;
    let stranger = Signer::ed25519([8; 32]);
    let theirs = json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": "theirs" });

    for header in [&target.header, &theirs] {
        let token = stranger.token(header, &target.claims);
        assert_eq!(target.answer(&token).await, "token_invalid", "{header}");
    }
}

#[tokio::test]
async fn a_long_token_is_refused_whatever_is_in_it() {
    let target = Target::new().await;
    // Blanks in JSON mean nothing, so this is a good token but for its length.
    let padded = |blanks: usize| {
        let claims = format!("{}{}", target.claims, " ".repeat(blanks));
        Signer::ours().sign(&target.header.to_string(), &claims)
    };
    let blanks = (4_096 - target.token.len()) / 4 * 3;
    let (longest, too_long) = (padded(blanks), padded(blanks + 3));

    assert!((4_093..=4_096).contains(&longest.len()), "{}", longest.len());
    assert_eq!(target.answer(&longest).await, "taken");
    assert!((4_097..=4_100).contains(&too_long.len()), "{}", too_long.len());
    assert_eq!(target.answer(&too_long).await, "token_invalid");
    for token in [padded(1 << 20), ".".repeat(1_000_000), "a".repeat(4_097), ".".repeat(4_096)] {
        assert_eq!(target.answer(&token).await, "token_invalid", "{} bytes", token.len());
    }
}

#[tokio::test]
async fn base64_is_written_in_one_way_only() {
    let target = Target::new().await;
    let parts: Vec<_> = target.token.split('.').collect();
    let with = |number: usize, part: &str| {
        let mut parts = parts.clone();
        parts[number] = part;
        parts.join(".")
    };
    for (number, part) in parts.iter().enumerate() {
        let blank_inside = format!("{} {}", &part[..8], &part[8..]);
        for text in [
            format!("{part}="),
            format!("{part}=="),
            format!("{part}A"),
            format!(" {part}"),
            format!("{part} "),
            format!("{part}\n"),
            format!("{part}\0"),
            format!("{part}é"),
            blank_inside,
        ] {
            assert_eq!(target.answer(&with(number, &text)).await, "token_invalid", "{text:?}");
            let token = match number {
                0 => Signer::ours().sign_encoded(&text, parts[1]),
                1 => Signer::ours().sign_encoded(parts[0], &text),
                _ => continue,
            };
            assert_eq!(target.answer(&token).await, "token_invalid", "signed {text:?}");
        }
    }
    // 64 bytes leave four bits over in the last letter: any but zero would be a second spelling.
    let signature = parts[2];
    let (head, last) = signature.split_at(signature.len() - 1);
    for letter in ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']) {
        let taken = target.answer(&with(2, &format!("{head}{letter}"))).await == "taken";
        assert_eq!(taken, last == letter.to_string(), "{letter}");
    }
}

#[tokio::test]
async fn one_changed_bit_anywhere_spoils_a_token() {
    let target = Target::new().await;
    for at in 0..target.token.len() {
        for bit in 0..7 {
            let mut bytes = target.token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let token = String::from_utf8(bytes).unwrap();
            assert_eq!(target.answer(&token).await, "token_invalid", "byte {at} bit {bit}");
        }
    }
    for length in 0..target.token.len() {
        assert_eq!(target.answer(&target.token[..length]).await, "token_invalid", "{length}");
    }
    assert_eq!(target.answer(&target.token).await, "taken");
}

/// That a signature was found good is remembered; nothing else is.
#[tokio::test]
async fn a_token_that_was_taken_before_lets_no_other_in() {
    let target = Target::new().await;
    for _ in 0..3 {
        assert_eq!(target.answer(&target.token).await, "taken");
    }
    let bytes = target.token.as_bytes();
    for at in (0..bytes.len()).filter(|at| bytes[*at] != b'.') {
        let mut altered = bytes.to_vec();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();

        assert_eq!(target.answer(&altered).await, "token_invalid", "byte {at}");
    }
}
