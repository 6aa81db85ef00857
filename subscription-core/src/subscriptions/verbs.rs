//! The verbs: changes that a caller names by what they do, instead of by fields.

use super::SubscriptionStatus;
use serde::Serialize;

use super::{Managed, ManagedBy, Subscription, SubscriptionChanges, SubscriptionRefused};
use crate::values::as_text::named_enum;
use crate::values::clock::Timestamp;
use crate::values::input::{Field, Fields, InputError, string};
use crate::values::states::InvalidTransition;

named_enum! {
    /// When a verb takes effect.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Effective {
        /// At the end of the running period.
        PeriodEnd = "period_end",
        /// At once.
        Now = "now",
    }
}

/// A verb with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Ends the subscription. Without a time, the status decides when.
    Cancel(Option<Effective>),
    /// Undoes a cancellation, ends a pause, or drops a scheduled pause.
    Resume,
    /// Undoes a cancellation. For users: a pause is not theirs to end.
    Uncancel,
    /// Pauses the subscription. Without a time, its manager decides when.
    Pause {
        /// When the pause begins.
        effective: Option<Effective>,
        /// When it ends by itself.
        resumes_at: Option<Timestamp>,
    },
    /// Drops the scheduled change.
    Unschedule,
}

/// The input that cancels a subscription: no text, or a JSON object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CancelInput {
    /// When it ends.
    pub effective: Option<Effective>,
}

impl CancelInput {
    /// Parses no text at all, or a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let mut fields = Fields::parse(json)?;
        let effective = fields.optional("effective", string);
        fields.finish(Some(Self { effective }))
    }
}

/// The input that pauses a subscription: no text, or a JSON object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PauseInput {
    /// When the pause begins.
    pub effective: Option<Effective>,
    /// When it ends by itself.
    pub resumes_at: Option<Timestamp>,
}

impl PauseInput {
    /// Parses no text at all, or a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let mut fields = Fields::parse(json)?;
        let effective = fields.optional("effective", string);
        let resumes_at = fields.nullable("resumes_at", string).or(None);
        fields.finish(Some(Self { effective, resumes_at }))
    }
}

impl Subscription {
    /// The subscription after a verb, if its callers manage it; `None` if the verb changes nothing.
    pub fn act(&self, action: Action, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        let to = |status| self.change(SubscriptionChanges::status(status), now);
        match action {
            Action::Cancel(None | Some(Effective::PeriodEnd)) => self.cancel(now),
            Action::Cancel(Some(Effective::Now)) => to(SubscriptionStatus::Expired),
            Action::Uncancel if self.status == SubscriptionStatus::Paused => {
                Err(self.not_resumed())
            }
            Action::Resume | Action::Uncancel => self.resume(now),
            Action::Pause { effective: Some(Effective::PeriodEnd), .. } | Action::Unschedule => {
                Err(Managed { by: ManagedBy::Caller, fields: vec!["scheduled_change"] }.into())
            }
            Action::Pause { effective: None | Some(Effective::Now), resumes_at } => {
                let resumes_at = Field::from(resumes_at);
                let status = Some(SubscriptionStatus::Paused);
                self.change(SubscriptionChanges { status, resumes_at, ..Default::default() }, now)
            }
        }
    }

    /// The subscription cancelled at the end of its period, or `None` if it is cancelled already.
    ///
    /// Unless `ends_at` is set, it becomes the later of `renews_at` and `now`.
    pub fn cancel(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        self.change(SubscriptionChanges::status(SubscriptionStatus::Cancelled), now)
    }

    /// The subscription with its cancellation undone, or `None` if it is active already.
    ///
    /// Only a cancelled subscription can be resumed, before its `ends_at`, which is cleared, or a paused one.
    pub fn resume(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        use SubscriptionStatus::{Active, Cancelled, Paused};
        if matches!(self.status, Active | Cancelled | Paused) {
            return self.change(SubscriptionChanges::status(Active), now);
        }
        // Others become active when they are paid for, or by an update.
        Err(self.not_resumed())
    }

    fn not_resumed(&self) -> SubscriptionRefused {
        let active = SubscriptionStatus::Active;
        let others = self.status.next().iter().filter(|status| **status != active);
        InvalidTransition {
            record: "subscription",
            from: self.status.as_str(),
            to: active.as_str(),
            allowed: others.map(|status| status.as_str()).collect(),
        }
        .into()
    }
}
