//! The life of one subscription, driven by the rules of billing without a service and a store.
//!
//! A life writes what the rules decide, in the same order as the service. After a create, an update, an action or a
//! report, it executes the due steps. After the clock has moved, it executes the due steps and then the due retries.

use std::time::Duration;

use subscription_core::billing::{BillingRules, Policy, change_plan, quote, retry};
use subscription_core::events::Change;
use subscription_core::payments::RequestedPayment;
use subscription_core::{
    Action, BillingCycle, Conflict, Effective, Error, ManagedBy, NewPlan, NewSubscription,
    OtherPayments, Payment, PaymentChanges, PaymentId, PaymentReport, PaymentRequest,
    PaymentStatus, Plan, PlanChange, PlanId, Quote, RuleDecision, Rules as _, SeededRandomness,
    StepKind, Subscription, SubscriptionChanges, SubscriptionId, SubscriptionStatus, Timestamp,
    UserId, Version,
};

use crate::service_world::of;

pub fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

pub fn days(count: u64) -> Duration {
    hours(24 * count)
}

/// The cause of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Create,
    Update,
    Verb,
    PlanChange,
    Report,
    /// A step of the clock, and the moment at which it was due.
    Step(StepKind, Timestamp),
}

/// A write of the subscription.
#[derive(Debug, Clone)]
pub struct Write {
    pub by: By,
    pub now: Timestamp,
    pub before: Option<Subscription>,
    pub after: Subscription,
    pub change: Change,
    pub ask: Option<PaymentRequest>,
    /// The quote that a change of plan applied.
    pub quote: Option<Quote>,
    /// The number of the act, such as an advance, that made this write.
    pub round: usize,
}

#[derive(Debug)]
pub struct Life {
    pub policy: Policy,
    pub rules: BillingRules,
    pub now: Timestamp,
    /// The plan at creation.
    pub plan: Plan,
    pub subscription: Subscription,
    pub payments: Vec<Payment>,
    pub writes: Vec<Write>,
    /// The number of acts so far.
    pub round: usize,
    ids: SeededRandomness,
}

impl Life {
    /// A subscription to a plan for 10 USD. `change` can edit the input first.
    pub fn new(cycle: &str, start: &str, change: impl FnOnce(&mut NewSubscription)) -> Self {
        Self::by(Policy::default(), cycle, start, change).unwrap()
    }

    pub fn by(
        policy: Policy,
        cycle: &str,
        start: &str,
        change: impl FnOnce(&mut NewSubscription),
    ) -> Result<Self, Error> {
        Self::of_plan(policy, &plan(of(cycle), Some("USD")), of(start), change)
    }

    pub fn of_plan(
        policy: Policy,
        plan: &Plan,
        now: Timestamp,
        change: impl FnOnce(&mut NewSubscription),
    ) -> Result<Self, Error> {
        let ids = SeededRandomness::new(1);
        let mut new = NewSubscription::new(UserId::new(now, &ids).unwrap(), plan.id);
        new.managed_by = Some(ManagedBy::Clock);
        change(&mut new);
        let imported = new.status.is_some();
        let id = SubscriptionId::new(now, &ids).unwrap();
        let made = Subscription::create(new, plan.billing_cycle, id, now)?;
        let rules = BillingRules::new(policy.clone());
        let outcome = rules.create(made.clone(), imported, plan, now)?;
        let (plan, payments, writes) = (plan.clone(), Vec::new(), Vec::new());
        let mut life =
            Self { policy, rules, now, plan, subscription: made, payments, writes, round: 0, ids };
        life.write(By::Create, outcome);
        life.take_steps();
        Ok(life)
    }

    /// Writes a decision of the rules: the subscription, the payment that it requests, and the payments that it
    /// cancels.
    fn write(&mut self, by: By, outcome: RuleDecision) {
        let RuleDecision { subscription, change, ask, cancels_from } = outcome;
        if let Some(from) = cancels_from {
            let open = self.payments.iter_mut().filter(|payment| payment.is_open());
            for payment in open.filter(|payment| payment.period_start() >= Some(from)) {
                payment.status = PaymentStatus::Canceled;
                payment.asked.as_mut().unwrap().next_attempt_at = None;
            }
        }
        if let Some(ask) = &ask {
            let payment = self.payment(ask);
            self.payments.push(payment);
        }
        let before = (by != By::Create).then(|| self.subscription.clone());
        let (after, round) = (subscription.clone(), self.round);
        self.writes.push(Write {
            by,
            now: self.now,
            before,
            after,
            change,
            ask,
            quote: None,
            round,
        });
        self.subscription = subscription;
    }

