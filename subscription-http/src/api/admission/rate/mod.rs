//! Rate limits by address, client, session and user.
//!
//! Each limit has a token bucket for each key. A bucket allows a burst of all its requests, and refills evenly over
//! its window. The memory is bounded, so that an attacker with a million addresses cannot use it up.

mod buckets;
mod status;

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use subscription_core::auth::{Client, ClientKind};
use subscription_core::webhooks::EndpointId;
use subscription_core::{SessionId, Slug, UserId};

use self::buckets::Buckets;
pub(crate) use self::buckets::Time;
pub(crate) use self::status::RateStatus;
use crate::api::Refusal;

/// The shortest time that a sender of too many webhooks must wait. Payment providers do not retry sooner.
const WEBHOOK_WAIT: Duration = Duration::from_secs(5);

/// The longest window.
const WINDOW_MAX: Duration = Duration::from_hours(24 * 366);

/// A number of requests in a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The number of requests, which may all come at once.
    pub requests: NonZeroU32,
    /// The time after which the same number of requests is allowed again.
    pub window: Duration,
}

impl Quota {
    /// The quota of `requests` in `window`; 0 requests count as 1.
    pub const fn new(requests: u32, window: Duration) -> Self {
        let requests = match NonZeroU32::new(requests) {
            Some(requests) => requests,
            None => NonZeroU32::MIN,
        };
        Self { requests, window }
    }
}

/// The rate limits of a server. A limit that is `None` is unlimited.
///
/// If a proxy is trusted, the address of the caller is read from `x-forwarded-for`. Of an IPv6 address, only the first
/// 64 bits count. A request without an address is not limited by address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimits {
    /// Sign-ins and sign-ups from one address, together.
    pub sign_in: Option<Quota>,
    /// Refreshes from one address.
    pub refresh: Option<Quota>,
    /// Successful refreshes of one session.
    pub refresh_session: Option<Quota>,
    /// Requests from one address with an unknown `client-id`. Once the limit is reached, further ones get 429 in place of
    /// 401; known clients of the address are not refused.
    pub failed_clients: Option<Quota>,
    /// All requests of one confidential client, from any address. Public clients have no such limit: their id is
    /// public, so anybody could use up the limit of all their users.
    pub client: Option<Quota>,
    /// All requests from one address.
    pub address: Option<Quota>,
    /// Webhooks of payment providers from one address.
    pub webhook: Option<Quota>,
    /// Pings, rewinds and resends of one webhook endpoint, together.
    pub endpoint: Option<Quota>,
    /// Requests of one user under `/me`, with access tokens and portal tokens together.
    pub person: Option<Quota>,
    /// Changes that one user makes to subscriptions under `/me`, with access tokens and portal tokens together. Only
    /// changes that were made count.
    pub self_service: Option<Quota>,
}

subscription_core::with_fields! {
    RateLimits {
        with_sign_in(impl Into<Option<Quota>>) => sign_in,
        with_refresh(impl Into<Option<Quota>>) => refresh,
        with_refresh_session(impl Into<Option<Quota>>) => refresh_session,
        with_failed_clients(impl Into<Option<Quota>>) => failed_clients,
        with_client(impl Into<Option<Quota>>) => client,
        with_address(impl Into<Option<Quota>>) => address,
        with_webhook(impl Into<Option<Quota>>) => webhook,
        with_endpoint(impl Into<Option<Quota>>) => endpoint,
        with_person(impl Into<Option<Quota>>) => person,
        with_self_service(impl Into<Option<Quota>>) => self_service,
    }
}

impl RateLimits {
    /// No limits.
    pub const NONE: Self = Self {
        sign_in: None,
        refresh: None,
        refresh_session: None,
        failed_clients: None,
        client: None,
        address: None,
        webhook: None,
        endpoint: None,
        person: None,
        self_service: None,
    };

