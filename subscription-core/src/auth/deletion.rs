//! The deletion of an account: in one commit if all its records fit into one, otherwise in several steps.
//!
//! An account that is too large for one commit is first marked as [closing](super::User::closing). Then its
//! subscriptions expire. Its sessions and the user are deleted last, so that the caller, who needs a session, can
//! repeat the request until the deletion ends. [`Authentication::finish_deletions`] resumes a deletion that was
//! interrupted.

use crate::store::{SessionQuery, StoreExt as _, UserQuery};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Authenticated, Authentication};
use crate::accounts::{Session, User};
use crate::error::{Error, Forbidden, Unauthenticated};
use crate::events::{Actor, Change, Subject};
use crate::service::SubscriptionService;
use crate::store::{
    ChangeSet, Delete, Guard, Key, PageLimit, SubscriptionFilter, SubscriptionQuery,
};
use crate::subscriptions::{ManagedBy, Subscription, SubscriptionStatus};
use crate::values::{SessionId, Timestamp, UserId, Version};

/// # Deleting an account
impl Authentication {
    /// Deletes the account of `caller`. `auth_id` must be the id of this account. The sessions and all data that
    /// identify the person are deleted, the subscriptions expire, and the payments stay.
    ///
    /// An account of up to [1,000 records](ChangeSet::RECORDS_MAX) is deleted in one commit. A larger account needs
    /// several commits. So the returned future must run to its end: a server should spawn it as a task, because a
    /// future that is part of the request is dropped when the caller disconnects. Until the deletion ends, the other
    /// requests of the account fail with [`Conflict::AccountClosing`](crate::Conflict::AccountClosing).
    /// [`finish_deletions`](Self::finish_deletions) resumes a deletion that was interrupted.
    ///
    /// A service that does not [check users](crate::ServiceBuilder::check_users) accepts subscriptions for any user id,
    /// also for the id of a deleted account.
    pub async fn delete_account(&self, caller: &Authenticated, auth_id: &str) -> Result<(), Error> {
        let own = caller.claims.sub;
        if auth_id.parse() != Ok(own) {
            return Err(Forbidden::AuthIdMismatch.into());
        }
        let user = self.store().get_as::<User>(&own).await?;
        let user = user.ok_or(Unauthenticated::SessionRevoked)?;
        self.delete_user(&user, Actor::User(own)).await
    }