    fn payment(&self, ask: &PaymentRequest) -> Payment {
        Payment {
            id: PaymentId::new(self.now, &self.ids).unwrap(),
            subscription_id: self.subscription.id,
            amount: ask.amount,
            currency: ask.currency,
            external_payment_id: None,
            status: PaymentStatus::Pending,
            metadata: None,
            created_at: self.now,
            updated_at: self.now,
            version: Version::FIRST,
            settled: false,
            asked: Some(Box::new(RequestedPayment {
                kind: ask.kind,
                period_start: ask.period_start,
                period_end: ask.period_end,
                due_at: ask.due_at,
                attempt: 1,
                next_attempt_at: None,
                retries: 0,
                value: ask.value,
                cycle: ask.cycle,
                mirrored: false,
                by_clock: true,
                basis: Some(ask.basis.clone()),
            })),
        }
    }

    fn take_steps(&mut self) {
        for _ in 0..10_000 {
            let Some(step) = self.rules.step(&self.subscription, self.now) else { return };
            assert!(step.at <= self.now, "{step:?}");
            self.write(By::Step(step.kind, step.at), step.outcome);
        }
        panic!("steps without end: {:?}", self.subscription);
    }

    /// Sets the clock, and executes what is due by then: first the steps, then the retries.
    pub fn advance_to(&mut self, now: Timestamp) {
        self.round += 1;
        self.now = now;
        self.take_steps();
        for payment in &mut self.payments {
            if let Some(next) = retry(payment, Some(&self.subscription), now) {
                *payment = next;
            }
        }
    }

    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now.saturating_add(by));
    }

    pub fn until(&mut self, day: &str) {
        self.advance_to(of(day));
    }

    /// Advances to each moment at which a step or a retry is due, one after the other, and then to `now`.
    pub fn punctually_to(&mut self, now: Timestamp) {
        while let Some(next) = self.next_due().filter(|next| *next <= now) {
            self.advance_to(next.max(self.now));
        }
        self.advance_to(now);
    }

    /// The moment at which the next step or retry is due. `None` if nothing is due in future.
    pub fn next_due(&self) -> Option<Timestamp> {
        let failed = self.payments.iter().filter(|payment| payment.status == PaymentStatus::Failed);
        let retries = failed.filter_map(Payment::next_attempt_at);
        self.subscription.next_action_at().into_iter().chain(retries).min()
    }

    /// Applies an action. Returns true if it changed something.
    pub fn act(&mut self, action: Action) -> Result<bool, Error> {
        self.round += 1;
        let Some(outcome) = self.rules.act(&self.subscription, action, self.now)? else {
            return Ok(false);
        };
        self.write(By::Verb, outcome);
        self.take_steps();
        Ok(true)
    }

    /// The quote for a change of plan at the current time.
    pub fn quote(&self, to: Option<&Plan>, change: &PlanChange) -> Result<Quote, Error> {
        quote(&self.subscription, &self.plan, to, change, self.now)
    }

    /// Changes the plan at the current time, and returns the quote that was applied.
    pub fn change_plan(&mut self, to: Option<&Plan>, change: &PlanChange) -> Result<Quote, Error> {
        self.round += 1;
        let quote = self.quote(to, change)?;
        if change.effective == Effective::Now && self.payments.iter().any(Payment::is_unpaid) {
            return Err(Conflict::PaymentOpen.into());
        }
        if let Some(outcome) = change_plan(&self.subscription, &quote, &self.policy, self.now) {
            self.write(By::PlanChange, outcome);
            self.writes.last_mut().unwrap().quote = Some(quote.clone());
            self.take_steps();
        }
        Ok(quote)
    }

    pub fn update(&mut self, changes: SubscriptionChanges) -> Result<bool, Error> {
        self.round += 1;
        let Some(after) = self.subscription.change(changes, self.now)? else { return Ok(false) };
        let outcome = self.rules.change(&self.subscription, after, self.now)?;
        self.write(By::Update, outcome);
        self.take_steps();
        Ok(true)
    }

    /// Reports a change of a payment. Panics if the lifecycle of the payment does not allow it.
    pub fn report(&mut self, nth: usize, changes: impl Into<Reporting>) {
        self.round += 1;
        let Reporting(changes) = changes.into();
        let before = self.payments.get(nth).unwrap().clone();
        let next_attempt_at = changes.next_attempt_at;
        let Some(after) = before.change(changes, self.now).unwrap() else { return };
        let others = others(self.payments.iter().filter(|other| other.id != before.id));
        let report = PaymentReport { before: &before, after, next_attempt_at };
        let reported = self.rules.report(report, &self.subscription, others, self.now);
        *self.payments.get_mut(nth).unwrap() = reported.payment;
        if let Some(outcome) = reported.subscription {
            self.write(By::Report, outcome);
        }
        self.take_steps();
    }

    /// The index of the oldest payment that must be collected. `None` if there is none.
    pub fn to_collect(&self) -> Option<usize> {
        self.payments.iter().position(|payment| payment.status == PaymentStatus::Pending)
    }

    /// Reports payments as paid until no payment must be collected.
    pub fn pay(&mut self) {
        while let Some(nth) = self.to_collect() {
            self.report(nth, PaymentStatus::Succeeded);
        }
    }

    pub fn status(&self) -> SubscriptionStatus {
        self.subscription.status
    }

    /// The start dates of the periods for which payments were requested.
    pub fn asked_days(&self) -> Vec<String> {
        let starts = self.payments.iter().map(|payment| payment.asked.as_ref().unwrap());
        starts.map(|asked| asked.period_start.to_string()[..10].to_owned()).collect()
    }

    pub fn amounts(&self) -> Vec<String> {
        self.payments.iter().map(|payment| payment.amount.to_string()).collect()
    }

    /// The steps so far, each with the date on which it was due.
    pub fn steps(&self) -> Vec<String> {
        let steps = self.writes.iter().filter_map(|write| match write.by {
            By::Step(kind, at) => Some(format!("{} {kind}", &at.to_string()[..10])),
            By::Create | By::Update | By::Verb | By::PlanChange | By::Report => None,
        });
        steps.collect()
    }
}

