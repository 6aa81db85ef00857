//! Refreshing: who gets the next pair of tokens, and who is taken for a thief.

use std::sync::Arc;
use std::time::Duration;
use subscription_core::store::StoreExt as _;

use secrecy::ExposeSecret as _;
use subscription_core::auth::{AuthSettings, RefreshWindows, RevocationReason, Session, SignedIn};
use subscription_core::events::{Change, Subject};
use subscription_core::store::{ChangeSet, PageLimit, Record};
use subscription_core::{Error, ErrorKind};
use test_support::service_world::wrong;
use test_support::spy_store::{LosesACommit, SpyStore};

use super::world::{AuthWorld, just_under, web};

const DAY: Duration = Duration::from_hours(24);

/// The use of the first refresh's tokens before the same token was sent again.
#[derive(Debug, Clone, Copy)]
enum Successor {
    Unused,
    Called,
    Refreshed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    SameToken,
    Theft,
}

fn with_windows(overlap: Duration, lost_answer: Duration) -> AuthWorld {
    let windows = RefreshWindows::default().with_overlap(overlap).with_lost_answer(lost_answer);
    AuthWorld::with(AuthSettings::default().with_windows(windows))
}

fn token(signed_in: &SignedIn) -> &str {
    signed_in.refresh_token.expose_secret()
}

/// Holds that a refresh was refused as theft, that this is kept, and that nothing of the session
/// works any more.
async fn assert_theft(
    world: &AuthWorld,
    refused: Result<SignedIn, Error>,
    of_session: &[&SignedIn],
    case: &str,
) {
    assert_eq!(wrong(refused), (ErrorKind::Unauthenticated, "refresh_token_reused"), "{case}");
    let Some(latest) = of_session.last() else { panic!("{case}: no session") };
    let row = world.row(latest).await;
    let revocation = row.revoked.unwrap();
    assert_eq!(revocation.reason, RevocationReason::RefreshReuse, "{case}");
    assert_eq!(revocation.at, world.service.now(), "{case}");
    let events = world.service.events(0, PageLimit::MAX).await.unwrap();
    let told = &events.last().unwrap().event;
    let change = Change::Revoked { reason: RevocationReason::RefreshReuse };
    assert_eq!((&told.subject, &told.change), (&Subject::Session(row.id), &change), "{case}");
    assert_eq!(told.version, row.version, "{case}");
    for pair in of_session {
        assert_eq!(wrong(world.refresh(pair).await).1, "session_revoked", "{case}");
    }
    assert_eq!(wrong(world.check(latest).await).1, "session_revoked", "{case}");
}

#[tokio::test]
async fn the_current_token_gives_the_next_pair() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    world.clock.advance(Duration::from_secs(1));

    let second = world.refresh(&first).await.unwrap();

    assert_ne!(token(&second), token(&first));
    assert_ne!(second.access_token.expose_secret(), first.access_token.expose_secret());
    assert_eq!((first.session.generation, second.session.generation), (1, 2));
    assert_eq!(second.session, world.row(&first).await);
    assert_eq!(second.session.rotated_at, world.service.now());
    assert_eq!(second.user, first.user);
    assert_eq!(second.expires_in, Duration::from_mins(10));
    assert_eq!(second.refresh_expires_in, 14 * DAY);
    assert_eq!(world.check(&second).await.unwrap().claims.generation, 2);
}

#[tokio::test]
async fn a_refresh_leaves_the_access_token_before_it_alone() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let third = world.refresh(&second).await.unwrap();

    world.clock.advance(Duration::from_secs(10 * 60 + 29));
    for pair in [&first, &second, &third] {
        assert!(world.check(pair).await.is_ok());
    }
    world.clock.advance(Duration::from_secs(1));
    for pair in [&first, &second, &third] {
        assert_eq!(wrong(world.check(pair).await).1, "token_expired");
    }
}

