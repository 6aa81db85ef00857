//! Who may ask how often.
//!
//! Each limit is a token bucket: so many requests at once, and then one more as often as makes that
//! many in the window. Memory is bounded, so that nobody with a million addresses uses it up.

mod buckets;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, header};
use subscription_core::auth::{Client, ClientKind};
use subscription_core::{Clock, SessionId, Slug};

use self::buckets::{Buckets, Time};
use crate::api::error::Refusal;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The longest window.
const WINDOW_MAX: Duration = Duration::from_hours(24 * 366);

/// So many requests in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many requests, all at once if need be.
    pub requests: NonZeroU32,
    /// In how much time that many are allowed again.
    pub window: Duration,
}

impl Quota {
    /// At least one request in `window`.
    pub const fn new(requests: u32, window: Duration) -> Self {
        let requests = match NonZeroU32::new(requests) {
            Some(requests) => requests,
            None => NonZeroU32::MIN,
        };
        Self { requests, window }
    }

    fn buckets<K: std::hash::Hash + Eq + Clone>(self, time: Time) -> Buckets<K> {
        let window = self.window.min(WINDOW_MAX);
        let period = (window / self.requests.get()).max(Duration::from_nanos(1));
        let quota = governor::Quota::with_period(period);
        // Only a period of zero is none.
        let quota = quota.unwrap_or_else(|| governor::Quota::per_second(self.requests));
        Buckets::new(quota.allow_burst(self.requests), time)
    }
}

/// How often one may ask; `None` is as often as one likes.
///
/// An address is the one that the rule of `x-forwarded-for` finds; of IPv6 the first 64 bits count. A
/// request that came with no address is not limited by address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Sign-ins and sign-ups of an address, together.
    pub sign_in: Option<Quota>,
    /// Refreshes of an address.
    pub refresh: Option<Quota>,
    /// Refreshes of a session that succeed.
    pub refresh_session: Option<Quota>,
    /// Calls of a peer with a `client-id` that is none; while it has used them up it is refused
    /// whatever it calls with. What a client asserts of addresses is not believed here.
    pub failed_clients: Option<Quota>,
    /// All calls of a confidential client, from wherever. A public client's id is no secret: a bucket of
    /// its own would be one that anybody can use up for all of its users.
    pub client: Option<Quota>,
    /// All calls of an address.
    pub address: Option<Quota>,
}

impl RateLimits {
    /// No limits at all.
    pub const NONE: Self = Self {
        sign_in: None,
        refresh: None,
        refresh_session: None,
        failed_clients: None,
        client: None,
        address: None,
    };

    /// Sign-ins and sign-ups 30 in 5 minutes per address, refreshes 150 in 5 minutes per address and
    /// 10 a minute per session, failed client ids 20 in 5 minutes per peer, and whatever else is asked
    /// 10,000 in 10 seconds per confidential client and per address.
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
        }
    }
}

/// Where somebody stands with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) policy: &'static str,
    quota: Quota,
    left: u32,
    /// How long until there is one more, if there is none.
    wait: Option<Duration>,
}

impl Standing {
    /// Whole seconds until there is one more.
    pub(crate) fn retry_after(&self) -> u64 {
        let wait = self.wait.unwrap_or_default();
        wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
    }

    /// The fields that tell of it (draft-ietf-httpapi-ratelimit-headers), and when to come back.
    pub(crate) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let Self { policy, quota, left, wait } = self;
        let window = quota.window.as_secs().max(1);
        let policy_field = format!("\"{policy}\";q={};w={window}", quota.requests);
        let mut fields = vec![(RATE_LIMIT_POLICY, policy_field)];
        if wait.is_some() {
            let after = self.retry_after();
            fields.push((RATE_LIMIT, format!("\"{policy}\";r=0;t={after}")));
            fields.push((header::RETRY_AFTER, after.to_string()));
        } else {
            fields.push((RATE_LIMIT, format!("\"{policy}\";r={left}")));
        }
        let value = |(name, text)| Some((name, HeaderValue::try_from(text).ok()?));
        fields.into_iter().filter_map(value).collect()
    }
}

/// One limit: its name, its rule, and a bucket for each key.
#[derive(Debug)]
struct Limit<K: std::hash::Hash + Eq + Clone> {
    policy: &'static str,
    quota: Quota,
    buckets: Buckets<K>,
}

impl<K: std::hash::Hash + Eq + Clone> Limit<K> {
    fn new(policy: &'static str, quota: Option<Quota>, time: &Time) -> Option<Self> {
        let quota = quota?;
        Some(Self { policy, quota, buckets: quota.buckets(time.clone()) })
    }

