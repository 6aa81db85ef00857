//! Refreshing, signing in and checking while sessions end: each is wholly before or wholly after.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use subscription_core::accounts::Session;
use subscription_core::store::{SessionQuery, StoreExt as _};

use secrecy::ExposeSecret as _;
use subscription_core::auth::{AuthSettings, Authenticated, RevocationReason, SignedIn};
use subscription_core::events::{Change, Event, Subject};
use subscription_core::store::PageLimit;
use subscription_core::{Error, MemoryStore, SessionId, Store, Timestamp};
use test_support::rng::Rng;
use test_support::seed::seeds;
use test_support::service_world::wrong;
use test_support::spy_store::{SpyStore, YieldsAtRandom};
use tokio::task::JoinSet;

use super::world::{AuthWorld, web};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_refreshes_with_one_token_agree_on_its_successor() {
    for seed in 0..20 {
        let store = SpyStore::new(YieldsAtRandom(Rng::new(seed)));
        let world = Arc::new(AuthWorld::over(store, AuthSettings::default()));
        let first = world.sign_up("ada").await;

        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let (world, first) = (Arc::clone(&world), first.clone());
            tasks.spawn(async move { world.refresh(&first).await.unwrap() });
        }
        let pairs = tasks.join_all().await;

        let refresh: HashSet<_> = pairs.iter().map(|p| p.refresh_token.expose_secret()).collect();
        let access: HashSet<_> = pairs.iter().map(|p| p.access_token.expose_secret()).collect();
        assert_eq!((refresh.len(), access.len()), (1, 50), "seed {seed}");
        assert_eq!(world.row(&first).await.generation, 2, "seed {seed}");
        for pair in &pairs {
            assert!(world.check(pair).await.is_ok(), "seed {seed}");
        }
    }
}

/// How sessions end during a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Logout,
    RevokeAll,
    Deletion,
}

const ENDINGS: [Ending; 3] = [Ending::Logout, Ending::RevokeAll, Ending::Deletion];

/// An action of a task in a race.
#[derive(Debug, Clone, Copy)]
enum Act {
    Refresh,
    SignIn,
    Check,
    End,
}

/// The result of an action.
#[derive(Debug)]
enum Done {
    Pair(Box<SignedIn>),
    Checked,
    Ended(usize),
    Refused(&'static str),
}

impl<T> From<Result<T, Error>> for Done
where
    Self: From<T>,
{
    fn from(result: Result<T, Error>) -> Self {
        result.map_or_else(|error| Self::Refused(error.code()), Self::from)
    }
}

impl From<SignedIn> for Done {
    fn from(pair: SignedIn) -> Self {
        Self::Pair(Box::new(pair))
    }
}

/// A user with two sessions, about to lose one or both.
struct Race {
    world: AuthWorld,
    ending: Ending,
    seed: u64,
    refreshed: SignedIn,
    other: SignedIn,
    caller: Authenticated,
    /// The actions, in the order in which they finished.
    trace: Mutex<Vec<String>>,
}

impl Race {
    async fn prepare(store: Arc<dyn Store>, ending: Ending, seed: u64) -> Self {
        let world = AuthWorld::over(store, AuthSettings::default());
        let first = world.sign_up("ada").await;
        let refreshed = world.refresh(&first).await.unwrap();
        let other = world.sign_in("ada").await;
        let caller = world.check(&other).await.unwrap();
        // Whether a first use has to be written makes a difference to who gets in whose way.
        if seed.is_multiple_of(2) {
            world.check(&refreshed).await.unwrap();
        }
        Self { world, ending, seed, refreshed, other, caller, trace: Mutex::default() }
    }

    /// Runs all acts at once, in an order by the seed, and then holds that nothing is half done.
    async fn run(self) -> Vec<String> {
        let mut acts = vec![Act::Refresh, Act::Refresh, Act::SignIn, Act::Check, Act::Check];
        acts.push(Act::End);
        let rng = Rng::new(self.seed);
        acts.sort_by_cached_key(|_| rng.number());
        let race = Arc::new(self);
        let mut tasks = JoinSet::new();
        for act in acts {
            let race = Arc::clone(&race);
            tasks.spawn(async move { (act, race.act(act).await) });
        }
        let done = tasks.join_all().await;
        race.check(done).await;
        let trace = race.trace.lock().unwrap();
        trace.clone()
    }

    async fn act(&self, act: Act) -> Done {
        let world = &self.world;
        let done = match act {
            Act::Refresh => world.refresh(&self.refreshed).await.into(),
            Act::SignIn => world.auth.sign_in(world.person("ada")).await.into(),
            Act::Check => checked(world.check(&self.refreshed).await),
            Act::End => self.end().await,
        };
        let outcome = match &done {
            Done::Pair(pair) => format!("{act:?} {}", pair.refresh_token.expose_secret()),
            Done::Checked | Done::Ended(_) | Done::Refused(_) => format!("{act:?} {done:?}"),
        };
        self.trace.lock().unwrap().push(outcome);
        done
    }

    async fn end(&self) -> Done {
        let auth = &self.world.auth;
        let ended = match self.ending {
            Ending::Logout => auth.logout(&web(), &self.refreshed.access_token).await,
            Ending::RevokeAll => auth.revoke_all(&self.caller).await,
            Ending::Deletion => {
                let own = self.caller.claims.sub.to_string();
                auth.delete_account(&self.caller, &own).await.map(|()| 0)
            }
        };
        let ended = ended.unwrap_or_else(|error| panic!("{}: {error:?}", self.case()));
        // Others are still at it, but from here on nothing of these sessions may work.
        self.assert_dead(&self.refreshed).await;
        if self.ending != Ending::Logout {
            self.assert_dead(&self.other).await;
        }
        Done::Ended(ended)
    }