#[tokio::test]
async fn the_token_before_the_current_is_met_with_patience_for_a_while() {
    let (overlap, lost) = (Duration::from_secs(30), Duration::from_mins(10));
    let zero = Duration::ZERO;
    let cases = [
        (overlap, lost, zero, Successor::Unused, Answer::SameToken),
        (overlap, lost, zero, Successor::Called, Answer::SameToken),
        (overlap, lost, zero, Successor::Refreshed, Answer::Theft),
        (overlap, lost, just_under(overlap), Successor::Called, Answer::SameToken),
        (overlap, lost, just_under(overlap), Successor::Refreshed, Answer::Theft),
        (overlap, lost, overlap, Successor::Unused, Answer::SameToken),
        (overlap, lost, overlap, Successor::Called, Answer::Theft),
        (overlap, lost, just_under(lost), Successor::Unused, Answer::SameToken),
        (overlap, lost, just_under(lost), Successor::Called, Answer::Theft),
        (overlap, lost, lost, Successor::Unused, Answer::Theft),
        (overlap, lost, lost, Successor::Called, Answer::Theft),
        (overlap, zero, just_under(overlap), Successor::Called, Answer::SameToken),
        (overlap, zero, overlap, Successor::Unused, Answer::Theft),
        (zero, lost, zero, Successor::Unused, Answer::SameToken),
        (zero, lost, just_under(lost), Successor::Unused, Answer::SameToken),
        (zero, lost, zero, Successor::Called, Answer::Theft),
        (zero, zero, zero, Successor::Unused, Answer::Theft),
        (zero, zero, zero, Successor::Called, Answer::Theft),
    ];
    for (overlap, lost, wait, successor, expected) in cases {
        let case = format!("{overlap:?} {lost:?}, after {wait:?}, {successor:?}");
        let world = with_windows(overlap, lost);
        let first = world.sign_up("ada").await;
        let second = world.refresh(&first).await.unwrap();
        let latest = match successor {
            Successor::Unused => second.clone(),
            Successor::Called => world.check(&second).await.map(|_| second.clone()).unwrap(),
            Successor::Refreshed => world.refresh(&second).await.unwrap(),
        };
        world.clock.advance(wait);
        let before = world.row(&first).await;

        let again = world.refresh(&first).await;

        match expected {
            Answer::SameToken => {
                let again = again.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(token(&again), token(&second), "{case}");
                assert_eq!(world.row(&first).await, before, "{case}");
                assert_eq!(world.check(&again).await.unwrap().claims.generation, 2, "{case}");
                let access = again.access_token.expose_secret();
                assert_ne!(access, second.access_token.expose_secret(), "{case}");
                assert_eq!(world.refresh(&again).await.unwrap().session.generation, 3, "{case}");
            }
            Answer::Theft => assert_theft(&world, again, &[&first, &second, &latest], &case).await,
        }
    }
}

#[tokio::test]
async fn a_token_from_two_rotations_ago_is_theft_although_the_clock_stands_still() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let third = world.refresh(&second).await.unwrap();
    let fourth = world.refresh(&third).await.unwrap();

    let replayed = world.refresh(&first).await;

    assert_theft(&world, replayed, &[&first, &second, &third, &fourth], "frozen").await;
}

#[tokio::test]
async fn theft_ends_the_session_and_no_other() {
    let world = AuthWorld::new();
    let (stolen, other) = (world.sign_up("ada").await, world.sign_in("ada").await);
    let second = world.refresh(&stolen).await.unwrap();
    world.refresh(&second).await.unwrap();

    wrong(world.refresh(&stolen).await);

    assert!(world.check(&other).await.is_ok());
    assert!(world.refresh(&other).await.is_ok());
}

#[tokio::test]
async fn without_windows_a_replay_is_theft_even_if_the_clock_goes_back() {
    for back in [Duration::ZERO, Duration::from_secs(1), Duration::from_hours(1)] {
        let world = with_windows(Duration::ZERO, Duration::ZERO);
        let start = world.service.now();
        let first = world.sign_up("ada").await;
        world.clock.advance(Duration::from_hours(2));
        let second = world.refresh(&first).await.unwrap();
        world.clock.set(start.saturating_add(Duration::from_hours(2).saturating_sub(back)));

        let replayed = world.refresh(&first).await;

        assert_eq!(wrong(replayed).1, "refresh_token_reused", "{back:?}");
        assert_eq!(wrong(world.refresh(&second).await).1, "session_revoked", "{back:?}");
    }
}

