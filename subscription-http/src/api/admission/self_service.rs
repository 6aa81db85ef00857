//! The changes that people may make to their own subscriptions.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A change of a subscription that its user may be allowed to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfService {
    /// Cancel the subscription at the end of its period.
    Cancel,
    /// Undo the cancellation before it takes effect.
    Resume,
}

impl SelfService {
    pub(crate) const ALL: [Self; 2] = [Self::Cancel, Self::Resume];
}

impl FromStr for SelfService {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "cancel" => Ok(Self::Cancel),
            "resume" => Ok(Self::Resume),
            _ => Err("must be cancel or resume"),
        }
    }
}
