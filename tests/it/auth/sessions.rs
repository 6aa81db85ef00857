//! Sessions: listed, used, ended one by one or all at once, and forgotten.

use std::sync::Arc;
use std::time::Duration;
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::store::{SessionQuery, StoreExt as _};

use subscription_core::auth::{AuthSettings, RevocationReason, SignIn, SignedIn};
use subscription_core::store::PageLimit;
use subscription_core::{ErrorKind, SessionId, Timestamp};
use test_support::service_world::{of, wrong};
use test_support::spy_store::{CallCounts, SpyStore};

use super::world::{AuthWorld, just_under, web};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const MICRO: Duration = Duration::from_micros(1);

/// The live sessions that a session's user sees, and which of them is its own.
async fn listed(world: &AuthWorld, signed_in: &SignedIn) -> (Vec<SessionId>, SessionId) {
    let caller = world.check(signed_in).await.unwrap();
    let sessions = world.auth.sessions(&caller).await.unwrap();
    (sessions.iter().map(|session| session.id).collect(), caller.session.id)
}

async fn names(world: &AuthWorld, after: u64) -> (Vec<String>, u64) {
    let events = world.service.events(after, PageLimit::MAX).await.unwrap();
    let last = events.last().map_or(after, |recorded| recorded.sequence);
    (events.iter().map(|recorded| recorded.event.name()).collect(), last)
}

#[tokio::test]
async fn a_user_sees_live_sessions_newest_first_and_knows_the_present_one() {
    let world = AuthWorld::new();
    let expired = world.sign_up("ada").await;
    world.clock.advance(10 * DAY);
    let oldest = world.sign_in("ada").await;
    world.clock.advance(4 * DAY);
    let left = world.sign_in("ada").await;
    world.clock.advance(SECOND);
    let mobile = SignIn { client_id: of("mobile"), ..world.person("ada") };
    let mobile = world.auth.sign_in(mobile).await.unwrap();
    world.clock.advance(SECOND);
    let newest = world.sign_in("ada").await;
    world.sign_up("eve").await;
    world.auth.logout(&web(), &left.access_token).await.unwrap();

    let live = vec![newest.session.id, mobile.session.id, oldest.session.id];
    assert_eq!(listed(&world, &newest).await, (live.clone(), newest.session.id));
    assert_eq!(listed(&world, &mobile).await, (live, mobile.session.id));
    assert_eq!(wrong(world.refresh(&expired).await).1, "session_expired");
}

#[tokio::test]
async fn leaving_ends_the_session_once_and_no_other() {
    let world = AuthWorld::new();
    let (first, other) = (world.sign_up("ada").await, world.sign_in("ada").await);

    assert_eq!(world.auth.logout(&web(), &first.access_token).await.unwrap(), 1);
    let row = world.row(&first).await;
    world.clock.advance(SECOND);
    assert_eq!(world.auth.logout(&web(), &first.access_token).await.unwrap(), 0);

    assert_eq!(row.revoked.unwrap().reason, RevocationReason::Logout);
    assert_eq!(world.row(&first).await, row);
    assert_eq!(wrong(world.check(&first).await).1, "session_revoked");
    assert_eq!(wrong(world.refresh(&first).await).1, "session_revoked");
    assert!(world.check(&other).await.is_ok());
}

#[tokio::test]
async fn a_token_that_has_expired_still_lets_its_user_leave() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    world.clock.advance(DAY);
    assert_eq!(wrong(world.check(&first).await).1, "token_expired");

    assert_eq!(world.auth.logout(&web(), &first.access_token).await.unwrap(), 1);
    assert_eq!(wrong(world.refresh(&first).await).1, "session_revoked");

    let second = world.sign_in("ada").await;
    world.clock.advance(14 * DAY);
    assert_eq!(world.auth.logout(&web(), &second.access_token).await.unwrap(), 0);
    assert_eq!(world.row(&second).await.revoked, None);
}

#[tokio::test]
async fn nobody_leaves_with_what_is_no_access_token() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;

    for token in ["garbage".into(), "".into(), first.refresh_token.clone()] {
        let refused = world.auth.logout(&web(), &token).await;
        assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "token_invalid"));
    }

    assert!(world.check(&first).await.is_ok());
}

