//! Sessions: refresh, authentication, listing and revocation.

use crate::store::{SessionQuery, StoreExt as _};
use std::sync::Arc;

use secrecy::SecretString;

use super::deletion::delete;
use super::refresh::{self, Refresh};
use super::refresh_token::RefreshToken;
use super::sign_in::{SignedIn, expect_open};
use super::token::AccessClaims;
use super::{Authenticated, Authentication};
use crate::accounts::{RevocationReason, Session, User};
use crate::error::{Error, Unauthenticated};
use crate::events::{Actor, Subject};
use crate::service::SubscriptionService;
use crate::store::{ChangeSet, Key, PageLimit, Store};
use crate::values::{Slug, Timestamp, UserId};

/// # Sessions
impl Authentication {
    /// Returns the next pair of tokens for a refresh token.
    ///
    /// The previous refresh token is still accepted for a while (see [`RefreshWindows`](super::RefreshWindows)). If it
    /// is used later, it counts as stolen: the call fails, and the session is revoked.
    pub async fn refresh(
        &self,
        client_id: &Slug,
        refresh_token: &SecretString,
    ) -> Result<SignedIn, Error> {
        let invalid = || Error::from(Unauthenticated::RefreshTokenInvalid);
        let token = RefreshToken::parse(refresh_token).ok_or_else(invalid)?;
        self.service()
            .retrying_on(Key::Session(token.session), || async {
                let session = self.store().get_as::<Session>(&token.session).await?;
                // A token that is forged, unknown or another client's always gets the same error.
                let session = session
                    .filter(|session| token.is_genuine(session, &self.0.server_keys))
                    .filter(|session| session.client_id == *client_id)
                    .ok_or_else(invalid)?;
                let user = self.store().get_as::<User>(&session.user_id).await?;
                let user = user.ok_or_else(invalid)?;
                expect_open(&user)?;
                let now = self.service().now();
                let windows = self.0.settings.windows;
                match refresh::decide(&session, token.generation, now, windows) {
                    Refresh::Rotate => self.rotate(user, &session, now).await,
                    Refresh::Repeat => self.signed_in(user, session, now),
                    Refresh::Revoked => Err(Unauthenticated::SessionRevoked.into()),
                    Refresh::Expired => Err(Unauthenticated::SessionExpired.into()),
                    Refresh::Ahead => {
                        tracing::error!(
                            session = %session.id,
                            "a genuine refresh token is newer than its session's record: was an old backup restored?"
                        );
                        Err(invalid())
                    }
                    Refresh::Reused => {
                        tracing::warn!(session = %session.id, "a refresh token was used twice");
                        let reason = RevocationReason::RefreshReuse;
                        let reused = std::slice::from_ref(&session);
                        let actor = Actor::User(session.user_id);
                        self.end(actor, session.user_id, reused, reason, None, now).await?;
                        Err(Unauthenticated::RefreshTokenReused.into())
                    }
                }
            })
            .await
    }

    async fn rotate(
        &self,
        user: Arc<User>,
        session: &Session,
        now: Timestamp,
    ) -> Result<SignedIn, Error> {
        let key_id = self.0.server_keys.current();
        let next = session.rotate(key_id, self.0.settings.idle_lifetime, now);
        let signed_in = self.signed_in(user, Arc::new(next.clone()), now)?;
        self.store().commit(ChangeSet::writing(next)).await?;
        Ok(signed_in)
    }

    /// Checks that this service issued the access token for this client, that the token has not expired, and that the
    /// token's session is live now.
    ///
    /// The session is read each time, so a revocation on any instance takes effect at once. The time of the last use is
    /// written to the session at the first use of a token after a refresh, and then every few minutes.
    pub async fn authenticate(
        &self,
        client_id: &Slug,
        access_token: &SecretString,
    ) -> Result<Authenticated, Error> {
        let claims = self.claims(client_id, access_token, false)?;
        let session = self.live_session(&claims).await?;
        Ok(Authenticated { claims, session })
    }

    /// The claims of an access token, if this service issued it for this client. An expired token is
    /// accepted only if `even_expired` is true.
    pub(super) fn claims(
        &self,
        client_id: &Slug,
        access_token: &SecretString,
        even_expired: bool,
    ) -> Result<Arc<AccessClaims>, Unauthenticated> {
        let claims = self.0.tokens.verify(access_token, &self.0.settings);
        let claims = claims.filter(|claims| claims.client_id == *client_id);
        let claims = claims.ok_or(Unauthenticated::TokenInvalid)?;
        if !even_expired && !claims.is_current(self.service().now()) {
            return Err(Unauthenticated::TokenExpired);
        }
        Ok(claims)
    }

