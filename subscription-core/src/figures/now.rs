//! What is true now: subscriptions by status, recurring revenue by currency and by plan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::months::{Total, monthly};
use crate::payments::Currency;
use crate::plans::Plan;
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, UserId};
use crate::values::text::{Name, Slug};

/// The largest number of plans in [`Now::plans`].
pub const PLANS_MAX: usize = 200;

/// The figures of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct Now {
    pub as_of: Timestamp,
    pub subscriptions: BTreeMap<SubscriptionStatus, u64>,
    pub with_access: u64,
    pub blocked: u64,
    pub paying_users: u64,
    pub money: Vec<MoneyNow>,
    pub plans: Vec<PlanNow>,
}

/// The recurring revenue in one currency, for a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct MoneyNow {
    pub currency: Option<Currency>,
    pub mrr: Total,
    pub at_risk: Total,
    pub committed: Total,
    pub trial: Total,
}

/// A plan and its counting subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct PlanNow {
    pub id: PlanId,
    pub slug: Slug,
    pub name: Name,
    pub subscriptions: u64,
    pub money: Vec<PlanMoney>,
}

/// The recurring revenue of a plan in one currency, for a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct PlanMoney {
    pub currency: Option<Currency>,
    pub mrr: Total,
}

/// A value for each currency. There are few, so that a list is searched.
#[derive(Debug, Clone)]
pub(super) struct ByCurrency<T>(Vec<(Option<Currency>, T)>);

impl<T> Default for ByCurrency<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> ByCurrency<T> {
    /// Changes the value of a currency.
    pub(super) fn change(&mut self, currency: Option<Currency>, change: impl FnOnce(&mut T)) {
        if let Some((_, value)) = self.0.iter_mut().find(|(known, _)| *known == currency) {
            return change(value);
        }
        let mut value = T::default();
        change(&mut value);
        self.0.push((currency, value));
    }

    /// The values by the codes of their currencies; that of no currency comes last.
    pub(super) fn sorted(mut self) -> impl Iterator<Item = (Option<Currency>, T)> {
        self.0.sort_by_key(|(currency, _)| (currency.is_none(), currency.map(Currency::code)));
        self.0.into_iter()
    }
}

/// Adds subscriptions up.
#[derive(Debug)]
pub(super) struct NowFold {
    now: Now,
    plans: HashMap<PlanId, (Arc<Plan>, u64, ByCurrency<i128>)>,
    users: HashSet<UserId>,
    money: ByCurrency<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    mrr: i128,
    at_risk: i128,
    committed: i128,
    trial: i128,
}

impl NowFold {
    pub(super) fn new(as_of: Timestamp) -> Self {
        let subscriptions = SubscriptionStatus::all().map(|status| (status, 0)).collect();
        let (with_access, blocked, paying_users) = (0, 0, 0);
        let (money, plans) = (Vec::new(), Vec::new());
        let now = Now { as_of, subscriptions, with_access, blocked, paying_users, money, plans };
        Self { now, plans: HashMap::new(), users: HashSet::new(), money: ByCurrency::default() }
    }

    pub(super) fn plan(&mut self, plan: &Arc<Plan>) {
        self.plans.insert(plan.id, (Arc::clone(plan), 0, ByCurrency::default()));
    }

    /// Adds a subscription, whose plan was added before.
    pub(super) fn subscription(&mut self, held: &Subscription) {
        use SubscriptionStatus::{Active, Cancelled, OnTrial, PastDue};
        let as_of = self.now.as_of;
        *self.now.subscriptions.entry(held.status).or_default() += 1;
        self.now.with_access += u64::from(held.is_active_at(as_of));
        self.now.blocked += u64::from(held.blocked);
        let runs = held.starts_at <= as_of && held.ends_at.is_none_or(|end| end > as_of);
        let counts = runs && matches!(held.status, Active | PastDue | Cancelled);
        let on_trial = held.status == OnTrial && held.ends_at.is_none();
        let plan = self.plans.get_mut(&held.subscription_plan_id);
        let price = held.price().or(plan.as_ref().map(|(plan, ..)| plan.price));
        let of_plan = plan.as_ref().and_then(|(plan, ..)| plan.currency);
        let currency = held.currency().or(of_plan);
        let month = price.map(|price| monthly(price, held.quantity, held.billing_cycle));
        let month = month.unwrap_or_default().millionths();
        if on_trial {
            self.money.change(currency, |parts| parts.trial += month);
        }
        if !counts {
            return;
        }
        self.money.change(currency, |parts| {
            parts.mrr += month;
            parts.at_risk += if held.status == PastDue { month } else { 0 };
            parts.committed += if held.ends_at.is_none() { month } else { 0 };
        });
        if let Some((_, subscriptions, mrr)) = plan {
            *subscriptions += 1;
            mrr.change(currency, |mrr| *mrr += month);
        }
        if month > 0 {
            self.users.insert(held.user_id);
        }
    }

    pub(super) fn finish(self) -> Now {
        let mut plans: Vec<_> = self.plans.into_values().collect();
        plans.sort_by_key(|(plan, subscriptions, _)| (Reverse(*subscriptions), plan.id));
        let shown = plans.into_iter().take(PLANS_MAX).map(|(plan, subscriptions, money)| PlanNow {
            id: plan.id,
            slug: plan.slug.clone(),
            name: plan.name.clone(),
            subscriptions,
            money: money
                .sorted()
                .map(|(currency, mrr)| PlanMoney { currency, mrr: Total::new(mrr, currency) })
                .collect(),
        });
        let money = self.money.sorted().map(|(currency, parts)| MoneyNow {
            currency,
            mrr: Total::new(parts.mrr, currency),
            at_risk: Total::new(parts.at_risk, currency),
            committed: Total::new(parts.committed, currency),
            trial: Total::new(parts.trial, currency),
        });
        Now {
            paying_users: self.users.len() as u64,
            money: money.collect(),
            plans: shown.collect(),
            ..self.now
        }
    }
}