#[tokio::test]
async fn a_user_ends_every_session_this_one_too() {
    let world = AuthWorld::new();
    let (first, second) = (world.sign_up("ada").await, world.sign_in("ada").await);
    let (third, eve) = (world.sign_in("ada").await, world.sign_up("eve").await);
    world.auth.logout(&web(), &third.access_token).await.unwrap();
    let caller = world.check(&first).await.unwrap();

    assert_eq!(world.auth.revoke_all(&caller).await.unwrap(), 2);
    assert_eq!(world.auth.revoke_all(&caller).await.unwrap(), 0);

    for (session, reason) in [
        (&first, RevocationReason::RevokeAll),
        (&second, RevocationReason::RevokeAll),
        (&third, RevocationReason::Logout),
    ] {
        assert_eq!(wrong(world.check(session).await).1, "session_revoked");
        assert_eq!(wrong(world.refresh(session).await).1, "session_revoked");
        assert_eq!(world.row(session).await.revoked.unwrap().reason, reason);
    }
    assert!(world.check(&eve).await.is_ok());
    let back = world.sign_in("ada").await;
    assert!(world.check(&back).await.is_ok());
}

#[tokio::test]
async fn a_user_ends_all_sessions_but_this_one() {
    let world = AuthWorld::new();
    let (first, second) = (world.sign_up("ada").await, world.sign_in("ada").await);
    let mobile = SignIn { client_id: of("mobile"), ..world.person("ada") };
    let mobile = world.auth.sign_in(mobile).await.unwrap();
    let caller = world.check(&second).await.unwrap();

    assert_eq!(world.auth.revoke_all_except_current(&caller).await.unwrap(), 2);
    assert_eq!(world.auth.revoke_all_except_current(&caller).await.unwrap(), 0);

    assert_eq!(wrong(world.check(&first).await).1, "session_revoked");
    assert_eq!(wrong(world.check(&mobile).await).1, "session_revoked");
    assert_eq!(listed(&world, &second).await.0, [second.session.id]);
    assert!(world.refresh(&second).await.is_ok());
}

#[tokio::test]
async fn that_a_session_is_used_is_written_once_a_generation_and_then_every_five_minutes() {
    let store = SpyStore::new(CallCounts::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let minutes = Duration::from_mins;
    store.spy.take();

    // Time since the last check, the token that is checked, and whether that is written.
    let cases = [
        (SECOND, &first, 0),
        (SECOND, &second, 1),
        (SECOND, &second, 0),
        (just_under(minutes(5)).saturating_sub(SECOND), &second, 0),
        (MICRO, &first, 1),
        (minutes(4), &second, 0),
        (SECOND, &first, 0),
    ];
    for (nth, (wait, pair, commits)) in cases.into_iter().enumerate() {
        world.clock.advance(wait);
        let seen_before = world.row(pair).await.last_seen_at;
        store.spy.take();

        let session = world.check(pair).await.unwrap().session;

        assert_eq!(store.spy.take(), (1, commits), "check {nth}");
        assert_eq!(session, world.row(pair).await, "check {nth}");
        let expected = if commits == 1 { world.service.now() } else { seen_before };
        assert_eq!(session.last_seen_at, expected, "check {nth}");
    }
}

#[tokio::test]
async fn an_ended_session_is_remembered_for_a_week() {
    let world = AuthWorld::new();
    let (ended, expires) = (world.sign_up("ada").await, world.sign_in("ada").await);
    let idle_until = expires.session.idle_expires_at;
    world.auth.logout(&web(), &ended.access_token).await.unwrap();

    world.clock.advance(just_under(7 * DAY));
    assert_eq!(world.auth.forget_ended_sessions().await.unwrap(), 0);
    assert_eq!(wrong(world.refresh(&ended).await).1, "session_revoked");
    world.clock.advance(MICRO);
    assert_eq!(world.auth.forget_ended_sessions().await.unwrap(), 1);
    assert_eq!(wrong(world.refresh(&ended).await).1, "refresh_token_invalid");

    world.clock.set(idle_until.saturating_add(just_under(7 * DAY)));
    assert_eq!(world.auth.forget_ended_sessions().await.unwrap(), 0);
    assert_eq!(wrong(world.refresh(&expires).await).1, "session_expired");
    world.clock.advance(MICRO);
    assert_eq!(world.auth.forget_ended_sessions().await.unwrap(), 1);
    assert_eq!(
        world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user: ended.user.id, now: Timestamp::MIN })
            .await
            .unwrap()
            .items,
        []
    );
}

