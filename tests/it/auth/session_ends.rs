//! Sessions that end while their tokens are used.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::{AuthSettings, Authenticated, Authentication, SignedIn};
use subscription_core::{Error, ErrorKind, MemoryStore, Store};
use test_support::service_world::wrong;
use test_support::spy_store::{Call, LosesACommit, Spy, SpyStore};

use super::world::{AuthWorld, SERVER_KEY, authentication, server_key, web};

const SECOND: Duration = Duration::from_secs(1);

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

    async fn check(&self, auth: &Authentication) -> Result<Authenticated, Error> {
        auth.authenticate(&web(), &self.doomed[2].access_token).await
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
async fn an_ended_session_is_over_at_once_on_every_instance() {
    for ending in ENDINGS {
        let stage = Stage::over(Arc::new(MemoryStore::default())).await;
        let (here, elsewhere) = (&stage.world.auth, stage.another_instance());
        stage.check(here).await.unwrap();
        stage.check(&elsewhere).await.unwrap();

        stage.end(ending).await;

        assert_eq!(wrong(stage.check(here).await).1, "session_revoked", "{ending:?}");
        assert_eq!(wrong(stage.check(&elsewhere).await).1, "session_revoked", "{ending:?}");
    }
}

#[tokio::test]
async fn an_end_that_the_store_does_not_confirm_is_seen_at_once_if_it_was_taken() {
    let store = SpyStore::new(LosesACommit::default());
    let world = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let first = world.sign_up("ada").await;
    world.check(&first).await.unwrap();

    store.spy.lose_the_next_commit();
    let unknown = world.auth.logout(&web(), &first.access_token).await;

    assert_eq!(wrong(unknown), (ErrorKind::Unavailable, "store_unavailable"));
    assert_eq!(wrong(world.check(&first).await).1, "session_revoked");
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

        let during = stage.check(&stage.world.auth).await;
        assert!(store.spy.0.lock().unwrap().is_none(), "{ending:?}: nothing came in between");

        assert!(during.is_ok(), "{ending:?}: it was read before the end");
        let after = stage.check(&stage.world.auth).await;
        assert_eq!(wrong(after).1, "session_revoked", "{ending:?}");
    }
}

#[tokio::test]
async fn a_first_use_that_an_end_overtakes_is_refused() {
    for ending in ENDINGS {
        let store = SpyStore::new(Interrupting::default());
        let stage = Stage::over(Arc::clone(&store) as _).await;
        *store.spy.0.lock().unwrap() = Some(Box::pin(stage.end(ending)));

        let during = stage.check(&stage.world.auth).await;

        assert_eq!(wrong(during).1, "session_revoked", "{ending:?}");
    }
}
