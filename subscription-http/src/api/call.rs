//! What a handler is given: a request that was let in, read and limited already.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use secrecy::SecretString;
use subscription_core::auth::{Authenticated, Authentication, Client, Origin};
use subscription_core::store::Idempotency;
use subscription_core::{Error, InputError, Slug, SubscriptionService, Version};

use crate::api::Api;
use crate::api::error::{ApiError, Refusal};
use crate::api::query::Query;
use crate::api::rate::Limiters;
use crate::api::routes::Variable;

/// A request on its way through a handler.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) api: Api,
    /// The route's pattern, which names the list that a cursor is for.
    pub(crate) pattern: &'static str,
    pub(crate) variable: Variable,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) client: Option<Arc<Client>>,
    pub(crate) caller: Option<Authenticated>,
    pub(crate) token: Option<SecretString>,
    pub(crate) ip: Option<IpAddr>,
}

impl Call {
    pub(crate) fn service(&self) -> &SubscriptionService {
        self.api.service()
    }

    pub(crate) fn auth(&self) -> &Authentication {
        self.api.auth()
    }

    pub(crate) fn limiters(&self) -> &Limiters {
        self.api.limiters()
    }

    /// A variable of the path, if it is of the form that it must have; else there is no such record.
    pub(crate) fn path<T: std::str::FromStr>(&self, name: &str) -> Result<T, ApiError> {
        let found = self.variable.as_ref().filter(|(variable, _)| *variable == name);
        found.and_then(|(_, value)| value.parse().ok()).ok_or_else(|| Refusal::NotFound.into())
    }

    /// The slug in the path.
    pub(crate) fn slug(&self) -> Result<Slug, ApiError> {
        let slug: Slug = self.path("slug")?;
        // An input is trimmed, a path is not: a plan has one path.
        let is_whole = self.variable.as_ref().is_some_and(|(_, sent)| slug.as_str() == sent);
        if is_whole { Ok(slug) } else { Err(Refusal::NotFound.into()) }
    }

    /// The body, read by the input that the handler takes.
    pub(crate) fn input<T>(
        &self,
        read: impl FnOnce(&[u8]) -> Result<T, InputError>,
    ) -> Result<T, ApiError> {
        read(&self.body).map_err(|error| ApiError::Service(error.into()))
    }

    /// The client that calls; the route has seen to it that there is one.
    pub(crate) fn client(&self) -> Result<&Arc<Client>, ApiError> {
        self.client.as_ref().ok_or_else(|| Refusal::ClientMissing.into())
    }

    /// The user who calls; the route has seen to it that there is one.
    pub(crate) fn caller(&self) -> Result<&Authenticated, ApiError> {
        self.caller.as_ref().ok_or_else(|| Refusal::TokenMissing.into())
    }

    /// The access token that was sent; the route has seen to it that there is one.
    pub(crate) fn token(&self) -> Result<&SecretString, ApiError> {
        self.token.as_ref().ok_or_else(|| Refusal::TokenMissing.into())
    }

    /// Where the call comes from.
    pub(crate) fn origin(&self) -> Origin {
        let user_agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        let short: Option<String> = user_agent.map(|text| text.chars().take(512).collect());
        Origin { ip: self.ip, user_agent: short.and_then(|text| text.parse().ok()) }
    }

    /// The key of a request that may be repeated.
    pub(crate) fn idempotency(&self) -> Result<Option<Idempotency>, ApiError> {
        let Some(key) = self.single("idempotency-key")? else { return Ok(None) };
        let key = key.to_str().ok().and_then(|key| key.parse().ok());
        let key = key.ok_or(Refusal::KeyInvalid)?;
        Ok(Some(Idempotency { client: self.client()?.id.to_string(), key }))
    }

    /// Makes a change, if it is for some versions only then of one of these.
    pub(crate) async fn if_match<T, F>(
        &self,
        change: impl Fn(Option<Version>) -> F + Send + Sync,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let Some(versions) = self.versions()? else { return Ok(change(None).await?) };
        // A record that was never written has it, so it matches none.
        let mut tried = versions.first().copied().unwrap_or(Version::NEW);
        loop {
            match change(Some(tried)).await {
                // Of several the one counts that the record is at, which the refusal tells.
                Err(Error::Stale { current, .. }) if versions.contains(&current) => tried = current,
                done => return Ok(done?),
            }
        }
    }

    /// The versions of `If-Match` (RFC 9110, 13.1.1); none if it is not sent, or is for any version.
    fn versions(&self) -> Result<Option<Vec<Version>>, ApiError> {
        let mut lines = self.headers.get_all(header::IF_MATCH).iter().peekable();
        if lines.peek().is_none() {
            return Ok(None);
        }
        let lines: Result<Vec<_>, _> = lines.map(HeaderValue::to_str).collect();
        let tags = lines.map_err(|_| Refusal::HeaderInvalid("if-match"))?.join(",");
        if tags.trim() == "*" {
            return Ok(None);
        }
        // A tag that is weak, or none of ours, matches no version.
        Ok(Some(tags.split(',').filter_map(|tag| version_of(tag.trim())).collect()))
    }

    /// True if the caller has this version already.
    pub(crate) fn has(&self, version: Version) -> Result<bool, ApiError> {
        self.has_tag(|tag| version_of(tag) == Some(version))
    }

    /// True if the caller has what a tag names that is `ours`.
    pub(crate) fn has_tag(&self, ours: impl Fn(&str) -> bool) -> Result<bool, ApiError> {
        let mut has = false;
        for tags in self.headers.get_all(header::IF_NONE_MATCH) {
            let tags = tags.to_str().map_err(|_| Refusal::HeaderInvalid("if-none-match"))?;
            has |= tags.split(',').map(str::trim).any(|tag| {
                // Weakly the same is the same here (RFC 9110, 13.1.2).
                tag == "*" || ours(tag.strip_prefix("W/").unwrap_or(tag))
            });
        }
        Ok(has)
    }

    fn single(&self, name: &'static str) -> Result<Option<&HeaderValue>, ApiError> {
        let mut values = self.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Refusal::HeaderInvalid(name).into()),
        }
    }
}

fn version_of(tag: &str) -> Option<Version> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = digits.parse::<u64>().ok().map(Version::from);
    // A tag is compared as it is written: "01" and "+1" are none of ours.
    version.filter(|version| version.to_string() == digits)
}
