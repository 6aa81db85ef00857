//! The life of one subscription: all its versions and payments, with the commits that wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rust_decimal::Decimal;
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, Key, Record};
use subscription_core::subscriptions::{ChangePayment, ScheduledChange, Terms};
use subscription_core::{
    Field, ManagedBy, Payment, PaymentId, PaymentKind, Subscription, SubscriptionId,
    SubscriptionStatus, Timestamp, Version,
};
use uuid::Uuid;

use super::executions::Execution;

/// A version of a subscription, and the commit that wrote it.
#[derive(Debug, Clone)]
pub struct Written {
    pub subscription: Arc<Subscription>,
    pub event: Event,
    /// The number of events of this subscription in the commit.
    pub events: usize,
    /// The payments that the commit wrote.
    pub payments: Vec<Arc<Payment>>,
    /// The number of open payments after the commit.
    pub open: usize,
    /// True if the running period has a payment after the commit.
    pub has_payment: bool,
}

impl Written {
    /// The terms that a change by the subscriber waits for, and its payment.
    pub fn awaited(&self) -> Option<(Terms, ChangePayment)> {
        match self.subscription.billing.as_ref()?.scheduled_change? {
            ScheduledChange::ByUser { terms, payment } => Some((terms, payment?)),
            ScheduledChange::ChangePlan(_) | ScheduledChange::Pause { .. } => None,
        }
    }

    /// The terms of a change by the subscriber that begins to wait for its payment with this version.
    pub fn begins_to_wait(&self, before: Option<&Self>) -> Option<(Terms, ChangePayment)> {
        self.awaited().filter(|awaited| before.and_then(Self::awaited) != Some(*awaited))
    }

    pub fn by_clock(&self) -> bool {
        self.event.actor == Actor::Clock
    }

    /// The payment that the commit requests: the one that it creates. `None` if there is none.
    pub fn asked(&self) -> Option<&Arc<Payment>> {
        self.payments.iter().find(|payment| payment.version.get() == 1)
    }

    /// The amount of the payment that the commit requests. 0 if there is none.
    pub fn asked_amount(&self) -> Decimal {
        self.asked().map_or(Decimal::ZERO, |payment| payment.amount.value())
    }

    /// True if a caller has changed the plan with immediate effect.
    pub fn changes_plan(&self) -> bool {
        !self.by_clock() && matches!(self.event.change, Change::PlanChanged { .. })
    }
}

/// All versions of a subscription and of its payments that pay for periods.
#[derive(Debug, Default)]
pub struct Life {
    pub versions: Vec<Written>,
    pub payments: BTreeMap<PaymentId, Vec<Arc<Payment>>>,
    /// The number of payments that were created after the subscription had expired.
    pub late_payments: usize,
    /// The times of the next attempt that callers sent with the report of a failure. `None` means no further attempt.
    pub sent: BTreeSet<(PaymentId, Option<Timestamp>)>,
    /// The changes of plan that the simulation requested.
    pub executions: Vec<Execution>,
    /// The charge keys of the payments that the clock requested, also of payments that were lost when a backup was
    /// restored.
    pub keys: BTreeMap<(PaymentKind, Timestamp), BTreeSet<Uuid>>,
    /// The versions that the subscriber's own cancellations wrote.
    pub left: BTreeSet<Version>,
    pub deleted: bool,
}

impl Life {
    /// A description of the life of a subscription in a few lines, for the message of a failure.
    pub fn story(&self) -> String {
        let mut lines: Vec<_> = self
            .versions
            .iter()
            .map(|written| {
                let Written { subscription, event, payments, .. } = written;
                let paid: Vec<_> = payments
                    .iter()
                    .map(|payment| {
                        let asked = payment.asked.as_deref();
                        format!(
                            "{} {} {} from {} due {} next {:?} attempt {:?}",
                            payment.status,
                            payment.amount,
                            asked.map_or("", |asked| asked.kind.as_str()),
                            asked.map_or(String::new(), |asked| asked.period_start.to_string()),
                            asked.map_or(String::new(), |asked| asked.due_at.to_string()),
                            asked.and_then(|asked| asked.next_attempt_at),
                            asked.map(|asked| asked.attempt),
                        )
                    })
                    .collect();
                format!(
                    "v{} {} {:?} {:?} {} renews {:?} ends {:?} {:?} | {}",
                    subscription.version,
                    event.at,
                    event.actor,
                    event.change,
                    subscription.status,
                    subscription.renews_at,
                    subscription.ends_at,
                    subscription.billing,
                    paid.join("; "),
                )
            })
            .collect();
        let from = lines.len().saturating_sub(12);
        lines.drain(..from);
        lines.join("\n")
    }