/// The report of a collector.
#[derive(Debug)]
pub struct Reporting(PaymentChanges);

impl From<PaymentStatus> for Reporting {
    fn from(status: PaymentStatus) -> Self {
        Self(PaymentChanges::status(status))
    }
}

impl From<PaymentChanges> for Reporting {
    fn from(changes: PaymentChanges) -> Self {
        Self(changes)
    }
}

/// The summary of the other payments of a subscription, as the service computes it.
fn others<'p>(payments: impl Iterator<Item = &'p Payment>) -> OtherPayments {
    payments.filter(|payment| payment.is_behind()).fold(
        OtherPayments::default(),
        |found, payment| {
            let has_try =
                payment.status != PaymentStatus::Failed || payment.next_attempt_at().is_some();
            OtherPayments { behind: true, to_try: found.to_try || has_try }
        },
    )
}

/// A plan with the price 10.
pub fn plan(cycle: BillingCycle, currency: Option<&str>) -> Plan {
    let now = of("2020-01-01T00:00:00Z");
    let mut new = NewPlan::new(of("Pro"), of("pro"), of("10"), cycle);
    new.currency = currency.map(of);
    Plan::create(new, PlanId::new(now, &SeededRandomness::new(2)).unwrap(), now).unwrap()
}

/// A second plan, to which a life can change.
pub fn other_plan(price: &str, currency: &str, cycle: &str) -> Plan {
    let now = of("2020-01-01T00:00:00Z");
    let mut new = NewPlan::new(of("Max"), of("max"), of(price), of(cycle));
    new.currency = Some(of(currency));
    Plan::create(new, PlanId::new(now, &SeededRandomness::new(3)).unwrap(), now).unwrap()
}
