//! Users, their sessions, and clients in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::ById;
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::values::clock::Timestamp;
use crate::values::id::{SessionId, UserId};
use crate::values::text::{Email, Slug};

/// The largest id.
const MAX_ID: uuid::Uuid = uuid::Uuid::max();

#[derive(Debug, Default)]
pub(super) struct UserTable {
    records: ById<UserId, Arc<User>>,
    by_identity: HashMap<IdentityKey, UserId>,
    by_email: HashMap<Email, UserId>,
    closing: BTreeSet<UserId>,
}

impl UserTable {
    pub(super) fn get(&self, id: UserId) -> Option<&Arc<User>> {
        self.records.get(&id)
    }

    pub(super) fn by_identity(&self, identity: &IdentityKey) -> Option<&Arc<User>> {
        self.by_identity.get(identity).and_then(|id| self.records.get(id))
    }

    pub(super) fn by_email(&self, email: &Email) -> Option<&Arc<User>> {
        self.by_email.get(email).and_then(|id| self.records.get(id))
    }

    pub(super) fn closing(&self, limit: usize) -> Vec<Arc<User>> {
        let closing = self.closing.iter().filter_map(|id| self.records.get(id).cloned());
        closing.take(limit).collect()
    }

    pub(super) fn put(&mut self, user: Arc<User>) {
        self.delete(user.id);
        if user.closing {
            self.closing.insert(user.id);
        }
        self.by_identity.insert(user.identity.clone(), user.id);
        self.by_email.insert(user.email.clone(), user.id);
        self.records.insert(user.id, user);
    }

    pub(super) fn delete(&mut self, id: UserId) {
        let Some(user) = self.records.remove(&id) else { return };
        self.by_identity.remove(&user.identity);
        self.by_email.remove(&user.email);
        self.closing.remove(&id);
    }
}

#[derive(Debug, Default)]
pub(super) struct SessionTable {
    records: ById<SessionId, Arc<Session>>,
    by_user: BTreeSet<(UserId, Timestamp, SessionId)>,
    by_end: BTreeSet<(Timestamp, SessionId)>,
}

impl SessionTable {
    pub(super) fn get(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.records.get(&id)
    }

    /// The sessions of a user that have not ended, newest first.
    pub(super) fn live(&self, user: UserId, now: Timestamp) -> Vec<Arc<Session>> {
        let (last_ended, last) =
            ((user, now, MAX_ID.into()), (user, Timestamp::MAX, MAX_ID.into()));
        let live = self.by_user.range((Bound::Excluded(last_ended), Bound::Included(last)));
        let mut live: Vec<_> =
            live.filter_map(|(_, _, id)| self.records.get(id).cloned()).collect();
        live.sort_unstable_by_key(|session| Reverse(session.id));
        live
    }

    /// The sessions of a user that have ended, the latest first.
    pub(super) fn ended_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Vec<Arc<Session>> {
        let first = (user, Timestamp::MIN, uuid::Uuid::nil().into());
        let ended = self.by_user.range(first..=(user, now, MAX_ID.into())).rev();
        let ended = ended.skip(skip).take(limit);
        ended.filter_map(|(_, _, id)| self.records.get(id).cloned()).collect()
    }

    pub(super) fn ended(&self, before: Timestamp, limit: usize) -> Vec<Arc<Session>> {
        let ended = self.by_end.iter().take_while(|(ended_at, _)| *ended_at <= before);
        ended.filter_map(|(_, id)| self.records.get(id).cloned()).take(limit).collect()
    }

    pub(super) fn put(&mut self, session: Arc<Session>) {
        self.delete(session.id);
        self.by_user.insert((session.user_id, session.ended_at(), session.id));
        self.by_end.insert((session.ended_at(), session.id));
        self.records.insert(session.id, session);
    }

    pub(super) fn delete(&mut self, id: SessionId) {
        let Some(session) = self.records.remove(&id) else { return };
        self.by_user.remove(&(session.user_id, session.ended_at(), id));
        self.by_end.remove(&(session.ended_at(), id));
    }
}

/// The clients, by id.
pub(super) type ClientTable = BTreeMap<Slug, Arc<Client>>;
