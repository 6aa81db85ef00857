//! Users, their sessions, and clients in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, RangeBounds as _};
use std::sync::Arc;

use super::index::first;
use super::{ById, free};
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::store::query::{PageLimit, Position, SortKey};
use crate::store::user_query::UserFilter;
use crate::values::{Email, EmailKey, SessionId, Slug, Timestamp, UserId};

/// The largest id.
const MAX_ID: uuid::Uuid = uuid::Uuid::max();

#[derive(Debug, Default)]
pub(super) struct UserTable {
    records: ById<UserId, Arc<User>>,
    by_identity: HashMap<IdentityKey, UserId>,
    by_email_key: BTreeMap<EmailKey, UserId>,
    open: BTreeSet<UserId>,
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
        self.by_email_key.get(email.key()).and_then(|id| self.records.get(id))
    }

    pub(super) fn closing(&self, limit: usize) -> Vec<Arc<User>> {
        let closing = self.closing.iter().filter_map(|id| self.records.get(id).cloned());
        closing.take(limit).collect()
    }

    /// The users of a page whose account is not closing.
    pub(super) fn page(
        &self,
        filter: &UserFilter,
        after: Option<&Position>,
        limit: PageLimit,
    ) -> Vec<Arc<User>> {
        let before =
            after.map_or(Bound::<UserId>::Unbounded, |after| Bound::Excluded(after.id.into()));
        let newest = (Bound::Unbounded, before);
        let ids: Box<dyn Iterator<Item = UserId> + '_> = match filter {
            UserFilter::All => Box::new(self.open.range(newest).rev().copied()),
            UserFilter::Email(email) => {
                let id = self.by_email_key.get(email.key()).copied();
                Box::new(id.into_iter().filter(move |id| newest.contains(id)))
            }
            UserFilter::Ids(ids) => {
                let ids: BTreeSet<UserId> = ids.iter().copied().collect();
                Box::new(ids.into_iter().rev().filter(move |id| newest.contains(id)))
            }
            UserFilter::EmailPrefix(prefix) => {
                let from = match after.map(|after| &after.key) {
                    Some(SortKey::Email(key)) => Bound::Excluded(key.as_str()),
                    _ => Bound::Included(prefix.as_str()),
                };
                let keys = self.by_email_key.range::<str, _>((from, Bound::Unbounded));
                let keys = keys.take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
                Box::new(keys.map(|(_, id)| *id))
            }
        };
        let users = ids.filter_map(|id| self.records.get(&id)).filter(|user| !user.closing);
        first(users, limit)
    }

    pub(super) fn put(&mut self, user: Arc<User>) {
        self.delete(user.id);
        let list = if user.closing { &mut self.closing } else { &mut self.open };
        list.insert(user.id);
        self.by_identity.insert(user.identity.clone(), user.id);
        self.by_email_key.insert(EmailKey::from(&user.email), user.id);
        self.records.insert(user.id, user);
    }

    pub(super) fn delete(&mut self, id: UserId) {
        let Some(user) = self.records.remove(&id) else { return };
        free(&mut self.by_identity, &user.identity, id);
        if self.by_email_key.get(user.email.key()) == Some(&id) {
            self.by_email_key.remove(user.email.key());
        }
        self.open.remove(&id);
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
        let last_ended = (user, now, MAX_ID.into());
        let last = (user, Timestamp::MAX, MAX_ID.into());
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