    pub fn now(&self) -> Option<&Subscription> {
        self.versions.last().map(|written| &*written.subscription)
    }

    /// True if `is` holds for the last version before the moment `at`, or for a version that was written at this
    /// moment.
    pub fn was(&self, at: Timestamp, is: impl Fn(&Subscription) -> bool) -> bool {
        let versions = self.versions.iter().map(|written| &*written.subscription);
        let before = versions.clone().rfind(|version| version.updated_at < at);
        versions.filter(|version| version.updated_at == at).chain(before).any(is)
    }

    /// The version before the one with which this change began to wait for its payment.
    pub fn before_waiting(&self, awaited: (Terms, ChangePayment)) -> Option<&Written> {
        let mut pairs = self.pairs();
        pairs.find(|(_, after)| after.awaited() == Some(awaited)).map(|(before, _)| before)
    }

    /// The payment that this change waits for, as it is now.
    pub fn awaited_payment(&self, of: ChangePayment) -> Option<&Arc<Payment>> {
        self.last_payments().find(|payment| is_awaited(payment, of))
    }

    /// All pairs of a version and its next version.
    pub fn pairs(&self) -> impl Iterator<Item = (&Written, &Written)> {
        self.versions.iter().zip(self.versions.iter().skip(1))
    }

    /// The last versions of the payments.
    pub fn last_payments(&self) -> impl Iterator<Item = &Arc<Payment>> {
        self.payments.values().filter_map(|versions| versions.last())
    }

    /// True if the clock has managed the subscription since its creation.
    pub fn always_on_clock(&self) -> bool {
        self.versions.iter().all(|written| written.subscription.managed_by == ManagedBy::Clock)
    }

    /// The periods that were started: for each the version that started it, its start and its end.
    pub fn periods(&self) -> Vec<(&Written, Timestamp, Option<Timestamp>)> {
        let mut periods: Vec<(&Written, Timestamp, Option<Timestamp>)> = Vec::new();
        for (nth, written) in self.versions.iter().enumerate() {
            if written
                .starts_period(nth.checked_sub(1).and_then(|before| self.versions.get(before)))
                && let Some(start) = written.subscription.period_start()
            {
                periods.push((written, start, written.subscription.renews_at));
            }
        }
        periods
    }
}

/// True if a change waits for this payment.
pub fn is_awaited(payment: &Payment, by: ChangePayment) -> bool {
    payment.kind() == Some(PaymentKind::Proration) && payment.period_start() == Some(by.at)
}

/// A record with the start of the running period. `None` if the period need not be paid for.
pub trait PeriodStart {
    fn period_start(&self) -> Option<Timestamp>;
}

impl PeriodStart for Subscription {
    fn period_start(&self) -> Option<Timestamp> {
        self.billing.as_ref().and_then(|billing| billing.current_period_start)
    }
}

impl Written {
    /// True if this version starts a period that must be paid for. A trial is not such a period.
    pub fn starts_period(&self, before: Option<&Self>) -> bool {
        let start = self.subscription.period_start();
        let on_clock = |one: &Self| one.subscription.managed_by == ManagedBy::Clock;
        // A change of plan exactly at the start of a period may start another period there.
        let moved = |before: &Self| {
            start != before.subscription.period_start()
                || self.changes_plan()
                    && self.subscription.renews_at != before.subscription.renews_at
        };
        // The running period of a subscription that the clock takes over counts as paid.
        on_clock(self)
            && before.is_none_or(on_clock)
            && self.subscription.status != SubscriptionStatus::OnTrial
            && start.is_some()
            && before.is_none_or(moved)
    }
}

