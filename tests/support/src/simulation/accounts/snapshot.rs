//! All users, sessions, clients and subscriptions of a store at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use subscription_core::store::{ClientQuery, SessionQuery, StoreExt as _, UniqueValue};

use subscription_core::auth::{Client, Session, User};
use subscription_core::events::{Change, Event, Subject};
use subscription_core::{
    SessionId, Slug, Store, Subscription, SubscriptionId, SubscriptionStatus, Timestamp, UserId,
};

/// The records of a store.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The ids that were read.
    pub names: BTreeSet<Subject>,
    pub users: BTreeMap<UserId, Arc<User>>,
    pub sessions: BTreeMap<SessionId, Arc<Session>>,
    pub clients: BTreeMap<Slug, Arc<Client>>,
    pub subscriptions: BTreeMap<SubscriptionId, Arc<Subscription>>,
    /// The user found by each user's identity.
    pub by_identity: BTreeMap<UserId, Option<UserId>>,
}

impl Snapshot {
    /// Reads these records, and all records that their lists contain.
    pub async fn take(store: &dyn Store, names: BTreeSet<Subject>) -> Self {
        let mut snapshot = Self::default();
        for name in &names {
            match name {
                Subject::User(id) => {
                    let user = store.get_as::<User>(id).await.expect("a user reads");
                    if let Some(user) = user {
                        let found =
                            store.find_as::<User>(UniqueValue::UserIdentity(&user.identity)).await;
                        let found = found.expect("an identity is looked up").map(|user| user.id);
                        snapshot.by_identity.insert(*id, found);
                        snapshot.users.insert(*id, user);
                    }
                    // The sessions of a deleted user are read too. An invariant checks that there are none.
                    let sessions = store
                        .list_as::<Session>(SessionQuery::LiveOf { user: *id, now: Timestamp::MIN })
                        .await
                        .expect("sessions are listed")
                        .items;
                    let by_id = sessions.into_iter().map(|session| (session.id, session));
                    snapshot.sessions.extend(by_id);
                }
                Subject::Session(id) => {
                    let session = store.get_as::<Session>(id).await.expect("a session reads");
                    snapshot.sessions.extend(session.map(|session| (*id, session)));
                }
                Subject::Subscription(id) => {
                    let held =
                        store.get_as::<Subscription>(id).await.expect("a subscription reads");
                    snapshot.subscriptions.extend(held.map(|held| (*id, held)));
                }
                Subject::Client(_) | Subject::Plan(_) | Subject::Payment(_) => {}
            }
        }
        let clients =
            store.list_as::<Client>(ClientQuery::All).await.expect("clients are listed").items;
        snapshot.clients.extend(clients.into_iter().map(|client| (client.id.clone(), client)));
        snapshot.names = names;
        snapshot
    }

    /// The sessions of a user.
    pub fn sessions_of(&self, user: UserId) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.values().filter(move |session| session.user_id == user)
    }

    /// The sessions among these that were revoked.
    pub fn revoked(&self, among: &BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        let revoked = |id: &&SessionId| {
            self.sessions.get(*id).is_some_and(|session| session.revoked.is_some())
        };
        among.iter().filter(revoked).copied().collect()
    }
}

/// True for an event after which its record cannot change any more: a deletion, or the expiry of a subscription, which
/// comes with the deletion of its user's account.
pub fn is_last(event: &Event) -> bool {
    let over = SubscriptionStatus::Expired;
    event.change == Change::Deleted
        || matches!(event.change, Change::SubscriptionStatusChanged { to, .. } if to == over)
}
