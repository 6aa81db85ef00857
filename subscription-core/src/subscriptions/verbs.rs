//! The verbs: changes that a caller names by what they do, instead of by fields.

use super::SubscriptionStatus;
use serde::Serialize;

use super::{
    Cancellation, Managed, ManagedBy, Subscription, SubscriptionChanges, SubscriptionRefused,
};
use crate::values::as_text::named_enum;
use crate::values::input::string;
use crate::values::{Field, Fields, InputError, InvalidTransition, Timestamp};

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
    /// Ends the subscription, by its subscriber: with the period, or at once if it grants no access. A debt stays.
    Leave,
    /// Undoes a cancellation, by the subscriber who chose it.
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
            Action::Cancel(None | Some(Effective::PeriodEnd)) => match self.left_by_user() {
                // The operator cancels too: the subscriber may no longer undo the cancellation.
                Some(found) => Ok(Some(Self {
                    updated_at: now.max(self.updated_at),
                    version: self.version.next(),
                    ..self.as_of(now).cancelled(Cancellation { by_user: false, ..found })
                })),
                None => self.cancel(now),
            },
            Action::Cancel(Some(Effective::Now)) => to(SubscriptionStatus::Expired),
            Action::Leave => match self.status {
                SubscriptionStatus::Pending
                | SubscriptionStatus::Paused
                | SubscriptionStatus::Unpaid => to(SubscriptionStatus::Expired),
                SubscriptionStatus::OnTrial
                | SubscriptionStatus::Active
                | SubscriptionStatus::PastDue
                | SubscriptionStatus::Expired => {
                    let found = Cancellation { by_user: true, ..Cancellation::of(self) };
                    Ok(self.cancel(now)?.map(|next| next.cancelled(found).within_period(now)))
                }
                SubscriptionStatus::Cancelled => Ok(None),
            },
            // A subscriber does not come out of debt by this.
            Action::Uncancel => match self.left_by_user() {
                Some(found) if found.status == SubscriptionStatus::PastDue => {
                    Err(self.not_resumed())
                }
                None if self.status != SubscriptionStatus::Active => Err(self.not_resumed()),
                Some(_) | None => self.resume(now),
            },
            Action::Resume => self.resume(now),
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

    /// The subscription with what its cancellation found.
    #[must_use]
    pub(crate) fn cancelled(mut self, found: Cancellation) -> Self {
        self.billing.get_or_insert_default().cancelled = Some(found);
        self
    }

    /// The subscription with an end that is not after its period: nobody is charged for the time after it.
    fn within_period(mut self, now: Timestamp) -> Self {
        let end = self.renews_at.map(|renews_at| renews_at.max(now));
        self.ends_at = self.ends_at.into_iter().chain(end).min();
        self.as_of(now)
    }

    /// The cancellation of the subscription, if its subscriber chose it.
    pub(crate) fn left_by_user(&self) -> Option<Cancellation> {
        let found = self.billing.as_ref().and_then(|billing| billing.cancelled);
        found.filter(|found| found.by_user)
    }

    /// The subscription with its cancellation undone, or `None` if it is active already.
    ///
    /// Only a cancelled subscription can be resumed, before its `ends_at`, or a paused one. A cancelled one gets back
    /// the end that was set before the cancellation, if there was one, and continues with its trial.
    pub fn resume(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        use SubscriptionStatus::{Active, Cancelled, OnTrial, Paused};
        if matches!(self.status, Active | Cancelled | Paused) {
            let found = self.billing.as_ref().and_then(|billing| billing.cancelled);
            let on_trial = found.is_some_and(|found| found.status == OnTrial)
                && self.trial_ends_at().is_none_or(|end| end > now);
            let status = if on_trial { OnTrial } else { Active };
            return self.change(SubscriptionChanges::status(status), now);
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
