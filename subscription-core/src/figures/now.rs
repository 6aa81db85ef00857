//! The figures of now: subscriptions by status, recurring revenue by currency and by plan.

#![expect(missing_docs, reason = "defined in the guide")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::months::{Total, monthly};
use crate::payments::Currency;
use crate::plans::Plan;
use crate::subscriptions::{Quantity, Subscription, SubscriptionStatus};
use crate::values::{Amount, Name, PlanId, Slug, Timestamp, UserId};

/// The largest number of plans in [`Now::plans`].
pub const PLANS_MAX: usize = 200;

/// The figures of one moment. `docs/figures.md` defines each number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Now {
    pub as_of: Timestamp,
    pub subscriptions: BTreeMap<SubscriptionStatus, u64>,
    pub with_access: u64,
    pub blocked: u64,
    pub paying_users: u64,
    pub money: Vec<MoneyNow>,
    pub plans: Vec<PlanNow>,
}

/// The monthly recurring revenue in one currency, or of subscriptions without a currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoneyNow {
    pub currency: Option<Currency>,
    pub mrr: Total,
    pub at_risk: Total,
    pub committed: Total,
    pub trial: Total,
}

/// A plan, and the number and the revenue of its subscriptions that count: active, past due or cancelled, begun and not
/// ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanNow {
    pub id: PlanId,
    pub slug: Slug,
    pub name: Name,
    pub subscriptions: u64,
    pub money: Vec<PlanMoney>,
}

/// The monthly recurring revenue of a plan in one currency, or of its subscriptions without a currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanMoney {
    pub currency: Option<Currency>,
    pub mrr: Total,
}

/// Changes the item of a short list for which `is` is true. If there is none, adds a new item at the end and changes
/// it.
pub(super) fn change<T>(
    list: &mut Vec<T>,
    is: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
    change: impl FnOnce(&mut T),
) {
    if !list.iter().any(&is) {
        list.reserve_exact(1);
        list.push(new());
    }
    if let Some(item) = list.iter_mut().find(|item| is(item)) {
        change(item);
    }
}

/// The price of a whole period less the discount. `None` if the running period has no discount. For a subscription on
/// trial, the first period after the trial counts instead of the running period.
fn reduced(
    held: &Subscription,
    price: Amount,
    currency: Option<Currency>,
    is_trial: bool,
) -> Option<Amount> {
    let discount = held.discount().filter(|it| it.applied || is_trial)?;
    let gross = price.times(held.quantity.get())?;
    let value = gross.value().checked_sub(discount.off.of(gross, currency?).value())?;
    value.try_into().ok()
}

/// The sort key of a currency: by code; no currency comes last.
fn order(currency: Option<Currency>) -> (bool, Option<&'static str>) {
    (currency.is_none(), currency.map(Currency::code))
}

/// Adds up the present figures: first the plans are added, then the subscriptions.
#[derive(Debug)]
pub(super) struct NowFold {
    now: Now,
    plans: HashMap<PlanId, (Amount, Option<Currency>, PlanNow)>,
    users: HashSet<UserId>,
}

impl NowFold {
    pub(super) fn new(as_of: Timestamp) -> Self {
        let now = Now {
            as_of,
            subscriptions: SubscriptionStatus::all().map(|status| (status, 0)).collect(),
            with_access: 0,
            blocked: 0,
            paying_users: 0,
            money: Vec::new(),
            plans: Vec::new(),
        };
        Self { now, plans: HashMap::new(), users: HashSet::new() }
    }

    pub(super) fn plan(&mut self, plan: &Plan) {
        let shown = PlanNow {
            id: plan.id,
            slug: plan.slug.clone(),
            name: plan.name.clone(),
            subscriptions: 0,
            money: Vec::new(),
        };
        self.plans.insert(plan.id, (plan.price, plan.currency, shown));
    }

    pub(super) fn subscription(&mut self, held: &Subscription) {
        use SubscriptionStatus::{Active, Cancelled, OnTrial, PastDue};
        let now = &mut self.now;
        *now.subscriptions.entry(held.status).or_default() += 1;
        now.with_access += u64::from(held.is_active_at(now.as_of));
        now.blocked += u64::from(held.blocked);
        let runs = held.starts_at <= now.as_of && held.ends_at.is_none_or(|end| end > now.as_of);
        let counts = runs && matches!(held.status, Active | PastDue | Cancelled);
        let is_trial = held.status == OnTrial && held.ends_at.is_none();
        if !counts && !is_trial {
            return;
        }
        let plan = self.plans.get_mut(&held.subscription_plan_id);
        let price = held.price().or(plan.as_ref().map(|plan| plan.0)).unwrap_or_default();
        let currency = held.currency().or(plan.as_ref().and_then(|plan| plan.1));
        let reduced = reduced(held, price, currency, is_trial);
        let month = match reduced {
            Some(value) => monthly(value, Quantity::ONE, held.billing_cycle),
            None => monthly(price, held.quantity, held.billing_cycle),
        }
        .millionths();
        let zero = Total::new(0, currency);
        let new = || MoneyNow { currency, mrr: zero, at_risk: zero, committed: zero, trial: zero };
        change(
            &mut now.money,
            |money| money.currency == currency,
            new,
            |money| {
                let parts = [
                    (&mut money.mrr, counts),
                    (&mut money.at_risk, counts && held.status == PastDue),
                    (&mut money.committed, counts && held.ends_at.is_none()),
                    (&mut money.trial, is_trial),
                ];
                parts.into_iter().filter(|(_, has)| *has).for_each(|(part, _)| part.add(month));
            },
        );
        if let Some((_, _, plan)) = plan.filter(|_| counts) {
            plan.subscriptions += 1;
            let new = || PlanMoney { currency, mrr: zero };
            let is = |money: &PlanMoney| money.currency == currency;
            change(&mut plan.money, is, new, |money| money.mrr.add(month));
        }
        if counts && month > 0 {
            self.users.insert(held.user_id);
        }
    }

    pub(super) fn finish(self) -> Now {
        let mut now = Now { paying_users: self.users.len() as u64, ..self.now };
        now.money.sort_by_key(|money| order(money.currency));
        now.plans = self.plans.into_values().map(|(_, _, plan)| plan).collect();
        now.plans.sort_by_key(|plan| (Reverse(plan.subscriptions), plan.id));
        now.plans.truncate(PLANS_MAX);
        for plan in &mut now.plans {
            plan.money.sort_by_key(|money| order(money.currency));
        }
        now
    }
}
