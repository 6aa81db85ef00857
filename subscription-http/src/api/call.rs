//! The argument of every handler: a request whose caller was admitted and whose body was read.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::SecretString;
use serde::Serialize;
use subscription_core::auth::{Authenticated, Authentication, Client, Origin};
use subscription_core::events::Actor;
use subscription_core::store::{Idempotency, Page};
use subscription_core::{Error, InputError, Slug, SubscriptionService, UserId, Version};

use super::Surface;
use super::error::{ApiError, Refusal};
use super::input::bounds::USER_AGENT_CHARS_MAX;
use super::input::query::Query;
use super::output::bodies::PageBody;
use super::output::json_cache::ToJson;
use super::reply::Reply;
use super::routes::{Served, Variable};
use super::state::State;

/// A request, as its handler receives it.
pub(crate) struct Call {
    pub(crate) state: Arc<State>,
    pub(crate) surface: Surface,
    /// The service. The events that it records name the caller as their actor.
    pub(crate) service: SubscriptionService,
    /// The pattern of the route's path. A cursor is valid only for lists with the pattern that the cursor was made for.
    pub(crate) pattern: &'static str,
    pub(crate) variable: Variable,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) client: Option<Arc<Client>>,
    pub(crate) caller: Option<Authenticated>,
    /// The user who sent the request; `None` if a client sent it for itself.
    pub(crate) person: Option<UserId>,
    pub(crate) token: Option<SecretString>,
    pub(crate) ip: Option<IpAddr>,
}

impl Call {
    pub(crate) fn auth(&self) -> &Authentication {
        &self.state.auth
    }

