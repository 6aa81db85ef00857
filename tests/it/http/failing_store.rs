//! Stores, providers and bodies that fail in a way of choice.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use secrecy::SecretString;
use subscription_core::auth::{
    AuthSettings, Authentication, Identity, IdentityRefused, IdentityVerifier, KeyRing, SigningKey,
};
use subscription_core::store::{IdempotencyKey, Key, Operation, StoreError};
use subscription_core::{Email, Timestamp};
use subscription_http::Timeouts;
use test_support::service_world::of;
use test_support::spy_store::{Call, Spy, SpyStore};

use super::world::HttpWorld;
use crate::auth::world::{AuthWorld, SERVER_KEY, SIGNING_SEED, secret, server_key};

/// The misbehaviour of a store.
#[derive(Debug, Default)]
pub(crate) struct FailingStore(AtomicU8);

pub(crate) const UNAVAILABLE: u8 = 1;
pub(crate) const DAMAGED: u8 = 2;
pub(crate) const PANICS: u8 = 3;
pub(crate) const HANGS: u8 = 4;
pub(crate) const KEY_RACES: u8 = 5;
pub(crate) const RECORD_RACES: u8 = 6;

impl FailingStore {
    pub(crate) fn turn(&self, failure: u8) {
        self.0.store(failure, Ordering::SeqCst);
    }
}

#[async_trait]
impl Spy for FailingStore {
    async fn before(&self, _: Call) {
        match self.0.load(Ordering::SeqCst) {
            PANICS => panic!("a secret of the store: postgres://admin:hunter2@db"),
            HANGS => std::future::pending().await,
            _ => {}
        }
    }

    fn fails(&self, call: Call) -> Option<StoreError> {
        let source = || "a secret of the store: postgres://admin:hunter2@db".into();
        match (self.0.load(Ordering::SeqCst), call) {
            (UNAVAILABLE, _) => Some(StoreError::Unavailable(source())),
            (DAMAGED, _) => Some(StoreError::Damaged(source())),
            (KEY_RACES, Call::Commit) => {
                let (client, key) = ("server".into(), of("k"));
                let key = IdempotencyKey { operation: Operation::CreatePlan, client, key };
                Some(StoreError::Conflict(Key::Idempotency(key)))
            }
            (RECORD_RACES, Call::Commit) => Some(StoreError::Conflict(Key::Client(of("x")))),
            _ => None,
        }
    }
}

/// A world over a store that fails as it is told to.
pub(crate) async fn failing_store() -> (HttpWorld, Arc<SpyStore<FailingStore>>) {
    let store = SpyStore::new(FailingStore::default());
    let auth = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let brief = Timeouts::default()
        .with_body(Duration::from_millis(20))
        .with_handler(Duration::from_millis(20));
    (HttpWorld::with(auth, brief).await, store)
}

/// A provider that nobody reaches.
#[derive(Debug)]
struct OutOfReach;

#[async_trait]
impl IdentityVerifier for OutOfReach {
    async fn verify(
        &self,
        _: &SecretString,
        _: &Email,
        _: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        Err(IdentityRefused::Unavailable("connect to 10.0.0.7: refused".into()))
    }
}

/// A world whose identity provider is out of reach.
pub(crate) async fn without_provider() -> HttpWorld {
    let mut auth = AuthWorld::new();
    let keys = KeyRing::new(SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap());
    let server_keys = server_key(1, SERVER_KEY);
    let verifier = Arc::new(OutOfReach);
    auth.auth = Authentication::builder(auth.service.clone(), verifier, keys, server_keys).build();
    HttpWorld::with(auth, Timeouts::default()).await
}

/// A body that never comes.
pub(crate) struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}
