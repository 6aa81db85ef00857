//! Actors that make random requests. Most requests are valid, some are wrong.
//!
//! Values come from small pools, so that actors use the same slugs, external ids, records and keys.

pub mod values;

use subscription_core::store::{
    PaymentQuery, PlanFilter, PlanOrder, PlanQuery, SubscriptionFilter, SubscriptionOrder,
    SubscriptionQuery,
};
use subscription_core::{
    Field, NewPayment, NewPlan, NewSubscription, PaymentChanges, PaymentStatus, PlanChanges,
    Subscription, SubscriptionChanges, SubscriptionStatus, Timestamp,
};

use self::values::{missing, text};
use super::model::{Records, payments, plans, rules, subscriptions};
use super::operation::Operation;
use crate::rng::Rng;

/// With this number of records of a kind, actors delete records instead of creating more.
const CROWD: usize = 25;

/// A caller that makes random requests.
#[derive(Debug)]
pub struct Actor {
    client: String,
    rng: Rng,
    /// The requests with an idempotency key, which the actor may repeat.
    asked: Vec<Operation>,
}

impl Actor {
    pub fn new(client: impl Into<String>, rng: Rng) -> Self {
        Self { client: client.into(), rng, asked: Vec::new() }
    }

    /// The actor's next operation.
    pub fn next(&mut self, records: &Records, now: Timestamp, feed_end: u64) -> Operation {
        if self.rng.percent(8)
            && let Some(again) = self.rng.pick(self.asked.clone())
        {
            return again;
        }
        let operation = match self.rng.below(100) {
            0..8 => self.create_plan(),
            8..16 => self.update_plan(records),
            16..19 => Operation::DeletePlan(self.slug(), self.plan_version(records)),
            19..21 => Operation::ReadPlan(self.slug()),
            21..24 => self.list_plans(),
            24..36 => self.create_subscription(records, now),
            36..52 => self.update_subscription(records, now),
            52..58 => self.cancel_or_resume(records),
            58..61 => self.delete_subscription(records),
            61..63 => Operation::ReadSubscription(self.subscription_id(records)),
            63..67 => self.list_subscriptions(records, now),
            67..74 => self.create_payment(records),
            74..84 => self.update_payment(records),
            84..86 => self.delete_payment(records),
            86..87 => Operation::ReadPayment(self.payment_id(records)),
            87..89 => Operation::ListPayments(self.payments_of(records)),
            89..92 => Operation::LookUpEntitlement(self.user()),
            92..94 => Operation::ForgetExpiredIdempotency,
            94..95 => Operation::ForgetEvents(feed_end),
            _ => Operation::TurnClock(self.span()),
        };
        if operation.key().is_some() {
            self.asked.push(operation.clone());
            let kept = self.asked.len().saturating_sub(6);
            self.asked.drain(..kept);
        }
        operation
    }

