//! Deleting accounts that are interrupted: whole or gone afterwards, however large.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::store::{SessionQuery, StoreExt as _};

use async_trait::async_trait;
use subscription_core::auth::{AuthSettings, Authenticated, SignedIn};
use subscription_core::store::{
    ChangeSet, Delete, Key, PageLimit, Record, StoreError, SubscriptionFilter, SubscriptionQuery,
};
use subscription_core::{
    BillingCycle, Error, ErrorKind, NewPlan, NewSubscription, PlanId, Store, Subscription,
    SubscriptionId, SubscriptionStatus, Timestamp, UserId,
};
use test_support::service_world::{of, wrong};
use test_support::spy_store::{Call, CallCounts, Spy, SpyStore};

use super::world::{AuthWorld, web};

/// More than one commit takes, together with the sessions and the user.
pub(crate) const MANY: usize = 1_300;

/// An account with subscriptions, two live sessions and an ended one.
pub(crate) struct Account {
    pub(crate) world: AuthWorld,
    plan: PlanId,
    pub(crate) user: UserId,
    pub(crate) session: SignedIn,
    subscriptions: usize,
}

impl Account {
    pub(crate) async fn with(subscriptions: usize, store: Arc<dyn Store>) -> Self {
        let world = AuthWorld::over(store, AuthSettings::default());
        let ended = world.sign_up("ada").await;
        world.auth.logout(&web(), &ended.access_token).await.unwrap();
        let (session, _other) = (world.sign_in("ada").await, world.sign_in("ada").await);
        let user = session.user.id;
        let new = NewPlan::new(of("Pro"), of("pro"), of("5"), BillingCycle::MONTHLY);
        let plan = world.service.create_plan(new).await.unwrap().id;
        let new = NewSubscription::new(user, plan);
        let first = world.service.create_subscription(new).await.unwrap();
        let others: Vec<_> = (1..subscriptions)
            .map(|_| {
                let id =
                    SubscriptionId::new(world.service.now(), world.service.randomness()).unwrap();
                Record::from(Subscription { id, ..(*first).clone() })
            })
            .collect();
        for writes in others.chunks(ChangeSet::RECORDS_MAX) {
            let changes = ChangeSet { writes: writes.to_vec(), ..ChangeSet::default() };
            world.store.commit(changes).await.unwrap();
        }
        Self { world, plan, user, session, subscriptions }
    }

    async fn caller(&self) -> Authenticated {
        self.world.check(&self.session).await.unwrap()
    }

    async fn delete(&self, caller: &Authenticated) -> Result<(), Error> {
        self.world.auth.delete_account(caller, &self.user.to_string()).await
    }

    /// The subscriptions that are not expired.
    async fn live(&self) -> usize {
        let statuses = SubscriptionStatus::all().filter(|s| *s != SubscriptionStatus::Expired);
        let filter =
            SubscriptionFilter::default().with_user_id(self.user).with_statuses(statuses.collect());
        let limit = PageLimit::MAX;
        let mut query = SubscriptionQuery::default().with_filter(filter).with_limit(limit);
        let mut live = 0;
        loop {
            let page = self.world.service.subscriptions(query.clone()).await.unwrap();
            live += page.items.len();
            query.after = page.next;
            if query.after.is_none() {
                return live;
            }
        }
    }

    async fn sessions(&self) -> usize {
        self.world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user: self.user, now: Timestamp::MIN })
            .await
            .unwrap()
            .items
            .len()
    }

    /// The stored records of the account.
    pub(crate) async fn state(&self) -> State {
        let (live, sessions) = (self.live().await, self.sessions().await);
        match self.world.store.get_as::<User>(&self.user).await.unwrap() {
            None => {
                assert_eq!((live, sessions), (0, 0), "left behind by a user who is gone");
                State::Gone
            }
            Some(user) if user.closing => {
                assert_eq!(sessions, 3, "sessions go last");
                State::Closing
            }
            Some(_) => {
                assert_eq!((live, sessions), (self.subscriptions, 3), "taken from an open account");
                State::Whole
            }
        }
    }

    async fn subscribe(&self) -> Result<(), Error> {
        let new = NewSubscription::new(self.user, self.plan);
        self.world.service.create_subscription(new).await.map(|_| ())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Whole,
    Closing,
    Gone,
}

/// Waits once before each answer of the store and once after it.
#[derive(Debug, Default)]
pub(crate) struct Hesitant;

#[async_trait]
impl Spy for Hesitant {
    async fn before(&self, _call: Call) {
        tokio::task::yield_now().await;
    }

    async fn after(&self, _call: Call) {
        tokio::task::yield_now().await;
    }
}

/// Fails once, at the call to which it is set.
#[derive(Debug, Default)]
struct FailsOnce(AtomicUsize);

impl Spy for FailsOnce {
    fn fails(&self, _call: Call) -> Option<StoreError> {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        (left == 1).then(|| StoreError::Unavailable("out of reach".into()))
    }
}

#[tokio::test]
async fn an_account_that_fits_into_one_commit_is_deleted_in_one() {
    // With the user and its three sessions: exactly as many as one commit takes.
    for subscriptions in [1, ChangeSet::RECORDS_MAX - 4] {
        let store = SpyStore::new(CallCounts::default());
        let account = Account::with(subscriptions, Arc::clone(&store) as _).await;
        let caller = account.caller().await;
        store.spy.take();

        account.delete(&caller).await.unwrap();

        assert_eq!(store.spy.take().1, 1, "{subscriptions} subscriptions");
        assert_eq!(account.state().await, State::Gone);
    }
}

