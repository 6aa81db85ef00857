//! One object of a payment provider (a subscription, invoice or order) that is to be read and copied, because of events
//! or in a sync.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::Value;

use super::plans::AllPlans;
use super::users::UserClaims;
use crate::providers::api::api_limits::ReadOrder;
use crate::providers::facade::Account;
use crate::providers::inbox::documents::Link;
use crate::providers::{ObjectId, ObjectRef, ProviderEvent};
use crate::store::Stored;
use crate::values::{Timestamp, Version, locked};

/// An event that an observation settles, with the version of its document.
pub(crate) type StoredEvent = Stored<ProviderEvent>;

/// An object to observe.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    pub(crate) account: &'a Account,
    /// A subscription, an invoice or an order.
    pub(crate) object: ObjectRef,
    /// The events that the observation settles. A new event is stored only if it is still open or has failed
    /// afterwards.
    pub(crate) stored_events: Vec<StoredEvent>,
    pub(crate) claims: UserClaims,
    /// The object as a page of a sync shows it. The object is fetched again if it has a link, and if something differs
    /// or a stored event is settled.
    pub(crate) shown: Option<Value>,
    /// True if the link is not written when nothing else changes. Only a sync may set this.
    pub(crate) skips_same: bool,
    /// True if nothing is to be written.
    pub(crate) dry_run: bool,
    /// The place of the next read in the observation: the first read, or a later one.
    pub(crate) read_order: ReadOrder,
    /// The plans as a round of events has read them; `None` if they must be read.
    pub(crate) plans: Option<AllPlans>,
    /// The round of events that the observation belongs to; `None` if it belongs to none.
    pub(crate) round: Option<&'a Round>,
}

impl<'a> Observation<'a> {
    /// The observation of an object for events. Its claims have the users that these events name.
    pub(crate) fn of(
        account: &'a Account,
        object: ObjectRef,
        stored_events: Vec<StoredEvent>,
    ) -> Self {
        let mut claims = UserClaims::default();
        for stored_event in &stored_events {
            claims.add(&stored_event.body);
        }
        Self {
            account,
            object,
            stored_events,
            claims,
            shown: None,
            skips_same: false,
            dry_run: false,
            read_order: ReadOrder::First,
            plans: None,
            round: None,
        }
    }

    /// The observation of another object, which must be made before this observation.
    pub(crate) fn of_needed(&self, object: ObjectRef) -> Self {
        Self {
            claims: self.claims.clone(),
            dry_run: self.dry_run,
            read_order: self.read_order,
            plans: self.plans.clone(),
            round: self.round,
            ..Self::of(self.account, object, Vec::new())
        }
    }

    /// True if one of the events of the observation is stored.
    pub(crate) fn has_stored(&self) -> bool {
        self.stored_events.iter().any(|stored_event| stored_event.version != Version::NEW)
    }
}

/// One try of an observation.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The link, as it was read before the object was fetched.
    pub(crate) link: Option<Stored<Link>>,
    pub(crate) now: Timestamp,
    pub(crate) read_order: ReadOrder,
}

/// The parts that the observations of one source share in a call of [`Providers::advance`].
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) plans: AllPlans,
    /// The customers whose waiting events are made due after the observations, all at once.
    pub(crate) bound: Mutex<BTreeSet<ObjectId>>,
}

impl Round {
    pub(crate) fn bound(&self, customer: ObjectId) {
        locked(&self.bound).insert(customer);
    }
}