#[tokio::test]
async fn ended_sessions_are_forgotten_in_batches_and_live_ones_kept() {
    let settings = AuthSettings::default().with_ended_per_user(1_000);
    let world = AuthWorld::with(settings);
    world.sign_up("ada").await;
    for _ in 0..469 {
        world.clock.advance(SECOND);
        world.sign_in("ada").await;
    }
    world.clock.advance(7 * DAY);

    let mut forgotten = Vec::new();
    for _ in 0..4 {
        forgotten.push(world.auth.forget_ended_sessions().await.unwrap());
    }

    assert_eq!(forgotten, [200, 200, 50, 0]);
    let newest = world.sign_in("ada").await;
    assert_eq!(listed(&world, &newest).await.0.len(), 20);
}

#[tokio::test]
async fn what_becomes_of_a_session_is_told_in_events_but_not_its_use() {
    let world = AuthWorld::new();

    let first = world.sign_up("ada").await;
    let (told, last) = names(&world, 0).await;
    assert_eq!(told, ["user.created", "session.created"]);

    let second = world.sign_in("ada").await;
    let (told, last) = names(&world, last).await;
    assert_eq!(told, ["user.updated", "session.created"]);

    let third = world.refresh(&second).await.unwrap();
    let caller = world.check(&third).await.unwrap();
    let (told, last) = names(&world, last).await;
    assert_eq!(told, [""; 0]);

    world.auth.logout(&web(), &first.access_token).await.unwrap();
    world.auth.logout(&web(), &first.access_token).await.unwrap();
    let (told, last) = names(&world, last).await;
    assert_eq!(told, ["session.revoked"]);

    world.auth.revoke_all(&caller).await.unwrap();
    let (told, last) = names(&world, last).await;
    assert_eq!(told, ["user.updated", "session.revoked"]);

    world.clock.advance(7 * DAY);
    world.auth.forget_ended_sessions().await.unwrap();
    let (told, last) = names(&world, last).await;
    assert_eq!(told, ["session.deleted", "session.deleted"]);

    world.auth.delete_account(&caller, &first.user.id.to_string()).await.unwrap();
    assert_eq!(names(&world, last).await.0, ["user.deleted"]);
}

#[tokio::test]
async fn nothing_of_a_deleted_account_works() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let caller = world.check(&second).await.unwrap();
    let own = caller.claims.sub.to_string();

    world.auth.delete_account(&caller, &own).await.unwrap();

    for pair in [&first, &second] {
        assert_eq!(wrong(world.check(pair).await).1, "session_revoked");
        assert_eq!(wrong(world.refresh(pair).await).1, "refresh_token_invalid");
        assert_eq!(world.auth.logout(&web(), &pair.access_token).await.unwrap(), 0);
    }
    assert_eq!(wrong(world.auth.user(&caller).await).1, "session_revoked");
    assert_eq!(wrong(world.auth.revoke_all(&caller).await).1, "session_revoked");
    assert_eq!(wrong(world.auth.revoke_all_except_current(&caller).await).1, "session_revoked");
    assert_eq!(wrong(world.auth.delete_account(&caller, &own).await).1, "session_revoked");
    assert_eq!(world.auth.sessions(&caller).await.unwrap(), []);
}

#[tokio::test]
async fn an_account_with_more_sessions_than_one_commit_takes_can_be_deleted() {
    let settings = AuthSettings::default().with_ended_per_user(usize::MAX);
    let world = AuthWorld::with(settings);
    world.sign_up("ada").await;
    for _ in 0..1_100 {
        world.clock.advance(SECOND);
        world.sign_in("ada").await;
    }
    let newest = world.sign_in("ada").await;
    let caller = world.check(&newest).await.unwrap();
    let own = newest.user.id;

    world.auth.delete_account(&caller, &own.to_string()).await.unwrap();

    assert_eq!(world.store.get_as::<User>(&own).await.unwrap(), None);
    assert_eq!(
        world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user: own, now: Timestamp::MIN })
            .await
            .unwrap()
            .items,
        []
    );
}
