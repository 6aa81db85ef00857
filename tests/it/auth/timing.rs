//! How long a refusal takes does not tell what was right.
//!
//! Two kinds of wrong guesses are made in turn, so that whatever else the machine does slows both, and
//! the lower quartiles of thousands are compared. A clock sees what costs a quarter of a refusal,
//! such as a hash that is not made; it does not see one byte that is compared or not, for which the
//! sources are read (`constant_time.rs`).

use std::time::{Duration, Instant};

use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::auth::{ClientKind, NewClient, SignIn};
use test_support::service_world::of;

use super::world::{AuthWorld, web};

/// How much longer one kind may seem to take.
const RATIO_MAX: (u32, u32) = (5, 4);

const PAIRS: usize = 3_000;

/// One of these comes out even, unless there is something to be seen: then none does.
const ATTEMPTS: usize = 5;

/// The time below which a quarter of the samples lies.
fn lower_quartile(mut samples: Vec<Duration>) -> Duration {
    let (_, quartile, _) = samples.select_nth_unstable(PAIRS / 4);
    *quartile
}

/// Asserts that two things take as long, and tells how long.
#[expect(clippy::print_stdout, reason = "the numbers, for those who ask with --nocapture")]
async fn assert_alike(what: &str, one: impl AsyncFn(), other: impl AsyncFn()) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // Each goes first as often as the other.
            for first in [pair % 2 == 0, pair % 2 != 0] {
                let since = Instant::now();
                if first {
                    one().await;
                    ones.push(since.elapsed());
                } else {
                    other().await;
                    others.push(since.elapsed());
                }
            }
        }
        let (one, other) = (lower_quartile(ones), lower_quartile(others));
        seen.push((one, other));
        if one.max(other) * RATIO_MAX.1 <= one.min(other) * RATIO_MAX.0 {
            println!("{what}: {one:?} and {other:?}");
            return;
        }
    }
    panic!("{what}: {seen:?}");
}

/// A secret with another character at a place.
fn wrong_at(secret: &SecretString, place: usize) -> SecretString {
    let mut bytes = secret.expose_secret().as_bytes().to_vec();
    bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
    String::from_utf8(bytes).unwrap().into()
}

#[tokio::test]
async fn a_wrong_client_key_takes_as_long_wherever_it_is_wrong_and_whoever_it_is_for() {
    let world = AuthWorld::new();
    let new = NewClient {
        id: of("server"),
        name: of("Server"),
        kind: ClientKind::Confidential,
        scopes: [].into(),
        origins: [].into(),
    };
    let key = world.auth.create_client(new).await.unwrap().credential;
    let first = wrong_at(&key, "sck_server_".len());
    // Of the very last character some bits are not part of the key.
    let last = wrong_at(&key, key.expose_secret().len() - 2);
    let nobody = key.expose_secret().replace("_server_", "_nobody_").into();
    let refused = async |key: &SecretString| {
        world.auth.authenticate_client(key).await.unwrap_err();
    };

    let [first, last, nobody] = [&first, &last, &nobody].map(|key| async || refused(key).await);

    assert_alike("client keys, first and last byte", &first, &last).await;
    assert_alike("client keys, known and unknown client", &first, &nobody).await;
}

#[tokio::test]
async fn a_wrong_refresh_token_takes_as_long_wherever_it_is_wrong() {
    let world = AuthWorld::new();
    let token = world.sign_up("ada").await.refresh_token;
    // The MAC is the last 32 of 54 bytes: it begins within the 30th character of base64.
    let first = wrong_at(&token, "srt_".len() + 30);
    let last = wrong_at(&token, token.expose_secret().len() - 1);
    let refused = async |token: &SecretString| {
        world.auth.refresh(&web(), token).await.unwrap_err();
    };

    let (first, last) = (async || refused(&first).await, async || refused(&last).await);

    assert_alike("refresh tokens, first and last byte", first, last).await;
}

#[tokio::test]
async fn a_bad_identity_token_takes_as_long_for_whom_we_know_as_for_others() {
    let world = AuthWorld::new();
    world.sign_up("ada").await;
    let token = world.identity_token("ada", |_| {});
    let forged = wrong_at(&token, token.expose_secret().len() - 2);
    let as_somebody = |name: &str| SignIn { access_token: forged.clone(), ..world.person(name) };
    let (ada, eve) = (as_somebody("ada"), as_somebody("eve"));
    let refused = async |person: &SignIn| {
        world.auth.sign_in(person.clone()).await.unwrap_err();
    };

    let (ada, eve) = (async || refused(&ada).await, async || refused(&eve).await);

    assert_alike("sign-ins, known and unknown address", ada, eve).await;
}