    async fn assert_dead(&self, pair: &SignedIn) {
        let case = self.case();
        assert_eq!(wrong(self.world.check(pair).await).1, "session_revoked", "{case}");
        let refresh = wrong(self.world.refresh(pair).await).1;
        assert_eq!(refresh, self.refused_refresh(), "{case}");
    }

    /// Holds what each act came to against what is kept.
    async fn check(&self, done: Vec<(Act, Done)>) {
        let (case, mut revoked) = (self.case(), None);
        for (act, done) in done {
            match (act, done) {
                (Act::Refresh, Done::Pair(pair)) => self.assert_dead(&pair).await,
                (Act::SignIn, Done::Pair(pair)) => self.assert_before_or_after(&pair).await,
                (Act::End, Done::Ended(count)) => revoked = Some(count),
                (Act::Refresh, Done::Refused(code)) => {
                    assert_eq!(code, self.refused_refresh(), "{case}");
                }
                (Act::Check, Done::Checked | Done::Refused("session_revoked")) => {}
                (Act::SignIn, Done::Refused(code)) => {
                    assert_eq!((self.ending, code), (Ending::Deletion, "account_not_found"));
                }
                (act, done) => panic!("{case}: {act:?} came to {done:?}"),
            }
        }
        let rows = self
            .world
            .store
            .list_as::<Session>(SessionQuery::LiveOf {
                user: self.caller.claims.sub,
                now: Timestamp::MIN,
            })
            .await
            .unwrap()
            .items;
        let ended = rows.iter().filter_map(|row| row.revoked.map(|revocation| revocation.reason));
        let expected = match self.ending {
            Ending::Logout => RevocationReason::Logout,
            Ending::RevokeAll => RevocationReason::RevokeAll,
            Ending::Deletion => {
                assert_eq!(rows, [], "{case}");
                return;
            }
        };
        let reasons: Vec<_> = ended.collect();
        assert_eq!(Some(reasons.len()), revoked, "{case}");
        assert!(reasons.iter().all(|reason| *reason == expected), "{case}: {reasons:?}");
    }

    /// Holds that a session which was opened during the race works in all or in nothing.
    async fn assert_before_or_after(&self, pair: &SignedIn) {
        let case = self.case();
        let row = self.world.store.get_as::<Session>(&pair.session.id).await.unwrap();
        let survived = row.is_some_and(|row| row.revoked.is_none());
        if self.ending == Ending::RevokeAll {
            assert_eq!(survived, self.was_opened_after_the_end(pair).await, "{case}");
        }
        if survived {
            assert!(self.world.check(pair).await.is_ok(), "{case}");
            assert!(self.world.refresh(pair).await.is_ok(), "{case}");
        } else {
            assert_ne!(self.ending, Ending::Logout, "{case}");
            self.assert_dead(pair).await;
        }
    }

    /// True if the feed tells of the session's beginning after the end of the others.
    async fn was_opened_after_the_end(&self, pair: &SignedIn) -> bool {
        let feed = self.world.service.events(0, PageLimit::MAX).await.unwrap();
        let place = |session: SessionId, wanted: Change| {
            let told = |event: &Event| event.subject == Subject::Session(session);
            feed.iter()
                .position(|recorded| told(&recorded.event) && recorded.event.change == wanted)
        };
        let reason = RevocationReason::RevokeAll;
        let ended = place(self.other.session.id, Change::Revoked { reason }).unwrap();
        place(pair.session.id, Change::Created).unwrap() > ended
    }

    fn refused_refresh(&self) -> &'static str {
        if self.ending == Ending::Deletion { "refresh_token_invalid" } else { "session_revoked" }
    }

    fn case(&self) -> String {
        format!("{:?}, seed {}", self.ending, self.seed)
    }
}

fn checked<T>(result: Result<T, Error>) -> Done {
    result.map_or_else(|error| Done::Refused(error.code()), |_| Done::Checked)
}

fn yielding(seed: u64) -> Arc<dyn Store> {
    SpyStore::new(YieldsAtRandom(Rng::new(seed)))
}

#[tokio::test(flavor = "multi_thread")]
async fn on_many_threads_nothing_of_an_ended_session_works_once_that_is_said() {
    for seed in seeds(50) {
        for ending in ENDINGS {
            let store =
                if seed % 4 < 2 { Arc::new(MemoryStore::default()) } else { yielding(seed) };
            Race::prepare(store, ending, seed).await.run().await;
        }
    }
}

#[tokio::test]
async fn in_every_order_by_a_seed_nothing_of_an_ended_session_works_once_that_is_said() {
    let seeds = seeds(50);
    let mut orders = HashSet::new();
    for seed in seeds.iter().copied() {
        for ending in ENDINGS {
            let trace = Race::prepare(yielding(seed), ending, seed).await.run().await;
            orders.insert(trace);
        }
    }
    // The tasks do come in between each other, in many ways.
    assert!(orders.len() > seeds.len() * 3 / 4, "{} orders", orders.len());
}

#[tokio::test]
async fn a_seed_repeats_its_race() {
    for ending in ENDINGS {
        let first = Race::prepare(yielding(7), ending, 7).await.run().await;
        let again = Race::prepare(yielding(7), ending, 7).await.run().await;
        assert_eq!(first, again, "{ending:?}");
    }
}
