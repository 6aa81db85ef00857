//! Two years of a small business, one step after the other.
//!
//! Each step is something that a person, a card or a calendar does, at its time. It is told to the
//! service, whose answer decides which steps may follow: the rules are the service's own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use subscription_core::auth::{Authentication, Origin, SignIn};
use subscription_core::{
    BillingCycle, Email, ManualClock, NewPayment, NewSubscription, PaymentChanges, PaymentId,
    PaymentStatus, Plan, PlanChanges, Schedule, Subscription, SubscriptionChanges,
    SubscriptionService, SubscriptionStatus, Timestamp, UserId,
};

use super::catalogue::{Addresses, OFFERS, Offer, WITHDRAWN};
use super::dice::Dice;
use crate::program::Failure;

const DAY: Duration = Duration::from_hours(24);
const TRIAL: Duration = Duration::from_hours(14 * 24);
/// How often a card that was refused is tried again, and after how long.
const TRIES_MAX: u8 = 3;
const TRY_AGAIN: Duration = Duration::from_hours(5 * 24);
/// How long somebody who has not paid is waited for.
const PATIENCE: Duration = Duration::from_hours(14 * 24);
/// A month or so: how long plans go unchanged, people join and pause.
const MONTH: Duration = Duration::from_hours(730);
const MONTHS: u64 = 24;

/// What happens next to whom, by their place in the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    WithdrawPlan,
    Join,
    Renew(usize),
    TryAgain(usize, PaymentId, u8),
    GiveUp(usize),
    Upgrade(usize),
    Pause(usize),
    Resume(usize),
    Cancel(usize),
    ComeBack(usize),
    End(usize),
    SignIn(usize),
    Refund(PaymentId, PaymentStatus),
}

/// Somebody's subscription, and what it takes to go on with it.
#[derive(Debug)]
struct Life {
    email: Email,
    offer: usize,
    subscription: Arc<Subscription>,
}

impl Life {
    fn is_paid(&self) -> bool {
        OFFERS.get(self.offer).is_some_and(Offer::is_paid)
    }
}

#[derive(Debug)]
pub(super) struct Story {
    clock: ManualClock,
    service: SubscriptionService,
    auth: Authentication,
    dice: Dice,
    until: Timestamp,
    /// Earliest first; of one moment, in the order in which they were thought of.
    steps: BinaryHeap<Reverse<(Timestamp, u64, Step)>>,
    thought_of: u64,
    addresses: Addresses,
    plans: Vec<Arc<Plan>>,
    lives: Vec<Life>,
    /// Those who left and may join anew.
    left: Vec<(Email, UserId)>,
    payments: BTreeMap<PaymentStatus, u64>,
}

/// What became of it all.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) subscriptions: BTreeMap<SubscriptionStatus, u64>,
    pub(super) payments: BTreeMap<PaymentStatus, u64>,
    /// Somebody to look at: one who pays.
    pub(super) example: Option<(Email, Arc<Subscription>)>,
}

impl Story {
    /// When a story begins that ends at `until`.
    pub(super) fn begin(until: Timestamp) -> Timestamp {
        let span = MONTH.as_micros() * u128::from(MONTHS);
        let begin = until.micros().saturating_sub(i64::try_from(span).unwrap_or(i64::MAX));
        Timestamp::from_micros(begin).unwrap_or(Timestamp::MIN)
    }

    /// A story of so many subscriptions, told to `service`, whose clock must show its begin.
    pub(super) fn new(
        service: SubscriptionService,
        auth: Authentication,
        clock: ManualClock,
        dice: Dice,
        until: Timestamp,
        subscriptions: u64,
    ) -> Self {
        let begin = Self::begin(until);
        let mut story = Self {
            clock,
            service,
            auth,
            dice,
            until,
            steps: BinaryHeap::new(),
            thought_of: 0,
            addresses: Addresses::default(),
            plans: Vec::new(),
            lives: Vec::new(),
            left: Vec::new(),
            payments: BTreeMap::new(),
        };
        story.at(begin.saturating_add(MONTH * 7), Step::WithdrawPlan);
        for _ in 0..subscriptions {
            // Each month some more than in the last.
            let month = story.dice.weighted((0..MONTHS).map(|month| 10 + 2 * month));
            let month = MONTH * u32::try_from(month).unwrap_or_default();
            let at = story.within(begin.saturating_add(month), MONTH);
            story.at(at, Step::Join);
        }
        story
    }

