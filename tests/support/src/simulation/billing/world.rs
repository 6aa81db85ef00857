//! The simulation of a business with plans, subscribers and a collector of payments. The test controls its clock, and
//! its store fails at random.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::events::Actor;
use subscription_core::store::{DueSubscriptions, StoreExt as _};
use subscription_core::{
    Action, Amount, BillingCycle, Bounded, Clock, Effective, Error, Field, ManagedBy, ManualClock,
    MemoryStore, NewDiscount, NewPayment, NewPlan, NewSubscription, PaymentChanges, PaymentId,
    PaymentKind, PaymentStatus, PlanId, Quantity, Store, Subscription, SubscriptionChanges,
    SubscriptionId, SubscriptionService, SubscriptionStatus, Timestamp, UserId,
};
use uuid::Uuid;

use super::broken::{BrokenRules, Fault};
use super::executions::{self, Meanwhile};
use super::invariants::{self, NOTHING_DUE_RESTS};
use super::life::{Life, Lives};
use super::recorder::Recorder;
use crate::billing::amounts;
use crate::rng::Rng;
use crate::simulation::broken::{Breakage, BrokenStore};
use crate::simulation::faults::FaultyStore;
use crate::simulation::invariants::Broken;
use crate::simulation::world::{Failure, service_over};

const LOG_MAX: usize = 20;
pub(super) const USERS: u128 = 12;

/// A plan: slug, price, currency, cycle, trial.
type PlanRow =
    (&'static str, &'static str, Option<&'static str>, &'static str, Option<&'static str>);

pub(super) const PLANS: [PlanRow; 11] = [
    ("daily", "1.50", Some("USD"), "daily", None),
    ("weekly", "7", Some("EUR"), "weekly", Some("P3D")),
    ("monthly", "19.99", Some("USD"), "monthly", Some("P14D")),
    ("pro", "49.99", Some("USD"), "monthly", None),
    ("yen", "1000", Some("JPY"), "monthly", None),
    ("dinar", "4.500", Some("BHD"), "quarterly", Some("P1M")),
    ("yearly", "499", Some("USD"), "yearly", None),
    ("once", "99", Some("USD"), "one_time", None),
    ("free", "0", Some("USD"), "monthly", None),
    ("euro", "29.90", Some("EUR"), "monthly", None),
    ("elsewhere", "10", None, "monthly", None),
];

/// The result of a run.
#[derive(Debug, Default)]
pub struct Ran {
    /// The error codes that occurred.
    pub met: BTreeSet<&'static str>,
    /// The kinds of changes of plan that occurred.
    pub changes: BTreeSet<&'static str>,
}

/// The callers that change the plans of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangedBy {
    Seller,
    /// The seller and the users.
    Users,
    /// The same, but a planted fault treats the changes of users as the seller's.
    UsersAsSeller,
}

/// One run of the simulation.
#[derive(Debug)]
pub struct BillingSimulation {
    seed: u64,
    pub(super) rng: Rng,
    pub(super) clock: ManualClock,
    pub(super) recorder: Arc<Recorder>,
    policy: Policy,
    pub(super) billing: Billing,
    /// The billing of a second process over the same store.
    pub(super) other: Billing,
    /// The only invariant that is checked. `None` to check all.
    pub(super) checked: Option<&'static str>,
    pub(super) plans: Vec<PlanId>,
    pub(super) lives: Lives,
    payments: Vec<PaymentId>,
    /// The subscriptions that were written since the last check.
    pub(super) touched: BTreeSet<SubscriptionId>,
    /// False if a planted fault makes previews endless.
    pub(super) changes_plans: bool,
    /// False if a planted fault lets users change the subscriptions of others.
    pub(super) checks_owners: bool,
    pub(super) changed_by: ChangedBy,
    log: VecDeque<String>,
    met: BTreeSet<&'static str>,
}

impl BillingSimulation {
    /// Creates a business over a store, with plans of all cycles and currencies.
    pub async fn over(store: Arc<dyn Store>, seed: u64) -> Self {
        Self::with(store, seed, None).await
    }

    /// Creates a business whose users change their plans themselves.
    pub async fn of_people(store: Arc<dyn Store>, seed: u64) -> Self {
        Self { changed_by: ChangedBy::Users, ..Self::with(store, seed, None).await }
    }