    async fn live_session(&self, claims: &AccessClaims) -> Result<Arc<Session>, Error> {
        let every = self.0.settings.seen_every;
        self.service()
            .retrying(|| async {
                let session = self.store().get_as::<Session>(&claims.sid).await?;
                let session = session
                    .filter(|session| session.user_id == claims.sub)
                    .filter(|session| session.revoked.is_none())
                    .ok_or(Unauthenticated::SessionRevoked)?;
                let now = self.service().now();
                if session.has_expired(now) {
                    return Err(Unauthenticated::SessionExpired.into());
                }
                let Some(seen) = session.seen(claims.generation, every, now) else {
                    return Ok(session);
                };
                self.store().commit(ChangeSet::writing(seen.clone())).await?;
                Ok(Arc::new(seen))
            })
            .await
    }

    /// The account of a caller.
    pub async fn user(&self, caller: &Authenticated) -> Result<Arc<User>, Error> {
        let user = self.open_user(caller.claims.sub).await?;
        user.ok_or_else(|| Unauthenticated::SessionRevoked.into())
    }

    /// The user with this id; `None` if the user does not exist. Fails if the account is being deleted.
    pub(super) async fn open_user(&self, id: UserId) -> Result<Option<Arc<User>>, Error> {
        let user = self.store().get_as::<User>(&id).await?;
        user.as_deref().map(expect_open).transpose()?;
        Ok(user)
    }

    /// The live sessions of a caller, newest first.
    pub async fn sessions(&self, caller: &Authenticated) -> Result<Vec<Arc<Session>>, Error> {
        self.open_user(caller.claims.sub).await?;
        self.live_sessions(caller.claims.sub, self.service().now()).await
    }

    /// The live sessions of a user, newest first.
    pub(super) async fn live_sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, Error> {
        let mut sessions =
            self.store().list_as::<Session>(SessionQuery::LiveOf { user, now }).await?.items;
        // The clock of another instance may be ahead. If that instance has revoked a session, the time of the
        // revocation may be later than `now`, and then the store still lists the session as live.
        sessions.retain(|session| session.is_live(now));
        Ok(sessions)
    }

    /// A batch of the ended sessions of a user that must be deleted because `ending` more sessions end now: with these,
    /// the user would have more than [`ended_per_user`](super::AuthSettings::ended_per_user) ended sessions.
    pub(super) async fn surplus_ended(
        &self,
        user: UserId,
        ending: usize,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, Error> {
        let kept = self.0.settings.ended_per_user.saturating_sub(ending);
        let surplus = self
            .store()
            .list_as::<Session>(SessionQuery::EndedOf {
                user,
                now,
                skip: kept,
                limit: PageLimit::MAX,
            })
            .await?;
        Ok(surplus.items)
    }

    /// Deletes a batch of the sessions that ended longer ago than
    /// [`ended_kept`](super::AuthSettings::ended_kept), and returns their number. Call this method regularly, each time
    /// until it returns 0.
    pub async fn forget_ended_sessions(&self) -> Result<usize, Error> {
        self.service()
            .retrying(|| async {
                let now = self.service().now();
                let ended = self.ended_sessions_before(now).await?;
                if ended.is_empty() {
                    return Ok(0);
                }
                let mut changes = ChangeSet::default();
                let service = self.service().by(Actor::Clock);
                for session in &ended {
                    let subject = Subject::Session(session.id);
                    delete(&service, subject, session.version, &mut changes, now)?;
                }
                self.store().commit(changes).await?;
                Ok(ended.len())
            })
            .await
    }

    /// The number of sessions that [`forget_ended_sessions`](Self::forget_ended_sessions) would delete now; 200 means
    /// 200 or more.
    pub async fn count_ended_sessions(&self) -> Result<usize, Error> {
        Ok(self.ended_sessions_before(self.service().now()).await?.len())
    }

    /// A batch of sessions that ended so long ago that they are no longer kept at `now`.
    async fn ended_sessions_before(&self, now: Timestamp) -> Result<Vec<Arc<Session>>, Error> {
        let by = now.saturating_sub(self.0.settings.ended_kept);
        let query = SessionQuery::Ended { by, limit: PageLimit::MAX };
        Ok(self.store().readable_as::<Session>(query).await?.items)
    }

    pub(super) fn service(&self) -> &SubscriptionService {
        &self.0.service
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.0.service.store()
    }
}