    /// An operation of another actor on the same records at the same time.
    pub fn rival(
        &mut self,
        operation: &Operation,
        records: &Records,
        now: Timestamp,
    ) -> Option<Operation> {
        let twin = self.rng.percent(40);
        Some(match operation {
            Operation::CreatePlan(..)
            | Operation::CreateSubscription(..)
            | Operation::CreatePayment(..)
                if twin =>
            {
                operation.clone()
            }
            Operation::CreatePlan(new, _) => Operation::CreatePlan(new.clone(), None),
            Operation::UpdatePlan(slug, ..) if twin => Operation::DeletePlan(slug.clone(), None),
            Operation::UpdatePlan(slug, ..) => {
                Operation::UpdatePlan(slug.clone(), Box::new(self.plan_changes()), None)
            }
            Operation::DeletePlan(slug, _) => {
                let plan = plans(records).find(|plan| plan.slug == *slug)?;
                let new = NewSubscription::new(self.user(), plan.id);
                Operation::CreateSubscription(Box::new(new), None)
            }
            Operation::CreateSubscription(new, _) => {
                let plan = plans(records).find(|plan| plan.id == new.subscription_plan_id)?;
                let closed = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
                Operation::UpdatePlan(plan.slug.clone(), Box::new(closed), None)
            }
            Operation::Cancel(id, _) if twin => Operation::Resume(*id, None),
            Operation::Resume(id, _) if twin => Operation::Cancel(*id, None),
            Operation::UpdateSubscription(id, ..)
            | Operation::Cancel(id, _)
            | Operation::Resume(id, _)
            | Operation::DeleteSubscription(id, _) => {
                if twin && self.rng.percent(30) {
                    return Some(Operation::DeleteSubscription(*id, None));
                }
                let held = subscriptions(records).find(|held| held.id == *id)?.clone();
                let changes = self.subscription_changes(&held, records, now);
                Operation::UpdateSubscription(*id, Box::new(changes), None)
            }
            Operation::CreatePayment(new, _) => {
                Operation::DeleteSubscription(new.subscription_id, None)
            }
            Operation::UpdatePayment(id, ..) if twin => Operation::DeletePayment(*id, None),
            Operation::UpdatePayment(id, ..) | Operation::DeletePayment(id, _) => {
                let paid = PaymentChanges::status(PaymentStatus::Succeeded);
                Operation::UpdatePayment(*id, Box::new(paid), None)
            }
            Operation::ForgetExpiredIdempotency => Operation::ForgetExpiredIdempotency,
            Operation::ReadPlan(_)
            | Operation::ListPlans(_)
            | Operation::ReadSubscription(_)
            | Operation::ListSubscriptions(_)
            | Operation::ReadPayment(_)
            | Operation::ListPayments(_)
            | Operation::LookUpEntitlement(_)
            | Operation::ForgetEvents(_)
            | Operation::TurnClock(_) => return None,
        })
    }
}

/// # Plans
impl Actor {
    fn create_plan(&mut self) -> Operation {
        let name = ["Basic", "Pro", "Team"][self.rng.below(3)];
        let mut new = NewPlan::new(
            name.parse().expect("a name"),
            self.slug(),
            self.price().parse().expect("a price"),
            self.cycle(),
        );
        new.tier = text(self.rng.below(4));
        new.node_quota = text(self.rng.below(100));
        new.most_popular = self.rng.percent(20);
        new.features = text(["", "api", "api, sso", "sso,, audit log"][self.rng.below(4)]);
        new.metadata = self.metadata(30).or(None);
        Operation::CreatePlan(Box::new(new), self.once())
    }

    fn update_plan(&mut self, records: &Records) -> Operation {
        let changes = Box::new(self.plan_changes());
        Operation::UpdatePlan(self.slug(), changes, self.plan_version(records))
    }

    fn plan_changes(&mut self) -> PlanChanges {
        let price = self.price();
        let cycle = self.cycle();
        PlanChanges {
            price: self.rng.maybe(30, |_| price.parse().expect("a price")),
            billing_cycle: self.rng.maybe(20, |_| cycle),
            description: self.rng.maybe(20, |rng| text(format!("edition {}", rng.below(3)))),
            node_quota: self.rng.maybe(20, |rng| text(rng.below(100))),
            features: self.rng.maybe(20, |rng| text(if rng.percent(50) { "api" } else { "sso" })),
            most_popular: self.rng.maybe(20, |rng| rng.percent(50)),
            tier: self.rng.maybe(20, |rng| text(rng.below(4))),
            is_active: self.rng.maybe(30, |rng| rng.percent(70)),
            metadata: self.metadata(20),
            ..PlanChanges::default()
        }
    }

    fn list_plans(&mut self) -> Operation {
        let cycle = self.cycle();
        Operation::ListPlans(Box::new(
            PlanQuery::default()
                .with_filter(
                    PlanFilter::default()
                        .with_is_active(self.rng.maybe(30, |rng| rng.percent(50)))
                        .with_billing_cycle(self.rng.maybe(15, |_| cycle))
                        .with_tier(self.rng.maybe(20, |rng| text(rng.below(4))))
                        .with_most_popular(self.rng.maybe(20, |rng| rng.percent(50))),
                )
                .with_order(self.rng.pick(PlanOrder::ALL).unwrap_or_default())
                .with_direction(self.direction())
                .with_limit(self.limit()),
        ))
    }
}

