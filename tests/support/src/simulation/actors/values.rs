//! The values that actors put into their requests.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use subscription_core::store::{Direction, Idempotency, PageLimit};
use subscription_core::{
    BillingCycle, ExternalId, Field, Metadata, PaymentId, PlanId, Slug, SubscriptionId, Timestamp,
    UserId, Version,
};
use uuid::Uuid;

use super::Actor;
use crate::simulation::model::{Records, payments, plans, subscriptions};

const CYCLES: [&str; 8] =
    ["daily", "weekly", "monthly", "quarterly", "yearly", "one_time", "P10D", "P18M"];
const SLUGS: u32 = 10;
const EXTERNAL_IDS: u32 = 12;
const USERS: u32 = 5;
const KEYS: u32 = 8;

/// Values for a request, drawn at random.
impl Actor {
    pub fn slug(&mut self) -> Slug {
        text(format!("plan-{}", self.rng.below(SLUGS)))
    }

    pub fn cycle(&mut self) -> BillingCycle {
        self.rng.pick(CYCLES).map_or(BillingCycle::MONTHLY, text)
    }

    pub fn price(&mut self) -> String {
        format!("{}.{}", self.rng.below(3), ["5", "50", "99"][self.rng.below(3)])
    }

    pub fn money(&mut self) -> (&'static str, &'static str) {
        let amount = self.rng.pick(["19.90", "19.9", "5", "1.234", "0", "100"]).unwrap_or("1");
        (amount, self.rng.pick(["USD", "EUR", "JPY", "BHD"]).unwrap_or("USD"))
    }

    pub fn user(&mut self) -> UserId {
        Uuid::from_u128(1 + u128::from(self.rng.below(USERS))).into()
    }

    pub fn external_id(&mut self, percent: u32) -> Option<ExternalId> {
        self.rng.maybe(percent, |rng| text(format!("ext-{}", rng.below(EXTERNAL_IDS))))
    }

    pub fn plan_id(&mut self, records: &Records) -> PlanId {
        let known = self.rng.pick(plans(records).map(|plan| plan.id));
        known.filter(|_| self.rng.percent(95)).unwrap_or_else(|| missing().into())
    }

    pub fn subscription_id(&mut self, records: &Records) -> SubscriptionId {
        let known = self.rng.pick(subscriptions(records).map(|held| held.id));
        known.filter(|_| self.rng.percent(95)).unwrap_or_else(|| missing().into())
    }

    pub fn payment_id(&mut self, records: &Records) -> PaymentId {
        let known = self.rng.pick(payments(records).map(|payment| payment.id));
        known.filter(|_| self.rng.percent(95)).unwrap_or_else(|| missing().into())
    }

    pub fn plan_version(&mut self, records: &Records) -> Option<Version> {
        let version = self.rng.pick(plans(records).map(|plan| plan.version))?;
        self.version(version)
    }

    /// No version, the current version, or the previous version.
    pub fn version(&mut self, current: Version) -> Option<Version> {
        match self.rng.below(10) {
            0 => Some(current.previous()),
            1..3 => Some(current),
            _ => None,
        }
    }

    pub fn once(&mut self) -> Option<Idempotency> {
        let client = self.client.clone();
        self.rng
            .maybe(60, |rng| Idempotency { client, key: text(format!("key-{}", rng.below(KEYS))) })
    }

    pub fn time_field(&mut self, percent: u32, at: Timestamp) -> Field<Timestamp> {
        match self.rng.maybe(percent, |rng| rng.percent(20)) {
            None => Field::Absent,
            Some(true) => Field::Null,
            Some(false) => Field::Value(at),
        }
    }

    /// One or two keys in either order, or none at all.
    pub fn metadata(&mut self, percent: u32) -> Field<Metadata> {
        let pairs = [("source", "shop"), ("campaign", ""), ("source", "phone")];
        let some = self.rng.maybe(percent, |rng| match rng.below(6) {
            0 => vec![pairs[1], pairs[0]],
            1 => vec![pairs[0], pairs[1]],
            2..5 => vec![pairs[rng.below(3)]],
            _ => Vec::new(),
        });
        some.map_or(Field::Absent, |some| Metadata::new(some).expect("actors write well").into())
    }

    /// A moment from a month ago to three months ahead.
    pub fn near(&mut self, now: Timestamp) -> Timestamp {
        let hours = self.rng.below(24 * 120) - 24 * 30;
        Timestamp::from_micros(now.micros() + hours * 3_600_000_000).unwrap_or(now)
    }

    /// A number of seconds: from seconds to months ahead, sometimes a little back.
    pub fn span(&mut self) -> i64 {
        let seconds = self.rng.below(60);
        match self.rng.below(10) {
            0 => -seconds,
            1..5 => seconds,
            5..8 => seconds * 1_800,
            8 => seconds * 86_400 / 4,
            _ => seconds * 86_400,
        }
    }

    pub fn direction(&mut self) -> Direction {
        self.rng.pick([Direction::Ascending, Direction::Descending]).unwrap_or_default()
    }

    pub fn limit(&mut self) -> PageLimit {
        PageLimit::new(1 + self.rng.below(12)).unwrap_or_default()
    }
}

/// An id that no record has.
pub const fn missing() -> Uuid {
    Uuid::from_u128(0xDEAD)
}

/// Parses a value from text.
pub fn text<T: FromStr<Err: Debug>>(text: impl Display) -> T {
    text.to_string().parse().expect("actors write well")
}
