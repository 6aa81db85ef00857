//! Checks each record of an import file after its line was read, and checks that the records fit together.
//!
//! Records that were written by the service alone pass these checks. These references may name a record that does not
//! exist: the subscription of a payment, the plan and the user of an expired subscription, the client of a session.

use std::collections::HashSet;
use std::fmt::Display;

use serde::de::IgnoredAny;

use super::error::FileFaults;
use crate::events::RecordedEvent;
use crate::store::sql::commit::FEED;
use crate::store::{Document, IdempotencyResult, Operation, Record};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::{Faults, PlanId, UserId, Version};

/// The largest version or sequence of a file. JSON readers read whole numbers up to this limit exactly, and the columns
/// of the database have room for the larger numbers that later changes need.
const NUMBER_MAX: u64 = 1 << 53;

/// Checks records in the order of the file, and collects their faults.
#[derive(Default)]
pub(super) struct Check {
    /// True if a subscription may belong to any user, as in a service that does not check users. If false, and if the
    /// file has users, each subscription that is not expired must belong to a user of the file.
    any_user: bool,
    pub(super) faults: FileFaults,
    /// True if a line could not be read. References are then not checked, because the record that they name may be on
    /// that line.
    is_partial: bool,
    plans: HashSet<PlanId>,
    users: HashSet<UserId>,
    /// The line and the user of each subscription that is not expired. Users come after subscriptions in the file, so
    /// the users are compared at the end.
    live: Vec<(u64, UserId)>,
    /// The sequence of the previous event; 0 before the first event.
    last_event: u64,
    /// The last sequence of the feed, from the first line of the file.
    pub(super) feed: u64,
}

impl Check {
    pub(super) fn new(any_user: bool) -> Self {
        Self { any_user, ..Self::default() }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.faults.total() == 0
    }

    /// Adds the fault of a line that cannot be read as a record.
    pub(super) fn unread(&mut self, line: u64, message: impl Display) {
        self.is_partial = true;
        self.faults.push(line, message);
    }

    pub(super) fn feed(&mut self, feed: u64) {
        self.feed = feed;
        self.number(1, "feed", feed);
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
                    self.faults.push(line, "user_id is not the id of a user in the file");
                }
            }
            Record::Client(client) => self.rules(line, client.check()),
            Record::Idempotency(record) => {
                let operation = record.key.operation;
                let result = &record.result;
                let fits = match operation {
                    Operation::CreatePlan => matches!(result, IdempotencyResult::Plan(_)),
                    Operation::CreateSubscription | Operation::Act => {
                        matches!(result, IdempotencyResult::Subscription(_))
                    }
                    Operation::CreatePayment | Operation::RetryPayment => {
                        matches!(result, IdempotencyResult::Payment(_))
                    }
                };
                if !fits {
                    let fault = "stores the wrong kind of record as its result";
                    self.faults.push(line, format!("operation {operation} {fault}"));
                }
            }
            Record::Document(document) => {
                let most = Document::BODY_BYTES_MAX;
                if document.body.len() > most {
                    self.faults.push(line, format!("body must have at most {most} bytes"));
                } else if serde_json::from_str::<IgnoredAny>(&document.body).is_err() {
                    self.faults.push(line, "body must be JSON");
                }
                if document.key.collection == FEED {
                    let deleted = document.body.parse().ok();
                    if deleted.is_none_or(|deleted: u64| deleted > self.feed) {
                        let fault = "body must be a sequence up to the number feed in line 1";
                        self.faults.push(line, fault);
                    }
                }
            }
        }
    }

    fn subscription(&mut self, line: u64, subscription: &Subscription) {
        if subscription.status != SubscriptionStatus::Expired {
            if !self.is_partial && !self.plans.contains(&subscription.subscription_plan_id) {
                self.faults.push(line, "subscription_plan_id is not the id of a plan in the file");
            }
            let scheduled = subscription.scheduled_plan_id();
            if !self.is_partial && scheduled.is_some_and(|plan| !self.plans.contains(&plan)) {
                self.faults
                    .push(line, "billing.scheduled_change has a plan that is not in the file");
            }
            self.live.push((line, subscription.user_id));
        }
    }

    pub(super) fn event(&mut self, line: u64, event: &RecordedEvent) {
        self.version(line, event.event.version);
        self.number(line, "sequence", event.sequence);
        if event.sequence <= self.last_event {
            self.faults.push(line, "sequence must rise from event to event");
        } else if event.sequence > self.feed {
            self.faults.push(line, "sequence must not exceed the number feed in line 1");
        }
        self.last_event = self.last_event.max(event.sequence);
    }

    /// Makes the checks that need all records.
    pub(super) fn finish(&mut self) {
        if self.is_partial || self.any_user || self.users.is_empty() {
            return;
        }
        for (line, _) in self.live.iter().filter(|(_, user)| !self.users.contains(user)) {
            self.faults.push(
                *line,
                "user_id is not the id of a user in the file: a file with users must have the user of each live subscription",
            );
        }
    }

    fn rules(&mut self, line: u64, checked: Result<(), Faults>) {
        for fault in checked.err().iter().flatten() {
            self.faults.push(line, format!("{} {}", fault.field, fault.message));
        }
    }

    fn version(&mut self, line: u64, version: Version) {
        if version == Version::NEW {
            self.faults.push(line, "version must be at least 1");
        }
        self.number(line, "version", version.get());
    }

    fn number(&mut self, line: u64, field: &str, number: u64) {
        if number > NUMBER_MAX {
            self.faults.push(line, format!("{field} must be at most {NUMBER_MAX}"));
        }
    }
}