/// # Subscriptions
impl Actor {
    fn create_subscription(&mut self, records: &Records, now: Timestamp) -> Operation {
        if subscriptions(records).count() >= CROWD {
            return self.delete_subscription(records);
        }
        let mut new = NewSubscription::new(self.user(), self.plan_id(records));
        let (start, renewal, end) = (self.near(now), self.near(now), self.near(now));
        let cycle = self.cycle();
        new.external_subscription_id = self.external_id(30);
        new.billing_cycle = self.rng.maybe(20, |_| cycle);
        new.status = self.rng.maybe(40, |rng| rng.pick(SubscriptionStatus::all())).flatten();
        new.is_active = self.rng.maybe(10, |rng| rng.percent(50));
        new.renews_at = match self.rng.below(10) {
            0 => Field::Null,
            1 => Field::Value(renewal),
            _ => Field::Absent,
        };
        new.starts_at = self.rng.maybe(30, |_| start);
        new.ends_at = self.rng.maybe(10, |_| end);
        new.metadata = self.metadata(20).or(None);
        Operation::CreateSubscription(Box::new(new), self.once())
    }

    fn update_subscription(&mut self, records: &Records, now: Timestamp) -> Operation {
        let Some(held) = self.rng.pick(subscriptions(records)).cloned() else {
            let changes = SubscriptionChanges::status(SubscriptionStatus::Active);
            return Operation::UpdateSubscription(missing().into(), Box::new(changes), None);
        };
        let changes = self.subscription_changes(&held, records, now);
        let version = self.version(held.version);
        Operation::UpdateSubscription(held.id, Box::new(changes), version)
    }

    fn subscription_changes(
        &mut self,
        held: &Subscription,
        records: &Records,
        now: Timestamp,
    ) -> SubscriptionChanges {
        let (user, plan, cycle) = (self.user(), self.plan_id(records), self.cycle());
        let allowed = rules::moves(rules::SUBSCRIPTION_MOVES, held.status.as_str());
        let status = if self.rng.percent(75) {
            self.rng.pick(allowed.iter().map(|status| status.parse().expect("a status")))
        } else {
            self.rng.pick(SubscriptionStatus::all())
        };
        let anchor = rules::anchor(held);
        let on_grid = rules::period_start(anchor, held.billing_cycle, self.rng.below(30));
        let renewal = on_grid.filter(|_| self.rng.percent(60)).unwrap_or_else(|| self.near(now));
        let (start, end) = (self.near(now), self.near(now));
        SubscriptionChanges {
            user_id: self.rng.maybe(5, |_| user),
            subscription_plan_id: self.rng.maybe(10, |_| plan),
            external_subscription_id: match self.external_id(12) {
                Some(id) => Field::Value(id),
                None if self.rng.percent(5) => Field::Null,
                None => Field::Absent,
            },
            billing_cycle: self.rng.maybe(8, |_| cycle),
            status: status.filter(|_| self.rng.percent(55)),
            is_active: self.rng.maybe(15, |rng| rng.percent(50)),
            renews_at: self.time_field(25, renewal),
            starts_at: self.rng.maybe(6, |_| start),
            ends_at: self.time_field(12, end),
            metadata: self.metadata(15),
            ..SubscriptionChanges::default()
        }
    }

    /// Cancels or resumes a subscription: by any caller, by the user who owns it, or by a user who may not own it.
    fn cancel_or_resume(&mut self, records: &Records) -> Operation {
        let id = self.subscription_id(records);
        let held = subscriptions(records).find(|held| held.id == id);
        let owner = held.filter(|_| self.rng.percent(70)).map(|held| held.user_id);
        let user = owner.unwrap_or_else(|| self.user());
        let user = self.rng.maybe(60, |_| user);
        if self.rng.percent(50) { Operation::Cancel(id, user) } else { Operation::Resume(id, user) }
    }

