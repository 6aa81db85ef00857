//! Users, their sessions, and clients in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::index::{ALL, IndexKey, Lists, after, first, walk};
use super::{ById, free};
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::store::query::{Direction, PageLimit, Position, SortKey};
use crate::store::user_query::UserFilter;
use crate::values::{Email, EmailKey, SessionId, Slug, Timestamp, UserId};

#[derive(Debug, Default)]
pub(super) struct UserTable {
    records: ById<UserId, Arc<User>>,
    by_identity: HashMap<IdentityKey, UserId>,
    by_email_key: BTreeMap<EmailKey, UserId>,
    /// Two lists: the users whose account is not closing, and the users whose account is closing.
    by_closing: Lists<(), User>,
}

impl UserTable {
    pub(super) fn get(&self, id: UserId) -> Option<&Arc<User>> {
        self.records.get(&id)
    }

    pub(super) fn by_identity(&self, identity: &IdentityKey) -> Option<&Arc<User>> {
        self.get(*self.by_identity.get(identity)?)
    }

    pub(super) fn by_email(&self, email: &Email) -> Option<&Arc<User>> {
        self.get(*self.by_email_key.get(email.key())?)
    }

    pub(super) fn closing(&self, limit: usize) -> Vec<Arc<User>> {
        self.by_closing.all(true.into()).take(limit).cloned().collect()
    }

    /// A page of the users whose account is not closing.
    pub(super) fn page(
        &self,
        filter: &UserFilter,
        position: Option<&Position>,
        limit: PageLimit,
    ) -> Vec<Arc<User>> {
        let is_after = |user: &&Arc<User>| position.is_none_or(|last| user.id.uuid() < last.id);
        let users: Box<dyn Iterator<Item = &Arc<User>> + '_> = match filter {
            UserFilter::All => {
                let way = Direction::Descending;
                let open = (&self.by_closing, vec![false.into()]);
                let found = walk(&[open], way, after(position, way, |_| ()));
                Box::new(found.map(|((), user)| user))
            }
            UserFilter::Email(email) => Box::new(self.by_email(email).into_iter().filter(is_after)),
            UserFilter::Ids(ids) => {
                let ids: BTreeSet<UserId> = ids.iter().copied().collect();
                Box::new(ids.into_iter().rev().filter_map(|id| self.get(id)).filter(is_after))
            }
            UserFilter::EmailPrefix(prefix) => {
                let from = match position.map(|last| &last.key) {
                    Some(SortKey::Email(key)) => Bound::Excluded(key.as_str()),
                    _ => Bound::Included(prefix.as_str()),
                };
                let keys = self.by_email_key.range::<str, _>((from, Bound::Unbounded));
                let keys = keys.take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
                Box::new(keys.filter_map(|(_, id)| self.get(*id)))
            }
        };
        first(users.filter(|user| !user.closing), limit)
    }

    pub(super) fn put(&mut self, user: Arc<User>) {
        self.delete(user.id);
        let place = ((), user.id.uuid().as_u128());
        self.by_closing.insert(user.closing.into(), place, &user);
        self.by_identity.insert(user.identity.clone(), user.id);
        self.by_email_key.insert(EmailKey::from(&user.email), user.id);
        self.records.insert(user.id, user);
    }

    pub(super) fn delete(&mut self, id: UserId) {
        let Some(user) = self.records.remove(&id) else { return };
        self.by_closing.remove(user.closing.into(), ((), id.uuid().as_u128()));
        free(&mut self.by_identity, &user.identity, id);
        if self.by_email_key.get(user.email.key()) == Some(&id) {
            self.by_email_key.remove(user.email.key());
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct SessionTable {
    records: ById<SessionId, Arc<Session>>,
    /// The sessions of each user, by the time of their end.
    by_user: Lists<i64, Session>,
    by_end: Lists<i64, Session>,
}

/// The place of a session in the lists by the time of its end.
fn end_place(session: &Session) -> IndexKey<i64> {
    (session.ended_at().micros(), session.id.uuid().as_u128())
}

impl SessionTable {
    pub(super) fn get(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.records.get(&id)
    }

    /// The sessions of a user that have not ended, newest first.
    pub(super) fn live(&self, user: UserId, now: Timestamp) -> Vec<Arc<Session>> {
        let user = user.uuid().as_u128();
        let live = self.by_user.between(user, now.micros() + 1, i64::MAX);
        let mut live: Vec<_> = live.cloned().collect();
        live.sort_unstable_by_key(|session| Reverse(session.id));
        live
    }

    /// The sessions of a user that have ended, the latest ended first.
    pub(super) fn ended_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Vec<Arc<Session>> {
        let user = user.uuid().as_u128();
        let ended = self.by_user.between(user, i64::MIN, now.micros() + 1).rev();
        ended.skip(skip).take(limit).cloned().collect()
    }

    pub(super) fn ended(&self, before: Timestamp, limit: usize) -> Vec<Arc<Session>> {
        let ended = self.by_end.between(ALL, i64::MIN, before.micros() + 1);
        ended.take(limit).cloned().collect()
    }

    pub(super) fn put(&mut self, session: Arc<Session>) {
        self.delete(session.id);
        let place = end_place(&session);
        self.by_user.insert(session.user_id.uuid().as_u128(), place, &session);
        self.by_end.insert(ALL, place, &session);
        self.records.insert(session.id, session);
    }

    pub(super) fn delete(&mut self, id: SessionId) {
        let Some(session) = self.records.remove(&id) else { return };
        let place = end_place(&session);
        self.by_user.remove(session.user_id.uuid().as_u128(), place);
        self.by_end.remove(ALL, place);
    }
}

/// The clients, by id.
pub(super) type ClientTable = BTreeMap<Slug, Arc<Client>>;
