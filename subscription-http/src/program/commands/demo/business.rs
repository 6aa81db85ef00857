//! Two years of an invented business, simulated day by day.
//!
//! Every day some customers join, and each customer may upgrade, pause or leave. The simulation calls the service for
//! each of these changes, with the clock set to that moment, and billing moves the subscriptions. So the records follow
//! the service's own rules.

use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::auth::{Authentication, Origin, SignIn};
use subscription_core::billing::Billing;
use subscription_core::store::{Direction, DuePayments, PageLimit, PaymentQuery};
use subscription_core::{
    Action, Conflict, Effective, Email, Error, Field, ManualClock, NewSubscription, Payment,
    PaymentChanges, PaymentStatus, Plan, PlanChange, PlanChanges, Subscription,
    SubscriptionService, SubscriptionStatus, Timestamp,
};

use super::catalogue::{FIRST_NAMES, LAST_NAMES, OFFERS, plan};
use crate::program::Failure;

pub(crate) const DAYS: u32 = 730;
const DAY: Duration = Duration::from_hours(24);

/// The simulated time from one round of billing to the next. Each round also collects the payments that are due.
const ROUND: Duration = Duration::from_hours(6);

/// A customer and their subscription.
pub(crate) struct Customer {
    pub(crate) email: Email,
    plan: Arc<Plan>,
    pub(crate) subscription: Arc<Subscription>,
}

pub(crate) struct Business {
    pub(crate) clock: ManualClock,
    pub(crate) billing: Billing,
    pub(crate) auth: Authentication,
    pub(crate) chance: Chance,
    pub(crate) customers: Vec<Customer>,
    pub(crate) plans: Vec<Arc<Plan>>,
    /// The status of each payment, after all days are simulated.
    pub(crate) payments: Vec<PaymentStatus>,
}

