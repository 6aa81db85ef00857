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

/// An event to which an observation gives a new status, with the version of the event's document in the store.
pub(crate) type StoredEvent = Stored<ProviderEvent>;

/// An object to observe: to read from the provider and to copy to our records.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    pub(crate) account: &'a Account,
    /// A subscription, an invoice or an order.
    pub(crate) object: ObjectRef,
    /// The events to which the observation gives a new status. An event that is not stored yet is stored only if it is
    /// pending, is waiting or has failed afterwards.
    pub(crate) stored_events: Vec<StoredEvent>,
    pub(crate) claims: UserClaims,
    /// The object as it was in a page of a sync; `None` if it must be fetched. An object that is linked to our record
    /// is fetched all the same if it differs from our records, or if one of the events is stored.
    pub(crate) shown: Option<Value>,
    /// True if nothing is written, not even the link, when our records have the same values already and none of the
    /// events is stored. Only a sync may set this.
    pub(crate) skips_same: bool,
    /// True if nothing is to be written.
    pub(crate) dry_run: bool,
    /// The place of the next read in the observation: the first read, or a later one.
    pub(crate) read_order: ReadOrder,
    /// All plans, if the round has read them already; `None` if they must be read.
    pub(crate) plans: Option<AllPlans>,
    /// The round (the call of [`Providers::advance`](crate::providers::Providers::advance)) that the observation
    /// belongs to; `None` if a caller or a sync requested the observation.
    pub(crate) round: Option<&'a Round>,
}

impl<'a> Observation<'a> {
    /// An observation (a read of an object at the provider) for the events that are about this object. Its `claims` are
    /// the users that these events name as the owner of the object.
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
    /// The link of the object to our record. It is read before the object is fetched. `None` if the object was not
    /// linked then.
    pub(crate) link: Option<Stored<Link>>,
    pub(crate) now: Timestamp,
    pub(crate) read_order: ReadOrder,
}

/// The parts that the observations of one source share in a call of [`Providers::advance`].
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) plans: AllPlans,
    /// The customers whose events may have waited for a user who is known now. These events are made due together,
    /// after all observations.
    pub(crate) bound: Mutex<BTreeSet<ObjectId>>,
}

impl Round {
    pub(crate) fn bound(&self, customer: ObjectId) {
        locked(&self.bound).insert(customer);
    }
}