    /// Lives it through, and tells which moment it has come to.
    pub(super) async fn live(
        mut self,
        mut progress: impl FnMut(Timestamp),
    ) -> Result<Outcome, Failure> {
        for offer in &OFFERS {
            self.plans.push(self.service.create_plan(offer.plan()?, None).await?.record);
        }
        while let Some(Reverse((at, _, step))) = self.steps.pop() {
            self.clock.set(at);
            progress(at);
            self.take(step).await?;
        }
        self.clock.set(self.until);
        while self.auth.forget_ended_sessions().await? > 0 {}
        let mut subscriptions = BTreeMap::new();
        for life in &self.lives {
            *subscriptions.entry(life.subscription.status).or_default() += 1;
        }
        let pays =
            |life: &&Life| life.subscription.status == SubscriptionStatus::Active && life.is_paid();
        let example = self.lives.iter().rev().find(pays);
        let example = example.map(|life| (life.email.clone(), Arc::clone(&life.subscription)));
        Ok(Outcome { subscriptions, payments: self.payments, example })
    }

    async fn take(&mut self, step: Step) -> Result<(), Failure> {
        use SubscriptionStatus::{Active, Cancelled, OnTrial, PastDue, Paused, Unpaid};

        let now = self.service.now();
        let is = |nth: usize, statuses: &[SubscriptionStatus]| {
            self.lives.get(nth).is_some_and(|life| statuses.contains(&life.subscription.status))
        };
        match step {
            Step::WithdrawPlan => self.withdraw_plan().await,
            Step::Join => self.join().await,
            Step::Renew(nth) if is(nth, &[Active, OnTrial]) && self.is_due(nth, now) => {
                self.renew(nth).await
            }
            Step::TryAgain(nth, payment, tries) if is(nth, &[PastDue]) => {
                self.try_again(nth, payment, tries).await
            }
            Step::GiveUp(nth) if is(nth, &[Unpaid]) => self.end(nth).await,
            Step::Upgrade(nth) if is(nth, &[Active]) => self.upgrade(nth).await,
            Step::Pause(nth) if is(nth, &[Active]) => self.pause(nth).await,
            Step::Resume(nth) if is(nth, &[Paused]) => self.resume(nth).await,
            Step::Cancel(nth) if is(nth, &[Active, OnTrial]) => self.cancel(nth).await,
            Step::ComeBack(nth) if is(nth, &[Cancelled]) => self.come_back(nth).await,
            Step::End(nth) if is(nth, &[Cancelled]) => self.end(nth).await,
            Step::SignIn(nth) => self.sign_in(nth).await,
            Step::Refund(payment, status) => self.settle(payment, status).await,
            // Thought of, and overtaken since: nobody cancels what has ended.
            Step::Renew(_)
            | Step::TryAgain(..)
            | Step::GiveUp(_)
            | Step::Upgrade(_)
            | Step::Pause(_)
            | Step::Resume(_)
            | Step::Cancel(_)
            | Step::ComeBack(_)
            | Step::End(_) => Ok(()),
        }
    }
}

/// # Steps
impl Story {
    async fn withdraw_plan(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.plans.get(WITHDRAWN) else { return Ok(()) };
        let withdrawn = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
        let plan = self.service.update_plan(&plan.slug, withdrawn, None).await?;
        self.plans.insert(WITHDRAWN, plan);
        self.plans.truncate(OFFERS.len());
        Ok(())
    }