    /// The limits for production. Each address: 30 sign-ins and sign-ups, 150 refreshes, and 20 unknown client ids,
    /// each in 5 minutes; 500 webhooks in 5 seconds; and 10,000 requests in 10 seconds. Each confidential client:
    /// 10,000 requests in 10 seconds. Each session: 10 refreshes a minute. Each webhook endpoint: 30 pings, rewinds
    /// and resends a minute. Each user: 300 requests under `/me` in 5 minutes, and 20 changes of subscriptions in a day.
    pub const fn production() -> Self {
        const FIVE_MINUTES: Duration = Duration::from_mins(5);
        const GENEROUS: Quota = Quota::new(10_000, Duration::from_secs(10));
        Self {
            sign_in: Some(Quota::new(30, FIVE_MINUTES)),
            refresh: Some(Quota::new(150, FIVE_MINUTES)),
            refresh_session: Some(Quota::new(10, Duration::from_mins(1))),
            failed_clients: Some(Quota::new(20, FIVE_MINUTES)),
            client: Some(GENEROUS),
            address: Some(GENEROUS),
            webhook: Some(Quota::new(500, Duration::from_secs(5))),
            endpoint: Some(Quota::new(30, Duration::from_mins(1))),
            person: Some(Quota::new(300, FIVE_MINUTES)),
            self_service: Some(Quota::new(20, Duration::from_hours(24))),
        }
    }
}

/// A rate limit of routes. All routes with the same value share one limit.
#[derive(Clone, Copy)]
pub(crate) enum RouteLimit {
    SignIn,
    Refresh,
    Webhook,
}

/// One limit: its name, its quota, and a bucket for each key.
struct Limit<K: Hash + Eq + Clone> {
    policy: &'static str,
    quota: Quota,
    buckets: Buckets<K>,
}

impl<K: Hash + Eq + Clone> Limit<K> {
    fn new(policy: &'static str, quota: Option<Quota>, time: &Time) -> Option<Self> {
        let quota = quota?;
        let window = quota.window.min(WINDOW_MAX);
        let period = (window / quota.requests.get()).max(Duration::from_nanos(1));
        // `with_period` returns `None` only for a period of zero, and this period is at least 1 ns.
        let refill = governor::Quota::with_period(period)?.allow_burst(quota.requests);
        Some(Self { policy, quota, buckets: Buckets::new(refill, time.clone()) })
    }

    /// The state of the limit after a token was taken from a bucket, or only looked for. `outcome` is the number of
    /// tokens left, or the time until the bucket has a token again. In the second case the result is a refusal.
    fn status(&self, outcome: Result<u32, Duration>) -> Result<RateStatus, Refusal> {
        let Self { policy, quota, .. } = *self;
        outcome
            .map(|left| RateStatus { policy, quota, left, wait: None })
            .map_err(|wait| RateStatus { policy, quota, left: 0, wait: Some(wait) })
            .map_err(Refusal::RateLimited)
    }
}

/// The limits of one server.
#[derive(Default)]
pub(crate) struct Limiters {
    sign_in: Option<Limit<IpAddr>>,
    refresh: Option<Limit<IpAddr>>,
    refresh_session: Option<Limit<SessionId>>,
    failed_clients: Option<Limit<IpAddr>>,
    client: Option<Limit<Slug>>,
    address: Option<Limit<IpAddr>>,
    webhook: Option<Limit<IpAddr>>,
    endpoint: Option<Limit<EndpointId>>,
    person: Option<Limit<UserId>>,
    self_service: Option<Limit<UserId>>,
}

impl Limiters {
    pub(crate) fn new(limits: &RateLimits, time: &Time) -> Self {
        Self {
            sign_in: Limit::new("signin", limits.sign_in, time),
            refresh: Limit::new("refresh", limits.refresh, time),
            refresh_session: Limit::new("refresh-session", limits.refresh_session, time),
            failed_clients: Limit::new("client-id", limits.failed_clients, time),
            client: Limit::new("client", limits.client, time),
            address: Limit::new("address", limits.address, time),
            webhook: Limit::new("webhook", limits.webhook, time),
            endpoint: Limit::new("endpoint", limits.endpoint, time),
            person: Limit::new("person", limits.person, time),
            self_service: Limit::new("self-service", limits.self_service, time),
        }
    }

    /// Counts a request from an address, and refuses it if the limit is reached.
    pub(crate) fn address(&self, ip: Option<IpAddr>) -> Result<(), Refusal> {
        take(self.address.as_ref(), ip.map(network)).map(drop)
    }

