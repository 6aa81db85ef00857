//! The state of a rate limit after a request, and its headers.

use std::time::Duration;

use http::{HeaderName, HeaderValue, header};
use subscription_core::providers::OBSERVATIONS_PER_SECOND;

use super::Quota;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The state of a rate limit after a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateStatus {
    pub(crate) policy: &'static str,
    pub(crate) quota: Quota,
    pub(crate) left: u32,
    /// The time until the next request is allowed; `None` if a request is allowed now.
    pub(crate) wait: Option<Duration>,
}

impl RateStatus {
    /// The status of the rate limit for a client that already has the maximum number of requests waiting for events.
    pub(crate) const fn waiting(most: u32) -> Self {
        let wait = Duration::from_secs(1);
        Self { policy: "waiting", quota: Quota::new(most, wait), left: 0, wait: Some(wait) }
    }

    /// The status of the rate limit after too many requests to read an object from its payment provider.
    pub(crate) const fn provider_syncs(wait: Duration) -> Self {
        let quota = Quota::new(OBSERVATIONS_PER_SECOND, Duration::from_secs(1));
        Self { policy: "provider-sync", quota, left: 0, wait: Some(wait) }
    }

    /// The number of whole seconds until the next request is allowed: at least 1.
    pub(crate) fn retry_after(&self) -> u64 {
        let wait = self.wait.unwrap_or_default();
        wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
    }

    /// The headers of the limit (draft-ietf-httpapi-ratelimit-headers), with `Retry-After` if no request is allowed
    /// now.
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
