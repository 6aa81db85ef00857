//! The random changes of the records that events are about.

use std::sync::Arc;

use subscription_core::accounts::{IdentityKey, User};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, Record};
use subscription_core::{
    BillingCycle, EventId, NewPayment, NewPlan, NewSubscription, PaymentChanges, PaymentId,
    PaymentStatus, PlanChanges, Randomness, Slug, Store, SubscriptionChanges, SubscriptionId,
    SubscriptionService, UserId, Version,
};

use crate::rng::Rng;

/// Texts that no delivery may contain.
pub(super) const HIDDEN: [&str; 5] =
    ["people.example", "client:shop", "person-", "issuer.example", "\"actor\""];

/// The records so far.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) service: SubscriptionService,
    store: Arc<dyn Store>,
    plans: Vec<Slug>,
    subscriptions: Vec<SubscriptionId>,
    payments: Vec<PaymentId>,
    users: u64,
    made: usize,
}

impl Life {
    pub(super) fn new(service: &SubscriptionService, store: Arc<dyn Store>) -> Self {
        let service = service.by(Actor::Client("shop".parse().unwrap()));
        let (plans, subscriptions, payments) = (Vec::new(), Vec::new(), Vec::new());
        Self { service, store, plans, subscriptions, payments, users: 0, made: 0 }
    }

    /// Makes one random change. Does nothing if the records do not allow the change.
    pub(super) async fn step(&mut self, rng: &Rng) {
        let service = self.service.clone();
        match rng.below(100) {
            0..15 => self.plan().await,
            15..40 => {
                let Some(slug) = rng.pick(self.plans.clone()) else { return };
                let tier = rng.below(1_000_u64).to_string().parse().ok();
                let changes = PlanChanges { tier, ..PlanChanges::default() };
                service.update_plan(&slug, changes).await.ok();
            }
            40..44 => {
                let Some(slug) = rng.pick(self.plans.clone()) else { return };
                service.delete_plan(&slug).await.ok();
            }
            44..56 => {
                let Some(slug) = rng.pick(self.plans.clone()) else { return };
                let Ok(plan) = service.plan(&slug).await else { return };
                let user = UserId::new(service.now(), service.randomness()).unwrap();
                let new = NewSubscription::new(user, plan.id);
                if let Ok(made) = service.create_subscription(new).await {
                    self.subscriptions.push(made.id);
                }
            }
            56..72 => {
                let Some(id) = rng.pick(self.subscriptions.clone()) else { return };
                let is_active = Some(rng.percent(50));
                let changes = SubscriptionChanges { is_active, ..SubscriptionChanges::default() };
                service.update_subscription(id, changes).await.ok();
                if rng.percent(20) {
                    service.cancel(id).await.ok();
                }
            }
            72..82 => {
                let Some(id) = rng.pick(self.subscriptions.clone()) else { return };
                let new = NewPayment::new(id, "19.90".parse().unwrap(), "USD".parse().unwrap());
                if let Ok(made) = service.create_payment(new).await {
                    self.payments.push(made.id);
                }
            }
            82..92 => {
                let Some(id) = rng.pick(self.payments.clone()) else { return };
                let status = rng.pick(PaymentStatus::all());
                let changes = PaymentChanges { status, ..PaymentChanges::default() };
                service.update_payment(id, changes).await.ok();
            }
            92..95 => {
                let Some(id) = rng.pick(self.payments.clone()) else { return };
                service.delete_payment(id).await.ok();
            }
            _ => self.user(service.randomness()).await,
        }
    }

    /// Creates a plan.
    pub(super) async fn plan(&mut self) {
        self.made += 1;
        let slug: Slug = format!("plan-{}", self.made).parse().unwrap();
        let (name, price) = ("Plan".parse().unwrap(), "19.99".parse().unwrap());
        let new = NewPlan::new(name, slug.clone(), price, BillingCycle::MONTHLY);
        self.service.create_plan(new).await.unwrap();
        self.plans.push(slug);
    }

    /// Creates a user, as a sign-in would.
    async fn user(&mut self, randomness: &dyn Randomness) {
        self.users += 1;
        let now = self.service.now();
        let id = UserId::new(now, randomness).unwrap();
        let issuer = "https://issuer.example".parse().unwrap();
        let subject = format!("person-{}", self.users).parse().unwrap();
        let user = User {
            id,
            identity: IdentityKey { issuer, subject },
            email: format!("{}@people.example", self.users).parse().unwrap(),
            closing: false,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        };
        let event = Event {
            id: EventId::new(now, randomness).unwrap(),
            at: now,
            subject: Subject::User(id),
            version: Version::FIRST,
            change: Change::Created,
            actor: Actor::Client("shop".parse().unwrap()),
        };
        let (writes, events) = (vec![Record::from(user)], vec![event]);
        self.store.commit(ChangeSet { writes, events, ..ChangeSet::default() }).await.unwrap();
    }
}
