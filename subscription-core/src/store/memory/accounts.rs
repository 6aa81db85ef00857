//! Users, their sessions, and clients in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::ById;
use crate::auth::{Client, IdentityKey, Session, User};
use crate::clock::Timestamp;
use crate::id::{SessionId, UserId};
use crate::text::{Email, Slug};

#[derive(Debug, Default)]
pub(super) struct UserTable {
    records: ById<UserId, Arc<User>>,
    by_identity: HashMap<IdentityKey, UserId>,
    by_email: HashMap<Email, UserId>,
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

    pub(super) fn put(&mut self, user: User) {
        self.delete(user.id);
        self.by_identity.insert(user.identity.clone(), user.id);
        self.by_email.insert(user.email.clone(), user.id);
        self.records.insert(user.id, Arc::new(user));
    }

    pub(super) fn delete(&mut self, id: UserId) {
        let Some(user) = self.records.remove(&id) else { return };
        self.by_identity.remove(&user.identity);
        self.by_email.remove(&user.email);
    }
}

#[derive(Debug, Default)]
pub(super) struct SessionTable {
    records: ById<SessionId, Arc<Session>>,
    by_user: BTreeSet<(UserId, SessionId)>,
    by_end: BTreeSet<(Timestamp, SessionId)>,
}

impl SessionTable {
    pub(super) fn get(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.records.get(&id)
    }

    /// The sessions of a user, newest first.
    pub(super) fn of_user(&self, user: UserId) -> Vec<Arc<Session>> {
        let (first, last) = (uuid::Uuid::nil().into(), uuid::Uuid::max().into());
        let ids = self.by_user.range((user, first)..=(user, last)).rev();
        ids.filter_map(|(_, id)| self.records.get(id).cloned()).collect()
    }

    pub(super) fn ended(&self, before: Timestamp, limit: usize) -> Vec<Arc<Session>> {
        let ended = self.by_end.iter().take_while(|(ended_at, _)| *ended_at <= before);
        ended.filter_map(|(_, id)| self.records.get(id).cloned()).take(limit).collect()
    }

    pub(super) fn put(&mut self, session: Session) {
        self.delete(session.id);
        self.by_user.insert((session.user_id, session.id));
        self.by_end.insert((session.ended_at(), session.id));
        self.records.insert(session.id, Arc::new(session));
    }

    pub(super) fn delete(&mut self, id: SessionId) {
        let Some(session) = self.records.remove(&id) else { return };
        self.by_user.remove(&(session.user_id, id));
        self.by_end.remove(&(session.ended_at(), id));
    }
}

/// The clients, by id.
pub(super) type ClientTable = BTreeMap<Slug, Arc<Client>>;
