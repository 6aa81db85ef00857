//! The changes that people may make to their own subscriptions.

use std::str::FromStr;

use serde::de::{IntoDeserializer as _, value};
use serde::{Deserialize, Serialize};

/// A change of a subscription that its user may be allowed to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfService {
    /// Cancel the subscription at the end of its period.
    Cancel,
    /// Undo a cancellation or a change of plan before it takes effect.
    Resume,
    /// Change to another plan.
    ChangePlan,
}

impl SelfService {
    pub(crate) const ALL: [Self; 3] = [Self::Cancel, Self::Resume, Self::ChangePlan];
}

impl FromStr for SelfService {
    type Err = value::Error;

    fn from_str(text: &str) -> Result<Self, value::Error> {
        Self::deserialize(text.into_deserializer())
    }
}