#[tokio::test]
async fn a_session_that_was_ended_says_so_to_each_of_its_tokens() {
    for reason in [RevocationReason::Logout, RevocationReason::RevokeAll] {
        let world = AuthWorld::new();
        let first = world.sign_up("ada").await;
        let second = world.refresh(&first).await.unwrap();
        let caller = world.check(&second).await.unwrap();
        if reason == RevocationReason::Logout {
            world.auth.logout(&web(), &second.access_token).await.unwrap();
        } else {
            world.auth.revoke_all(&caller).await.unwrap();
        }

        // A replay of what was ended already is no news: the reason stays.
        for pair in [&first, &second] {
            assert_eq!(wrong(world.refresh(pair).await).1, "session_revoked", "{reason:?}");
            assert_eq!(wrong(world.check(pair).await).1, "session_revoked", "{reason:?}");
        }
        assert_eq!(world.row(&first).await.revoked.unwrap().reason, reason);
    }
}

#[tokio::test]
async fn a_session_ends_after_fourteen_days_without_a_refresh() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;

    world.clock.advance(just_under(14 * DAY));
    let second = world.refresh(&first).await.unwrap();
    world.clock.advance(14 * DAY);

    for pair in [&first, &second] {
        assert_eq!(wrong(world.refresh(pair).await).1, "session_expired");
    }
    assert_eq!(world.row(&first).await.revoked, None);
}

#[tokio::test]
async fn a_session_ends_after_ninety_days_however_often_it_is_refreshed() {
    let world = AuthWorld::new();
    let mut pair = world.sign_up("ada").await;
    for day in 1..90 {
        world.clock.advance(DAY);
        pair = world.refresh(&pair).await.unwrap();
        let left = (90 - day).min(14) * DAY;
        assert_eq!(pair.refresh_expires_in, left, "day {day}");
    }
    world.clock.advance(DAY.saturating_sub(Duration::from_secs(1)));
    let last = world.refresh(&pair).await.unwrap();
    assert!(world.check(&last).await.is_ok());
    assert_eq!(last.refresh_expires_in, Duration::from_secs(1));

    world.clock.advance(Duration::from_secs(1));

    assert_eq!(wrong(world.refresh(&last).await).1, "session_expired");
    assert_eq!(wrong(world.check(&last).await).1, "session_expired");
}

#[tokio::test]
async fn a_refresh_that_the_store_does_not_confirm_is_tried_again_with_the_same_token() {
    let store = SpyStore::new(LosesACommit::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;

    store.spy.lose_the_next_commit();
    let unknown = world.refresh(&first).await;
    let second = world.refresh(&first).await.unwrap();

    assert_eq!(wrong(unknown), (ErrorKind::Unavailable, "store_unavailable"));
    assert_eq!(second.session.generation, 2);
    assert!(world.check(&second).await.is_ok());
    assert_eq!(world.refresh(&second).await.unwrap().session.generation, 3);
}

#[tokio::test]
async fn theft_that_the_store_does_not_confirm_is_kept_if_it_was_taken() {
    let store = SpyStore::new(LosesACommit::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let third = world.refresh(&second).await.unwrap();

    store.spy.lose_the_next_commit();
    let unknown = world.refresh(&first).await;

    assert_eq!(wrong(unknown).1, "store_unavailable");
    assert_eq!(wrong(world.check(&third).await).1, "session_revoked");
    assert_eq!(wrong(world.refresh(&first).await).1, "session_revoked");
}

/// Puts a session back as it was, as a restored backup does.
async fn restore(world: &AuthWorld, old: &Session) {
    let current = world.store.get_as::<Session>(&old.id).await.unwrap().unwrap();
    let restored = Session { version: current.version.next(), ..old.clone() };
    let writes = vec![Record::from(restored)];
    world.store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
}

#[tokio::test]
async fn a_token_newer_than_a_restored_session_is_refused_and_harms_nothing() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let second = world.refresh(&first).await.unwrap();
    let third = world.refresh(&second).await.unwrap();
    restore(&world, &first.session).await;
    let row = world.row(&first).await;

    for ahead in [&second, &third] {
        assert_eq!(wrong(world.refresh(ahead).await).1, "refresh_token_invalid");
    }

    assert_eq!(world.row(&first).await, row);
    let next = world.refresh(&first).await.unwrap();
    assert_eq!(next.session.generation, 2);
}