    /// Creates a business with a planted fault. Only the invariant `checked` is checked, and it must find the fault.
    pub async fn broken(fault: Fault, checked: &'static str, seed: u64) -> Self {
        let (inner, breakage) = (MemoryStore::default(), Breakage::AsksTwice);
        let store: Arc<dyn Store> = if fault == Fault::AsksForThePeriodBefore {
            Arc::new(BrokenStore { inner, breakage })
        } else {
            Arc::new(inner)
        };
        let changed_by = match checked {
            _ if fault == Fault::ChangesAsSeller => ChangedBy::UsersAsSeller,
            "more_access_only_for_money" | "people_never_gain_credit" => ChangedBy::Users,
            _ => ChangedBy::Seller,
        };
        Self { checked: Some(checked), changed_by, ..Self::with(store, seed, Some(fault)).await }
    }

    async fn with(store: Arc<dyn Store>, seed: u64, fault: Option<Fault>) -> Self {
        let rng = Rng::new(seed);
        let recorder = Arc::new(Recorder::over(store));
        let below: Arc<dyn Store> = Arc::<Recorder>::clone(&recorder);
        let store = match fault.and_then(Fault::breakage) {
            Some(breakage) => Arc::new(BrokenStore { inner: below, breakage }),
            None => below,
        };
        let (clock, faults, service) = service_over(&store, seed);
        let policy = policy(&rng);
        let by_rules = |billing: Billing| match fault {
            Some(fault) => billing.with_rules(BrokenRules::new(&policy, fault)),
            None => billing,
        };
        let billing = by_rules(Billing::new(service, policy.clone()));
        let twin = SubscriptionService::builder(Arc::<FaultyStore>::clone(&faults))
            .clock(clock.clone())
            .randomness(subscription_core::SeededRandomness::new(seed ^ 0xF00D))
            .build();
        let other = by_rules(Billing::new(twin, policy.clone()));
        let mut plans = Vec::new();
        for (slug, price, currency, cycle, trial) in PLANS {
            let cycle = cycle.parse().expect("a cycle");
            let name = slug.parse().expect("a name");
            let plan = NewPlan::new(name, slug.parse().expect("a slug"), amount(price), cycle);
            let plan = NewPlan {
                currency: currency.map(|code| code.parse().expect("a currency")),
                trial_period: trial.map(|span| span.parse().expect("a span")),
                ..plan
            };
            plans.push(billing.service().create_plan(plan).await.expect("a plan").id);
        }
        faults.draw_from(rng.fork());
        Self {
            seed,
            rng,
            clock,
            recorder,
            policy,
            billing,
            other,
            checked: None,
            plans,
            lives: Lives::default(),
            payments: Vec::new(),
            touched: BTreeSet::new(),
            changes_plans: !fault.is_some_and(Fault::is_endless),
            checks_owners: fault != Some(Fault::IgnoresOwners),
            changed_by: ChangedBy::Seller,
            log: VecDeque::new(),
            met: BTreeSet::new(),
        }
    }

    /// Runs `steps` steps, or fewer if a step breaks an invariant.
    pub async fn run(mut self, steps: u32) -> Result<Ran, Failure> {
        for _ in 0..steps {
            if let Err(broken) = Box::pin(self.step()).await {
                return Err(Failure { broken, seed: self.seed, log: self.log });
            }
        }
        let changes = self.lives.0.values().flat_map(executions::kinds).collect();
        Ok(Ran { met: self.met, changes })
    }

    async fn step(&mut self) -> Result<(), Broken> {
        match self.rng.below(100) {
            0..10 => self.subscribe().await,
            10 => self.import_payment().await,
            11..37 => self.pass_time().await?,
            37..39 => self.discount().await,
            39..64 => self.report().await,
            64..76 => self.change_plan().await,
            76..78 => self.edit_plan().await,
            78..86 => self.act().await,
            86..92 => self.update().await,
            92..94 => self.retry().await,
            94 => self.restore().await,
            95..98 => Box::pin(self.advance_at_once()).await,
            _ => self.delete().await,
        }
        self.check()
    }