    fn delete_subscription(&mut self, records: &Records) -> Operation {
        match self.rng.pick(subscriptions(records)) {
            Some(held) => Operation::DeleteSubscription(held.id, self.version(held.version)),
            None => Operation::DeleteSubscription(missing().into(), None),
        }
    }

    fn list_subscriptions(&mut self, records: &Records, now: Timestamp) -> Operation {
        let (user, plan) = (self.user(), self.plan_id(records));
        let (before, after) = (self.near(now), self.near(now));
        let statuses = self.rng.below(3);
        let statuses = (0..statuses).filter_map(|_| self.rng.pick(SubscriptionStatus::all()));
        Operation::ListSubscriptions(Box::new(
            SubscriptionQuery::default()
                .with_filter(
                    SubscriptionFilter::default()
                        .with_statuses(statuses.collect::<Vec<_>>())
                        .with_user_id(self.rng.maybe(30, |_| user))
                        .with_subscription_plan_id(self.rng.maybe(15, |_| plan))
                        .with_is_active(self.rng.maybe(30, |rng| rng.percent(50)))
                        .with_external_subscription_id(self.external_id(8))
                        .with_renews_before(self.rng.maybe(15, |_| before))
                        .with_renews_after(self.rng.maybe(15, |_| after)),
                )
                .with_order(self.rng.pick(SubscriptionOrder::ALL).unwrap_or_default())
                .with_direction(self.direction())
                .with_limit(self.limit()),
        ))
    }
}

/// # Payments
impl Actor {
    fn create_payment(&mut self, records: &Records) -> Operation {
        if payments(records).count() >= CROWD {
            return self.delete_payment(records);
        }
        let (amount, currency) = self.money();
        let mut new = NewPayment::new(self.subscription_id(records), text(amount), text(currency));
        new.external_payment_id = self.external_id(40);
        new.status = self.rng.maybe(30, |rng| rng.pick(PaymentStatus::all())).flatten();
        new.metadata = self.metadata(30).or(None);
        Operation::CreatePayment(Box::new(new), self.once())
    }

    fn update_payment(&mut self, records: &Records) -> Operation {
        let Some(payment) = self.rng.pick(payments(records)) else {
            let changes = PaymentChanges::status(PaymentStatus::Failed);
            return Operation::UpdatePayment(missing().into(), Box::new(changes), None);
        };
        let allowed = rules::moves(rules::PAYMENT_MOVES, payment.status.as_str());
        let status = if self.rng.percent(75) {
            self.rng.pick(allowed.iter().map(|status| status.parse().expect("a status")))
        } else {
            self.rng.pick(PaymentStatus::all())
        };
        let (amount, currency) = self.money();
        let subscription = self.subscription_id(records);
        let changes = PaymentChanges {
            subscription_id: self.rng.maybe(8, |_| subscription),
            amount: self.rng.maybe(15, |_| text(amount)),
            currency: self.rng.maybe(10, |_| text(currency)),
            external_payment_id: self.external_id(15).map_or(Field::Absent, Field::Value),
            status: status.filter(|_| self.rng.percent(70)),
            metadata: self.metadata(20),
            ..PaymentChanges::default()
        };
        Operation::UpdatePayment(payment.id, Box::new(changes), self.version(payment.version))
    }

    fn delete_payment(&mut self, records: &Records) -> Operation {
        match self.rng.pick(payments(records)) {
            Some(payment) => Operation::DeletePayment(payment.id, self.version(payment.version)),
            None => Operation::DeletePayment(missing().into(), None),
        }
    }

    fn payments_of(&mut self, records: &Records) -> PaymentQuery {
        let (direction, limit) = (self.direction(), self.limit());
        // The list may also be that of a deleted subscription.
        let paid = self.rng.pick(payments(records).map(|payment| payment.subscription_id));
        let id = paid.unwrap_or_else(|| self.subscription_id(records));
        PaymentQuery::of(id).with_direction(direction).with_limit(limit)
    }
}
