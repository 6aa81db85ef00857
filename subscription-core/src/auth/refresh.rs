//! Pure functions on a session: the decision on a refresh token (rotate, repeat or refuse), and the
//! session after each change.

use std::time::Duration;

use crate::accounts::{Revocation, RevocationReason, Session};
use crate::values::Timestamp;

/// How long the previous refresh token is still accepted after a refresh. Each of the two durations belongs to a rule
/// of its own, and a duration of zero switches that rule off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshWindows {
    /// How long after the refresh the previous token is accepted in any case, because two browser tabs may refresh at
    /// the same time.
    pub overlap: Duration,
    /// How long after the refresh the previous token is accepted if the new tokens were not used, because the response
    /// with the new tokens may have been lost.
    pub lost_answer: Duration,
}

impl Default for RefreshWindows {
    fn default() -> Self {
        Self { overlap: Duration::from_secs(30), lost_answer: Duration::from_mins(10) }
    }
}

crate::with_fields! {
    RefreshWindows {
        with_overlap(Duration) => overlap,
        with_lost_answer(Duration) => lost_answer,
    }
}

/// The decision on a genuine refresh token. `Rotate` and `Repeat` accept the token, all others refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refresh {
    /// Start the next generation and issue new tokens.
    Rotate,
    /// Return the current refresh token again, with a new access token.
    Repeat,
    /// The session of the token was revoked.
    Revoked,
    /// The session of the token has expired.
    Expired,
    /// The generation of the token is ahead of the session's: the database was restored from a backup.
    Ahead,
    /// The token was replaced by a newer one and is not accepted any more, so somebody else may have a copy of it.
    Reused,
}

/// Decides on a genuine refresh token of `generation`, presented at `now`.
pub(super) fn decide(
    session: &Session,
    generation: u32,
    now: Timestamp,
    windows: RefreshWindows,
) -> Refresh {
    if session.revoked.is_some() {
        return Refresh::Revoked;
    }
    if session.has_expired(now) {
        return Refresh::Expired;
    }
    if generation > session.generation {
        return Refresh::Ahead;
    }
    if generation == session.generation {
        return Refresh::Rotate;
    }
    let rotated_within =
        |window: Duration| !window.is_zero() && now < session.rotated_at.saturating_add(window);
    let just_before = generation.checked_add(1) == Some(session.generation);
    let lost = !session.successor_used && rotated_within(windows.lost_answer);
    if just_before && (rotated_within(windows.overlap) || lost) {
        Refresh::Repeat
    } else {
        Refresh::Reused
    }
}

impl Session {
    /// The session after it was revoked.
    #[must_use]
    pub(super) fn revoke(&self, reason: RevocationReason, now: Timestamp) -> Self {
        Self { revoked: Some(Revocation { at: now, reason }), ..self.written(now) }
    }

    /// The session in its next generation.
    #[must_use]
    pub(super) fn rotate(&self, key_id: u8, idle: Duration, now: Timestamp) -> Self {
        Self {
            key_id,
            generation: self.generation.saturating_add(1),
            rotated_at: now,
            successor_used: false,
            last_seen_at: now,
            idle_expires_at: now.saturating_add(idle),
            ..self.written(now)
        }
    }

    /// The session after an access token of `generation` was used. `None` if this use need not be written yet.
    pub(super) fn seen(&self, generation: u32, every: Duration, now: Timestamp) -> Option<Self> {
        let used = generation == self.generation && !self.successor_used;
        let long_ago = now >= self.last_seen_at.saturating_add(every);
        (used || long_ago).then(|| Self {
            successor_used: self.successor_used || used,
            last_seen_at: now,
            ..self.written(now)
        })
    }

    fn written(&self, now: Timestamp) -> Self {
        Self { updated_at: now, version: self.version.next(), ..self.clone() }
    }
}
