//! Signatures that a careless library takes: the cases of the Wycheproof project, made by hand.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use serde_json::json;
use subscription_core::auth::OidcIdentities;

use super::forge::{ED25519_PEM, P256_PEM, RSA_PEM, Signer};
use super::provider::{ScriptedFetch, ada, after, answer, trust};

/// The order of P-256.
const N: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// The order of Ed25519's group, lowest byte first.
const L: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// A genuine token of a provider that has one key.
struct Vector {
    verifier: OidcIdentities,
    message: String,
    signature: Vec<u8>,
}

impl Vector {
    fn new(pem: &[u8], algorithm: Algorithm) -> Self {
        let signer = Signer::pem(pem, algorithm);
        let keys = json!({ "keys": [signer.jwk("k")] });
        let url = "https://id.example.com/keys".parse().unwrap();
        let fetch = Arc::new(ScriptedFetch::answering(&keys));
        let verifier = OidcIdentities::new(trust(), url, fetch);
        let token = signer.token(&json!({ "alg": format!("{algorithm:?}"), "kid": "k" }), &ada());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        Self { verifier, message: message.to_owned(), signature }
    }

    async fn answer(&self, signature: &[u8]) -> &'static str {
        let token = format!("{}.{}", self.message, URL_SAFE_NO_PAD.encode(signature));
        answer(&self.verifier, &token, after(0)).await
    }

    /// The ways to spoil a signature that make sense for every algorithm.
    async fn is_strict(&self) {
        assert_eq!(self.answer(&self.signature).await, "taken");
        let genuine = &self.signature[..];
        let length = genuine.len();
        for (case, signature) in [
            ("empty", vec![]),
            ("one zero", vec![0]),
            ("all zero", vec![0; length]),
            ("all ones", vec![0xff; length]),
            ("one byte short", genuine[..length - 1].to_vec()),
            ("the first byte missing", genuine[1..].to_vec()),
            ("half", genuine[..length / 2].to_vec()),
            ("a zero behind", [genuine, &[0]].concat()),
            ("a zero before", [&[0], genuine].concat()),
            ("twice", [genuine, genuine].concat()),
            ("backwards", genuine.iter().rev().copied().collect()),
        ] {
            assert_eq!(self.answer(&signature).await, "rejected", "{case}");
        }
        for bit in 0..length * 8 {
            let mut signature = genuine.to_vec();
            signature[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(self.answer(&signature).await, "rejected", "bit {bit}");
        }
        let text = URL_SAFE_NO_PAD.encode(genuine);
        for text in [STANDARD.encode(genuine), format!("{text}="), format!("{text}\n"), text + " "]
        {
            let token = format!("{}.{text}", self.message);
            if text != URL_SAFE_NO_PAD.encode(genuine) {
                assert_eq!(answer(&self.verifier, &token, after(0)).await, "rejected", "{text}");
            }
        }
    }
}

fn less_one(mut number: [u8; 32]) -> [u8; 32] {
    number[31] -= 1;
    number
}

#[tokio::test]
async fn ecdsa_has_no_psychic_signatures() {
    let vector = Vector::new(P256_PEM, Algorithm::ES256);
    vector.is_strict().await;
    let one = {
        let mut one = [0; 32];
        one[31] = 1;
        one
    };
    let (genuine_r, genuine_s) = vector.signature.split_at(32);
    let edges = [[0; 32], one, less_one(N), N, [0xff; 32]];
    for r in edges {
        for s in edges {
            assert_eq!(vector.answer(&[r, s].concat()).await, "rejected", "{r:x?} {s:x?}");
        }
        assert_eq!(vector.answer(&[&r, genuine_s].concat()).await, "rejected", "{r:x?}");
        assert_eq!(vector.answer(&[genuine_r, &r].concat()).await, "rejected", "s {r:x?}");
    }
}

#[tokio::test]
async fn ecdsa_signatures_are_two_numbers_and_not_der() {
    let vector = Vector::new(P256_PEM, Algorithm::ES256);
    let integer = |number: &[u8]| [&[0x02, 33, 0][..], number].concat();
    let (r, s) = vector.signature.split_at(32);
    let body = [integer(r), integer(s)].concat();
    let der = [&[0x30, u8::try_from(body.len()).unwrap()][..], &body].concat();

    assert_eq!(vector.answer(&der).await, "rejected");
    assert_eq!(vector.answer(&[&[0][..], r, &[0], s].concat()).await, "rejected");
    assert_eq!(vector.answer(&[s, r].concat()).await, "rejected");
}

#[tokio::test]
async fn ed25519_signatures_have_one_form() {
    let vector = Vector::new(ED25519_PEM, Algorithm::EdDSA);
    vector.is_strict().await;
    let (point, scalar) = vector.signature.split_at(32);

    let mut carry = 0;
    let plus_order: Vec<u8> = scalar
        .iter()
        .zip(L)
        .map(|(a, b)| {
            let sum = u16::from(*a) + u16::from(b) + carry;
            carry = sum >> 8;
            sum.to_le_bytes()[0]
        })
        .collect();
    assert_eq!(vector.answer(&[point, &plus_order].concat()).await, "rejected");

    // The neutral element, a point of order two, and spellings of zero that are too large.
    let neutral = |first: u8, last: u8| {
        let mut point = [0; 32];
        (point[0], point[31]) = (first, last);
        point
    };
    for point in [neutral(1, 0), neutral(0, 0), neutral(0, 0x80), neutral(1, 0x80), [0xff; 32]] {
        for scalar in [&[0; 32][..], scalar, &L] {
            let signature = [&point[..], scalar].concat();
            assert_eq!(vector.answer(&signature).await, "rejected", "{point:x?}");
        }
    }
}

#[tokio::test]
async fn rsa_signatures_are_strict() {
    let modulus = URL_SAFE_NO_PAD
        .decode(Signer::pem(RSA_PEM, Algorithm::RS256).jwk("k")["n"].as_str().unwrap())
        .unwrap();
    let mut modulus_less_one = modulus.clone();
    modulus_less_one[255] -= 1;
    let one = [vec![0; 255], vec![1]].concat();
    for (algorithm, other) in
        [(Algorithm::RS256, Algorithm::PS256), (Algorithm::PS256, Algorithm::RS256)]
    {
        let vector = Vector::new(RSA_PEM, algorithm);
        vector.is_strict().await;
        for signature in [&one, &modulus, &modulus_less_one] {
            assert_eq!(vector.answer(signature).await, "rejected", "{algorithm:?}");
        }
        let header = json!({ "alg": format!("{algorithm:?}"), "kid": "k" });
        let padded_otherwise = Signer::pem(RSA_PEM, other).token(&header, &ada());
        assert_eq!(answer(&vector.verifier, &padded_otherwise, after(0)).await, "rejected");
    }
}

#[tokio::test]
async fn the_json_form_is_not_taken() {
    let vector = Vector::new(P256_PEM, Algorithm::ES256);
    let (header, claims) = vector.message.split_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.encode(&vector.signature);
    let flat = json!({ "protected": header, "payload": claims, "signature": signature });
    let general = json!({
        "payload": claims, "signatures": [{ "protected": header, "signature": signature }],
    });

    for token in [flat.to_string(), general.to_string()] {
        assert_eq!(answer(&vector.verifier, &token, after(0)).await, "rejected");
    }
}
