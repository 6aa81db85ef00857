//! Verbs: changes that a caller requests by a name such as cancel or pause, instead of by fields.

use super::SubscriptionStatus;
use serde::Serialize;

use super::{
    Cancellation, Managed, ManagedBy, NewDiscount, Subscription, SubscriptionChanges,
    SubscriptionRefused,
};
use crate::values::as_text::named_enum;
use crate::values::input::string;
use crate::values::{Field, Fields, InputError, InvalidTransition, Timestamp};

named_enum! {
    /// When a verb, such as cancel, takes effect.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Effective {
        /// At the end of the running period.
        PeriodEnd = "period_end",
        /// At once.
        Now = "now",
    }
}

/// A verb, such as cancel, with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Ends the subscription. `None` means that a subscription that callers manage ends with its period. If the clock
    /// manages the subscription, `None` means that its status decides when it ends.
    Cancel(Option<Effective>),
    /// Undoes a cancellation, ends a pause, or drops a scheduled pause.
    Resume,
    /// The subscriber ends the subscription: at the end of its period, or at once if it is pending, paused or unpaid.
    /// Payments for time that was used stay due.
    Leave,
    /// The subscriber undoes a cancellation, or drops a scheduled change of plan. Both are possible only if the
    /// subscriber, not an operator, made the cancellation or the change.
    Uncancel,
    /// Pauses the subscription.
    Pause {
        /// When the pause begins. `None` means at once if callers manage the subscription, and at the end of the
        /// period if the clock manages it.
        effective: Option<Effective>,
        /// When the pause ends by itself; `None` if it does not end by itself.
        resumes_at: Option<Timestamp>,
    },
    /// Drops the scheduled change: a change of plan or a pause.
    Unschedule,
    /// Gives the subscription a discount from the next period on.
    GiveDiscount(NewDiscount),
    /// Removes the discount. The running period stays as it was paid.
    RemoveDiscount,
}

/// The input that cancels a subscription: an empty text, or a JSON object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CancelInput {
    /// When the subscription ends: see [`Action::Cancel`].
    pub effective: Option<Effective>,
}

impl CancelInput {
    /// Parses an empty text or a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let mut fields = Fields::parse(json)?;
        let effective = fields.optional("effective", string);
        fields.finish(Some(Self { effective }))
    }
}

/// The input that pauses a subscription: an empty text, or a JSON object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PauseInput {
    /// When the pause begins: see [`Action::Pause`].
    pub effective: Option<Effective>,
    /// When the pause ends by itself; `None` if it does not end by itself.
    pub resumes_at: Option<Timestamp>,
}

impl PauseInput {
    /// Parses an empty text or a JSON object, and returns all its faults at once.
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
    /// The subscription after a verb, for a subscription that callers manage; `None` if the verb changes nothing.
    pub fn act(&self, action: Action, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        let to = |status| self.change(SubscriptionChanges::status(status), now);
        match action {
            Action::Cancel(None | Some(Effective::PeriodEnd)) => match self.left_by_user() {
                // The operator cancels a subscription that the subscriber has cancelled: the subscriber may no longer
                // undo the cancellation.
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
            // A subscription with an unpaid payment must not become active because its subscriber undoes the
            // cancellation.
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
            Action::GiveDiscount(_) | Action::RemoveDiscount => {
                Err(Managed { by: ManagedBy::Caller, fields: vec!["discount"] }.into())
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

    /// The subscription with `found` stored as its cancellation: the status and the end before it, and who cancelled.
    #[must_use]
    pub(crate) fn cancelled(mut self, found: Cancellation) -> Self {
        self.billing.get_or_insert_default().cancelled = Some(found);
        self
    }

    /// The subscription with an `ends_at` that is not after the end of the running period, because time after that
    /// period is never charged.
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

    /// The subscription with its cancellation undone or its pause ended, or `None` if it is active already.
    ///
    /// A subscription can be resumed if it is paused, or if it is cancelled and its `ends_at` has not come. A cancelled
    /// subscription gets back the end that was set before the cancellation, if there was one, and continues its trial.
    /// [`Subscription::change`] says what happens to an end that was changed after the cancellation.
    pub fn resume(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        use SubscriptionStatus::{Active, Cancelled, OnTrial, Paused};
        if matches!(self.status, Active | Cancelled | Paused) {
            let found = self.billing.as_ref().and_then(|billing| billing.cancelled);
            let on_trial = found.is_some_and(|found| found.status == OnTrial)
                && self.trial_ends_at().is_none_or(|end| end > now);
            let status = if on_trial { OnTrial } else { Active };
            return self.change(SubscriptionChanges::status(status), now);
        }
        // A subscription with any other status than these three becomes active when it is paid for, or by an update.
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
