//! Refresh tokens as an attacker sees them: what they are made of, and what it takes to make one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use subscription_core::auth::{
    AuthSettings, Authentication, RevocationReason, ServerKeys, Session, SignedIn,
};
use subscription_core::{ErrorKind, SessionId};
use test_support::service_world::{of, wrong};

use super::world::{AuthWorld, SERVER_KEY, authentication, secret, server_key, web};

const NEW_KEY: &[u8] = b"the key that came after the first server key";

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn head(key_id: u8, session: SessionId, generation: u32) -> Vec<u8> {
    [&[1, key_id], &session.uuid().into_bytes()[..], &generation.to_be_bytes()].concat()
}

fn written(head: &[u8], mac: &[u8]) -> SecretString {
    format!("srt_{}", URL_SAFE_NO_PAD.encode([head, mac].concat())).into()
}

/// A refresh token made by somebody who knows how, and has a key.
fn made_with(server_key: &[u8], key_id: u8, session: &Session, generation: u32) -> SecretString {
    let purpose = b"refresh token";
    let (purpose_bytes, salt_bytes) = (13_u64.to_be_bytes(), 16_u64.to_be_bytes());
    let key = hmac(server_key, &[&purpose_bytes, purpose, &salt_bytes, &session.salt]);
    let head = head(key_id, session.id, generation);
    written(&head, &hmac(&key, &[&head]))
}

/// The number of the server key that a token names.
fn key_id(signed_in: &SignedIn) -> u8 {
    let text = signed_in.refresh_token.expose_secret().strip_prefix("srt_").unwrap();
    URL_SAFE_NO_PAD.decode(text).unwrap().get(1).copied().unwrap()
}

/// The same accounts under other server keys.
fn under(world: &AuthWorld, keys: ServerKeys) -> Authentication {
    authentication(&world.service, keys, AuthSettings::default())
}

fn both_keys() -> ServerKeys {
    server_key(2, NEW_KEY).and_checks(1, secret(SERVER_KEY)).unwrap()
}

#[tokio::test]
async fn the_rows_without_the_server_key_forge_nothing() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let row = world.row(&first).await;
    let head = head(row.key_id, row.id, row.generation);
    let (salt, opened_with) = (row.salt.as_slice(), row.opened_with.as_slice());
    let zeros = [0; 32];

    let mut forged: Vec<_> = [b"".as_slice(), salt, opened_with, &zeros, NEW_KEY]
        .into_iter()
        .map(|key| made_with(key, row.key_id, &row, row.generation))
        .collect();
    for key in [b"".as_slice(), salt, opened_with, SERVER_KEY] {
        forged.push(written(&head, &hmac(key, &[&head])));
        forged.push(written(&head, &hmac(key, &[salt, &head])));
    }
    forged.extend([zeros, [255; 32], row.opened_with].map(|mac| written(&head, &mac)));
    for (nth, token) in forged.iter().enumerate() {
        let refused = world.auth.refresh(&web(), token).await;
        assert_eq!(wrong(refused).1, "refresh_token_invalid", "forgery {nth}");
    }
    assert_eq!(world.row(&first).await, row);

    // The same hand with the right key makes the very token: the forgeries failed for want of it.
    let genuine = made_with(SERVER_KEY, row.key_id, &row, row.generation);
    assert_eq!(genuine.expose_secret(), first.refresh_token.expose_secret());
    assert!(world.auth.refresh(&web(), &genuine).await.is_ok());
}

#[tokio::test]
async fn what_is_forged_unknown_or_another_clients_gets_one_answer() {
    let world = AuthWorld::new();
    let (ada, eve) = (world.sign_up("ada").await, world.sign_up("eve").await);
    let row = world.row(&ada).await;
    let unknown =
        Session { id: of("01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77"), ..Session::clone(&row) };
    let salted = Session { salt: eve.session.salt, ..Session::clone(&row) };
    let mobile = of("mobile");
    let cases = [
        ("garbage", web(), "srt_garbage".into()),
        ("nothing", web(), "".into()),
        ("an access token", web(), ada.access_token.clone()),
        ("unknown session", web(), made_with(SERVER_KEY, 1, &unknown, 1)),
        ("another session's salt", web(), made_with(SERVER_KEY, 1, &salted, 1)),
        ("another server key", web(), made_with(NEW_KEY, 1, &row, 1)),
        ("a server key that is not there", web(), made_with(NEW_KEY, 9, &row, 1)),
        ("the right key under a wrong number", web(), made_with(SERVER_KEY, 9, &row, 1)),
        ("another client", mobile, ada.refresh_token.clone()),
    ];

    let mut answers = Vec::new();
    for (case, client, token) in cases {
        let error = world.auth.refresh(&client, &token).await.unwrap_err();
        answers.push((case, error.kind(), error.code(), format!("{error} {error:?}")));
    }

    let text = answers.first().unwrap().3.clone();
    for (case, kind, code, answer) in answers {
        assert_eq!((kind, code), (ErrorKind::Unauthenticated, "refresh_token_invalid"), "{case}");
        assert_eq!(answer, text, "{case}");
    }
    assert_eq!(world.row(&ada).await, row);
    assert!(world.refresh(&ada).await.is_ok());
}

