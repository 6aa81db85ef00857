//! Revocation of sessions: by their user, or by a client of the operator.

use std::sync::Arc;

use secrecy::SecretString;

use super::deletion::delete;
use super::{Authenticated, Authentication};
use crate::accounts::{RevocationReason, Session, User};
use crate::error::Error;
use crate::events::{Actor, Change, ChangedFields, Subject};
use crate::store::{ChangeSet, Key, PageLimit, Record, StoreExt as _};
use crate::values::{SessionId, Slug, Timestamp, UserId};

/// # Revocation
impl Authentication {
    /// Revokes the session of an access token. Returns the number of revoked sessions: 1, or 0 if the session had
    /// already ended.
    ///
    /// An expired token is accepted, if it is genuine.
    pub async fn logout(
        &self,
        client_id: &Slug,
        access_token: &SecretString,
    ) -> Result<usize, Error> {
        let claims = self.claims(client_id, access_token, true)?;
        self.service()
            .retrying_on(Key::Session(claims.sid), || async {
                let now = self.service().now();
                let session = self.store().get_as::<Session>(&claims.sid).await?;
                let session = session.filter(|session| session.user_id == claims.sub);
                let Some(session) = session.filter(|session| session.is_live(now)) else {
                    return Ok(0);
                };
                self.open_user(session.user_id).await?;
                let reason = RevocationReason::Logout;
                let actor = Actor::User(claims.sub);
                self.end(actor, claims.sub, &[session], reason, None, now).await
            })
            .await
    }

    /// Revokes every session of a caller, including the session of this request, and returns their number.
    pub async fn revoke_all(&self, caller: &Authenticated) -> Result<usize, Error> {
        self.revoke(caller, None).await
    }

    /// Revokes every session of a caller except the session of this request, and returns their number.
    pub async fn revoke_all_except_current(&self, caller: &Authenticated) -> Result<usize, Error> {
        self.revoke(caller, Some(caller.claims.sid)).await
    }

    /// Revokes every session of a user on behalf of `actor`, and returns the number of these sessions. If the
    /// user has no live session, nothing is written.
    pub async fn revoke_sessions_of(&self, id: UserId, actor: Actor) -> Result<usize, Error> {
        self.revoke_sessions(|| self.user_by_id(id), None, &actor).await
    }

    async fn revoke(
        &self,
        caller: &Authenticated,
        keep: Option<SessionId>,
    ) -> Result<usize, Error> {
        let user = || self.user(caller);
        self.revoke_sessions(user, keep, &Actor::User(caller.claims.sub)).await
    }

    /// Revokes the sessions of the user that `read` returns, except the session `keep`.
    async fn revoke_sessions<F>(
        &self,
        read: impl Fn() -> F + Send + Sync,
        keep: Option<SessionId>,
        actor: &Actor,
    ) -> Result<usize, Error>
    where
        F: Future<Output = Result<Arc<User>, Error>> + Send,
    {
        // One commit revokes the sessions, writes the user and deletes ended sessions beyond the limit. Sessions that
        // do not fit into this commit are revoked by further commits.
        let most = ChangeSet::RECORDS_MAX - 1 - PageLimit::MAX.get();
        let mut ended = 0;
        let identity = read().await?.identity.clone();
        loop {
            let round =
                || async { self.revoke_round(&*read().await?, keep, most, actor.clone()).await };
            let round = self.service().retrying_on(&identity, round).await?;
            ended += round;
            if round < most {
                return Ok(ended);
            }
        }
    }

    async fn revoke_round(
        &self,
        user: &User,
        keep: Option<SessionId>,
        most: usize,
        actor: Actor,
    ) -> Result<usize, Error> {
        let now = self.service().now();
        let mut sessions = self.live_sessions(user.id, now).await?;
        sessions.retain(|session| Some(session.id) != keep);
        sessions.truncate(most);
        if sessions.is_empty() {
            return Ok(0);
        }
        // The user is written too: a concurrent sign-in that has not seen the revocation then fails to commit, and
        // decides again.
        let user = User { updated_at: now, version: user.version.next(), ..user.clone() };
        let reason = RevocationReason::RevokeAll;
        self.end(actor, user.id, &sessions, reason, Some(user), now).await
    }

    /// Commits the revocation of `sessions` of one user. The same commit deletes the user's ended sessions beyond
    /// [`ended_per_user`](super::AuthSettings::ended_per_user), and writes `user` if it is given.
    pub(super) async fn end(
        &self,
        actor: Actor,
        user_id: UserId,
        sessions: &[Arc<Session>],
        reason: RevocationReason,
        user: Option<User>,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let mut changes = ChangeSet::default();
        let service = self.service().by(actor);
        if !sessions.is_empty() {
            for surplus in self.surplus_ended(user_id, sessions.len(), now).await? {
                delete(&service, Subject::Session(surplus.id), surplus.version, &mut changes, now)?;
            }
        }
        if let Some(user) = user {
            let change = Change::Updated { fields: ChangedFields::default() };
            changes.events.push(service.event(
                Subject::User(user_id),
                user.version,
                change,
                now,
            )?);
            changes.writes.push(Record::from(user));
        }
        for session in sessions {
            let ended = session.revoke(reason, now);
            let subject = Subject::Session(ended.id);
            let change = Change::Revoked { reason };
            changes.events.push(service.event(subject, ended.version, change, now)?);
            changes.writes.push(Record::from(ended));
        }
        self.store().commit(changes).await?;
        Ok(sessions.len())
    }
}
