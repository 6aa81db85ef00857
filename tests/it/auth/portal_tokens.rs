//! Portal tokens as an attacker sees them: what they are made of, how long they hold, and what it takes to make one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use subscription_core::auth::{AuthSettings, Authentication, PORTAL_LIFETIME, ServerKeys};
use subscription_core::{SubscriptionService, UserId};
use test_support::service_world::{at, of, wrong};

use super::world::{AuthWorld, SERVER_KEY, authentication, secret, server_key};

const NEW_KEY: &[u8] = b"the key that came after the first server key";
const USER: &str = "746f4b90-23d9-561a-8215-09fd380eccee";

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A token made by somebody who knows how, and has a key.
fn made_with(server_key: &[u8], key_id: u8, purpose: &[u8], issued_at: u64) -> SecretString {
    let user = of::<UserId>(USER).uuid().into_bytes();
    let head = [&[1, key_id], &user[..], &issued_at.to_be_bytes()].concat();
    let length = (purpose.len() as u64).to_be_bytes();
    let key = hmac(server_key, &[&length, purpose, &0_u64.to_be_bytes()]);
    let bytes = [&head[..], &hmac(&key, &[&head])].concat();
    format!("spt_{}", URL_SAFE_NO_PAD.encode(bytes)).into()
}

/// Authentication over users who are not looked up, with these keys.
fn with_keys(world: &AuthWorld, keys: ServerKeys) -> Authentication {
    let service = SubscriptionService::builder(Arc::clone(&world.store));
    let service = service.clock(world.clock.clone());
    authentication(&service.build(), keys, AuthSettings::default())
}

fn answer(auth: &Authentication, token: &SecretString) -> &'static str {
    auth.portal_user(token).map_or_else(subscription_core::Unauthenticated::code, |user| {
        assert_eq!((user.id, user.has_account), (of(USER), false));
        "taken"
    })
}

#[tokio::test]
async fn a_token_is_the_one_of_the_test_vector() {
    let world = AuthWorld::new();
    world.clock.set(at("2026-04-11T00:00:00Z"));
    let key: Vec<u8> = (1..=0x20).collect();
    let auth = with_keys(&world, server_key(1, &key));

    let token = auth.issue_portal_token(of(USER)).await.unwrap();

    // Computed by Python's `hmac` too.
    let expected =
        "spt_AQF0b0uQI9lWGoIVCf04DszuAAAAAGnZjwAbWjI9r2fwSVdNWuaNwt_InsBoZizepf83Xy4Qc8JO6g";
    assert_eq!(token.expose_secret(), expected);
    assert_eq!(answer(&auth, &token), "taken");
    assert_eq!(made_with(&key, 1, b"portal token", 1_775_865_600).expose_secret(), expected);
}

#[tokio::test]
async fn a_token_with_anything_changed_or_of_another_purpose_or_key_is_refused() {
    let world = AuthWorld::new();
    let auth = with_keys(&world, server_key(1, SERVER_KEY));
    let token = auth.issue_portal_token(of(USER)).await.unwrap().expose_secret().to_owned();
    let now = 1_738_281_600;
    let made = |key, key_id, purpose: &[u8]| made_with(key, key_id, purpose, now);
    assert_eq!(answer(&auth, &made(SERVER_KEY, 1, b"portal token")), "taken");
    let ada = world.sign_up("ada").await;
    let mut forged = vec![
        made(NEW_KEY, 1, b"portal token"),
        made(SERVER_KEY, 2, b"portal token"),
        made(b"", 1, b"portal token"),
        made(SERVER_KEY, 1, b"refresh token"),
        made(SERVER_KEY, 1, b"client key"),
        made(SERVER_KEY, 1, b""),
        ada.refresh_token.clone(),
        ada.access_token.clone(),
        token.replacen("spt_", "srt_", 1).into(),
        token.replacen("spt_", "SPT_", 1).into(),
        format!("{token}=").into(),
        format!("{token}A").into(),
        format!("{token}{}", "A".repeat(10_000)).into(),
        token[..token.len() - 1].into(),
        "spt_".into(),
        "".into(),
    ];
    let bytes = URL_SAFE_NO_PAD.decode(&token["spt_".len()..]).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            forged.push(format!("spt_{}", URL_SAFE_NO_PAD.encode(flipped)).into());
        }
    }
    for at in 0..token.len() {
        for other in ["A", "g", "_", "=", "\0", "é"] {
            let mut text = token.clone();
            text.replace_range(at..=at, other);
            forged.extend((text != token).then(|| text.into()));
        }
    }

    for token in &forged {
        assert_eq!(answer(&auth, token), "token_invalid", "{}", token.expose_secret());
    }
    assert!(forged.len() > 800, "{}", forged.len());
}

