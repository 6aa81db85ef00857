//! Checks that the store accepts writes, for `/health/ready`.

use subscription_core::store::StoreError;
use subscription_core::{Error, SubscriptionService, Timestamp};
use tokio::sync::Mutex;

use crate::api::ApiError;

/// How long a result is cached, in microseconds. Anybody can request the check, and must not overload the disk with
/// it.
const CACHED_MICROS: i64 = 1_000_000;

/// The result of the last check.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<Checked>>);

#[derive(Clone, Copy)]
struct Checked {
    at: Timestamp,
    takes_writes: bool,
}

impl Checked {
    /// True if the result is still valid. A result from a later time is not valid: the clock was set back.
    fn holds_at(self, now: Timestamp) -> bool {
        (0..CACHED_MICROS).contains(&(now.micros() - self.at.micros()))
    }
}

impl Readiness {
    /// Checks that the store accepts writes, unless the last result is still valid. Concurrent callers wait for one
    /// check.
    pub(crate) async fn check(&self, service: &SubscriptionService) -> Result<(), ApiError> {
        let mut last = self.0.lock().await;
        let at = service.now();
        match *last {
            Some(checked) if checked.holds_at(at) && checked.takes_writes => Ok(()),
            Some(checked) if checked.holds_at(at) => {
                let source = "at the last check, the database accepted no writes".into();
                Err(Error::Store(StoreError::Unavailable(source)).into())
            }
            Some(_) | None => {
                let checked = service.check_store().await;
                // The result is valid from the end of the check, because the check may take long. So the callers that
                // waited for it can use its result.
                let at = service.now();
                *last = Some(Checked { at, takes_writes: checked.is_ok() });
                Ok(checked?)
            }
        }
    }
}
