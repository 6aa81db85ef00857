//! Accounts: sign-up and sign-in.

use crate::store::{StoreExt as _, UniqueValue};
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::deletion::delete;
use super::identity::TOKEN_BYTES_MAX;
use super::jws::Compact;
use super::refresh_token::RefreshToken;
use super::secret_cache::{SecretHash, hash};
use super::{Authentication, IdentityRefused};
use crate::accounts::{IdentityKey, Origin, RevocationReason, Session, User};
use crate::error::{Conflict, DependencyFailed, Error, Forbidden, Unauthenticated};
use crate::events::{Actor, Change, Subject};
use crate::store::{ChangeSet, Record, StoreError, Unique};
use crate::values::{Email, SessionId, Slug, Timestamp, UserId, Version};

/// A request to sign in or to sign up.
#[derive(Debug, Clone)]
pub struct SignIn {
    /// The client that sent the request.
    pub client_id: Slug,
    /// The token that an identity provider issued.
    pub access_token: SecretString,
    /// The e-mail address that the caller claims.
    pub email: Email,
    /// The origin of the request.
    pub origin: Origin,
}

/// A session, its tokens and its user.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The access token.
    pub access_token: SecretString,
    /// How long the access token is valid.
    pub expires_in: Duration,
    /// The refresh token, with which the client gets the next pair of tokens.
    pub refresh_token: SecretString,
    /// How long the refresh token is valid.
    pub refresh_expires_in: Duration,
    /// The user.
    pub user: Arc<User>,
    /// The session.
    pub session: Arc<Session>,
}

/// The sessions that are removed to make room for a new one.
#[derive(Default)]
struct Surplus {
    /// Sessions that were live until now and are revoked, as they are after the revocation.
    ended: Vec<Session>,
    /// Sessions that ended earlier and are now deleted.
    forgotten: Vec<Arc<Session>>,
}

/// Refuses an account that is being deleted.
pub(super) fn expect_open(user: &User) -> Result<(), Conflict> {
    if user.closing { Err(Conflict::AccountClosing) } else { Ok(()) }
}

/// The hash by which the sessions of one identity token are counted. A signature is no part of it: see
/// [`Compact::message`].
fn token_hash(token: &SecretString) -> SecretHash {
    match Compact::parse(token.expose_secret(), TOKEN_BYTES_MAX) {
        Some(compact) => hash(&compact.message().into()),
        None => hash(token),
    }
}

/// # Accounts
impl Authentication {
    /// Creates an account for an identity that has no account, and opens its first session.
    pub async fn sign_up(&self, sign_in: SignIn) -> Result<SignedIn, Error> {
        let (identity, email) = self.proved(&sign_in).await?;
        self.service()
            .retrying_on(&identity, || async {
                let found =
                    self.store().find_as::<User>(UniqueValue::UserIdentity(&identity)).await;
                if let Some(user) = found? {
                    expect_open(&user)?;
                    return Err(Conflict::AccountExists.into());
                }
                let now = self.service().now();
                let user = User {
                    id: UserId::new(now, self.service().randomness())?,
                    identity: identity.clone(),
                    email: email.clone(),
                    closing: false,
                    created_at: now,
                    updated_at: now,
                    version: Version::FIRST,
                };
                self.open_session(user, Change::Created, &sign_in, Surplus::default(), now).await
            })
            .await
    }

    /// Opens a session for an identity that has an account.
    ///
    /// If the user has the maximum number of live sessions, the oldest is revoked. Ended sessions beyond
    /// [`AuthSettings::ended_per_user`](super::AuthSettings::ended_per_user) are deleted. If the identity provider has
    /// verified another address than the account has, the account gets the verified address.
    pub async fn sign_in(&self, sign_in: SignIn) -> Result<SignedIn, Error> {
        let (identity, email) = self.proved(&sign_in).await?;
        self.service()
            .retrying_on(&identity, || async {
                let found =
                    self.store().find_as::<User>(UniqueValue::UserIdentity(&identity)).await;
                let Some(user) = found? else {
                    return Err(Error::NotFound {
                        record: "account",
                        name: "for this identity".into(),
                    });
                };
                expect_open(&user)?;
                let now = self.service().now();
                let sessions = self.live_sessions(user.id, now).await?;
                let ended = self.surplus(&sessions, &sign_in, now);
                let forgotten = self.surplus_ended(user.id, ended.len(), now).await?;
                let surplus = Surplus { ended, forgotten };
                // Each sign-in writes the user. So of a sign-in and a concurrent revocation of all sessions, one fails
                // to commit and decides again.
                let version = user.version.next();
                let mut next = User::clone(&user);
                // Two spellings of one address, such as in upper and lower case, are equal: the stored one stays.
                if next.email != email {
                    next.email.clone_from(&email);
                }
                let change = Change::Updated { fields: user.changed_fields(&next) };
                let next = User { updated_at: now, version, ..next };
                self.open_session(next, change, &sign_in, surplus, now).await
            })
            .await
    }