    /// Counts a request from an address with an unknown client id, and refuses it if the limit is reached.
    pub(crate) fn failed_client(&self, caller: Option<IpAddr>) -> Result<(), Refusal> {
        take(self.failed_clients.as_ref(), caller.map(network)).map(drop)
    }

    /// Counts a request of a confidential client, and refuses it if the limit is reached.
    pub(crate) fn client(&self, client: &Client) -> Result<(), Refusal> {
        let is_limited = client.kind == ClientKind::Confidential;
        let limit = self.client.as_ref().filter(|_| is_limited);
        take(limit, limit.map(|_| client.id.clone())).map(drop)
    }

    /// Counts a request to a route with its own limit, and returns the state of that limit.
    pub(crate) fn route(
        &self,
        limit: Option<RouteLimit>,
        ip: Option<IpAddr>,
    ) -> Result<Option<RateStatus>, Refusal> {
        let limit = match limit {
            Some(RouteLimit::SignIn) => &self.sign_in,
            Some(RouteLimit::Refresh) => &self.refresh,
            Some(RouteLimit::Webhook) => {
                let taken = take(self.webhook.as_ref(), ip.map(network));
                return taken.map_err(|refused| refused.for_at_least(WEBHOOK_WAIT));
            }
            None => return Ok(None),
        };
        take(limit.as_ref(), ip.map(network))
    }

    /// Counts a ping, rewind or resend of a webhook endpoint, and refuses it if the limit is reached.
    pub(crate) fn endpoint(&self, endpoint: EndpointId) -> Result<(), Refusal> {
        take(self.endpoint.as_ref(), Some(endpoint)).map(drop)
    }

    /// Counts a request of a user under `/me`, and refuses it if the limit is reached.
    pub(crate) fn person(&self, user: UserId) -> Result<(), Refusal> {
        take(self.person.as_ref(), Some(user)).map(drop)
    }

    /// Counts a change that a user is about to make to a subscription, and refuses it if the limit is reached.
    pub(crate) fn self_service(&self, user: UserId) -> Result<Option<RateStatus>, Refusal> {
        take(self.self_service.as_ref(), Some(user))
    }

    /// Takes back the count of a change that was not made.
    pub(crate) fn not_changed(&self, user: UserId) {
        if let Some(limit) = &self.self_service {
            limit.buckets.put_back(user);
        }
    }

    /// Refuses the refresh of a session that was refreshed too often.
    ///
    /// This function counts nothing, because the refresh token is not verified yet. If it counted such requests,
    /// anybody who knows the id of a session could use up its limit and so prevent its refresh.
    pub(crate) fn session(&self, session: Option<SessionId>) -> Result<(), Refusal> {
        look(self.refresh_session.as_ref(), session)
    }

    /// Counts the successful refresh of a session.
    pub(crate) fn refreshed(&self, session: SessionId) {
        // Concurrent refreshes of a session are all allowed before any of them is counted. So the bucket may already be
        // empty here. This is not an error.
        take(self.refresh_session.as_ref(), Some(session)).ok();
    }
}

impl Refusal {
    /// If the reason of this refusal is a rate limit, extends its wait to at least `least`. Any other refusal is
    /// returned unchanged.
    fn for_at_least(self, least: Duration) -> Self {
        let Self::RateLimited(status) = self else { return self };
        let wait = Some(status.wait.unwrap_or_default().max(least));
        Self::RateLimited(RateStatus { wait, ..status })
    }
}

/// Counts a request, and refuses it if the limit is reached. `None` if nothing is limited: no limit is set, or the
/// request has no key.
fn take<K: Hash + Eq + Clone>(
    limit: Option<&Limit<K>>,
    key: Option<K>,
) -> Result<Option<RateStatus>, Refusal> {
    limit.zip(key).map(|(limit, key)| limit.status(limit.buckets.take(key))).transpose()
}

/// Like [`take`], but counts nothing.
fn look<K: Hash + Eq + Clone>(limit: Option<&Limit<K>>, key: Option<K>) -> Result<(), Refusal> {
    limit.zip(key).map_or(Ok(()), |(limit, key)| limit.status(limit.buckets.look(key)).map(drop))
}

/// The key of an address: an IPv4 address itself, or the /64 network of an IPv6 address, because one subscriber has a
/// whole /64.
pub(crate) fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}
