//! The decision on a refresh token: rotate, repeat or refuse. Pure; the token itself is read in `auth`.

use std::time::Duration;

use super::session::Session;
use crate::values::clock::Timestamp;

/// How long a refresh token that was replaced is still met with patience; both may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshWindows {
    /// The one before the current is taken for so long after the rotation: two tabs refresh at once.
    pub overlap: Duration,
    /// The one before the current is taken for so long if nobody has used its successor: the answer
    /// was lost.
    pub lost_answer: Duration,
}

impl Default for RefreshWindows {
    fn default() -> Self {
        Self { overlap: Duration::from_secs(30), lost_answer: Duration::from_mins(10) }
    }
}

/// What to do for a genuine refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The next generation, and new tokens.
    Rotate,
    /// The current refresh token again, and a fresh access token.
    Repeat,
}

/// Why a genuine refresh token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshRefused {
    /// Its session was ended.
    Revoked,
    /// Its session has ended by itself.
    Expired,
    /// It is of a generation to come: the rows are older than the token.
    Ahead,
    /// It was used before: somebody else has it too.
    Reused,
}

/// Decides on a genuine refresh token of `generation`, presented at `now`.
pub(crate) fn decide(
    session: &Session,
    generation: u32,
    now: Timestamp,
    windows: RefreshWindows,
) -> Result<Refresh, RefreshRefused> {
    if session.revoked.is_some() {
        return Err(RefreshRefused::Revoked);
    }
    if session.has_expired(now) {
        return Err(RefreshRefused::Expired);
    }
    if generation > session.generation {
        return Err(RefreshRefused::Ahead);
    }
    if generation == session.generation {
        return Ok(Refresh::Rotate);
    }
    let rotated_within =
        |window: Duration| !window.is_zero() && now < session.rotated_at.saturating_add(window);
    let just_before = generation.checked_add(1) == Some(session.generation);
    let lost = !session.successor_used && rotated_within(windows.lost_answer);
    if just_before && (rotated_within(windows.overlap) || lost) {
        Ok(Refresh::Repeat)
    } else {
        Err(RefreshRefused::Reused)
    }
}
