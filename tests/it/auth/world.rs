//! A service with authentication, whose clock, keys and identity provider are in hand.

use std::sync::Arc;
use std::time::Duration;
use subscription_core::store::StoreExt as _;

use jsonwebtoken::{EncodingKey, Header, encode};
use secrecy::{SecretSlice, SecretString};
use serde_json::{Value, json};
use subscription_core::auth::{
    AuthSettings, Authenticated, Authentication, KeyRing, Origin, ServerKeys, Session,
    SharedSecretIdentities, SignIn, SignedIn, SigningKey, Trust, User,
};
use subscription_core::store::{ChangeSet, Record};
use subscription_core::{
    Error, ManualClock, MemoryStore, SeededRandomness, Slug, Store, SubscriptionService, Timestamp,
    UserId,
};
use test_support::service_world::{at, of};

pub(crate) const PROVIDER: &str = "https://id.example.com";
pub(crate) const AUDIENCE: &str = "our-app";
pub(crate) const PROVIDER_SECRET: &[u8] = b"a secret that the provider and we share";
pub(crate) const SERVER_KEY: &[u8] = b"a key that only our own server ever has";
pub(crate) const SIGNING_SEED: [u8; 32] = [7; 32];

/// A fresh service on 31 January 2025, in memory; people prove who they are with HS256.
pub(crate) struct AuthWorld {
    pub(crate) auth: Authentication,
    pub(crate) service: SubscriptionService,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
}

impl AuthWorld {
    pub(crate) fn new() -> Self {
        Self::with(AuthSettings::default())
    }

    pub(crate) fn with(settings: AuthSettings) -> Self {
        Self::over(Arc::new(MemoryStore::default()), settings)
    }

    pub(crate) fn over(store: Arc<dyn Store>, settings: AuthSettings) -> Self {
        test_support::logs::listen();
        let clock = ManualClock::at(at("2025-01-31T00:00:00.000000Z"));
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .check_users()
            .build();
        let auth = authentication(&service, server_key(1, SERVER_KEY), settings);
        Self { auth, service, store, clock }
    }

    /// The token with which the provider vouches for somebody, with what `change` makes of it.
    pub(crate) fn identity_token(
        &self,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> SecretString {
        let now = seconds(self.service.now());
        let mut claims = json!({
            "iss": PROVIDER, "aud": AUDIENCE, "sub": format!("sub-of-{name}"),
            "iat": now, "exp": now + 300,
            "email": format!("{name}@example.com"), "email_verified": true,
        });
        change(&mut claims);
        let key = EncodingKey::from_secret(PROVIDER_SECRET);
        let token = encode(&Header::default(), &claims, &key).unwrap();
        test_support::logs::note(&token);
        token.into()
    }

    /// Somebody who wants in at the client `web`, rightly vouched for.
    pub(crate) fn person(&self, name: &str) -> SignIn {
        SignIn {
            client_id: web(),
            access_token: self.identity_token(name, |_| {}),
            email: of(&format!("{name}@example.com")),
            origin: Origin::default(),
        }
    }

    /// A new account with its first session.
    pub(crate) async fn sign_up(&self, name: &str) -> SignedIn {
        self.auth.sign_up(self.person(name)).await.unwrap()
    }

    /// One more session.
    pub(crate) async fn sign_in(&self, name: &str) -> SignedIn {
        self.auth.sign_in(self.person(name)).await.unwrap()
    }

    /// A session as it is kept.
    pub(crate) async fn row(&self, signed_in: &SignedIn) -> Arc<Session> {
        self.store.get_as::<Session>(&signed_in.session.id).await.unwrap().unwrap()
    }

    /// Marks an account as a deletion marks it that has only begun.
    pub(crate) async fn close(&self, user: UserId) {
        let user = self.store.get_as::<User>(&user).await.unwrap().unwrap();
        let user = User { closing: true, version: user.version.next(), ..(*user).clone() };
        let changes = ChangeSet { writes: vec![Record::from(user)], ..ChangeSet::default() };
        self.store.commit(changes).await.unwrap();
    }

    /// Checks the access token of a session at its own client.
    pub(crate) async fn check(&self, signed_in: &SignedIn) -> Result<Authenticated, Error> {
        self.auth.authenticate(&signed_in.session.client_id, &signed_in.access_token).await
    }

    /// Refreshes a session at its own client.
    pub(crate) async fn refresh(&self, signed_in: &SignedIn) -> Result<SignedIn, Error> {
        self.auth.refresh(&signed_in.session.client_id, &signed_in.refresh_token).await
    }
}

/// Authentication over the store and the clock of a service: one instance of perhaps many.
pub(crate) fn authentication(
    service: &SubscriptionService,
    server_keys: ServerKeys,
    settings: AuthSettings,
) -> Authentication {
    let trust = Trust { issuer: PROVIDER.into(), audience: AUDIENCE.into() };
    let verifier = SharedSecretIdentities::new(trust, &secret(PROVIDER_SECRET)).unwrap();
    let keys = KeyRing::new(SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap());
    Authentication::builder(service.clone(), Arc::new(verifier), keys, server_keys)
        .settings(settings)
        .build()
}

/// A ring of one server key.
pub(crate) fn server_key(id: u8, key: &[u8]) -> ServerKeys {
    ServerKeys::new(id, secret(key)).unwrap()
}

/// The client that most tests sign in with.
pub(crate) fn web() -> Slug {
    of("web")
}

/// Hides bytes, as the library wants them.
pub(crate) fn secret(bytes: &[u8]) -> SecretSlice<u8> {
    SecretSlice::from(bytes.to_vec())
}

/// The longest span that is shorter.
pub(crate) fn just_under(span: Duration) -> Duration {
    span.saturating_sub(Duration::from_micros(1))
}

/// A moment as tokens count it.
pub(crate) fn seconds(at: Timestamp) -> i64 {
    at.micros() / 1_000_000
}