    /// Finishes the deletion of a batch of accounts whose deletion was interrupted, and returns the number of these
    /// accounts. Call this method when the process starts, and then regularly.
    pub async fn finish_deletions(&self) -> Result<usize, Error> {
        let closing = self.closing_accounts().await?;
        let mut finished = 0;
        let mut failed = None;
        for user in closing {
            // An account that cannot be deleted must not stop the deletion of the others.
            match self.delete_user(&user, Actor::Clock).await {
                Ok(()) => finished += 1,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(finished), Err)
    }

    /// The number of accounts whose deletion was interrupted and is not finished yet; 200 means 200 or more.
    pub async fn count_closing_accounts(&self) -> Result<usize, Error> {
        Ok(self.closing_accounts().await?.len())
    }

    /// A batch of accounts whose deletion has begun.
    async fn closing_accounts(&self) -> Result<Vec<Arc<User>>, Error> {
        let query = UserQuery::Closing { limit: PageLimit::MAX };
        Ok(self.store().readable_as::<User>(query).await?.items)
    }

    /// Deletes an account completely, step by step.
    async fn delete_user(&self, user: &User, by: Actor) -> Result<(), Error> {
        let service = self.service().by(by);
        let step = || self.delete_step(&service, user.id);
        while !self.service().retrying_on(&user.identity, step).await? {}
        Ok(())
    }

    /// Deletes an account if all its records fit into one commit. Otherwise does one step of the deletion. Returns true
    /// if the account is deleted, and false if more steps are needed.
    async fn delete_step(
        &self,
        service: &SubscriptionService,
        user_id: UserId,
    ) -> Result<bool, Error> {
        let user = self.store().get_as::<User>(&user_id).await?;
        // Another caller or instance has finished the deletion.
        let Some(user) = user else { return Ok(true) };
        let now = service.now();
        let subscriptions = self.live_subscriptions(user_id, now).await?;
        let mut changes = ChangeSet::default();
        let all_expire = expire(service, &subscriptions, &mut changes, now).await?;
        let room = ChangeSet::RECORDS_MAX.saturating_sub(changes.writes.len());
        let (live, ended) = self.all_sessions(user_id, now, room).await?;
        // True if the commit contains all subscriptions, and also has room for all sessions and for the user (therefore
        // `<`, not `<=`).
        let fits = all_expire && live.len() + ended.len() < room;
        if !fits && !user.closing {
            self.close(service, user_id, now).await?;
            return Ok(false);
        }
        let sessions: Vec<_> = if fits {
            live.values().chain(ended.values()).collect()
        } else if !subscriptions.is_empty() {
            Vec::new()
        } else if ended.is_empty() {
            live.values().take(room).collect()
        } else {
            ended.values().take(room).collect()
        };
        for session in &sessions {
            let subject = Subject::Session(session.id);
            let version = session.version;
            delete(service, subject, version, &mut changes, now)?;
        }
        if fits {
            changes.guards.push(Guard::NoOtherLiveSubscription(user_id));
            delete(service, Subject::User(user_id), user.version, &mut changes, now)?;
        }
        self.store().commit(changes).await?;
        Ok(fits)
    }

    /// Marks an account as closing: from then on, no new records are accepted for it.
    async fn close(
        &self,
        service: &SubscriptionService,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<(), Error> {
        // The user is read again, because reading the records of the account takes long, and the user may have changed
        // meanwhile.
        let user = self.store().get_as::<User>(&user_id).await?;
        let Some(user) = user else { return Ok(()) };
        let version = user.version.next();
        let closed = User { closing: true, updated_at: now, version, ..User::clone(&user) };
        let change = Change::Updated { fields: user.changed_fields(&closed) };
        let event = service.event(Subject::User(user_id), version, change, now)?;
        let changes = ChangeSet { events: vec![event], ..ChangeSet::writing(closed) };
        self.store().commit(changes).await.map_err(Error::Store)
    }

    /// The subscriptions of a user that are not expired, at most [`ChangeSet::RECORDS_MAX`].
    async fn live_subscriptions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Subscription>>, Error> {
        let statuses = SubscriptionStatus::all()
            .filter(|status| *status != SubscriptionStatus::Expired)
            .collect();
        let filter =
            SubscriptionFilter { user_id: Some(user), statuses, ..SubscriptionFilter::default() };
        let mut query = SubscriptionQuery {
            filter,
            limit: PageLimit::MAX,
            now,
            ..SubscriptionQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.store().list_as::<Subscription>(query.clone()).await?;
            found.extend(page.items);
            query.after = page.next;
            if query.after.is_none() || found.len() >= ChangeSet::RECORDS_MAX {
                found.truncate(ChangeSet::RECORDS_MAX);
                return Ok(found);
            }
        }
    }

    /// All live sessions of a user, and the user's ended sessions: all ended sessions, or at least `enough` of them.
    ///
    /// The live sessions are read first. So a session that ends between the two reads is found by both, and is never
    /// missed. It is returned as an ended session.
    async fn all_sessions(
        &self,
        user: UserId,
        now: Timestamp,
        enough: usize,
    ) -> Result<(Sessions, Sessions), Error> {
        let live = self.store().list_as::<Session>(SessionQuery::LiveOf { user, now }).await?.items;
        let mut live: Sessions = live.into_iter().map(|session| (session.id, session)).collect();
        let mut ended = Sessions::new();
        let mut skip = 0;
        while ended.len() < enough {
            let limit = PageLimit::MAX;
            let page = self
                .store()
                .list_as::<Session>(SessionQuery::EndedOf { user, now, skip, limit })
                .await?
                .items;
            skip += page.len();
            let last = page.len() < limit.get();
            ended.extend(page.into_iter().map(|session| (session.id, session)));
            if last {
                break;
            }
        }
        live.retain(|id, _| !ended.contains_key(id));
        Ok((live, ended))
    }
}

/// Adds to `changes` the expiry of the subscriptions. If the clock manages a subscription, the cancellation of its open
/// payments is added too. Returns false if `changes` has no room for all subscriptions: then only the first ones were
/// added.
async fn expire(
    service: &SubscriptionService,
    subscriptions: &[Arc<Subscription>],
    changes: &mut ChangeSet,
    now: Timestamp,
) -> Result<bool, Error> {
    for subscription in subscriptions {
        let Some(expired) = subscription.expire(now) else { continue };
        let change = subscription.change_to(&expired);
        let subject = Subject::Subscription(expired.id);
        let event = service.event(subject, expired.version, change, now)?;
        let mut with = ChangeSet { events: vec![event], ..ChangeSet::writing(expired) };
        if subscription.managed_by == ManagedBy::Clock {
            service.cancel_payments(subscription.id, Timestamp::MIN, &mut with, now).await?;
        }
        if changes.writes.len() + with.writes.len() > ChangeSet::RECORDS_MAX {
            return Ok(false);
        }
        changes.writes.append(&mut with.writes);
        changes.events.append(&mut with.events);
    }
    Ok(true)
}

/// Adds the deletion of a record, and its event, to a change set.
pub(super) fn delete(
    service: &SubscriptionService,
    subject: Subject,
    version: Version,
    changes: &mut ChangeSet,
    now: Timestamp,
) -> Result<(), Error> {
    let event = service.event(subject.clone(), version.next(), Change::Deleted, now)?;
    changes.events.push(event);
    changes.deletes.push(Delete { key: Key::from(subject), version });
    Ok(())
}

/// Sessions by id.
type Sessions = BTreeMap<SessionId, Arc<Session>>;