/// The moment two years before `until`.
pub(crate) fn begin(until: Timestamp) -> Timestamp {
    let span = i64::try_from((DAY * DAYS).as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(until.micros().saturating_sub(span)).unwrap_or(Timestamp::MIN)
}

impl Business {
    /// Simulates all days up to `until`, and calls `progress` with the number of each day.
    pub(crate) async fn play(
        mut self,
        until: Timestamp,
        subscriptions: u64,
        progress: impl Fn(u32),
    ) -> Result<Self, Failure> {
        for offer in OFFERS {
            self.plans.push(self.service().create_plan(plan(offer)?).await?);
        }
        for day in 0..DAYS {
            progress(day);
            if day == 210
                && let Some(plan) = self.plans.pop()
            {
                let withdrawn = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
                self.service().update_plan(&plan.slug, withdrawn).await?;
            }
            // More customers join on later days: `all` is the total on this day, and grows faster than the number of
            // days.
            let days = u64::from(day + 1);
            let all = subscriptions * days * (days + 600) / u64::from(DAYS) / u64::from(DAYS + 600);
            let all = u32::try_from(all)?;
            let mut customers = std::mem::take(&mut self.customers).into_iter();
            for nth in 0..all {
                let time = DAY * day + DAY * nth / all;
                self.turn_to(begin(until).saturating_add(time)).await?;
                let customer = match customers.next() {
                    Some(mut customer) => {
                        self.act_by_chance(&mut customer).await?;
                        customer
                    }
                    None => self.join().await?,
                };
                self.customers.push(customer);
            }
        }
        self.turn_to(until).await?;
        self.run_clock().await?;
        for mut customer in std::mem::take(&mut self.customers) {
            self.read(&mut customer).await?;
            let query = PaymentQuery::of(customer.subscription.id).with_limit(PageLimit::MAX);
            let payments = self.service().payments(query).await?.items;
            self.payments.extend(payments.iter().map(|payment| payment.status));
            self.customers.push(customer);
        }
        while self.auth.forget_ended_sessions().await? > 0 {}
        Ok(self)
    }

    const fn service(&self) -> &SubscriptionService {
        self.billing.service()
    }

    /// Turns the clock to `to`, and stops on the way for each round of billing.
    async fn turn_to(&mut self, to: Timestamp) -> Result<(), Failure> {
        loop {
            let now = self.service().now();
            let round = i64::try_from(ROUND.as_micros())?;
            let next = now.micros().div_euclid(round).saturating_add(1).saturating_mul(round);
            let Ok(next) = Timestamp::from_micros(next) else { return Ok(()) };
            if next > to {
                self.clock.set(to);
                return Ok(());
            }
            self.clock.set(next);
            self.run_clock().await?;
        }
    }

    /// Executes the billing steps that are due, and collects the payments that they request.
    async fn run_clock(&mut self) -> Result<(), Failure> {
        while self.billing.advance(usize::MAX).await?.more {}
        let now = self.service().now();
        let due = DuePayments::until(PaymentStatus::Pending, now).with_limit(PageLimit::MAX);
        loop {
            let page = self.billing.due_payments(due.clone()).await?.items;
            for payment in &page {
                self.collect(payment).await?;
            }
            if page.is_empty() {
                return Ok(());
            }
        }
    }

    /// Collects a payment, which may fail; a retry fails more often.
    async fn collect(&mut self, payment: &Payment) -> Result<(), Failure> {
        let chance = if payment.attempt() == Some(1) { 93 } else { 45 };
        let paid = self.chance.below(100) < chance;
        let status = if paid { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
        let external_id = format!("pay_{:012x}", self.chance.below(1 << 48));
        let report = PaymentChanges {
            external_payment_id: Field::Value(external_id.parse()?),
            ..PaymentChanges::status(status)
        };
        self.service().update_payment(payment.id, report).await?;
        Ok(())
    }

    /// Adds a subscription of a new customer, or of a former customer who comes back.
    async fn join(&mut self) -> Result<Customer, Failure> {
        let former = self.chance.one_of(&self.customers);
        let expired = |one: &&Customer| one.subscription.status == SubscriptionStatus::Expired;
        let (email, user_id) = if let Some(former) = former.filter(expired)
            && self.chance.below(100) < 25
        {
            (former.email.clone(), former.subscription.user_id)
        } else {
            let first = self.chance.one_of(&FIRST_NAMES);
            let last = self.chance.one_of(&LAST_NAMES);
            let first = first.unwrap_or(&"a");
            let last = last.unwrap_or(&"b");
            let email = format!("{first}.{last}{}@example.com", self.customers.len()).parse()?;
            let user_id = self.auth.sign_up(sign_in(&email)?).await?.user.id;
            (email, user_id)
        };
        let choices = OFFERS.iter().zip(&self.plans);
        let choices: Vec<_> = choices.flat_map(|(offer, plan)| repeat_n(plan, offer.5)).collect();
        let plan = self.chance.one_of(&choices).ok_or_else(|| Failure::new("there is no plan"))?;
        let plan = Arc::clone(plan);
        let mut new = NewSubscription::new(user_id, plan.id);
        if self.chance.below(100) >= 60 {
            // Some customers want no trial.
            new.trial_ends_at = Field::Null;
        }
        let subscription = self.service().create_subscription(new).await?;
        Ok(Customer { email, plan, subscription })
    }

    /// Lets a customer upgrade, pause, cancel or make another change on one day, at random.
    async fn act_by_chance(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        use PaymentStatus::{PartiallyRefunded, Refunded};
        use SubscriptionStatus::{Active, Cancelled, OnTrial, Unpaid};

        let chance = self.chance.below(10_000);
        if chance >= 250 {
            return Ok(());
        }
        self.read(customer).await?;
        match (customer.subscription.status, chance) {
            (OnTrial, _) | (Active, 0..14) | (Unpaid, 0..200) => {
                self.act(customer, Action::Cancel(None)).await
            }
            (Active, 18..30) => self.upgrade(customer).await,
            (Active, 30..35) if !customer.plan.price.is_zero() => {
                let resumes_at = Some(self.service().now().saturating_add(DAY * 60));
                let effective = Some(Effective::Now);
                self.act(customer, Action::Pause { effective, resumes_at }).await
            }
            (Cancelled, 0..40) => self.act(customer, Action::Resume).await,
            (Active, 35..39) => self.refund(customer, Refunded).await,
            (Active, 39..42) => self.refund(customer, PartiallyRefunded).await,
            (_, 42..80) => {
                self.auth.sign_in(sign_in(&customer.email)?).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Applies an action, if the state of the subscription allows it.
    async fn act(&self, customer: &mut Customer, action: Action) -> Result<(), Failure> {
        if self.service().allows(&customer.subscription, action) {
            customer.subscription = self.service().act(customer.subscription.id, action).await?;
        }
        Ok(())
    }

    /// Changes the subscription to a random plan of a higher tier, at once and prorated.
    async fn upgrade(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        let plans: Vec<_> =
            self.plans.iter().filter(|plan| plan.tier > customer.plan.tier).collect();
        let Some(plan) = self.chance.one_of(&plans).map(|plan| Arc::clone(plan)) else {
            return Ok(());
        };
        let change = PlanChange::to_plan(plan.id);
        match self.billing.change_plan(customer.subscription.id, &change).await {
            Ok(changed) => (customer.subscription, customer.plan) = (changed, plan),
            // The subscription has a payment that is not collected yet, so the upgrade is skipped.
            Err(Error::Conflict(Conflict::PaymentOpen)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Refunds the latest payment that succeeded, wholly or in part as `to` says.
    async fn refund(&self, customer: &Customer, to: PaymentStatus) -> Result<(), Failure> {
        let query =
            PaymentQuery::of(customer.subscription.id).with_direction(Direction::Descending);
        let paid = self.service().payments(query).await?.items;
        let paid = paid.iter().find(|payment| payment.status == PaymentStatus::Succeeded);
        if let Some(payment) = paid {
            self.service().update_payment(payment.id, PaymentChanges::status(to)).await?;
        }
        Ok(())
    }

    /// Reads the subscription again, because billing may have changed it.
    async fn read(&self, customer: &mut Customer) -> Result<(), Failure> {
        customer.subscription = self.service().subscription(customer.subscription.id).await?;
        Ok(())
    }
}

fn sign_in(email: &Email) -> Result<SignIn, Failure> {
    Ok(SignIn {
        client_id: "web".parse()?,
        access_token: email.to_string().into(),
        email: email.clone(),
        origin: Origin::default(),
    })
}

/// Random choices by the generator `SplitMix64`. The same seed gives the same choices.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A random number from 0 to `end` - 1.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    fn one_of<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        let nth = self.below(several.len() as u64);
        several.get(usize::try_from(nth).ok()?)
    }
}