#[tokio::test]
async fn a_token_with_any_character_changed_is_refused_and_harms_nothing() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let row = world.row(&first).await;
    let token = first.refresh_token.expose_secret().to_owned();

    let mut changed = vec![
        format!("{token}="),
        format!("{token}A"),
        format!(" {token}"),
        format!("{token}\n"),
        format!("{token}{}", "A".repeat(10_000)),
        token.replacen("srt_", "sck_", 1),
        token.replacen("srt_", "", 1),
        format!("{}é", token.replacen("srt_", "", 1).repeat(2)),
    ];
    for at in 0..token.len() {
        changed.push(token.get(..at).unwrap().to_owned());
        for other in ["A", "B", "Q", "g", "w", "_", "=", "+", "\0", "é"] {
            let mut text = token.clone();
            text.replace_range(at..=at, other);
            changed.push(text);
        }
    }
    changed.retain(|text| *text != token);
    for text in changed {
        let refused = world.auth.refresh(&web(), &text.as_str().into()).await;
        assert_eq!(wrong(refused).1, "refresh_token_invalid", "{text}");
    }

    assert_eq!(world.row(&first).await, row);
    assert!(world.refresh(&first).await.is_ok());
}

#[tokio::test]
async fn every_bit_of_a_token_counts() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let row = world.row(&first).await;
    let text = first.refresh_token.expose_secret().strip_prefix("srt_").unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();

    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let refused = world.auth.refresh(&web(), &written(&flipped, b"")).await;
        assert_eq!(wrong(refused).1, "refresh_token_invalid", "bit {bit}");
    }

    assert_eq!(world.row(&first).await, row);
    assert!(world.auth.refresh(&web(), &written(&bytes, b"")).await.is_ok());
}

#[tokio::test]
async fn a_new_server_key_takes_over_with_the_next_refresh() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let rotated = under(&world, both_keys());

    let second = rotated.refresh(&web(), &first.refresh_token).await.unwrap();
    let third = under(&world, server_key(2, NEW_KEY)).refresh(&web(), &second.refresh_token).await;

    assert_eq!((key_id(&first), key_id(&second)), (1, 2));
    assert_eq!((second.session.key_id, second.session.generation), (2, 2));
    assert_eq!(third.unwrap().session.generation, 3);
}

#[tokio::test]
async fn a_lost_answer_is_repeated_across_a_change_of_the_server_key() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let rotated = under(&world, both_keys());
    let second = rotated.refresh(&web(), &first.refresh_token).await.unwrap();
    world.clock.advance(Duration::from_mins(5));

    let again = rotated.refresh(&web(), &first.refresh_token).await.unwrap();

    assert_eq!(again.refresh_token.expose_secret(), second.refresh_token.expose_secret());
}

#[tokio::test]
async fn theft_is_seen_across_a_change_of_the_server_key() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let rotated = under(&world, both_keys());
    let second = rotated.refresh(&web(), &first.refresh_token).await.unwrap();
    rotated.refresh(&web(), &second.refresh_token).await.unwrap();

    let replayed = rotated.refresh(&web(), &first.refresh_token).await;

    assert_eq!(wrong(replayed).1, "refresh_token_reused");
    let revocation = world.row(&first).await.revoked.unwrap();
    assert_eq!(revocation.reason, RevocationReason::RefreshReuse);
}

#[tokio::test]
async fn a_retired_server_key_makes_no_current_token() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let rotated = under(&world, both_keys());
    let second = rotated.refresh(&web(), &first.refresh_token).await.unwrap();

    let forged = made_with(SERVER_KEY, 1, &second.session, 2);
    let refused = rotated.refresh(&web(), &forged).await;

    assert_eq!(wrong(refused).1, "refresh_token_invalid");
    assert!(rotated.refresh(&web(), &second.refresh_token).await.is_ok());
}

#[tokio::test]
async fn a_token_of_a_server_key_that_was_dropped_is_refused_and_harms_nothing() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let row = world.row(&first).await;
    let without = under(&world, server_key(2, NEW_KEY));

    let refused = without.refresh(&web(), &first.refresh_token).await;

    assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "refresh_token_invalid"));
    assert_eq!(world.row(&first).await, row);
    assert!(without.authenticate(&web(), &first.access_token).await.is_ok());
    assert!(under(&world, both_keys()).refresh(&web(), &first.refresh_token).await.is_ok());
}