    /// Adds the recorded commits to the lives.
    pub(super) fn collect(&mut self) {
        for changes in self.recorder.take() {
            self.touched.extend(self.lives.add(&changes));
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.collect();
        for id in std::mem::take(&mut self.touched) {
            let Some(life) = self.lives.0.get(&id) else { continue };
            for payment in life.payments.keys() {
                if !self.payments.contains(payment) {
                    self.payments.push(*payment);
                }
            }
            invariants::check(life, &self.policy, self.checked)?;
        }
        Ok(())
    }

    /// Restores a recent backup. The clock and the payment gateway do not go back.
    async fn restore(&mut self) {
        self.collect();
        let all = self.recorder.accepted();
        // The first commits create the plans, so every backup contains the plans.
        let count = (all - self.rng.below(40).min(all)).max(PLANS.len());
        self.recorder.restore(count).await;
        self.lives.restored(&self.recorder.take());
        self.touched = self.lives.0.keys().copied().collect();
        self.payments.clear();
        self.log.push_back(format!("restore {count} of {all} commits"));
    }

    pub(super) fn note<T: std::fmt::Debug>(
        &mut self,
        what: impl Into<String>,
        result: &Result<T, Error>,
    ) {
        let told = match result {
            Ok(_) => "done".to_owned(),
            Err(error) => {
                assert!(error.code() != "internal", "{error:?}");
                self.met.insert(error.code());
                format!("{} ({error})", error.code())
            }
        };
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{} {}: {told}", self.clock.now(), what.into()));
    }

    async fn subscribe(&mut self) {
        let (rng, now) = (&self.rng, self.clock.now());
        let user = UserId::from(Uuid::from_u128(1 + rng.below(USERS)));
        let Some(plan) = rng.pick(self.plans.iter().copied()) else { return };
        let mut new = NewSubscription::new(user, plan);
        new.quantity = rng.maybe(30, |rng| Quantity::new(rng.below(6_u64)).unwrap_or_default());
        new.credit = rng.maybe(20, |rng| amount(&format!("{}", rng.below(60_u64))));
        new.starts_at = rng.maybe(15, |rng| later(rng, now, 20));
        new.ends_at = rng.maybe(10, |rng| later(rng, now, 90));
        new.trial_ends_at = match rng.below(10) {
            0 => Field::Null,
            1 => Field::Value(later(rng, now, 40)),
            _ => Field::Absent,
        };
        new.discount = rng.maybe(30, random_discount);
        // Only the clock reduces periods, so the other subscriptions have no discount.
        new.managed_by = rng.maybe(5, |_| ManagedBy::Caller).filter(|_| new.discount.is_none());
        new.billing_cycle = rng.maybe(10, |_| BillingCycle::WEEKLY);
        let made = self.billing.service().create_subscription(new.clone()).await;
        self.note(format!("subscribe {new:?}"), &made);
    }

    /// Imports a payment for the next period of a subscription, which another system has collected.
    async fn import_payment(&mut self) {
        let Some(id) = self.some_subscription() else { return };
        let Some(next) = self.lives.0.get(&id).and_then(Life::now) else { return };
        let renews =
            matches!(next.status, SubscriptionStatus::Active | SubscriptionStatus::OnTrial);
        let Some(start) = next.renews_at.filter(|_| renews) else { return };
        let currency = "USD".parse().expect("a currency");
        let new = NewPayment {
            status: Some(PaymentStatus::Succeeded),
            kind: Some(PaymentKind::Renewal),
            period_start: Some(start),
            period_end: next.schedule().next_after(start),
            ..NewPayment::new(id, amount("3"), currency)
        };
        let made = self.billing.service().create_payment(new).await;
        self.note(format!("import a payment of {id} from {start}"), &made);
    }

    async fn pass_time(&mut self) -> Result<(), Broken> {
        let gap = match self.rng.below(10) {
            0..5 => Duration::from_hours(self.rng.below(48)),
            5..9 => Duration::from_hours(24 * self.rng.below(20_u64)),
            _ => Duration::from_hours(24 * self.rng.below(60_u64)),
        };
        // Often the clock is set exactly to the next due moment, because moments that coincide are hard cases.
        let next = self.next_due().await;
        match next.filter(|_| self.rng.percent(40)) {
            Some((_, next)) if next > self.clock.now() => self.clock.set(next),
            _ => self.clock.advance(gap),
        }
        for _ in 0..self.rng.below(4) {
            let limit = 1 + self.rng.below(200_usize);
            let advanced = self.billing.advance(limit).await;
            self.note(format!("advance {limit}"), &advanced);
            let Ok(advanced) = advanced else { continue };
            let undisturbed = !advanced.more && advanced.refused == 0 && advanced.failed == 0;
            if undisturbed && self.checked.is_none_or(|name| name == NOTHING_DUE_RESTS) {
                self.nothing_due_rests().await?;
            }
        }
        Ok(())
    }

    /// Checks that nothing is due. It holds after an advance that had no failure and reached no limit.
    async fn nothing_due_rests(&self) -> Result<(), Broken> {
        let now = self.clock.now();
        match self.next_due().await {
            Some((id, due)) if due <= now => {
                Err(Broken::new(NOTHING_DUE_RESTS, format!("{id} is due at {due}, now {now}")))
            }
            _ => Ok(()),
        }
    }

    /// The subscription that is due next, and the moment. It is read from the store without faults.
    async fn next_due(&self) -> Option<(SubscriptionId, Timestamp)> {
        let query = DueSubscriptions::until(Timestamp::MAX);
        let page = self.recorder.due_subscriptions(query).await.expect("a sound store");
        let first = page.items.first()?;
        Some((first.id, first.next_action_at()?))
    }

    /// Lets two processes advance at the same time. Sometimes a caller also ends the due subscription or changes its
    /// plan meanwhile.
    async fn advance_at_once(&mut self) {
        let Some((id, due)) = self.next_due().await else { return };
        if due > self.clock.now() {
            self.clock.set(due);
        }
        self.collect();
        let (one, two) = (self.billing.clone(), self.other.clone());
        let (chance, other) = (self.rng.below(10), self.random_change(id));
        let act = async {
            match chance {
                0..3 => {
                    let cancel = Action::Cancel(Some(Effective::Now));
                    one.service().act(id, cancel).await.map(Some)
                }
                3..7 => one.change_plan(id, &other).await.map(Some),
                _ => Ok(None),
            }
        };
        let before = self.version(id);
        let (first, second, acted) = tokio::join!(one.advance(100), two.advance(100), act);
        self.note("advance", &first);
        self.note("advance elsewhere", &second);
        self.note(format!("cancel {id} or change its plan meanwhile"), &acted);
        if (3..7).contains(&chance) {
            self.executed(id, other, None, Meanwhile::Changes, before, acted.err().as_ref());
        }
    }

    pub(super) async fn report(&mut self) {
        let Some(id) = self.some_payment() else { return };
        let rng = &self.rng;
        let status = match rng.below(20) {
            0..9 => PaymentStatus::Succeeded,
            9..15 => PaymentStatus::Failed,
            15..17 => PaymentStatus::Processing,
            17 => PaymentStatus::Canceled,
            18 => PaymentStatus::Refunded,
            _ => PaymentStatus::Disputed,
        };
        let mut changes = PaymentChanges::status(status);
        if status == PaymentStatus::Failed {
            changes.next_attempt_at = match rng.below(10) {
                0 => Field::Null,
                1 => Field::Value(later(rng, self.clock.now(), 10)),
                _ => Field::Absent,
            };
            self.lives.sent(id, changes.next_attempt_at);
        }
        let reported = self.billing.service().update_payment(id, changes).await;
        self.note(format!("report {id} {status}"), &reported);
    }

    /// A random payment, more often one of the latest. `None` if there is none.
    fn some_payment(&self) -> Option<PaymentId> {
        let last = self.payments.len().saturating_sub(12);
        let from = if self.rng.percent(80) { last } else { 0 };
        self.rng.pick(self.payments.iter().skip(from).copied())
    }

    pub(super) fn some_subscription(&self) -> Option<SubscriptionId> {
        self.rng.pick(self.lives.0.keys().copied())
    }

    /// A random subscription in this status that has a payment behind. `None` if there is none.
    fn some_behind(&self, status: SubscriptionStatus) -> Option<SubscriptionId> {
        let is_behind = |now: &Subscription| now.status == status && now.past_due_since().is_some();
        let lives = self.lives.0.iter().filter(|(_, life)| !life.deleted);
        let behind = lives.filter(|(_, life)| life.now().is_some_and(is_behind));
        self.rng.pick(behind.map(|(id, _)| *id))
    }

    /// Gives a discount, or removes one.
    async fn discount(&mut self) {
        let held = self.some_of(|now| now.discount().is_some());
        let (id, action) = match held.filter(|_| self.rng.percent(30)) {
            Some(id) => (Some(id), Action::RemoveDiscount),
            None => (self.some_subscription(), Action::GiveDiscount(random_discount(&self.rng))),
        };
        let Some(id) = id else { return };
        let acted = self.billing.service().act(id, action).await;
        self.note(format!("{action:?} {id}"), &acted);
    }

    async fn act(&mut self) {
        let Some(id) = self.some_subscription() else { return };
        let (rng, now) = (&self.rng, self.clock.now());
        let effective = rng
            .maybe(60, |rng| if rng.percent(50) { Effective::Now } else { Effective::PeriodEnd });
        let action = match rng.below(14) {
            0..3 => Action::Cancel(effective),
            3..6 => Action::Resume,
            6..9 => {
                Action::Pause { effective, resumes_at: rng.maybe(50, |rng| later(rng, now, 60)) }
            }
            9 => Action::Unschedule,
            10..12 => Action::Leave,
            _ => Action::Uncancel,
        };
        let scheduled = self.some_scheduled().filter(|_| action == Action::Unschedule);
        let id = scheduled.unwrap_or(id);
        // Often a subscription is chosen that has a payment behind, so that resuming it is refused.
        let at_end = action == Action::Cancel(Some(Effective::PeriodEnd));
        let behind = self.some_behind(SubscriptionStatus::PastDue).filter(|_| at_end);
        let (id, resumes) = behind.map_or((id, false), |behind| (behind, rng.percent(50)));
        // Often a subscription that already has an end is cancelled, and a cancelled subscription is resumed.
        let undoes = matches!(action, Action::Uncancel | Action::Resume) && rng.percent(50);
        let chosen = if action == Action::Leave {
            self.some_of(|now| now.ends_at.is_some() && now.status == SubscriptionStatus::Active)
        } else if undoes {
            self.some_of(|now| now.status == SubscriptionStatus::Cancelled)
        } else {
            None
        };
        let id = chosen.unwrap_or(id);
        self.collect();
        let before = self.version(id);
        self.act_as_a_stranger(id, action).await;
        let acted = self.act_by_whom_it_is_for(id, action).await;
        self.note(format!("{action:?} {id}"), &acted);
        self.collect();
        if let Some(life) = self.lives.0.get_mut(&id).filter(|_| action == Action::Leave) {
            let versions = life.versions.iter().map(|written| written.subscription.version);
            life.left = versions
                .filter(|version| Some(*version) > before)
                .chain(life.left.iter().copied())
                .collect();
        }
        if resumes || action == Action::Leave && self.rng.percent(50) {
            let undo = if resumes { Action::Resume } else { Action::Uncancel };
            let undone = self.act_by_whom_it_is_for(id, undo).await;
            self.note(format!("{undo:?} {id}"), &undone);
        }
    }

    /// Applies a verb as the user of the subscription if the verb is for users, else as the seller.
    async fn act_by_whom_it_is_for(
        &self,
        id: SubscriptionId,
        action: Action,
    ) -> Result<Arc<Subscription>, Error> {
        let service = self.billing.service();
        match self.lives.0.get(&id).and_then(Life::now).map(|now| now.user_id) {
            Some(user) if matches!(action, Action::Leave | Action::Uncancel) => {
                Ok(service.by(Actor::User(user)).act_of(user, id, action).await?.record)
            }
            _ => service.act(id, action).await,
        }
    }

    /// Another user tries a verb for users.
    async fn act_as_a_stranger(&mut self, id: SubscriptionId, action: Action) {
        let owner = self.lives.0.get(&id).and_then(Life::now).map(|now| now.user_id);
        let Some(owner) = owner else { return };
        if !matches!(action, Action::Leave | Action::Uncancel) {
            return;
        }
        let stranger = UserId::from(Uuid::from_u128(USERS + 1));
        let checked = if self.checks_owners { stranger } else { owner };
        let service = self.billing.service().by(Actor::User(stranger));
        let acted = service.act_of(checked, id, action).await;
        self.note(format!("a stranger's {action:?} {id}"), &acted);
    }

    pub(super) async fn update(&mut self) {
        let Some(id) = self.some_subscription() else { return };
        let (rng, now) = (&self.rng, self.clock.now());
        let mut changes = SubscriptionChanges::default();
        // Sometimes a subscription that is past due gets the other manager: the clock or callers.
        let by = rng.pick([ManagedBy::Clock, ManagedBy::Caller]).filter(|_| rng.percent(30));
        let behind = |now: &Subscription| {
            now.status == SubscriptionStatus::PastDue && Some(now.managed_by) != by
        };
        if let (Some(by), Some(id)) = (by, self.some_of(behind)) {
            changes.managed_by = Some(by);
            let updated = self.billing.service().update_subscription(id, changes.clone()).await;
            self.note(format!("update {id} {changes:?}"), &updated);
            // A retry falls due while callers manage the subscription, so the clock does not execute it.
            if by == ManagedBy::Caller && self.rng.percent(50) {
                self.clock.advance(Duration::from_hours(48));
                let advanced = self.billing.advance(200).await;
                self.note("advance 200", &advanced);
                changes.managed_by = Some(ManagedBy::Clock);
                let taken = self.billing.service().update_subscription(id, changes).await;
                self.note(format!("take over {id}"), &taken);
            }
            return;
        }
        match rng.below(10) {
            0..3 => changes.quantity = Quantity::new(1 + rng.below(5_u64)).ok(),
            3..5 => changes.price = Field::Value(amount(&format!("{}", rng.below(30_u64)))),
            5 => changes.credit = Some(amount(&format!("{}", rng.below(50_u64)))),
            6 => changes.trial_ends_at = Field::Value(later(rng, now, 30)),
            7 => changes.is_active = Some(rng.percent(50)),
            8 => changes.managed_by = Some(ManagedBy::Caller),
            _ => changes.managed_by = Some(ManagedBy::Clock),
        }
        let updated = self.billing.service().update_subscription(id, changes.clone()).await;
        self.note(format!("update {id} {changes:?}"), &updated);
    }

    async fn retry(&mut self) {
        let Some(id) = self.some_payment() else { return };
        let retried = self.billing.retry_payment(id, None, None).await;
        self.note(format!("retry {id}"), &retried);
    }

    async fn delete(&mut self) {
        if self.rng.percent(50)
            && let Some(id) = self.some_subscription()
        {
            let deleted = self.billing.service().delete_subscription(id).await;
            self.note(format!("delete {id}"), &deleted);
        } else if let Some(id) = self.some_payment() {
            let deleted = self.billing.service().delete_payment(id).await;
            if deleted.is_ok() {
                self.payments.retain(|payment| *payment != id);
                self.lives.forget_payment(id);
            }
            self.note(format!("delete {id}"), &deleted);
        }
    }
}

fn policy(rng: &Rng) -> Policy {
    let policy = Policy::default();
    match rng.below(4) {
        0 => policy.with_missed_periods_max(Bounded::new(rng.below(6)).unwrap_or_default()),
        1 => policy.with_activation(subscription_core::billing::Activation::OnPayment),
        2 => policy.with_after_dunning(subscription_core::billing::AfterDunning::Expired),
        _ => policy,
    }
}

/// A discount that fits every currency: often the whole price, for few periods or for ever.
pub(super) fn random_discount(rng: &Rng) -> NewDiscount {
    let periods = rng.maybe(80, |rng| 1 + rng.below(4));
    match rng.below(10) {
        0..3 => amounts::percent("100", periods),
        3..5 => amounts::percent("50", periods),
        5..7 => amounts::percent(&format!("{}.{}", 1 + rng.below(98), rng.below(100)), periods),
        7..9 => amounts::amount(&format!("{}", 1 + rng.below(30)), periods),
        _ => amounts::amount("700", periods),
    }
}

pub(super) fn amount(text: &str) -> Amount {
    text.parse().expect("an amount")
}

pub(super) fn later(rng: &Rng, now: Timestamp, days: u64) -> Timestamp {
    now.saturating_add(Duration::from_hours(24 * rng.below(days) + rng.below(24_u64)))
}
