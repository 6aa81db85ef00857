//! Access by time: a subscription grants access from its start until its end.

use super::Subscription;
use crate::values::Timestamp;

/// The phase of a subscription at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Before `starts_at`.
    Waiting,
    /// From `starts_at` on, before `ends_at`.
    Current,
    /// From `ends_at` on.
    Over,
}

impl Subscription {
    /// The phase at `now`.
    ///
    /// If `now` is before the last write, the phase is that at the time of the last write. So if the subscription had
    /// begun or ended when it was written, even an instance whose clock is behind knows that it has.
    pub fn phase_at(&self, now: Timestamp) -> Phase {
        let now = now.max(self.updated_at);
        if self.ends_at.is_some_and(|ends_at| ends_at <= now) {
            Phase::Over
        } else if self.starts_at > now {
            Phase::Waiting
        } else {
            Phase::Current
        }
    }

    /// True if the subscription grants access at `now`.
    pub fn is_active_at(&self, now: Timestamp) -> bool {
        !self.blocked && self.could_grant_at(now)
    }

    /// True if the subscription grants access at `now`, or would grant it if it were not blocked.
    pub(super) fn could_grant_at(&self, now: Timestamp) -> bool {
        self.status.grants_access() && self.phase_at(now) == Phase::Current
    }

    /// True if access has begun or ended since the last write, only because time has passed. Then the `is_active` that
    /// the API returns differs from the one after that write, although the version is the same.
    pub fn access_moved_by(&self, now: Timestamp) -> bool {
        self.access_moves() && self.phase_at(now) != self.phase_at(self.updated_at)
    }

    /// True if access begins or ends at a moment after the last write, without another write.
    pub fn access_moves(&self) -> bool {
        let later = |at: Timestamp| at > self.updated_at;
        let may_grant = !self.blocked && self.status.grants_access();
        may_grant && (later(self.starts_at) || self.ends_at.is_some_and(later))
    }
}