    async fn join(&mut self) -> Result<(), Failure> {
        let (email, user_id) = self.somebody().await?;
        let plans = &self.plans;
        let weights = OFFERS.iter().zip(plans).map(|(offer, plan)| {
            // What is withdrawn takes nobody any more.
            if plan.is_active { offer.newcomers } else { 0 }
        });
        let offer = self.dice.weighted(weights);
        let (Some(terms), Some(plan)) = (OFFERS.get(offer), self.plans.get(offer)) else {
            return Ok(());
        };
        let on_trial = terms.is_paid() && self.dice.permille(600);
        let external_id = format!("sub_{:012x}", self.dice.below(1 << 48));
        let mut new = NewSubscription {
            external_subscription_id: Some(external_id.parse()?),
            ..NewSubscription::new(user_id, plan.id)
        };
        if on_trial {
            new.status = Some(SubscriptionStatus::OnTrial);
            new.renews_at = Some(self.service.now().saturating_add(TRIAL)).into();
        }
        let subscription = self.service.create_subscription(new, None).await?.record;
        let nth = self.lives.len();
        self.lives.push(Life { email, offer, subscription });
        if on_trial {
            if self.dice.permille(350) {
                self.soon(nth, Step::Cancel(nth));
            }
            self.at_renewal(nth, Step::Renew(nth));
            return Ok(());
        }
        if terms.is_paid() {
            self.charge(nth).await?;
        }
        self.think_ahead(nth);
        Ok(())
    }

    /// Somebody new, or one who had left.
    async fn somebody(&mut self) -> Result<(Email, UserId), Failure> {
        if !self.left.is_empty() && self.dice.permille(80) {
            let nth = self.dice.below(self.left.len() as u64);
            return Ok(self.left.swap_remove(usize::try_from(nth)?));
        }
        let email: Email = self.addresses.next(&self.dice).parse()?;
        let user = self.auth.sign_up(proof(&email)?).await?.user;
        Ok((email, user.id))
    }

    /// A new period begins, if its payment is taken.
    async fn renew(&mut self, nth: usize) -> Result<(), Failure> {
        let Some(life) = self.lives.get(nth) else { return Ok(()) };
        let renews_at = life.subscription.schedule().next_after(self.service.now());
        let renewal =
            SubscriptionChanges { renews_at: renews_at.into(), ..SubscriptionChanges::default() };
        self.change(nth, renewal).await?;
        self.charge(nth).await?;
        self.think_ahead(nth);
        Ok(())
    }

    async fn try_again(
        &mut self,
        nth: usize,
        payment: PaymentId,
        tries: u8,
    ) -> Result<(), Failure> {
        if self.dice.permille(450) {
            self.settle(payment, PaymentStatus::Succeeded).await?;
            return self.step(nth, SubscriptionStatus::Active).await;
        }
        if tries < TRIES_MAX {
            self.after(TRY_AGAIN, Step::TryAgain(nth, payment, tries + 1));
            return Ok(());
        }
        self.after(PATIENCE, Step::GiveUp(nth));
        self.step(nth, SubscriptionStatus::Unpaid).await
    }

    /// The dearer plan counts from now, with a period of its own.
    async fn upgrade(&mut self, nth: usize) -> Result<(), Failure> {
        let Some(life) = self.lives.get_mut(nth) else { return Ok(()) };
        let upgrades = OFFERS.get(life.offer).map_or(&[][..], |offer| offer.upgrades);
        let Some(&offer) = self.dice.one_of(upgrades) else { return Ok(()) };
        let (Some(terms), Some(plan)) = (OFFERS.get(offer), self.plans.get(offer)) else {
            return Ok(());
        };
        life.offer = offer;
        let change = SubscriptionChanges {
            subscription_plan_id: Some(plan.id),
            billing_cycle: Some(terms.cycle),
            renews_at: self.next_period(terms.cycle),
            ..SubscriptionChanges::default()
        };
        self.change(nth, change).await?;
        self.charge(nth).await?;
        self.think_ahead(nth);
        Ok(())
    }

