//! Access by time: from the start of a subscription until its end.

use super::Subscription;
use crate::values::clock::Timestamp;

/// The phase of a subscription's life at one moment.
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
    /// A record is never judged by a time before its last write. So what had begun or ended when it was
    /// written has done so for every instance, also for one whose clock is behind.
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

    /// True if the subscription grants access at `now` or would if it were not blocked.
    pub(super) fn could_grant_at(&self, now: Timestamp) -> bool {
        self.status.grants_access() && self.phase_at(now) == Phase::Current
    }

    /// True if access has begun or ended since the last write: the record then shows another
    /// `is_active` than it had, at the same version.
    pub fn access_moved_by(&self, now: Timestamp) -> bool {
        self.access_moves() && self.phase_at(now) != self.phase_at(self.updated_at)
    }

    /// True if access begins or ends after the last write, by time alone.
    pub fn access_moves(&self) -> bool {
        let later = |at: Timestamp| at > self.updated_at;
        let may_grant = !self.blocked && self.status.grants_access();
        may_grant && (later(self.starts_at) || self.ends_at.is_some_and(later))
    }
}
