//! An object to observe, for events or for a sync.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::documents::{Link, ProviderEvent};
use super::facade::Account;
use super::object::{ObjectId, ObjectRef};
use super::pace::Turn;
use super::plans::AllPlans;
use super::users::Named;
use crate::store::Stored;
use crate::values::clock::Timestamp;
use crate::values::version::Version;

/// An event that an observation answers, with the version of its document.
pub(super) type Ticket = Stored<ProviderEvent>;

/// An object to observe.
#[derive(Debug)]
pub(super) struct Observation<'a> {
    pub(super) account: &'a Account,
    /// A subscription, an invoice or an order.
    pub(super) object: ObjectRef,
    /// The events that it answers. One that is not stored yet is stored only if it is not finished.
    pub(super) tickets: Vec<Ticket>,
    pub(super) named: Named,
    /// The object as a page of a sync shows it: enough if there is no link, or if nothing differs.
    pub(super) shown: Option<Value>,
    /// True if a link is not written where nothing else changes. Only a sync may do so.
    pub(super) skips_same: bool,
    /// True if nothing is to be written.
    pub(super) dry_run: bool,
    /// The turn of its next read.
    pub(super) turn: Turn,
    /// The plans as a round of events has read them; `None` if they are to be read.
    pub(super) plans: Option<AllPlans>,
    /// The round of events that it belongs to.
    pub(super) round: Option<&'a Round>,
}

impl<'a> Observation<'a> {
    /// The observation of an object for events. The users whom the events name are the object's.
    pub(super) fn of(account: &'a Account, object: ObjectRef, tickets: Vec<Ticket>) -> Self {
        let mut named = Named::default();
        for ticket in &tickets {
            named.add(&ticket.body);
        }
        Self {
            account,
            object,
            tickets,
            named,
            shown: None,
            skips_same: false,
            dry_run: false,
            turn: Turn::First,
            plans: None,
            round: None,
        }
    }

    /// The observation of another object that this one needs first.
    pub(super) fn of_needed(&self, object: ObjectRef) -> Self {
        Self {
            named: self.named.clone(),
            dry_run: self.dry_run,
            turn: self.turn,
            plans: self.plans.clone(),
            round: self.round,
            ..Self::of(self.account, object, Vec::new())
        }
    }

    /// True if one of its events is stored.
    pub(super) fn has_stored(&self) -> bool {
        self.tickets.iter().any(|ticket| ticket.version != Version::NEW)
    }
}

/// One try of an observation.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The link, as it was read before the object was fetched.
    pub(super) link: Option<Stored<Link>>,
    pub(super) now: Timestamp,
    pub(super) turn: Turn,
}

/// The parts that the observations of one source share in a call of [`Providers::advance`].
#[derive(Debug)]
pub(super) struct Round {
    pub(super) plans: AllPlans,
    /// The customers whose waiting events are made due after the observations, all at once.
    pub(super) bound: Mutex<BTreeSet<ObjectId>>,
}

impl Round {
    pub(super) fn bound(&self, customer: ObjectId) {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).insert(customer);
    }
}
