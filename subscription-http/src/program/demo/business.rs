//! Two years of an invented business, played day by day.
//!
//! Every day some customers join, and each customer may pay, upgrade, pause or leave. All of it is calls of
//! the service with its clock set to that moment, so the records follow the service's own rules.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::auth::{Authentication, Origin, SignIn};
use subscription_core::{
    Email, ManualClock, NewPayment, NewSubscription, PaymentChanges, PaymentId, PaymentStatus,
    Plan, PlanChanges, Schedule, Subscription, SubscriptionChanges, SubscriptionService,
    SubscriptionStatus, Timestamp,
};

use super::catalogue::{FIRST_NAMES, LAST_NAMES, OFFERS, plan};
use crate::program::Failure;

pub(super) const DAYS: u32 = 730;
const DAY: Duration = Duration::from_hours(24);

/// A customer and their subscription.
pub(super) struct Customer {
    pub(super) email: Email,
    plan: Arc<Plan>,
    pub(super) subscription: Arc<Subscription>,
    payment: Option<PaymentId>,
    /// The number of times that the payment has failed.
    tries: u8,
    /// When an unpaid or paused subscription changes next.
    next_at: Timestamp,
}

pub(super) struct Business {
    pub(super) clock: ManualClock,
    pub(super) service: SubscriptionService,
    pub(super) auth: Authentication,
    pub(super) chance: Chance,
    pub(super) customers: Vec<Customer>,
    pub(super) plans: Vec<Arc<Plan>>,
    pub(super) payments: BTreeMap<PaymentId, PaymentStatus>,
}

