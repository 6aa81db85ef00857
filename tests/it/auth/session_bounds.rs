//! However often a user signs in, a sign-in costs the same and leaves a bounded number of sessions.

use std::sync::Arc;
use std::time::Duration;
use subscription_core::accounts::Session;
use subscription_core::store::{SessionQuery, StoreExt as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use subscription_core::auth::{
    AuthSettings, Authentication, KeyRing, OidcIdentities, SignIn, SignedIn, SigningKey,
};
use subscription_core::store::{ChangeSet, PageLimit};
use subscription_core::{Timestamp, UserId};
use test_support::seed::steps;
use test_support::service_world::of;
use test_support::spy_store::{CallCounts, SpyStore};

use super::forge::{P256_PEM, Signer};
use super::provider::{ScriptedFetch, ada, trust};
use super::world::{AuthWorld, SERVER_KEY, SIGNING_SEED, secret, server_key, web};

const DAY: Duration = Duration::from_hours(24);

/// The session rows of a user: live ones and ended ones.
async fn rows(world: &AuthWorld, user: UserId) -> (usize, usize) {
    let all = world
        .store
        .list_as::<Session>(SessionQuery::LiveOf { user, now: Timestamp::MIN })
        .await
        .unwrap()
        .items;
    let now = world.service.now();
    let live = all.iter().filter(|session| session.is_live(now)).count();
    (live, all.len() - live)
}

/// Signs in at a client with a new identity token.
async fn sign_in_at(world: &AuthWorld, client: &str) -> SignedIn {
    world.clock.advance(Duration::from_secs(1));
    let person = SignIn { client_id: of(client), ..world.person("ada") };
    world.auth.sign_in(person).await.unwrap()
}

/// The cost of a sign-in: reads, commits, rows read and rows written.
type Cost = ((usize, usize), (usize, usize));

/// Signs in so many times, a minute apart, and gives what each sign-in cost and the most rows there
/// ever were.
async fn costs(settings: AuthSettings, sign_ins: usize) -> (Vec<Cost>, (usize, usize)) {
    let store = SpyStore::new(CallCounts::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, settings);
    let user = world.sign_up("ada").await.user.id;
    let (mut costs, mut most) = (Vec::new(), (0, 0));
    for nth in 1..=sign_ins {
        world.clock.advance(Duration::from_mins(1));
        let person = world.person("ada");
        store.spy.take();
        store.spy.take_rows();

        world.auth.sign_in(person).await.unwrap();

        costs.push((store.spy.take(), store.spy.take_rows()));
        let (live, ended) = rows(&world, user).await;
        most = (most.0.max(live), most.1.max(ended));
        if nth % 100 == 0 {
            let all = ChangeSet { forget_events: Some(u64::MAX), ..ChangeSet::default() };
            world.store.commit(all).await.unwrap();
        }
    }
    (costs, most)
}

#[tokio::test]
async fn the_last_of_thousands_of_sign_ins_costs_as_much_as_the_tenth() {
    let settings = AuthSettings::default().with_sessions_per_client(5).with_ended_per_user(3);

    let sign_ins = usize::try_from(steps(2_000)).unwrap();

    let (costs, most) = costs(settings, sign_ins).await;

    assert_eq!(costs.last(), costs.get(9));
    // The user, the live sessions, and the ended one that is too many; user, new session, the one that
    // it ends and the one that is deleted, each with its event.
    assert_eq!(costs[9], ((3, 1), (1 + 5 + 1, 2 * 4)));
    assert_eq!(most, (5, 3));
}

#[tokio::test]
async fn by_default_twenty_live_sessions_and_a_hundred_ended_ones_are_kept() {
    let (costs, most) = costs(AuthSettings::default(), 1_000).await;

    assert_eq!(most, (20, 100));
    assert_eq!(costs[999], costs[150]);
    let reads: Vec<_> = costs.iter().map(|(calls, _)| *calls).collect();
    assert!(reads.iter().all(|calls| *calls == (3, 1)), "{reads:?}");
    assert!(costs.iter().all(|(_, (read, written))| *read <= 22 && *written <= 8), "{costs:?}");
}

#[tokio::test]
async fn sessions_that_their_user_ended_are_bounded_too() {
    let world = AuthWorld::new();
    let user = world.sign_up("ada").await.user.id;

    for _ in 0..150 {
        world.clock.advance(Duration::from_secs(1));
        let session = world.sign_in("ada").await;
        world.auth.logout(&web(), &session.access_token).await.unwrap();
        let (live, ended) = rows(&world, user).await;
        assert!(live == 1 && ended <= 100, "{live} live, {ended} ended");
    }

    for nth in 0..120 {
        sign_in_at(&world, &format!("client-{nth}")).await;
    }
    let caller = world.check(&sign_in_at(&world, "web").await).await.unwrap();
    assert_eq!(world.auth.revoke_all(&caller).await.unwrap(), 122);
    assert_eq!(rows(&world, user).await, (0, 122), "those that were ended at once are kept");
    world.sign_in("ada").await;
    assert_eq!(rows(&world, user).await, (1, 100));
}

#[tokio::test]
async fn sessions_that_expired_by_themselves_are_bounded_by_the_next_sign_in() {
    let world = AuthWorld::new();
    let user = world.sign_up("ada").await.user.id;
    for nth in 0..350 {
        sign_in_at(&world, &format!("client-{nth}")).await;
    }
    world.clock.advance(15 * DAY);
    assert_eq!(rows(&world, user).await, (0, 351));

    world.sign_in("ada").await;
    let after_one = rows(&world, user).await;
    world.sign_in("ada").await;
    let after_two = rows(&world, user).await;

    // As many as one page has go with each.
    assert_eq!((after_one, after_two), ((1, 151), (2, 100)));
    assert_eq!(PageLimit::MAX.get(), 200);
}

#[tokio::test]
async fn the_longest_ended_sessions_go_first() {
    let settings = AuthSettings::default().with_ended_per_user(2);
    let world = AuthWorld::with(settings);
    world.sign_up("ada").await;
    let mut ended = Vec::new();
    for _ in 0..4 {
        world.clock.advance(Duration::from_secs(1));
        let session = world.sign_in("ada").await;
        world.auth.logout(&web(), &session.access_token).await.unwrap();
        ended.push(session.session.id);
    }

    let mut kept = Vec::new();
    for id in ended {
        kept.push(world.store.get_as::<Session>(&id).await.unwrap().is_some());
    }

    assert_eq!(kept, [false, false, true, true]);
}

/// Of an ECDSA signature (r, s) anybody can make the signature (r, n - s), which is as good.
#[tokio::test]
async fn an_identity_token_counts_once_whichever_of_its_signatures_it_has() {
    let world = AuthWorld::new();
    let signer = Signer::pem(P256_PEM, jsonwebtoken::Algorithm::ES256);
    let fetch = Arc::new(ScriptedFetch::answering(&json!({ "keys": [signer.jwk("k1")] })));
    let url = "https://id.example.com/keys".parse().unwrap();
    let verifier = Arc::new(OidcIdentities::new(trust(), url, fetch));
    let keys = KeyRing::new(SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap());
    let server_keys = server_key(1, SERVER_KEY);
    let auth = Authentication::builder(world.service.clone(), verifier, keys, server_keys).build();
    let token = signer.token(&json!({ "alg": "ES256", "kid": "k1" }), &ada());
    let tokens = [token.clone(), with_other_signature(&token)];
    let person = |token: &str| SignIn { access_token: token.into(), ..world.person("ada") };
    let user = auth.sign_up(person(&token)).await.unwrap().user.id;

    for nth in 0..12 {
        world.clock.advance(Duration::from_secs(1));
        auth.sign_in(person(&tokens[nth % 2])).await.unwrap();
    }

    assert_eq!(rows(&world, user).await.0, 5);
}

/// The same token with the other signature of P-256.
fn with_other_signature(token: &str) -> String {
    /// The order of the group, in hexadecimal digits.
    const N: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let mut borrow = 0;
    for at in (0..32).rev() {
        let digit = i32::from(u8::from_str_radix(&N[2 * at..2 * at + 2], 16).unwrap());
        let left = digit - i32::from(signature[32 + at]) - borrow;
        borrow = i32::from(left < 0);
        signature[32 + at] = u8::try_from(left.rem_euclid(256)).unwrap();
    }
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}