    async fn pause(&mut self, nth: usize) -> Result<(), Failure> {
        let months = 1 + u32::try_from(self.dice.below(3))?;
        self.after(MONTH * months, Step::Resume(nth));
        self.step(nth, SubscriptionStatus::Paused).await
    }

    async fn resume(&mut self, nth: usize) -> Result<(), Failure> {
        if self.dice.permille(250) {
            return self.end(nth).await;
        }
        let cycle = self.lives.get(nth).map(|life| life.subscription.billing_cycle);
        let resumed = SubscriptionChanges {
            renews_at: self.next_period(cycle.unwrap_or(BillingCycle::MONTHLY)),
            ..SubscriptionChanges::status(SubscriptionStatus::Active)
        };
        self.change(nth, resumed).await?;
        self.charge(nth).await?;
        self.think_ahead(nth);
        Ok(())
    }

    async fn cancel(&mut self, nth: usize) -> Result<(), Failure> {
        self.step(nth, SubscriptionStatus::Cancelled).await?;
        let ends_at = self.lives.get(nth).and_then(|life| life.subscription.ends_at);
        let Some(ends_at) = ends_at else { return Ok(()) };
        if self.dice.permille(120) {
            self.soon(nth, Step::ComeBack(nth));
        }
        self.at(ends_at, Step::End(nth));
        Ok(())
    }

    async fn come_back(&mut self, nth: usize) -> Result<(), Failure> {
        self.step(nth, SubscriptionStatus::Active).await?;
        self.at_renewal(nth, Step::Renew(nth));
        Ok(())
    }

    async fn end(&mut self, nth: usize) -> Result<(), Failure> {
        self.step(nth, SubscriptionStatus::Expired).await?;
        if let Some(life) = self.lives.get(nth) {
            self.left.push((life.email.clone(), life.subscription.user_id));
        }
        Ok(())
    }

    async fn sign_in(&mut self, nth: usize) -> Result<(), Failure> {
        if let Some(life) = self.lives.get(nth) {
            self.auth.sign_in(proof(&life.email)?).await?;
        }
        Ok(())
    }
}

/// # Money
impl Story {
    /// Asks for the price of a period that begins; what is refused is tried again.
    async fn charge(&mut self, nth: usize) -> Result<(), Failure> {
        let Some(life) = self.lives.get(nth) else { return Ok(()) };
        let Some(plan) = self.plans.get(life.offer) else { return Ok(()) };
        let (price, id, status) = (plan.price, life.subscription.id, life.subscription.status);
        let taken = self.dice.permille(925);
        let became = if taken { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
        let external_id = format!("pay_{:012x}", self.dice.below(1 << 48));
        let new = NewPayment {
            external_payment_id: Some(external_id.parse()?),
            status: Some(became),
            ..NewPayment::new(id, price, "USD".parse()?)
        };
        let payment = self.service.create_payment(new, None).await?.record;
        *self.payments.entry(became).or_default() += 1;
        if !taken {
            self.after(TRY_AGAIN, Step::TryAgain(nth, payment.id, 1));
            return self.step(nth, SubscriptionStatus::PastDue).await;
        }
        let refund = match self.dice.below(1_000) {
            0..15 => Some(PaymentStatus::Refunded),
            15..25 => Some(PaymentStatus::PartiallyRefunded),
            25..28 => Some(PaymentStatus::Disputed),
            _ => None,
        };
        if let Some(status) = refund {
            let days = 1 + u32::try_from(self.dice.below(9))?;
            self.after(DAY * days, Step::Refund(payment.id, status));
        }
        if status == SubscriptionStatus::Active {
            return Ok(());
        }
        self.step(nth, SubscriptionStatus::Active).await
    }

    async fn settle(&mut self, id: PaymentId, status: PaymentStatus) -> Result<(), Failure> {
        let before = self.service.payment(id).await?.status;
        self.service.update_payment(id, PaymentChanges::status(status), None).await?;
        let count = self.payments.entry(before).or_default();
        *count = count.saturating_sub(1);
        *self.payments.entry(status).or_default() += 1;
        Ok(())
    }
}

/// # Thinking ahead
impl Story {
    fn at(&mut self, at: Timestamp, step: Step) {
        if at <= self.until {
            self.steps.push(Reverse((at, self.thought_of, step)));
            self.thought_of += 1;
        }
    }

