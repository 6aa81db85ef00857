//! The state of an event of a provider, and the reason for it.

use std::time::Duration;

use serde::Serialize;

use crate::providers::Unmapped;
use crate::store::Label;
use crate::values::Timestamp;
use crate::values::as_text::named_enum;

named_enum! {
    /// The state of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum EventState {
        /// The object of the event must still be fetched.
        Pending = "pending",
        /// The object of the event was fetched, and a record was written.
        Applied = "applied",
        /// The object of the event was fetched, and the records were the same already.
        Same = "same",
        /// Something is missing in this service or at the provider. The event is tried again, at first after a minute,
        /// later every six hours.
        Waiting = "waiting",
        /// The event is about an object that this service does not copy.
        Ignored = "ignored",
        /// The event cannot be applied, and a person must look at it.
        Failed = "failed",
    }
}

named_enum! {
    /// The reason for the state of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The provider's API is out of reach.
        ProviderUnavailable = "provider_unavailable",
        /// No user is known for the customer.
        UnknownCustomer = "unknown_customer",
        /// Several users are named for the object, or its customer is bound to another user than the one that is named.
        CustomerConflict = "customer_conflict",
        /// No plan has the price or the product.
        UnknownPlan = "unknown_plan",
        /// Several plans have the price or the product.
        AmbiguousPlan = "ambiguous_plan",
        /// This service itself, by the clock, manages the record that has the object's external id. So the provider
        /// cannot manage the record.
        ManagedByClock = "managed_by_clock",
        /// The amount differs from the amount in the provider's formatted text, so the amount's number of decimals is
        /// uncertain.
        CurrencyUnverified = "currency_unverified",
        /// The provider has no object with the id that the event names.
        NotFound = "not_found",
        /// The event is about test data, but live data is followed, or the reverse.
        OtherMode = "other_mode",
        /// The object has no subscription.
        NotASubscription = "not_a_subscription",
        /// The amount is 0.
        ZeroAmount = "zero_amount",
        /// A caller released the record from the provider, or the record was deleted.
        Detached = "detached",
        /// The payload or the object cannot be read.
        Unreadable = "unreadable",
        /// Our record of a payment that was paid has another amount or currency than the payment at the provider.
        SettledDiffers = "settled_differs",
    }
}

impl EventState {
    /// The reasons that an event in this state may have.
    const fn reasons(self) -> &'static [Option<Reason>] {
        match self {
            Self::Pending => &[None, Some(Reason::ProviderUnavailable)],
            Self::Applied | Self::Same => &[None],
            Self::Waiting => &[
                Some(Reason::UnknownCustomer),
                Some(Reason::CustomerConflict),
                Some(Reason::UnknownPlan),
                Some(Reason::AmbiguousPlan),
                Some(Reason::ManagedByClock),
                Some(Reason::CurrencyUnverified),
                Some(Reason::NotFound),
            ],
            Self::Ignored => &[
                Some(Reason::OtherMode),
                Some(Reason::NotASubscription),
                Some(Reason::ZeroAmount),
                Some(Reason::Detached),
            ],
            Self::Failed => {
                &[Some(Reason::Unreadable), Some(Reason::SettledDiffers), Some(Reason::NotFound)]
            }
        }
    }
}

/// A state with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct EventStatus {
    /// The state of the event.
    pub state: EventState,
    /// The reason, if the state has one.
    pub reason: Option<Reason>,
}

/// How long an event is stored after it is finished.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// How long an event waits for an object that the provider does not have. After that the event has failed.
const NOT_FOUND_AFTER: Duration = Duration::from_hours(24);

impl EventStatus {
    pub(crate) const PENDING: Self = Self { state: EventState::Pending, reason: None };
    pub(crate) const UNAVAILABLE: Self =
        Self { state: EventState::Pending, reason: Some(Reason::ProviderUnavailable) };
    pub(crate) const APPLIED: Self = Self { state: EventState::Applied, reason: None };
    pub(crate) const SAME: Self = Self { state: EventState::Same, reason: None };

    pub(crate) const fn waiting(reason: Reason) -> Self {
        Self { state: EventState::Waiting, reason: Some(reason) }
    }

    pub(crate) const fn ignored(reason: Reason) -> Self {
        Self { state: EventState::Ignored, reason: Some(reason) }
    }

    pub(crate) const fn failed(reason: Reason) -> Self {
        Self { state: EventState::Failed, reason: Some(reason) }
    }

    /// Every state with each of its reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        EventState::ALL.into_iter().flat_map(|state| {
            state.reasons().iter().map(move |reason| Self { state, reason: *reason })
        })
    }

    /// True if nothing more is done about an event.
    pub const fn is_finished(self) -> bool {
        matches!(self.state, EventState::Applied | EventState::Same | EventState::Ignored)
    }

    /// True if an event may still change a record.
    pub const fn is_open(self) -> bool {
        matches!(self.state, EventState::Pending | EventState::Waiting)
    }

    /// The label of documents with this status: `state` or `state:reason`.
    pub(crate) fn label(self) -> Option<Label> {
        let reason = self.reason.map(|reason| format!(":{reason}")).unwrap_or_default();
        format!("{}{reason}", self.state).parse().ok()
    }

    /// This status for an event that was received at `received_at`. But if the event has waited too long for an object
    /// that the provider does not have, the status becomes failed.
    pub(crate) fn after_waiting(self, received_at: Timestamp, now: Timestamp) -> Self {
        let not_found = self == Self::waiting(Reason::NotFound);
        if not_found && now.since(received_at) >= NOT_FOUND_AFTER {
            Self::failed(Reason::NotFound)
        } else {
            self
        }
    }

    /// When an event with this status is tried again, or when it is deleted if it is finished. `None` if it has failed.
    /// `attempts` is the number of tries so far.
    pub(crate) fn due_at(self, attempts: u32, now: Timestamp) -> Option<Timestamp> {
        let minutes = match attempts {
            0 | 1 => 1,
            2 => 5,
            3 => 30,
            4 => 120,
            _ => 360,
        };
        match self.state {
            EventState::Pending => Some(now),
            EventState::Waiting => Some(now.saturating_add(Duration::from_mins(minutes))),
            EventState::Applied | EventState::Same | EventState::Ignored => {
                Some(now.saturating_add(KEPT))
            }
            EventState::Failed => None,
        }
    }
}

impl From<&Unmapped> for EventStatus {
    fn from(unmapped: &Unmapped) -> Self {
        match unmapped {
            Unmapped::Unreadable { .. } => Self::failed(Reason::Unreadable),
            Unmapped::CurrencyUnverified => Self::waiting(Reason::CurrencyUnverified),
            Unmapped::NotASubscription => Self::ignored(Reason::NotASubscription),
            Unmapped::ZeroAmount => Self::ignored(Reason::ZeroAmount),
        }
    }
}
