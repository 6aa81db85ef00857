//! An identity provider on a network that does what a test says.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use subscription_core::Timestamp;
use subscription_core::auth::{
    Fetch, FetchFailed, FetchRequest, Identity, IdentityRefused, IdentityVerifier, Trust,
};
use test_support::service_world::{at, of};
use tokio::sync::Semaphore;

use super::world::{AUDIENCE, PROVIDER, seconds};

/// Answers what it was last told to, and keeps what it was asked.
#[derive(Debug)]
pub(crate) struct ScriptedFetch {
    answer: Mutex<Result<Vec<u8>, &'static str>>,
    requests: Mutex<Vec<FetchRequest>>,
    gate: Semaphore,
}

impl ScriptedFetch {
    pub(crate) fn answering(answer: &Value) -> Self {
        let answer = Mutex::new(Ok(answer.to_string().into_bytes()));
        Self { answer, requests: Mutex::default(), gate: Semaphore::new(1) }
    }

    pub(crate) fn failing() -> Self {
        let fetch = Self::answering(&json!(null));
        fetch.fail("connection refused");
        fetch
    }

    /// Does not answer before [`ScriptedFetch::open`].
    pub(crate) fn slow(answer: &Value) -> Self {
        let fetch = Self::answering(answer);
        fetch.close();
        fetch
    }

    pub(crate) fn close(&self) {
        assert_eq!(self.gate.forget_permits(1), 1);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(1);
    }

    pub(crate) fn answer(&self, answer: &Value) {
        self.answer_bytes(answer.to_string().into_bytes());
    }

    pub(crate) fn answer_bytes(&self, answer: Vec<u8>) {
        *self.answer.lock().unwrap() = Ok(answer);
    }

    pub(crate) fn fail(&self, why: &'static str) {
        *self.answer.lock().unwrap() = Err(why);
    }

    /// Panics when it is asked next.
    pub(crate) fn panic(&self) {
        self.fail("panic");
    }

    pub(crate) fn requests(&self) -> Vec<FetchRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

#[async_trait]
impl Fetch for ScriptedFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed> {
        self.requests.lock().unwrap().push(request);
        let _passed = self.gate.acquire().await.unwrap();
        let answer = self.answer.lock().unwrap().clone();
        assert_ne!(answer, Err("panic"), "as the test wants it");
        answer.map_err(FetchFailed::new)
    }
}

/// The provider that is trusted.
pub(crate) fn trust() -> Trust {
    Trust { issuer: PROVIDER.into(), audience: AUDIENCE.into() }
}

/// So many seconds after the tests begin.
pub(crate) fn after(span: u64) -> Timestamp {
    at("2025-01-31T00:00:00.000000Z").saturating_add(Duration::from_secs(span))
}

/// A provider's claims about Ada, valid for a day.
pub(crate) fn ada() -> Value {
    let now = seconds(after(0));
    json!({
        "iss": PROVIDER, "aud": AUDIENCE, "sub": "sub-of-ada", "iat": now, "exp": now + 86_400,
        "email": "ada@example.com", "email_verified": true,
    })
}

/// Asks a verifier.
pub(crate) async fn verify(
    verifier: &dyn IdentityVerifier,
    token: &str,
    now: Timestamp,
) -> Result<Identity, IdentityRefused> {
    verifier.verify(&token.into(), &of("ada@example.com"), now).await
}

/// The result for a token: `taken`, `rejected` or `unavailable`.
pub(crate) async fn answer(
    verifier: &dyn IdentityVerifier,
    token: &str,
    now: Timestamp,
) -> &'static str {
    match verify(verifier, token, now).await {
        Ok(_) => "taken",
        Err(IdentityRefused::Rejected) => "rejected",
        Err(IdentityRefused::Unavailable(_)) => "unavailable",
    }
}
