//! The keys of our own tokens: kinds, rotation, and what is told of them.

use std::sync::Arc;

use jsonwebtoken::Algorithm as CrateAlgorithm;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use subscription_core::Error;
use subscription_core::auth::{
    Algorithm, Authentication, BadKey, KeyRing, ServerKeys, SharedSecretIdentities, SigningKey,
};

use super::forge::{ED25519_PEM, P256_PEM, P384_PEM, RSA_PEM, Signer, part};
use super::provider::trust;
use super::world::{AuthWorld, PROVIDER_SECRET, SERVER_KEY, SIGNING_SEED, secret, web};

const HS_SECRET: [u8; 32] = *b"0123456789abcdef0123456789abcdef";

fn ed25519(seed: u8) -> SigningKey {
    SigningKey::ed25519(&secret(&[seed; 32])).unwrap()
}

fn hs256(byte: u8) -> SigningKey {
    SigningKey::hs256(&secret(&[byte; 32])).unwrap()
}

/// The same store behind another ring.
fn with_ring(world: &AuthWorld, ring: KeyRing) -> Authentication {
    let verifier = SharedSecretIdentities::new(trust(), &secret(PROVIDER_SECRET)).unwrap();
    let server_keys = ServerKeys::new(1, secret(SERVER_KEY)).unwrap();
    Authentication::builder(world.service.clone(), Arc::new(verifier), ring, server_keys).build()
}

async fn answer(auth: &Authentication, token: &SecretString) -> &'static str {
    auth.authenticate(&web(), token).await.as_ref().map_or_else(Error::code, |_| "taken")
}

#[tokio::test]
async fn old_tokens_are_good_until_their_key_is_dropped() {
    let world = AuthWorld::new();
    let old = world.sign_up("ada").await.access_token;
    let rotated = with_ring(&world, KeyRing::new(ed25519(8)).and_checks(ed25519(7)).unwrap());
    let new = rotated.sign_in(world.person("ada")).await.unwrap().access_token;

    assert_eq!(answer(&rotated, &old).await, "taken");
    assert_eq!(answer(&rotated, &new).await, "taken");
    assert_eq!(part(new.expose_secret(), 0)["kid"], json!(ed25519(8).id()));
    assert_eq!(answer(&world.auth, &new).await, "token_invalid");

    let dropped = with_ring(&world, KeyRing::new(ed25519(8)));
    assert_eq!(answer(&dropped, &old).await, "token_invalid");
    assert_eq!(answer(&dropped, &new).await, "taken");
}

#[tokio::test]
async fn every_kind_of_key_signs_and_checks() {
    for (key, algorithm, name) in [
        (ed25519(1), Algorithm::EdDsa, "EdDSA"),
        (SigningKey::from_pem(ED25519_PEM).unwrap(), Algorithm::EdDsa, "EdDSA"),
        (SigningKey::from_pem(P256_PEM).unwrap(), Algorithm::Es256, "ES256"),
        (hs256(1), Algorithm::Hs256, "HS256"),
    ] {
        assert_eq!(key.algorithm(), algorithm);
        let world = AuthWorld::new();
        let auth = with_ring(&world, KeyRing::new(key.clone()));
        let token = auth.sign_up(world.person("ada")).await.unwrap().access_token;

        assert_eq!(answer(&auth, &token).await, "taken", "{name}");
        assert_eq!(
            part(token.expose_secret(), 0),
            json!({ "alg": name, "typ": "at+jwt", "kid": key.id() })
        );
    }
}

