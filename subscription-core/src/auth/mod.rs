//! Authentication: identities, accounts, sessions, tokens and clients.
//!
//! A person proves who they are to an identity provider. An [`IdentityVerifier`] checks the token that the provider
//! issued, and [`Authentication`] opens a session. The session has tokens of its own: an access token, which is valid
//! for ten minutes by default, and a refresh token, which changes with each use.

mod client_keys;
mod clients;
mod deletion;
mod identity;
mod input;
mod jws;
mod keys;
mod portal_token;
mod provider;
mod refresh;
mod refresh_token;
mod revocation;
mod secret_cache;
mod sessions;
mod sign_in;
mod token;
mod users;

use std::sync::Arc;
use std::time::Duration;

pub use crate::accounts::{
    Client, ClientKey, ClientKind, ClientSource, IdentityKey, NewClient, Origin, Revocation,
    RevocationReason, Scope, Session, User, WebOrigin,
};
pub use crate::http_client::{ANSWER_BYTES_MAX, Fetch, FetchFailed, FetchRequest};
pub use crate::server_keys::{BadKey, ServerKeys};
pub use clients::CreatedClient;
pub use identity::{
    DevelopmentIdentities, Identity, IdentityRefused, IdentityVerifier, SharedSecretIdentities,
    Trust,
};
pub use input::{ProofOfIdentity, RefreshRequest};
pub use jws::{Algorithm, SigningFailed};
pub use keys::{KeyRing, SigningKey};
pub use portal_token::{PORTAL_LIFETIME, PortalUser};
pub use provider::{IntrospectedIdentities, OidcIdentities};
pub use refresh::RefreshWindows;
pub use sign_in::{SignIn, SignedIn};
pub use token::AccessClaims;

use self::clients::ACCEPTED_MAX;
use self::secret_cache::SecretCache;
use self::token::AccessTokens;
use crate::service::SubscriptionService;
use crate::values::Timestamp;

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The claims of the caller's access token.
    pub claims: Arc<AccessClaims>,
    /// The session that the access token belongs to.
    pub session: Arc<Session>,
}

/// Lifetimes and limits. The defaults are meant for production.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthSettings {
    /// The issuer (claim `iss`) of the access tokens that this service signs.
    pub issuer: String,
    /// The audience (claim `aud`) of the access tokens that this service signs.
    pub audience: String,
    /// How long an access token is valid: 10 minutes by default.
    pub access_lifetime: Duration,
    /// How long a session lasts if it is not refreshed: 14 days by default.
    pub idle_lifetime: Duration,
    /// The longest time that a session lasts, even if it is refreshed: 90 days by default.
    pub session_lifetime: Duration,
    /// How long the previous refresh token is still accepted after a refresh.
    pub windows: RefreshWindows,
    /// Maximum number of live sessions of a user with one client: 20 by default. If one more session is opened, the
    /// oldest is revoked.
    pub sessions_per_client: usize,
    /// Maximum number of live sessions that were opened with one identity token: 5 by default. If one more session is
    /// opened, the oldest is revoked.
    pub sessions_per_identity_token: usize,
    /// How often the time of a session's last use is written while the session is used: every 5 minutes by default.
    pub seen_every: Duration,
    /// How long an ended session is stored: 7 days by default. Until then, a request with one of its tokens fails with
    /// an exact error: the session was revoked, or it has expired.
    pub ended_kept: Duration,
    /// Maximum number of ended sessions stored for a user: 100 by default. If a user has more, the sessions that ended
    /// first are deleted.
    pub ended_per_user: usize,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            issuer: "subscription".into(),
            audience: "subscription".into(),
            access_lifetime: Duration::from_mins(10),
            idle_lifetime: Duration::from_hours(14 * 24),
            session_lifetime: Duration::from_hours(90 * 24),
            windows: RefreshWindows::default(),
            sessions_per_client: 20,
            sessions_per_identity_token: 5,
            seen_every: Duration::from_mins(5),
            ended_kept: Duration::from_hours(7 * 24),
            ended_per_user: 100,
        }
    }
}

crate::with_fields! {
    AuthSettings {
        with_issuer(String) => issuer,
        with_audience(String) => audience,
        with_access_lifetime(Duration) => access_lifetime,
        with_idle_lifetime(Duration) => idle_lifetime,
        with_session_lifetime(Duration) => session_lifetime,
        with_windows(RefreshWindows) => windows,
        with_sessions_per_client(usize) => sessions_per_client,
        with_sessions_per_identity_token(usize) => sessions_per_identity_token,
        with_seen_every(Duration) => seen_every,
        with_ended_kept(Duration) => ended_kept,
        with_ended_per_user(usize) => ended_per_user,
    }
}

/// Accounts, sessions, tokens and clients over the store of a [`SubscriptionService`].
///
/// A clone is cheap: it shares the store, the keys, the settings and the caches with the original. Each method loads
/// records, decides, and commits, like the methods of the service. Sign-in, refresh, revocation and deletion of one
/// user never interleave: each of them writes a record that the others have read, so only one of two concurrent
/// commits succeeds. The method whose commit was refused loads the records again and decides again.
#[derive(Debug, Clone)]
pub struct Authentication(Arc<AuthParts>);

#[derive(Debug)]
struct AuthParts {
    service: SubscriptionService,
    verifier: Arc<dyn IdentityVerifier>,
    tokens: AccessTokens,
    server_keys: ServerKeys,
    settings: AuthSettings,
    /// The clients whose credentials were verified, each as it was at that moment. Without this cache, the keyed hash
    /// of the credential would be the most expensive part of a small request.
    accepted: SecretCache<Arc<Client>>,
}

/// Builds an [`Authentication`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct AuthenticationBuilder(AuthParts);

impl AuthenticationBuilder {
    /// Uses these settings instead of the defaults.
    pub fn settings(mut self, settings: AuthSettings) -> Self {
        self.0.settings = settings;
        self
    }

    /// Returns the [`Authentication`] with these settings.
    pub fn build(self) -> Authentication {
        Authentication(Arc::new(self.0))
    }
}

/// # Building
impl Authentication {
    /// A builder of an [`Authentication`] whose accounts are in the store of `service`. `verifier` checks identity
    /// tokens, `keys` sign access tokens, and `server_keys` protect refresh tokens and client keys.
    ///
    /// The [actor](crate::events::Actor) in an event about a client is the
    /// [actor of the service](SubscriptionService::by). In an event about an account or a session, the actor is the
    /// user, or the clock if no user made the request. If a method has a parameter for the actor, its events have that
    /// actor.
    pub fn builder(
        service: SubscriptionService,
        verifier: Arc<dyn IdentityVerifier>,
        keys: KeyRing,
        server_keys: ServerKeys,
    ) -> AuthenticationBuilder {
        AuthenticationBuilder(AuthParts {
            service,
            verifier,
            tokens: AccessTokens::new(keys),
            server_keys,
            settings: AuthSettings::default(),
            accepted: SecretCache::of(ACCEPTED_MAX),
        })
    }

    /// When the keys of the identity provider were last fetched; `None` before, and if it publishes none.
    pub fn identity_keys_fetched_at(&self) -> Option<Timestamp> {
        self.0.verifier.keys_fetched_at()
    }

    /// The public keys that verify the access tokens of this service, as a JWK set.
    pub fn public_keys(&self) -> serde_json::Value {
        self.0.tokens.keys.public_keys()
    }
}