/// The lives of all subscriptions.
#[derive(Debug, Default)]
pub struct Lives(pub BTreeMap<SubscriptionId, Life>);

impl Lives {
    /// Returns the lives to their state after these commits, as if a backup from then was restored. Data outside of the
    /// store is not lost: charge keys, and what callers had said in reports and changes of plan.
    pub fn restored(&mut self, accepted: &[ChangeSet]) {
        let before = std::mem::take(&mut self.0);
        for changes in accepted {
            self.add(changes);
        }
        for (id, was) in before {
            let Some(life) = self.0.get_mut(&id) else { continue };
            let Some(last) = life.now().map(|now| now.version) else { continue };
            let executions = was.executions.into_iter();
            life.executions =
                executions.filter(|it| it.written.is_some_and(|it| it <= last)).collect();
            life.left = was.left.into_iter().filter(|version| *version <= last).collect();
            life.sent.extend(was.sent);
            for (period, keys) in was.keys {
                life.keys.entry(period).or_default().extend(keys);
            }
        }
    }

    /// Removes a payment that was deleted.
    pub fn forget_payment(&mut self, id: PaymentId) {
        self.0.values_mut().for_each(|life| drop(life.payments.remove(&id)));
    }

    /// Adds the time of a next attempt that a caller sends with the report of a failure.
    pub fn sent(&mut self, id: PaymentId, next_attempt_at: Field<Timestamp>) {
        let sent = match next_attempt_at {
            Field::Absent => return,
            Field::Null => None,
            Field::Value(at) => Some(at),
        };
        let mut lives = self.0.values_mut();
        if let Some(life) = lives.find(|life| life.payments.contains_key(&id)) {
            life.sent.insert((id, sent));
        }
    }

    /// Adds the records of a commit, and returns the ids of their subscriptions.
    pub fn add(&mut self, changes: &ChangeSet) -> Vec<SubscriptionId> {
        let payments: Vec<_> = changes
            .writes
            .iter()
            .filter_map(
                |write| if let Record::Payment(payment) = write { Some(payment) } else { None },
            )
            .filter(|payment| payment.asked.is_some())
            .cloned()
            .collect();
        let mut touched = Vec::new();
        for payment in &payments {
            let life = self.0.entry(payment.subscription_id).or_default();
            let expired = life.now().is_some_and(|now| now.status == SubscriptionStatus::Expired);
            life.late_payments += usize::from(expired && payment.version.get() == 1);
            life.payments.entry(payment.id).or_default().push(Arc::clone(payment));
            // Payments that callers create have no value of a period, so their charge keys are not recorded.
            if let Some(asked) = payment.to_collect().filter(|it| !it.value.value().is_zero()) {
                let keys = life.keys.entry((asked.kind, asked.period_start)).or_default();
                keys.extend(payment.charge_key());
            }
            touched.push(payment.subscription_id);
        }
        for write in &changes.writes {
            let Record::Subscription(subscription) = write else { continue };
            let subject = Subject::Subscription(subscription.id);
            let mut events = changes.events.iter().filter(|event| event.subject == subject);
            let Some(event) = events.next().cloned() else { continue };
            let life = self.0.entry(subscription.id).or_default();
            let start = subscription.period_start();
            let written = Written {
                subscription: Arc::clone(subscription),
                event,
                events: 1 + events.count(),
                payments: payments.clone(),
                open: life.last_payments().filter(|payment| payment.is_open()).count(),
                has_payment: life
                    .last_payments()
                    .any(|payment| start.is_some() && payment.claimed_period() == start),
            };
            life.versions.push(written);
            touched.push(subscription.id);
        }
        for delete in &changes.deletes {
            if let Key::Subscription(id) = delete.key {
                self.0.entry(id).or_default().deleted = true;
            } else if let Key::Payment(id) = delete.key {
                self.forget_payment(id);
            }
        }
        touched.sort();
        touched.dedup();
        touched
    }
}