    fn take(&self, key: K) -> Result<Standing, Refusal> {
        self.standing(self.buckets.take(key))
    }

    fn look(&self, key: K) -> Result<Standing, Refusal> {
        self.standing(self.buckets.look(key))
    }

    fn standing(&self, outcome: Result<u32, Duration>) -> Result<Standing, Refusal> {
        let (policy, quota) = (self.policy, self.quota);
        match outcome {
            Ok(left) => Ok(Standing { policy, quota, left, wait: None }),
            Err(wait) => {
                Err(Refusal::RateLimited(Standing { policy, quota, left: 0, wait: Some(wait) }))
            }
        }
    }
}

/// The limits of one server.
#[derive(Debug)]
pub(crate) struct Limiters {
    sign_in: Option<Limit<IpAddr>>,
    refresh: Option<Limit<IpAddr>>,
    refresh_session: Option<Limit<SessionId>>,
    failed_clients: Option<Limit<IpAddr>>,
    client: Option<Limit<Slug>>,
    address: Option<Limit<IpAddr>>,
}

impl Limiters {
    /// Limits by the machine's own time, which never goes back.
    pub(crate) fn new(limits: &RateLimits) -> Self {
        Self::timed(limits, &Time::Machine(Instant::now()))
    }

    /// Limits by the time of a clock.
    pub(crate) fn by(limits: &RateLimits, clock: impl Clock + 'static) -> Self {
        Self::timed(limits, &Time::Given(Arc::new(clock)))
    }

    fn timed(limits: &RateLimits, time: &Time) -> Self {
        Self {
            sign_in: Limit::new("signin", limits.sign_in, time),
            refresh: Limit::new("refresh", limits.refresh, time),
            refresh_session: Limit::new("refresh-session", limits.refresh_session, time),
            failed_clients: Limit::new("client-id", limits.failed_clients, time),
            client: Limit::new("client", limits.client, time),
            address: Limit::new("address", limits.address, time),
        }
    }

    /// Counts a call of an address.
    pub(crate) fn address(&self, ip: Option<IpAddr>) -> Result<(), Refusal> {
        take(self.address.as_ref(), ip.map(network)).map(drop)
    }

    /// Refuses a peer that has called with too many client ids that are none.
    pub(crate) fn peer(&self, peer: Option<IpAddr>) -> Result<(), Refusal> {
        match (&self.failed_clients, peer) {
            (Some(limit), Some(peer)) => limit.look(network(peer)).map(drop),
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// Counts a call with a client id that is none.
    pub(crate) fn failed_client(&self, peer: Option<IpAddr>) {
        // This one has failed already; the next is refused.
        take(self.failed_clients.as_ref(), peer.map(network)).ok();
    }

    /// Counts a call of a client that has a secret.
    pub(crate) fn client(&self, client: &Client) -> Result<(), Refusal> {
        match (&self.client, client.kind) {
            (Some(limit), ClientKind::Confidential) => limit.take(client.id.clone()).map(drop),
            (None, _) | (_, ClientKind::Public) => Ok(()),
        }
    }

    /// Counts a call of a route with a limit of its own, and tells where the address stands with it.
    pub(crate) fn route(
        &self,
        pattern: &str,
        ip: Option<IpAddr>,
    ) -> Result<Option<Standing>, Refusal> {
        let limit = match pattern {
            "/authentication/sign-in" | "/authentication/sign-up" => &self.sign_in,
            "/authentication/refresh-token" => &self.refresh,
            _ => &None,
        };
        take(limit.as_ref(), ip.map(network))
    }

    /// Refuses the refresh of a session that was refreshed too often.
    ///
    /// Which session it is was not proved yet, so that nothing is counted: else anybody who knows its
    /// id could keep it from being refreshed.
    pub(crate) fn session(&self, session: Option<SessionId>) -> Result<(), Refusal> {
        match (&self.refresh_session, session) {
            (Some(limit), Some(session)) => limit.look(session).map(drop),
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// Counts the refresh of a session.
    pub(crate) fn refreshed(&self, session: SessionId) {
        // Those that ran at the same time were all let through.
        take(self.refresh_session.as_ref(), Some(session)).ok();
    }
}

fn take<K: std::hash::Hash + Eq + Clone>(
    limit: Option<&Limit<K>>,
    key: Option<K>,
) -> Result<Option<Standing>, Refusal> {
    limit.zip(key).map(|(limit, key)| limit.take(key)).transpose()
}

/// What is limited together: an address, but of IPv6 all of a subscriber's, which is a /64 at least.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}