    /// Verifies the identity token, and compares the e-mail address in it with the one that the caller sent. Returns the
    /// provider's address: the caller may have spelled it in another way.
    async fn proved(&self, sign_in: &SignIn) -> Result<(IdentityKey, Email), Error> {
        let SignIn { access_token, email: claimed, .. } = sign_in;
        let now = self.service().now();
        let identity = match self.0.verifier.verify(access_token, claimed, now).await {
            Ok(identity) => identity,
            Err(IdentityRefused::Rejected) => return Err(Unauthenticated::IdentityRejected.into()),
            Err(IdentityRefused::Unavailable(source)) => {
                return Err(DependencyFailed::IdentityProvider(source).into());
            }
        };
        let Some(email) = identity.email.filter(|email| email == claimed) else {
            return Err(Forbidden::EmailMismatch.into());
        };
        if !identity.email_verified {
            return Err(Forbidden::EmailNotVerified.into());
        }
        Ok((identity.key, email))
    }

    /// The live sessions that must be revoked when a new session is opened, oldest first. They are returned as they are
    /// after the revocation.
    fn surplus(&self, sessions: &[Arc<Session>], sign_in: &SignIn, now: Timestamp) -> Vec<Session> {
        let settings = &self.0.settings;
        let token = token_hash(&sign_in.access_token);
        let oldest_first = || sessions.iter().rev();
        let beyond = |max: usize, counts: &dyn Fn(&Session) -> bool| -> Vec<SessionId> {
            let counted: Vec<_> = oldest_first().filter(|session| counts(session)).collect();
            let going = (counted.len() + 1).saturating_sub(max.max(1));
            counted.into_iter().take(going).map(|session| session.id).collect()
        };
        let of_client = |session: &Session| session.client_id == sign_in.client_id;
        let of_token = |session: &Session| session.opened_with == token;
        let mut going = beyond(settings.sessions_per_client, &of_client);
        going.extend(beyond(settings.sessions_per_identity_token, &of_token));
        oldest_first()
            .filter(|session| going.contains(&session.id))
            .map(|session| session.revoke(RevocationReason::SessionLimit, now))
            .collect()
    }

    /// Commits a user with a new session. The same commit revokes or deletes the sessions in `surplus`, so that the
    /// user has no more sessions than the limits allow.
    async fn open_session(
        &self,
        user: User,
        change: Change,
        sign_in: &SignIn,
        surplus: Surplus,
        now: Timestamp,
    ) -> Result<SignedIn, Error> {
        let session = self.new_session(&user, sign_in, now)?;
        let signed_in = self.signed_in(Arc::new(user.clone()), Arc::new(session.clone()), now)?;
        let mut changes = ChangeSet::default();
        let service = self.service().by(Actor::User(user.id));
        let event = |subject, version, change| service.event(subject, version, change, now);
        changes.events.push(event(Subject::User(user.id), user.version, change)?);
        changes.events.push(event(Subject::Session(session.id), session.version, Change::Created)?);
        for ended in &surplus.ended {
            let change = Change::Revoked { reason: RevocationReason::SessionLimit };
            changes.events.push(event(Subject::Session(ended.id), ended.version, change)?);
        }
        for session in &surplus.forgotten {
            delete(&service, Subject::Session(session.id), session.version, &mut changes, now)?;
        }
        changes.writes = vec![Record::from(user), Record::from(session)];
        changes.writes.extend(surplus.ended.into_iter().map(Record::from));
        match self.store().commit(changes).await {
            Ok(()) => Ok(signed_in),
            Err(StoreError::Taken(Unique::UserEmail)) => Err(Conflict::EmailInUse.into()),
            Err(StoreError::Taken(_)) => Err(Conflict::AccountExists.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn new_session(&self, user: &User, sign_in: &SignIn, now: Timestamp) -> Result<Session, Error> {
        let settings = &self.0.settings;
        let mut salt = [0; 16];
        self.service().randomness().fill(&mut salt)?;
        Ok(Session {
            id: SessionId::new(now, self.service().randomness())?,
            user_id: user.id,
            client_id: sign_in.client_id.clone(),
            issuer: user.identity.issuer.clone(),
            opened_with: token_hash(&sign_in.access_token),
            key_id: self.0.server_keys.current(),
            salt,
            generation: 1,
            rotated_at: now,
            successor_used: false,
            auth_time: now,
            last_seen_at: now,
            expires_at: now.saturating_add(settings.session_lifetime),
            idle_expires_at: now.saturating_add(settings.idle_lifetime),
            revoked: None,
            origin: sign_in.origin.clone(),
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        })
    }

    /// Issues an access token for a session, and returns it with the refresh token of the session's current generation.
    pub(super) fn signed_in(
        &self,
        user: Arc<User>,
        session: Arc<Session>,
        now: Timestamp,
    ) -> Result<SignedIn, Error> {
        let settings = &self.0.settings;
        let refresh_token = RefreshToken::of(&session, &self.0.server_keys)
            .ok_or_else(|| Error::from(DependencyFailed::ServerKey))?;
        let ends_at = session.idle_expires_at.min(session.expires_at);
        let left = ends_at.micros().saturating_sub(now.micros());
        Ok(SignedIn {
            access_token: self.0.tokens.issue(
                &session,
                settings,
                now,
                self.service().randomness(),
            )?,
            expires_in: settings.access_lifetime,
            refresh_token,
            refresh_expires_in: Duration::from_micros(u64::try_from(left).unwrap_or(0)),
            user,
            session,
        })
    }
}
