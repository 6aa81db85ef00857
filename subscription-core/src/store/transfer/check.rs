//! Checks between the records of an import file, beyond that each line can be read.
//!
//! They hold for every store that only the service has written to. Some references may be dangling: the
//! subscription of a payment, the user of an expired subscription, the client of a session.

use std::collections::HashSet;

use serde::de::IgnoredAny;

use super::error::FileFaults;
use crate::events::RecordedEvent;
use crate::store::{Document, IdempotencyResult, Operation, Record};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::faults::Faults;
use crate::values::id::{PlanId, UserId};
use crate::values::version::Version;

/// Versions and places in the feed, at the most: JSON readers keep numbers exact up to here, and beyond it
/// there is room for more than any service will write.
const NUMBER_MAX: u64 = 1 << 53;

/// The users whose subscriptions a store may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Users {
    /// Of users that have an account, if there are accounts at all.
    WithAccounts,
    /// Of anybody, as a service that does not check users takes them.
    Any,
}

/// Checks records in the order of the file, and collects their faults.
#[derive(Debug)]
pub(super) struct Check {
    users_allowed: Users,
    pub(super) faults: FileFaults,
    /// A line could not be read, so it is not known which records the file has.
    is_partial: bool,
    plans: HashSet<PlanId>,
    users: HashSet<UserId>,
    /// The lines of subscriptions that are not expired, and their users, who come later in the file.
    live: Vec<(u64, UserId)>,
    /// The place of the last event.
    last_event: u64,
    /// The place that the feed has come to.
    feed: u64,
}

impl Check {
    pub(super) fn new(users_allowed: Users, feed: u64) -> Self {
        let mut check = Self {
            users_allowed,
            faults: FileFaults::default(),
            is_partial: false,
            plans: HashSet::new(),
            users: HashSet::new(),
            live: Vec::new(),
            last_event: 0,
            feed,
        };
        check.number(1, "feed", feed);
        check
    }

    pub(super) fn note(&mut self, line: u64, message: impl Into<String>) {
        self.faults.push(line, line, message);
    }

    /// Notes a line that holds no record.
    pub(super) fn unread(&mut self, line: u64, message: impl Into<String>) {
        self.is_partial = true;
        self.note(line, message);
    }

    pub(super) fn record(&mut self, line: u64, record: &Record) {
        self.version(line, record.version());
        match record {
            Record::Plan(plan) => drop(self.plans.insert(plan.id)),
            Record::Subscription(subscription) => {
                self.rules(line, subscription.check());
                self.subscription(line, subscription);
            }
            Record::Payment(payment) => self.rules(line, payment.check()),
            Record::User(user) => drop(self.users.insert(user.id)),
            Record::Session(session) => {
                if !self.is_partial && !self.users.contains(&session.user_id) {
                    self.note(line, "user_id names no user of the file");
                }
            }
            Record::Client(client) => self.rules(line, client.check()),
            Record::Idempotency(record) => {
                let operation = match record.result {
                    IdempotencyResult::Plan(_) => Operation::CreatePlan,
                    IdempotencyResult::Subscription(_) => Operation::CreateSubscription,
                    IdempotencyResult::Payment(_) => Operation::CreatePayment,
                };
                if record.key.operation != operation {
                    self.note(line, format!("operation must be {operation}, by its answer"));
                }
            }
            Record::Document(document) => {
                let most = Document::BODY_BYTES_MAX;
                if document.body.len() > most {
                    self.note(line, format!("body must have at most {most} bytes"));
                } else if serde_json::from_str::<IgnoredAny>(&document.body).is_err() {
                    self.note(line, "body must be JSON");
                }
            }
        }
    }

    fn subscription(&mut self, line: u64, subscription: &Subscription) {
        if subscription.status != SubscriptionStatus::Expired {
            if !self.is_partial && !self.plans.contains(&subscription.subscription_plan_id) {
                self.note(line, "subscription_plan_id names no plan of the file");
            }
            self.live.push((line, subscription.user_id));
        }
    }

    pub(super) fn event(&mut self, line: u64, event: &RecordedEvent) {
        self.version(line, event.event.version);
        self.number(line, "sequence", event.sequence);
        if event.sequence <= self.last_event {
            self.note(line, "sequence must rise from event to event");
        } else if event.sequence > self.feed {
            self.note(line, "sequence must not be greater than the feed of line 1");
        }
        self.last_event = self.last_event.max(event.sequence);
    }

    /// Checks that need all records.
    pub(super) fn finish(&mut self) {
        let checks_users = self.users_allowed == Users::WithAccounts && !self.users.is_empty();
        if self.is_partial || !checks_users {
            return;
        }
        for (line, user) in std::mem::take(&mut self.live) {
            if !self.users.contains(&user) {
                self.note(line, "user_id names no user of the file, and the file has users");
            }
        }
    }

    fn rules(&mut self, line: u64, checked: Result<(), Faults>) {
        let Err(faults) = checked else { return };
        for fault in &faults {
            self.note(line, format!("{} {}", fault.field, fault.message));
        }
    }

    fn version(&mut self, line: u64, version: Version) {
        if version == Version::NEW {
            self.note(line, "version must be 1 at least");
        }
        self.number(line, "version", version.get());
    }

    fn number(&mut self, line: u64, field: &str, number: u64) {
        if number > NUMBER_MAX {
            self.note(line, format!("{field} must be at most {NUMBER_MAX}"));
        }
    }
}
