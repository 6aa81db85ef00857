//! Tokens that were found good a moment ago: how little is asked, and how soon an end is seen.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::{AuthSettings, Authenticated, Authentication, SignedIn};
use subscription_core::{Error, ErrorKind, MemoryStore, Store};
use test_support::service_world::{of, wrong};
use test_support::spy_store::{Call, CallCounts, LosesACommit, Spy, SpyStore};

use super::world::{AuthWorld, CACHE_LAG, SERVER_KEY, authentication, just_under, server_key, web};

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

/// The ways in which a session ends before its time.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Logout,
    RevokeAll,
    RevokeOthers,
    Deletion,
    Theft,
    SessionCap,
}

const ENDINGS: [Ending; 6] = [
    Ending::Logout,
    Ending::RevokeAll,
    Ending::RevokeOthers,
    Ending::Deletion,
    Ending::Theft,
    Ending::SessionCap,
];

/// A user with two sessions, the older of which is going to end.
struct Stage {
    world: Arc<AuthWorld>,
    /// As it signed up, and as it is since.
    doomed: [SignedIn; 3],
    other: Authenticated,
}

impl Stage {
    async fn over(store: Arc<dyn Store>) -> Self {
        let settings = AuthSettings::default().with_sessions_per_client(2);
        let world = AuthWorld::over(store, settings);
        let first = world.sign_up("ada").await;
        let second = world.refresh(&first).await.unwrap();
        let third = world.refresh(&second).await.unwrap();
        world.clock.advance(SECOND);
        let other = world.sign_in("ada").await;
        let other = world.check(&other).await.unwrap();
        Self { world: Arc::new(world), doomed: [first, second, third], other }
    }

    fn another_instance(&self) -> Authentication {
        let settings = AuthSettings::default();
        authentication(&self.world.service, server_key(1, SERVER_KEY), settings)
    }

    async fn cached(&self, auth: &Authentication) -> Result<Arc<Authenticated>, Error> {
        auth.authenticate_cached(&web(), &self.doomed[2].access_token).await
    }

    /// Ends the older session.
    fn end(&self, ending: Ending) -> impl Future<Output = ()> + Send + 'static {
        let (world, other) = (Arc::clone(&self.world), self.other.clone());
        let [first, _, third] = self.doomed.clone();
        async move {
            let auth = &world.auth;
            match ending {
                Ending::Logout => {
                    assert_eq!(auth.logout(&web(), &third.access_token).await.unwrap(), 1);
                }
                Ending::RevokeAll => assert_eq!(auth.revoke_all(&other).await.unwrap(), 2),
                Ending::RevokeOthers => {
                    assert_eq!(auth.revoke_all_except_current(&other).await.unwrap(), 1);
                }
                Ending::Deletion => {
                    auth.delete_account(&other, &other.claims.sub.to_string()).await.unwrap();
                }
                Ending::Theft => {
                    assert_eq!(wrong(world.refresh(&first).await).1, "refresh_token_reused");
                }
                Ending::SessionCap => {
                    world.sign_in("ada").await;
                }
            }
        }
    }
}