/// An embedder may check our tokens elsewhere, by the set alone.
#[tokio::test]
async fn the_published_set_checks_our_tokens() {
    let world = AuthWorld::new();
    let ring = KeyRing::new(SigningKey::from_pem(P256_PEM).unwrap())
        .and_checks(SigningKey::from_pem(ED25519_PEM).unwrap())
        .unwrap();
    let auth = with_ring(&world, ring);
    let token = auth.sign_up(world.person("ada")).await.unwrap().access_token;
    let token = token.expose_secret();
    let set: jsonwebtoken::jwk::JwkSet = serde_json::from_value(auth.public_keys()).unwrap();

    let jwk = set.find(part(token, 0)["kid"].as_str().unwrap()).unwrap();
    let key = jsonwebtoken::DecodingKey::from_jwk(jwk).unwrap();
    let (message, signature) = token.rsplit_once('.').unwrap();

    let checked =
        jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, CrateAlgorithm::ES256);
    assert!(checked.unwrap());
    assert_eq!(set.keys.len(), 2);
}

#[test]
fn the_set_shows_public_parameters_only() {
    let ring =
        KeyRing::new(ed25519(1)).and_checks(SigningKey::from_pem(P256_PEM).unwrap()).unwrap();

    let set = ring.public_keys();

    let keys = set["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 2);
    for key in keys {
        for field in key.as_object().unwrap().keys() {
            let public = ["alg", "crv", "kid", "kty", "use", "x", "y"];
            assert!(public.contains(&field.as_str()), "{field}");
        }
        assert_eq!(key["use"], json!("sig"));
    }
    let secrets = KeyRing::new(hs256(1)).and_checks(hs256(2)).unwrap();
    assert_eq!(secrets.public_keys(), json!({ "keys": [] }));
}

#[test]
fn shared_secrets_and_key_pairs_do_not_mix() {
    let mixed = |first: SigningKey, second: SigningKey| {
        KeyRing::new(first).and_checks(second).map(|_| ()).unwrap_err()
    };

    assert_eq!(mixed(ed25519(1), hs256(1)), BadKey::Mixed);
    assert_eq!(mixed(hs256(1), ed25519(1)), BadKey::Mixed);
    assert_eq!(mixed(hs256(1), SigningKey::from_pem(P256_PEM).unwrap()), BadKey::Mixed);
    assert_eq!(mixed(ed25519(1), ed25519(1)), BadKey::Repeated);
}

/// A ring of shared secrets is as strict as one of key pairs.
#[tokio::test]
async fn a_shared_secret_checks_nothing_but_hs256() {
    let world = AuthWorld::new();
    let auth = with_ring(&world, KeyRing::new(hs256(1)));
    let token = auth.sign_up(world.person("ada")).await.unwrap().access_token;
    let (header, claims) = (part(token.expose_secret(), 0), part(token.expose_secret(), 1));

    for alg in ["none", "HS384", "HS512", "EdDSA", "hs256"] {
        let header = json!({ "alg": alg, "typ": "at+jwt", "kid": header["kid"] });
        let forged = Signer::hs256(&[1; 32]).token(&header, &claims);
        assert_eq!(answer(&auth, &forged.into()).await, "token_invalid", "{alg}");
    }
    // The id is public, but it is not the secret.
    let id = header["kid"].as_str().unwrap();
    let forged = Signer::hs256(id.as_bytes()).token(&header, &claims);
    assert_eq!(answer(&auth, &forged.into()).await, "token_invalid");
    let good = Signer::hs256(&[1; 32]).token(&header, &claims);
    assert_eq!(answer(&auth, &good.into()).await, "taken");
}

#[test]
fn unusable_keys_are_refused() {
    for length in [0, 16, 31] {
        let short = secret(&vec![7; length]);
        assert_eq!(SigningKey::hs256(&short).unwrap_err(), BadKey::TooShort, "{length}");
        assert_eq!(ServerKeys::new(1, short).unwrap_err(), BadKey::TooShort, "{length}");
    }
    for length in [0, 31, 33, 64] {
        let refused = SigningKey::ed25519(&secret(&vec![7; length])).unwrap_err();
        assert_eq!(refused, BadKey::Unreadable, "{length}");
    }
    let text = |pem: &[u8]| String::from_utf8(pem.to_vec()).unwrap();
    let public = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
        -----END PUBLIC KEY-----\n";
    for pem in [
        String::new(),
        "garbage".into(),
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n".into(),
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".into(),
        text(ED25519_PEM).replace("MC4C", "MC4D"),
        text(P256_PEM)[..120].into(),
        text(P256_PEM).replace("PRIVATE", "PUBLIC"),
        public.into(),
        text(RSA_PEM),
        text(P384_PEM),
    ] {
        let refused = SigningKey::from_pem(pem.as_bytes()).map(|key| key.id().to_owned());
        assert_eq!(refused, Err(BadKey::Unreadable), "{pem}");
    }
}

/// As `openssl` writes it beside other text, and as editors save it.
#[test]
fn a_pem_is_read_from_text_around_it_and_with_any_line_breaks() {
    for (pem, algorithm) in [(ED25519_PEM, Algorithm::EdDsa), (P256_PEM, Algorithm::Es256)] {
        let text = std::str::from_utf8(pem).unwrap();
        let id = SigningKey::from_pem(pem).unwrap().id().to_owned();
        for same in [
            format!("Bag Attributes\n    friendlyName: caf\u{e9} -----\n{text}\n# the end"),
            text.replace('\n', "\r\n"),
            text.replace("-----\n", "-----").replace("\n-----", "-----"),
        ] {
            let key = SigningKey::from_pem(same.as_bytes()).unwrap();

            assert_eq!((key.id(), key.algorithm()), (&*id, algorithm), "{same}");
        }
        for cut in
            [text.replace("END PRIVATE", "END"), text.replace("-----END PRIVATE KEY-----", "")]
        {
            let refused = SigningKey::from_pem(cut.as_bytes()).map(|key| key.id().to_owned());
            assert_eq!(refused, Err(BadKey::Unreadable), "{cut}");
        }
    }
}

/// The key, and its thumbprint, of RFC 8037, appendix A.
#[test]
fn a_key_is_named_by_its_thumbprint() {
    let seed = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];

    let key = SigningKey::ed25519(&secret(&seed)).unwrap();

    assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    let public = KeyRing::new(key).public_keys();
    assert_eq!(public["keys"][0]["x"], json!("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"));
    assert_eq!(SigningKey::from_pem(P256_PEM).unwrap().id().len(), 43);
    assert_eq!(ed25519(1).id(), ed25519(1).id());
    assert_ne!(ed25519(1).id(), ed25519(2).id());
    assert_eq!(hs256(1).id(), hs256(1).id());
    assert_ne!(hs256(1).id(), hs256(2).id());
}