/// The moment two years before `until`.
pub(super) fn begin(until: Timestamp) -> Timestamp {
    let span = i64::try_from((DAY * DAYS).as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(until.micros().saturating_sub(span)).unwrap_or(Timestamp::MIN)
}

impl Business {
    /// Plays all days up to `until`, and calls `progress` with the number of each.
    pub(super) async fn play(
        mut self,
        until: Timestamp,
        subscriptions: u64,
        progress: impl Fn(u32),
    ) -> Result<Self, Failure> {
        for offer in OFFERS {
            self.plans.push(self.service.create_plan(plan(offer)?).await?);
        }
        for day in 0..DAYS {
            progress(day);
            if day == 210
                && let Some(plan) = self.plans.pop()
            {
                let withdrawn = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
                self.service.update_plan(&plan.slug, withdrawn).await?;
            }
            // More join each day: the number of customers grows with the square of the days.
            let days = u64::from(day + 1);
            let all = subscriptions * days * (days + 600) / u64::from(DAYS) / u64::from(DAYS + 600);
            let all = u32::try_from(all)?;
            let mut customers = std::mem::take(&mut self.customers).into_iter();
            for nth in 0..all {
                let time = DAY * day + DAY * nth / all;
                self.clock.set(begin(until).saturating_add(time));
                let customer = match customers.next() {
                    Some(mut customer) => {
                        self.act_when_due(&mut customer).await?;
                        self.act_by_chance(&mut customer).await?;
                        customer
                    }
                    None => self.join().await?,
                };
                self.customers.push(customer);
            }
        }
        self.clock.set(until);
        for mut customer in std::mem::take(&mut self.customers) {
            self.act_when_due(&mut customer).await?;
            self.customers.push(customer);
        }
        while self.auth.forget_ended_sessions().await? > 0 {}
        Ok(self)
    }

    /// A new customer, or one who left and comes back.
    async fn join(&mut self) -> Result<Customer, Failure> {
        let former = self.chance.one_of(&self.customers);
        let expired = |one: &&Customer| one.subscription.status == SubscriptionStatus::Expired;
        let (email, user_id) = if let Some(former) = former.filter(expired)
            && self.chance.below(100) < 25
        {
            (former.email.clone(), former.subscription.user_id)
        } else {
            let (first, last) = (self.chance.one_of(&FIRST_NAMES), self.chance.one_of(&LAST_NAMES));
            let (first, last) = (first.unwrap_or(&"a"), last.unwrap_or(&"b"));
            let email = format!("{first}.{last}{}@example.com", self.customers.len()).parse()?;
            let user_id = self.auth.sign_up(sign_in(&email)?).await?.user.id;
            (email, user_id)
        };
        let choices = OFFERS.iter().zip(&self.plans);
        let choices: Vec<_> = choices.flat_map(|(offer, plan)| repeat_n(plan, offer.5)).collect();
        let plan = self.chance.one_of(&choices).ok_or_else(|| Failure::new("there is no plan"))?;
        let plan = Arc::clone(plan);
        let external_id = format!("sub_{:012x}", self.chance.below(1 << 48));
        let mut new = NewSubscription {
            external_subscription_id: Some(external_id.parse()?),
            ..NewSubscription::new(user_id, plan.id)
        };
        let (now, on_trial) = (self.service.now(), is_paid(&plan) && self.chance.below(100) < 60);
        if on_trial {
            new.status = Some(SubscriptionStatus::OnTrial);
            new.renews_at = Some(now.saturating_add(DAY * 14)).into();
        }
        let subscription = self.service.create_subscription(new).await?;
        let mut customer =
            Customer { email, plan, subscription, payment: None, tries: 0, next_at: now };
        if is_paid(&customer.plan) && !on_trial {
            self.charge(&mut customer).await?;
        }
        Ok(customer)
    }

    /// The steps that are due at their time: a renewal, a retried payment, a resumption, an end.
    async fn act_when_due(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Unpaid};

        let (now, subscription) = (self.service.now(), &customer.subscription);
        let renews = subscription.renews_at.is_some_and(|due| due <= now);
        let ends = subscription.ends_at.is_none_or(|end| end <= now);
        match (subscription.status, customer.next_at <= now) {
            (Active | OnTrial, _) if renews => {
                let renews_at = subscription.schedule().next_after(now).into();
                let renewal = SubscriptionChanges { renews_at, ..SubscriptionChanges::default() };
                self.change(customer, renewal).await?;
                self.charge(customer).await
            }
            (PastDue, true) => {
                customer.tries += 1;
                if self.chance.below(100) < 45 {
                    self.settle(customer, PaymentStatus::Succeeded).await?;
                    return self.set(customer, Active).await;
                }
                if customer.tries < 3 {
                    customer.next_at = now.saturating_add(DAY * 5);
                    return Ok(());
                }
                customer.next_at = now.saturating_add(DAY * 14);
                self.set(customer, Unpaid).await
            }
            (Paused, true) if self.chance.below(100) < 75 => {
                let resumed = SubscriptionChanges {
                    renews_at: Schedule::new(now, subscription.billing_cycle).start_of(1).into(),
                    ..SubscriptionChanges::status(Active)
                };
                self.change(customer, resumed).await?;
                self.charge(customer).await
            }
            (Unpaid | Paused, true) => self.set(customer, Expired).await,
            (Cancelled, _) if ends => self.set(customer, Expired).await,
            _ => Ok(()),
        }
    }

    /// The steps that a customer may take on any day.
    async fn act_by_chance(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        use PaymentStatus::{PartiallyRefunded, Refunded};
        use SubscriptionStatus::{Active, Cancelled, OnTrial, Paused};

        match (customer.subscription.status, self.chance.below(10_000)) {
            (OnTrial, 0..250) | (Active, 0..14) => self.set(customer, Cancelled).await,
            (Active, 18..30) => self.upgrade(customer).await,
            (Active, 30..35) if is_paid(&customer.plan) => {
                customer.next_at = self.service.now().saturating_add(DAY * 60);
                self.set(customer, Paused).await
            }
            (Cancelled, 0..40) => self.set(customer, Active).await,
            (Active, 35..39) => self.settle(customer, Refunded).await,
            (Active, 39..42) => self.settle(customer, PartiallyRefunded).await,
            (_, 42..80) => {
                self.auth.sign_in(sign_in(&customer.email)?).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Changes to a plan of a higher tier, which starts a new period.
    async fn upgrade(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        let plans: Vec<_> =
            self.plans.iter().filter(|plan| plan.tier > customer.plan.tier).collect();
        let Some(plan) = self.chance.one_of(&plans) else { return Ok(()) };
        customer.plan = Arc::clone(plan);
        let upgraded = SubscriptionChanges {
            subscription_plan_id: Some(plan.id),
            billing_cycle: Some(plan.billing_cycle),
            renews_at: Schedule::new(self.service.now(), plan.billing_cycle).start_of(1).into(),
            ..SubscriptionChanges::default()
        };
        self.change(customer, upgraded).await?;
        self.charge(customer).await
    }

    /// Charges the price of the period that begins. If that fails, it is tried again.
    async fn charge(&mut self, customer: &mut Customer) -> Result<(), Failure> {
        let (status, wanted) = if self.chance.below(100) < 93 {
            (PaymentStatus::Succeeded, SubscriptionStatus::Active)
        } else {
            (PaymentStatus::Failed, SubscriptionStatus::PastDue)
        };
        let external_id = format!("pay_{:012x}", self.chance.below(1 << 48));
        let new = NewPayment {
            external_payment_id: Some(external_id.parse()?),
            status: Some(status),
            ..NewPayment::new(customer.subscription.id, customer.plan.price, "USD".parse()?)
        };
        let payment = self.service.create_payment(new).await?;
        self.payments.insert(payment.id, status);
        (customer.payment, customer.tries) = (Some(payment.id), 0);
        customer.next_at = self.service.now().saturating_add(DAY * 5);
        if customer.subscription.status == wanted {
            Ok(())
        } else {
            self.set(customer, wanted).await
        }
    }

    async fn settle(&mut self, customer: &mut Customer, to: PaymentStatus) -> Result<(), Failure> {
        if let Some(id) = customer.payment.take() {
            self.service.update_payment(id, PaymentChanges::status(to)).await?;
            self.payments.insert(id, to);
        }
        Ok(())
    }

    async fn set(&self, customer: &mut Customer, to: SubscriptionStatus) -> Result<(), Failure> {
        self.change(customer, SubscriptionChanges::status(to)).await
    }

    async fn change(
        &self,
        customer: &mut Customer,
        changes: SubscriptionChanges,
    ) -> Result<(), Failure> {
        let id = customer.subscription.id;
        customer.subscription = self.service.update_subscription(id, changes).await?;
        Ok(())
    }
}

fn is_paid(plan: &Plan) -> bool {
    !plan.price.value().is_zero()
}

fn sign_in(email: &Email) -> Result<SignIn, Failure> {
    Ok(SignIn {
        client_id: "web".parse()?,
        access_token: email.to_string().into(),
        email: email.clone(),
        origin: Origin::default(),
    })
}

/// Random choices that the same seed repeats: the generator `SplitMix64`.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// A number from 0 up to, but without, `end`.
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