#[tokio::test]
async fn an_account_of_one_record_too_many_is_closed_first_and_then_deleted() {
    let store = SpyStore::new(CallCounts::default());
    let account = Account::with(ChangeSet::RECORDS_MAX - 3, Arc::clone(&store) as _).await;
    let caller = account.caller().await;
    store.spy.take();

    account.delete(&caller).await.unwrap();

    assert_eq!(store.spy.take().1, 3);
    assert_eq!(account.state().await, State::Gone);
}

/// Drops the deletion after each number of polls there is, and gives what was left each time.
async fn dropped_anywhere(subscriptions: usize) -> Vec<State> {
    let mut left = Vec::new();
    for polls in 0.. {
        let account = Account::with(subscriptions, SpyStore::new(Hesitant) as _).await;
        let caller = account.caller().await;
        let finished = {
            let mut deletion = pin!(account.delete(&caller));
            let mut context = Context::from_waker(Waker::noop());
            (0..polls).any(|_| match deletion.as_mut().poll(&mut context) {
                Poll::Ready(done) => done.is_ok(),
                Poll::Pending => false,
            })
        };
        let state = account.state().await;
        if state == State::Closing {
            // The caller may repeat it, or upkeep finishes it.
            if polls % 2 == 0 {
                account.delete(&account.caller().await).await.unwrap();
            } else {
                assert_eq!(account.world.auth.finish_deletions().await.unwrap(), 1);
            }
            assert_eq!(account.state().await, State::Gone, "after {polls} polls");
        }
        assert_eq!(account.subscribe().await.is_ok(), state == State::Whole, "{polls} polls");
        assert_eq!(account.world.auth.finish_deletions().await.unwrap(), 0);
        left.push(state);
        if finished {
            break;
        }
    }
    left
}

#[tokio::test]
async fn a_deletion_that_is_dropped_leaves_the_account_whole_or_gone() {
    let left = dropped_anywhere(3).await;

    assert!(left.contains(&State::Whole) && left.contains(&State::Gone), "{left:?}");
    assert!(!left.contains(&State::Closing), "{left:?}");
}

#[tokio::test]
async fn a_large_deletion_that_is_dropped_is_finished_later() {
    let left = dropped_anywhere(MANY).await;

    for state in [State::Whole, State::Closing, State::Gone] {
        assert!(left.contains(&state), "{left:?}");
    }
}

#[tokio::test]
async fn a_deletion_that_fails_leaves_the_account_whole_or_is_finished_later() {
    for subscriptions in [3, MANY] {
        for nth in 1.. {
            let store = SpyStore::new(FailsOnce::default());
            let account = Account::with(subscriptions, Arc::clone(&store) as _).await;
            let caller = account.caller().await;
            store.spy.0.store(nth, Ordering::SeqCst);

            let done = account.delete(&caller).await;

            let reached = store.spy.0.swap(0, Ordering::SeqCst) == 0;
            assert_eq!(done.is_ok(), !reached);
            let expected = usize::from(account.state().await != State::Whole);
            let finished = account.world.auth.finish_deletions().await.unwrap();
            if reached {
                assert_eq!(finished, expected, "failed at call {nth}");
            } else {
                assert_eq!(account.state().await, State::Gone);
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_account_that_is_being_deleted_says_so() {
    let account = Account::with(1, SpyStore::new(Hesitant) as _).await;
    let (world, caller) = (&account.world, account.caller().await);
    account.world.close(account.user).await;
    let auth = &world.auth;

    let refusals = [
        wrong(auth.sign_in(world.person("ada")).await),
        wrong(auth.sign_up(world.person("ada")).await),
        wrong(world.refresh(&account.session).await),
        wrong(auth.user(&caller).await),
        wrong(auth.sessions(&caller).await),
        wrong(auth.logout(&web(), &account.session.access_token).await),
        wrong(auth.revoke_all(&caller).await),
        wrong(auth.revoke_all_except_current(&caller).await),
        wrong(account.subscribe().await),
    ];

    assert_eq!(refusals, [(ErrorKind::Conflict, "account_closing"); 9]);
    account.delete(&caller).await.unwrap();
    assert_eq!(account.state().await, State::Gone);
    assert_eq!(wrong(auth.sign_in(world.person("ada")).await).1, "account_not_found");
    assert!(auth.sign_up(world.person("ada")).await.is_ok());
}

/// Closing, and some without a session to repeat the deletion with.
#[tokio::test]
async fn accounts_that_were_left_half_deleted_are_finished_by_upkeep() {
    let account = Account::with(5, SpyStore::new(Hesitant) as _).await;
    let whole = account.world.sign_up("eve").await;
    account.world.close(account.user).await;
    let sessions = account
        .world
        .store
        .list_as::<Session>(SessionQuery::LiveOf { user: account.user, now: Timestamp::MIN })
        .await
        .unwrap()
        .items;
    let deletes = sessions
        .iter()
        .map(|session| Delete { key: Key::Session(session.id), version: session.version });
    let changes = ChangeSet { deletes: deletes.collect(), ..ChangeSet::default() };
    account.world.store.commit(changes).await.unwrap();

    assert_eq!(account.world.auth.finish_deletions().await.unwrap(), 1);

    assert_eq!(account.state().await, State::Gone);
    assert!(account.world.check(&whole).await.is_ok());
}