#[tokio::test]
async fn nothing_secret_is_shown_in_debug_output() {
    let world = AuthWorld::new();
    let signed_in = world.sign_up("ada").await;
    let hs = SigningKey::hs256(&secret(&HS_SECRET)).unwrap();
    let server_keys = ServerKeys::new(1, secret(SERVER_KEY)).unwrap();
    let ring = KeyRing::new(hs.clone());
    let shown = format!(
        "{:?} {:?} {hs:?} {ring:?} {server_keys:?} {signed_in:?} {:?}",
        world.auth,
        SigningKey::from_pem(P256_PEM).unwrap(),
        world.person("ada"),
    );
    let pretty = format!("{:#?}", world.auth);

    let bytes = |bytes: &[u8]| {
        let list = format!("{bytes:?}");
        list[1..20].to_owned()
    };
    for hidden in [
        bytes(&SIGNING_SEED),
        bytes(SERVER_KEY),
        bytes(PROVIDER_SECRET),
        bytes(&HS_SECRET),
        "0123456789abcdef".into(),
        "a key that only".into(),
        "a secret that".into(),
        "eyJ".into(),
        "srt_".into(),
    ] {
        assert!(!shown.contains(&hidden) && !pretty.contains(&hidden), "{hidden} in {shown}");
    }
}