    /// The settings that decide which routes are served, for the listener that received this request.
    pub(crate) fn served(&self) -> Served<'_> {
        self.state.served(self.surface)
    }

    /// The value of the path variable `name`. If it cannot be parsed, the result is `not found`, because no record has
    /// such a name.
    pub(crate) fn path<T: std::str::FromStr>(&self, name: &str) -> Result<T, ApiError> {
        let found = self.variable.as_ref().filter(|(variable, _)| *variable == name);
        found.and_then(|(_, value)| value.parse().ok()).ok_or_else(|| Refusal::NotFound.into())
    }

    /// The slug in the path.
    pub(crate) fn slug(&self) -> Result<Slug, ApiError> {
        let slug: Slug = self.path("slug")?;
        // Parsing removes spaces at the ends, but a path with such spaces is not the path of the plan.
        let is_whole = self.variable.as_ref().is_some_and(|(_, sent)| slug.as_str() == sent);
        if is_whole { Ok(slug) } else { Err(Refusal::NotFound.into()) }
    }

    /// The body, parsed into the input of the handler.
    pub(crate) fn input<T>(
        &self,
        read: impl FnOnce(&[u8]) -> Result<T, InputError>,
    ) -> Result<T, ApiError> {
        read(&self.body).map_err(|error| ApiError::Service(error.into()))
    }

    /// The client that sent the request. On a route that needs a client, a scope or an access token, this never fails,
    /// except for a user with a portal token.
    pub(crate) fn client(&self) -> Result<&Arc<Client>, ApiError> {
        self.client.as_ref().ok_or_else(|| Refusal::ClientMissing.into())
    }

    /// The user and the session of the access token. On a [`Bearer`](super::routes::Needs::Bearer) route this never
    /// fails.
    pub(crate) fn caller(&self) -> Result<&Authenticated, ApiError> {
        self.caller.as_ref().ok_or_else(|| Refusal::TokenMissing.into())
    }

    /// The id of the user who sent the request. On a route that needs a live session or a person this never fails.
    pub(crate) fn person(&self) -> Result<UserId, ApiError> {
        self.person.ok_or_else(|| Refusal::TokenMissing.into())
    }

    /// The actor of the changes that the request makes: the user who sent it, else the client.
    pub(crate) fn actor(&self) -> Result<Actor, ApiError> {
        Ok(match self.person {
            Some(person) => Actor::User(person),
            None => Actor::Client(self.client()?.id.clone()),
        })
    }

    /// The owner of the cursors and idempotency keys of the request: the user who sent it, with any client; if no user
    /// sent it, the client.
    pub(crate) fn owner(&self) -> Result<String, ApiError> {
        Ok(match self.person {
            Some(person) => Actor::User(person).to_string(),
            None => self.client()?.id.to_string(),
        })
    }

    /// The access token of the request. On a route that needs an access token this never fails, except for a user with
    /// a portal token.
    pub(crate) fn token(&self) -> Result<&SecretString, ApiError> {
        self.token.as_ref().ok_or_else(|| Refusal::TokenMissing.into())
    }

    /// The IP address and the user agent of the caller.
    pub(crate) fn origin(&self) -> Origin {
        let user_agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        let short: Option<String> =
            user_agent.map(|text| text.chars().take(USER_AGENT_CHARS_MAX).collect());
        Origin { ip: self.ip, user_agent: short.and_then(|text| text.parse().ok()) }
    }

    /// The `Idempotency-Key` of the request; `None` if the request has no such header.
    pub(crate) fn idempotency(&self) -> Result<Option<Idempotency>, ApiError> {
        let Some(key) = self.single("idempotency-key")? else { return Ok(None) };
        let key = key.to_str().ok().and_then(|key| key.parse().ok());
        let key = key.ok_or(Refusal::KeyInvalid)?;
        Ok(Some(Idempotency { client: self.owner()?, key }))
    }

    /// Makes a change under the condition of the header `If-Match`; without the header, there is no condition.
    pub(crate) async fn if_match<T, F>(
        &self,
        change: impl Fn(Option<Version>) -> F + Send + Sync,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let Some(versions) = self.versions()? else { return Ok(change(None).await?) };
        // If the list of versions is empty, the change is tried with `NEW`. No stored record has this version, so the
        // change is refused.
        let mut tried = versions.first().copied().unwrap_or(Version::NEW);
        loop {
            match change(Some(tried)).await {
                // The record has another version. If the header lists this version too, the change is tried again with
                // it.
                Err(Error::Stale { current, .. }) if versions.contains(&current) => tried = current,
                done => return Ok(done?),
            }
        }
    }

    /// The versions in the header `If-Match` (RFC 9110, 13.1.1); `None` if the header is missing or is `*`.
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
        // A tag that is weak, or that this server did not make, matches no version.
        Ok(Some(tags.split(',').filter_map(|tag| version_of(tag.trim())).collect()))
    }

    /// True if the header `If-None-Match` has this version, or `*`.
    pub(crate) fn has(&self, version: Version) -> Result<bool, ApiError> {
        self.has_tag(|tag| version_of(tag) == Some(version))
    }

    /// True if the header `If-None-Match` has `*`, or a tag for which `ours` returns true.
    pub(crate) fn has_tag(&self, ours: impl Fn(&str) -> bool) -> Result<bool, ApiError> {
        let mut has = false;
        for tags in self.headers.get_all(header::IF_NONE_MATCH) {
            let tags = tags.to_str().map_err(|_| Refusal::HeaderInvalid("if-none-match"))?;
            has |= tags.split(',').map(str::trim).any(|tag| {
                // The comparison ignores the mark of weak tags (RFC 9110, 13.1.2).
                tag == "*" || ours(tag.strip_prefix("W/").unwrap_or(tag))
            });
        }
        Ok(has)
    }

    /// Returns 200 with a record, or 304 if the caller already has this version.
    pub(crate) fn record<T: ToJson>(&self, record: &Arc<T>) -> Result<Reply, ApiError> {
        let version = record.version();
        if self.has(version)? {
            return Ok(Reply::empty(StatusCode::NOT_MODIFIED).version(version));
        }
        self.whole_record(StatusCode::OK, record)
    }

    /// Returns a record, even if the caller already has this version.
    pub(crate) fn whole_record<T: ToJson>(
        &self,
        status: StatusCode,
        record: &Arc<T>,
    ) -> Result<Reply, ApiError> {
        let json = T::cache(&self.state.json_caches).json(record)?;
        Ok(Reply::json_bytes(status, json).version(record.version()))
    }

    /// Returns a page of records.
    pub(crate) fn page<T: ToJson>(&self, page: &Page<Arc<T>>) -> Result<Reply, ApiError> {
        let next = self.next_cursor(page)?;
        let body = T::cache(&self.state.json_caches).page(&page.items, next, unreadable(page))?;
        Ok(Reply::json_bytes(StatusCode::OK, body))
    }

    /// Returns a page of records whose JSON is not cached. `data` has the records in the form that callers see.
    pub(crate) fn page_of<T>(
        &self,
        page: &Page<T>,
        data: &[impl Serialize],
    ) -> Result<Reply, ApiError> {
        let next_cursor = self.next_cursor(page)?;
        let unreadable = unreadable(page);
        Reply::ok(&PageBody { data, has_more: next_cursor.is_some(), next_cursor, unreadable })
    }

    /// The value of a header that may be sent only once; `None` if it is missing.
    fn single(&self, name: &'static str) -> Result<Option<&HeaderValue>, ApiError> {
        let mut values = self.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Refusal::HeaderInvalid(name).into()),
        }
    }
}

/// The ids of the records that a page leaves out, because they cannot be read.
fn unreadable<T>(page: &Page<T>) -> Vec<&str> {
    page.damaged.iter().map(|damaged| damaged.id.as_str()).collect()
}

/// The version in a strong `ETag` of this server; `None` for other tags.
fn version_of(tag: &str) -> Option<Version> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = digits.parse::<u64>().ok().map(Version::from);
    // Tags are compared as text: "01" and "+1" are not tags of this server.
    version.filter(|version| version.to_string() == digits)
}