    fn after(&mut self, span: Duration, step: Step) {
        self.at(self.service.now().saturating_add(span), step);
    }

    fn at_renewal(&mut self, nth: usize, step: Step) {
        let renews_at = self.lives.get(nth).and_then(|life| life.subscription.renews_at);
        if let Some(renews_at) = renews_at {
            self.at(renews_at, step);
        }
    }

    /// At some time before the period ends.
    fn soon(&mut self, nth: usize, step: Step) {
        let now = self.service.now();
        let renews_at = self.lives.get(nth).and_then(|life| life.subscription.renews_at);
        let left = renews_at.map_or(0, |end| end.micros().saturating_sub(now.micros()));
        let left = u64::try_from(left).map_or(Duration::ZERO, Duration::from_micros);
        let span = if left.is_zero() { MONTH * 6 } else { left };
        self.at(self.within(now, span), step);
    }

    fn within(&self, from: Timestamp, span: Duration) -> Timestamp {
        from.saturating_add(Duration::from_secs(self.dice.below(span.as_secs())))
    }

    /// The renewal, and whatever else the period brings.
    fn think_ahead(&mut self, nth: usize) {
        self.at_renewal(nth, Step::Renew(nth));
        let Some(life) = self.lives.get(nth) else { return };
        let begun = life.subscription.starts_at.saturating_add(MONTH * 3);
        let is_new = self.service.now() < begun;
        let yearly = life.subscription.billing_cycle == BillingCycle::YEARLY;
        // Who is new is quicker to leave, and who has paid for a year has more time to.
        let (upgrades, pauses, leaves) = match (life.is_paid(), yearly) {
            (false, _) => (320, 0, 250),
            (true, true) => (60, 20, 180),
            (true, false) if is_new => (45, 12, 75),
            (true, false) => (25, 15, 35),
        };
        let roll = self.dice.below(1_000);
        if roll < upgrades {
            self.soon(nth, Step::Upgrade(nth));
        } else if roll < upgrades + pauses {
            self.soon(nth, Step::Pause(nth));
        } else if roll < upgrades + pauses + leaves {
            self.soon(nth, Step::Cancel(nth));
        }
        if self.dice.permille(300) {
            self.soon(nth, Step::SignIn(nth));
        }
    }

    fn is_due(&self, nth: usize, now: Timestamp) -> bool {
        let due = self.lives.get(nth).and_then(|life| life.subscription.renews_at);
        due.is_some_and(|due| due <= now)
    }

    fn next_period(&self, cycle: BillingCycle) -> subscription_core::Field<Timestamp> {
        Schedule::new(self.service.now(), cycle).start_of(1).into()
    }

    async fn step(&mut self, nth: usize, to: SubscriptionStatus) -> Result<(), Failure> {
        self.change(nth, SubscriptionChanges::status(to)).await
    }

    async fn change(&mut self, nth: usize, changes: SubscriptionChanges) -> Result<(), Failure> {
        let Some(life) = self.lives.get_mut(nth) else { return Ok(()) };
        let id = life.subscription.id;
        life.subscription = self.service.update_subscription(id, changes, None).await?;
        Ok(())
    }
}

fn proof(email: &Email) -> Result<SignIn, Failure> {
    Ok(SignIn {
        client_id: "web".parse()?,
        access_token: email.to_string().into(),
        email: email.clone(),
        origin: Origin::default(),
    })
}
