//! Reads the objects of a provider over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::requests::Requests;
use super::{ApiFailed, ApiPage, ProviderApi};
use crate::http_client::{Fetch, FetchRequest};
use crate::providers::mapping::{lemon_squeezy, stripe};
use crate::providers::{ObjectId, ObjectKind, ObjectList, ProviderKind};

/// The largest response that is read: 4 MiB.
const ANSWER_BYTES_MAX: usize = 4_194_304;

/// The longest delay that a provider can request with `Retry-After`. A longer delay is reduced to this time.
const WAIT_MAX: Duration = Duration::from_hours(1);

/// The API of a provider, read over HTTP.
///
/// All requests go to one fixed host. A URL in a response is never used for a request.
#[derive(Debug, Clone)]
pub struct HttpProviderApi {
    kind: ProviderKind,
    requests: &'static Requests,
    api_key: SecretString,
    fetch: Arc<dyn Fetch>,
    base: String,
}

impl HttpProviderApi {
    /// Reads the API of a provider with this API key.
    pub fn new(kind: ProviderKind, api_key: SecretString, fetch: Arc<dyn Fetch>) -> Self {
        let requests = match kind {
            ProviderKind::Stripe => &stripe::requests::REQUESTS,
            ProviderKind::LemonSqueezy => &lemon_squeezy::requests::REQUESTS,
        };
        Self { kind, requests, api_key, fetch, base: requests.host.to_owned() }
    }

    /// Reads from another host, for tests.
    #[must_use]
    pub fn with_base(self, base: &Url) -> Self {
        Self { base: base.as_str().trim_end_matches('/').to_owned(), ..self }
    }

    /// The response for a path; `None` if its status is 404.
    async fn get(&self, path: &str) -> Result<Option<Value>, ApiFailed> {
        let url = Url::parse(&format!("{}{path}", self.base)).map_err(unreadable)?;
        let headers = self.requests.headers.iter();
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (*name, SecretString::from(*value))).collect();
        let mut basic = None;
        match self.kind {
            // The API key is the user name, and there is no password.
            ProviderKind::Stripe => basic = Some((self.api_key.clone(), SecretString::default())),
            ProviderKind::LemonSqueezy => {
                let bearer = format!("Bearer {}", self.api_key.expose_secret());
                headers.push(("authorization", bearer.into()));
            }
        }
        let request = FetchRequest { url, form: None, basic, headers, bytes_max: ANSWER_BYTES_MAX };
        let failed = match self.fetch.fetch(request).await {
            Ok(body) => return serde_json::from_slice(&body).map(Some).map_err(unreadable),
            Err(failed) => failed,
        };
        match failed.status {
            Some(404) => Ok(None),
            Some(401 | 403) => Err(ApiFailed::KeyRefused),
            None | Some(429 | 500..=599) => Err(ApiFailed::Unavailable {
                retry_after: failed.retry_after.map(|wait| wait.min(WAIT_MAX)),
                source: failed.into(),
            }),
            Some(_) => Err(unreadable(failed)),
        }
    }
}

fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ApiFailed {
    ApiFailed::Unreadable(error.into())
}

#[async_trait]
impl ProviderApi for HttpProviderApi {
    async fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Option<Value>, ApiFailed> {
        let path = (self.requests.object)(kind, id);
        let path = path.ok_or_else(|| unreadable("the provider has no objects of this kind"))?;
        let Some(answer) = self.get(&path).await? else { return Ok(None) };
        let mut object = (self.requests.object_in)(answer);
        if object.get("id").and_then(Value::as_str) != Some(id.as_str()) {
            return Err(unreadable("the response is not the object that was requested"));
        }
        for added in self.requests.added.iter().filter(|added| added.kind == kind) {
            let mut entries = Vec::new();
            for path in (added.lists)(&object) {
                let Some(mut answer) = self.get(&path).await? else { return Ok(None) };
                match answer.get_mut("data").map(Value::take) {
                    Some(Value::Array(items)) => entries.extend(items),
                    _ => return Err(unreadable("the response is not a list")),
                }
            }
            if let Value::Object(fields) = &mut object {
                fields.insert(added.field.to_owned(), Value::Array(entries));
            }
        }
        Ok(Some(object))
    }

    async fn page(&self, list: &ObjectList, after: Option<&str>) -> Result<ApiPage, ApiFailed> {
        let path = (self.requests.list)(list, after);
        let path = path.ok_or_else(|| unreadable("the provider has no such list"))?;
        let answer = self.get(&path).await?.ok_or_else(|| unreadable("the list is not found"))?;
        (self.requests.page)(list, after, answer).map_err(unreadable)
    }
}