#[tokio::test]
async fn what_was_found_a_moment_ago_is_not_asked_again() {
    let store = SpyStore::new(CallCounts::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;
    let cached = || world.cached(&first);
    store.spy.take();

    // Time since the last check, and the reads and commits that it takes.
    let cases = [
        (Duration::ZERO, (1, 1)),
        (Duration::ZERO, (0, 0)),
        (just_under(CACHE_LAG), (0, 0)),
        (MICRO, (1, 0)),
        (just_under(CACHE_LAG), (0, 0)),
        (CACHE_LAG, (1, 0)),
    ];
    for (nth, (wait, asked)) in cases.into_iter().enumerate() {
        world.clock.advance(wait);
        let found = cached().await.unwrap();
        assert_eq!(store.spy.take(), asked, "check {nth}");
        assert_eq!(found.session.id, first.session.id, "check {nth}");
        assert_eq!(found.claims.sub, first.user.id, "check {nth}");
    }
}

#[tokio::test]
async fn what_was_found_later_than_now_is_asked_again() {
    let store = SpyStore::new(CallCounts::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let start = world.service.now();
    let first = world.sign_up("ada").await;
    world.clock.advance(2 * SECOND);
    world.cached(&first).await.unwrap();
    store.spy.take();

    world.clock.set(start.saturating_add(SECOND));
    world.cached(&first).await.unwrap();

    assert_eq!(store.spy.take(), (1, 0));
}

#[tokio::test]
async fn a_session_ended_here_is_over_at_once_and_elsewhere_after_the_lag() {
    for ending in ENDINGS {
        let stage = Stage::over(Arc::new(MemoryStore::default())).await;
        let (here, elsewhere) = (&stage.world.auth, stage.another_instance());
        stage.cached(here).await.unwrap();
        stage.cached(&elsewhere).await.unwrap();

        stage.end(ending).await;

        assert_eq!(wrong(stage.cached(here).await).1, "session_revoked", "{ending:?}");
        let uncached = elsewhere.authenticate(&web(), &stage.doomed[2].access_token).await;
        assert_eq!(wrong(uncached).1, "session_revoked", "{ending:?}");
        stage.world.clock.advance(just_under(CACHE_LAG));
        assert!(stage.cached(&elsewhere).await.is_ok(), "{ending:?}: the lag is there");
        stage.world.clock.advance(MICRO);
        assert_eq!(wrong(stage.cached(&elsewhere).await).1, "session_revoked", "{ending:?}");
    }
}

#[tokio::test]
async fn a_token_expires_within_the_lag() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let cached = || world.cached(&first);
    world.clock.advance(Duration::from_secs(10 * 60 + 29));

    assert!(cached().await.is_ok());
    world.clock.advance(SECOND);
    assert_eq!(wrong(cached().await).1, "token_expired");
}

#[tokio::test]
async fn a_session_expires_within_the_lag() {
    let idle_lifetime = Duration::from_mins(1);
    let world = AuthWorld::with(AuthSettings::default().with_idle_lifetime(idle_lifetime));
    let first = world.sign_up("ada").await;
    let cached = || world.cached(&first);
    world.clock.advance(just_under(idle_lifetime));

    assert!(cached().await.is_ok());
    world.clock.advance(MICRO);
    assert_eq!(wrong(cached().await).1, "session_expired");
}

#[tokio::test]
async fn what_was_found_for_one_client_is_nothing_to_another() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    world.cached(&first).await.unwrap();

    let other = world.auth.authenticate_cached(&of("mobile"), &first.access_token).await;

    assert_eq!(wrong(other).1, "token_invalid");
}

#[tokio::test]
async fn an_end_that_the_store_does_not_confirm_is_seen_at_once_if_it_was_taken() {
    let store = SpyStore::new(LosesACommit::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;
    world.cached(&first).await.unwrap();

    store.spy.lose_the_next_commit();
    let unknown = world.auth.logout(&web(), &first.access_token).await;

    assert_eq!(wrong(unknown), (ErrorKind::Unavailable, "store_unavailable"));
    assert_eq!(wrong(world.cached(&first).await).1, "session_revoked");
    assert_eq!(world.auth.logout(&web(), &first.access_token).await.unwrap(), 0);
}

type Interruption = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs something once, right after a session was read and before the reader hears.
#[derive(Default)]
struct Interrupting(Mutex<Option<Interruption>>);

impl fmt::Debug for Interrupting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupting")
    }
}

#[async_trait]
impl Spy for Interrupting {
    async fn after(&self, call: Call) {
        if call == Call::Session {
            let interruption = self.0.lock().unwrap().take();
            if let Some(interruption) = interruption {
                interruption.await;
            }
        }
    }
}

#[tokio::test]
async fn an_end_that_comes_while_the_session_is_read_leaves_nothing_stale() {
    for ending in ENDINGS {
        let store = SpyStore::new(Interrupting::default());
        let stage = Stage::over(Arc::clone(&store) as _).await;
        // The first use is written; the next is read only, and so outlives the end of the session.
        stage.world.check(&stage.doomed[2]).await.unwrap();
        *store.spy.0.lock().unwrap() = Some(Box::pin(stage.end(ending)));

        let during = stage.cached(&stage.world.auth).await;
        assert!(store.spy.0.lock().unwrap().is_none(), "{ending:?}: nothing came in between");

        assert!(during.is_ok(), "{ending:?}: it was read before the end");
        let after = stage.cached(&stage.world.auth).await;
        assert_eq!(wrong(after).1, "session_revoked", "{ending:?}");
    }
}

#[tokio::test]
async fn a_first_use_that_an_end_overtakes_is_refused() {
    for ending in ENDINGS {
        let store = SpyStore::new(Interrupting::default());
        let stage = Stage::over(Arc::clone(&store) as _).await;
        *store.spy.0.lock().unwrap() = Some(Box::pin(stage.end(ending)));

        let during = stage.cached(&stage.world.auth).await;

        assert_eq!(wrong(during).1, "session_revoked", "{ending:?}");
    }
}