#[tokio::test]
async fn a_token_holds_for_half_an_hour_and_the_leeway() {
    let world = AuthWorld::new();
    let auth = with_keys(&world, server_key(1, SERVER_KEY));
    let token = auth.issue_portal_token(of(USER)).await.unwrap();
    let begin = at("2025-01-31T00:00:00Z");
    assert_eq!(PORTAL_LIFETIME, Duration::from_mins(30));

    for (seconds, expected) in [
        (0, "taken"),
        (1_800, "taken"),
        (1_829, "taken"),
        (1_830, "token_expired"),
        (1_831, "token_expired"),
    ] {
        world.clock.set(begin.saturating_add(Duration::from_secs(seconds)));
        assert_eq!(answer(&auth, &token), expected, "{seconds}");
    }
    // The clock of the instance that issued the token was ahead.
    for (seconds, expected) in [(30, "taken"), (31, "token_invalid"), (3_600, "token_invalid")] {
        world.clock.set(begin.saturating_sub(Duration::from_secs(seconds)));
        assert_eq!(answer(&auth, &token), expected, "{seconds} ahead");
    }
    let never = made_with(SERVER_KEY, 1, b"portal token", u64::MAX);
    assert_eq!(answer(&auth, &never), "token_invalid");
    let always = made_with(SERVER_KEY, 1, b"portal token", 0);
    assert_eq!(answer(&auth, &always), "token_expired");
}

#[tokio::test]
async fn a_token_is_good_until_its_server_key_is_dropped() {
    let world = AuthWorld::new();
    let before = with_keys(&world, server_key(1, SERVER_KEY));
    let token = before.issue_portal_token(of(USER)).await.unwrap();

    let both = server_key(2, NEW_KEY).and_checks(1, secret(SERVER_KEY)).unwrap();
    let rotated = with_keys(&world, both);
    assert_eq!(answer(&rotated, &token), "taken");
    let new = rotated.issue_portal_token(of(USER)).await.unwrap();
    assert_eq!((answer(&rotated, &new), answer(&before, &new)), ("taken", "token_invalid"));
    assert_eq!(answer(&with_keys(&world, server_key(2, NEW_KEY)), &token), "token_invalid");
}

#[tokio::test]
async fn a_token_needs_an_account_where_users_are_checked_and_none_elsewhere() {
    let world = AuthWorld::new();
    let anybody = with_keys(&world, server_key(1, SERVER_KEY));
    let admitted = async |auth: &Authentication, token: &SecretString| {
        auth.expect_portal_user(auth.portal_user(token).unwrap()).await
    };
    let ada = world.sign_up("ada").await.user.id;
    let of_ada = world.auth.issue_portal_token(ada).await.unwrap();
    assert!(admitted(&world.auth, &of_ada).await.is_ok());
    let unknown = of(USER);
    assert_eq!(wrong(world.auth.issue_portal_token(unknown).await).1, "not_found");
    let of_unknown = anybody.issue_portal_token(unknown).await.unwrap();
    assert!(admitted(&anybody, &of_unknown).await.is_ok());
    assert_eq!(wrong(admitted(&world.auth, &of_unknown).await).1, "session_revoked");

    world.close(ada).await;

    for auth in [&world.auth, &anybody] {
        assert_eq!(wrong(auth.issue_portal_token(ada).await).1, "account_closing");
        assert_eq!(wrong(admitted(auth, &of_ada).await).1, "account_closing");
    }
}

/// Also where users are not looked up: whoever had an account here has deleted all that is here.
#[tokio::test]
async fn a_token_ends_with_the_account_wherever_users_are() {
    let world = AuthWorld::new();
    let anybody = with_keys(&world, server_key(1, SERVER_KEY));
    let signed_in = world.sign_up("ada").await;
    let ada = signed_in.user.id;
    let token = anybody.issue_portal_token(ada).await.unwrap();
    let user = anybody.portal_user(&token).unwrap();
    assert!(user.has_account && anybody.expect_portal_user(user).await.is_ok());

    let caller = world.check(&signed_in).await.unwrap();
    world.auth.delete_account(&caller, &ada.to_string()).await.unwrap();

    assert_eq!(wrong(anybody.expect_portal_user(user).await).1, "session_revoked");
}
