//! Races between a change of plan and any other operation, over one store that one or several instances use.
//!
//! Two operations at the same time must have the same result as one of their two orders: the same payments, credit,
//! plan and schedule.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use subscription_core::billing::Billing;
use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{
    Action, BillingCycle, Clock as _, Discount, Effective, Error, ManualClock, NewDiscount,
    NewSubscription, Payment, PaymentChanges, PaymentId, PaymentKind, PaymentStatus, Plan,
    PlanChange, PlanChanges, Quantity, Store, Subscription, SubscriptionId,
};
use tokio::task::JoinSet;

use super::amounts::{amount, percent};
use super::races::{Instances, SUBSCRIPTIONS, billing, monthly};

/// An operation on a subscription.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// The clock executes all due steps.
    Advance,
    /// A change to the plan for 20.
    Upgrade,
    /// A change to the plan for 5.
    Downgrade,
    /// A change to three units.
    ThreeUnits,
    /// A change to the plan for 20, paid for each year.
    Yearly,
    /// A change to the plan for 20 with the next period.
    UpgradeLater,
    /// A change to the plan for 5 with the next period.
    DowngradeLater,
    Act(Action),
    Report(PaymentStatus),
    /// The price of the plan for 20 changes to 30.
    EditPlan,
    /// A discount of 50 % for two periods is given.
    GiveDiscount,
    /// A discount of 1 for ever is given.
    GiveAmount,
    RemoveDiscount,
    /// The user changes to the plan for 20, by a quote of before the race.
    UserUpgrade,
    /// The payment for such a change, which was made before the race, is reported with this status.
    UserPays(PaymentStatus),
}

/// The races: two operations, and the credit of the subscriptions before them.
const RACES: [(Operation, Operation, &str); 32] = {
    use Operation::{
        Act, Advance, Downgrade, DowngradeLater, EditPlan, GiveAmount, GiveDiscount,
        RemoveDiscount, Report, ThreeUnits, Upgrade, UpgradeLater, UserPays, UserUpgrade, Yearly,
    };
    [
        (Upgrade, Advance, "0"),
        (Upgrade, Advance, "100"),
        (UpgradeLater, Advance, "0"),
        (Downgrade, Advance, "0"),
        (Upgrade, Act(Action::Cancel(Some(Effective::Now))), "0"),
        (Upgrade, Act(Action::Cancel(Some(Effective::PeriodEnd))), "0"),
        (Upgrade, ThreeUnits, "0"),
        (Downgrade, Upgrade, "0"),
        (Yearly, Downgrade, "0"),
        (UpgradeLater, DowngradeLater, "0"),
        (UpgradeLater, Upgrade, "0"),
        (UpgradeLater, Act(Action::Pause { effective: None, resumes_at: None }), "0"),
        (Upgrade, Report(PaymentStatus::Failed), "0"),
        (Upgrade, Report(PaymentStatus::Refunded), "0"),
        (Upgrade, EditPlan, "0"),
        (GiveDiscount, Advance, "0"),
        (GiveDiscount, Advance, "100"),
        (GiveDiscount, Upgrade, "0"),
        (GiveDiscount, UpgradeLater, "0"),
        (GiveDiscount, ThreeUnits, "0"),
        (GiveDiscount, GiveAmount, "0"),
        (GiveDiscount, RemoveDiscount, "0"),
        (UserUpgrade, Advance, "0"),
        (UserUpgrade, Upgrade, "0"),
        (UserUpgrade, Act(Action::Cancel(Some(Effective::Now))), "0"),
        (UserUpgrade, Act(Action::Cancel(Some(Effective::PeriodEnd))), "0"),
        (UserUpgrade, Report(PaymentStatus::Refunded), "0"),
        (UserPays(PaymentStatus::Succeeded), Advance, "0"),
        (UserPays(PaymentStatus::Failed), Advance, "0"),
        (UserPays(PaymentStatus::Succeeded), Act(Action::Unschedule), "0"),
        (UserPays(PaymentStatus::Succeeded), Act(Action::Cancel(Some(Effective::Now))), "0"),
        (UserPays(PaymentStatus::Succeeded), Report(PaymentStatus::Refunded), "0"),
    ]
};

/// Runs every race `rounds` times.
pub async fn all(stores: Vec<Arc<dyn Store>>, rounds: usize) {
    for round in 0..rounds {
        for (nth, (one, other, credit)) in RACES.into_iter().enumerate() {
            race(&stores, &format!("plan-race-{round}-{nth}"), one, other, credit).await;
        }
    }
}

/// A subscription at the end of a race, with the payments that were requested for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    status: String,
    plan: usize,
    quantity: Quantity,
    cycle: BillingCycle,
    renews_at: String,
    credit: String,
    discount: Option<Discount>,
    scheduled: Option<usize>,
    pauses: bool,
    /// Kind, start, amount and status.
    payments: Vec<(String, String, String, String)>,
}

/// Runs both operations one after the other in both orders, and at the same time on other subscriptions. Each of these
/// must end as one of the orders does.
async fn race(
    stores: &[Arc<dyn Store>],
    name: &str,
    one: Operation,
    other: Operation,
    credit: &str,
) {
    let mut orders = Vec::new();
    for (nth, order) in [[one, other], [other, one]].into_iter().enumerate() {
        let world = World::over(stores, &format!("{name}-order-{nth}"), credit, 1).await;
        world.wait_for(one).await;
        for operation in order {
            world.run(0, 0, operation).await;
        }
        orders.push(world.ends().await.swap_remove(0));
    }

    let world = Arc::new(World::over(stores, name, credit, SUBSCRIPTIONS).await);
    world.wait_for(one).await;
    let mut tasks = JoinSet::new();
    for nth in 0..SUBSCRIPTIONS {
        for (instance, operation) in [(nth, one), (nth + 1, other)] {
            let world = Arc::clone(&world);
            tasks.spawn(async move { world.run(instance, nth, operation).await });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }

    for end in world.ends().await {
        assert!(orders.contains(&end), "{one:?}, {other:?}: {end:#?} is none of {orders:#?}");
    }
}

/// Subscriptions to the plan for 10. For the `late` instances, half of the first period has passed. For the
/// `instances`, which advance, the first period is over.
struct World {
    instances: Instances,
    /// Instances whose clock is late: for them the first period is not over.
    late: Vec<Billing>,
    /// The plans for 10, 20 and 5.
    plans: [Arc<Plan>; 3],
    subscriptions: Vec<(SubscriptionId, Option<PaymentId>)>,
    /// The changes to the plan for 20 to which the users have agreed.
    agreed: Vec<PlanChange>,
}

impl World {
    async fn over(stores: &[Arc<dyn Store>], name: &str, credit: &str, count: usize) -> Self {
        let instances = Instances::named(stores, name).await;
        let first = &instances.billings[0];
        let upper = monthly(first, &format!("{name}-20"), "20").await;
        let lower = monthly(first, &format!("{name}-5"), "5").await;
        let plans = [Arc::clone(&instances.plan), upper, lower];
        let mut subscriptions = Vec::new();
        for _ in 0..count {
            let mut new = NewSubscription::new(instances.user(), instances.plan.id);
            new.credit = Some(credit.parse().unwrap());
            let made = first.service().create_subscription(new).await.unwrap();
            let payment = instances.payments(&made).await.first().map(|payment| payment.id);
            if let Some(id) = payment {
                let paid = PaymentChanges::status(PaymentStatus::Succeeded);
                first.service().update_payment(id, paid).await.unwrap();
            }
            subscriptions.push((made.id, payment));
        }
        let late = ManualClock::at(instances.clock.now());
        late.advance(Duration::from_hours(14 * 24));
        let late = stores.iter().map(|store| billing(store, &late)).collect();
        instances.clock.advance(Duration::from_hours(28 * 24 + 1));
        let mut world = Self { instances, late, plans, subscriptions, agreed: Vec::new() };
        for (id, _) in &world.subscriptions {
            let billing = &world.late[0];
            let mut change = PlanChange::to_plan(world.plans[1].id);
            change.user_id = Some(billing.service().subscription(*id).await.unwrap().user_id);
            let quote = billing.preview_plan_change(*id, &change).await.unwrap();
            world.agreed.push(change.as_quoted(&quote));
        }
        world
    }

    /// Makes the change whose payment is reported in a race.
    async fn wait_for(&self, operation: Operation) {
        if matches!(operation, Operation::UserPays(_)) {
            for nth in 0..self.subscriptions.len() {
                self.run(0, nth, Operation::UserUpgrade).await;
            }
        }
    }

    /// Runs an operation at an instance. A refusal is accepted: it is the result of the order in which the other
    /// operation comes first.
    async fn run(&self, instance: usize, nth: usize, operation: Operation) {
        let billing = &self.late[instance % self.late.len()];
        let (id, payment) = self.subscriptions[nth];
        let [_, upper, lower] = &self.plans;
        let (upgrade, downgrade) = (PlanChange::to_plan(upper.id), PlanChange::to_plan(lower.id));
        let change = match operation {
            Operation::Advance => {
                let clock = self.instances.billing(instance);
                while clock.advance(7).await.unwrap().more {}
                return;
            }
            Operation::GiveDiscount => return give(billing, id, percent("50", Some(2))).await,
            Operation::GiveAmount => return give(billing, id, amount("1", None)).await,
            Operation::UserUpgrade => self.agreed[nth].clone(),
            Operation::UserPays(status) => {
                let held = billing.service().subscription(id).await.unwrap();
                let payments = self.instances.payments(&held).await;
                let its = |it: &&Arc<Payment>| it.kind() == Some(PaymentKind::Proration);
                let payment = payments.iter().find(its).unwrap().id;
                let report = PaymentChanges::status(status);
                return allow(billing.service().update_payment(payment, report).await);
            }
            Operation::Act(Action::Unschedule) | Operation::RemoveDiscount => {
                let asked =
                    if let Operation::Act(action) = operation { Some(action) } else { None };
                let action = asked.unwrap_or(Action::RemoveDiscount);
                let removed = billing.service().act(id, action).await;
                // There may be no discount yet, and no change any more.
                if !matches!(removed, Err(Error::NotFound { .. })) {
                    allow(removed);
                }
                return;
            }
            Operation::Act(action) => return allow(billing.service().act(id, action).await),
            Operation::Report(status) => {
                let report = PaymentChanges::status(status);
                let payment = payment.unwrap();
                return allow(billing.service().update_payment(payment, report).await);
            }
            Operation::EditPlan => {
                let price = Some("30".parse().unwrap());
                let changes = PlanChanges { price, ..PlanChanges::default() };
                return allow(billing.service().update_plan(&upper.slug, changes).await);
            }
            Operation::Upgrade => upgrade,
            Operation::UpgradeLater => upgrade.at_period_end(),
            Operation::Yearly => upgrade.with_billing_cycle(BillingCycle::YEARLY),
            Operation::Downgrade => downgrade,
            Operation::DowngradeLater => downgrade.at_period_end(),
            Operation::ThreeUnits => PlanChange::to_quantity(Quantity::new(3).unwrap()),
        };
        let changed = billing.change_plan(id, &change).await;
        // The subscription may have the plan already.
        let is_there = change.user_id.is_some() && matches!(changed, Err(Error::Invalid(_)));
        if !is_there {
            allow(changed);
        }
    }

    async fn ends(&self) -> Vec<End> {
        let mut ends = Vec::new();
        for (id, _) in &self.subscriptions {
            let service = self.instances.billings[0].service();
            let held = service.subscription(*id).await.unwrap();
            ends.push(self.end(&held).await);
        }
        ends
    }

    async fn end(&self, of: &Subscription) -> End {
        let (held, payments) = self.instances.checked(of).await;
        let plan = |id| self.plans.iter().position(|plan| plan.id == id).unwrap();
        let mut payments: Vec<_> = payments
            .iter()
            .map(|payment| {
                let asked = payment.asked.as_ref().unwrap();
                let (kind, start) = (asked.kind.to_string(), asked.period_start.to_string());
                (kind, start, payment.amount.to_string(), payment.status.to_string())
            })
            .collect();
        payments.sort();
        let scheduled = held.scheduled_change();
        End {
            status: held.status.to_string(),
            plan: plan(held.subscription_plan_id),
            quantity: held.quantity,
            cycle: held.billing_cycle,
            renews_at: format!("{:?}", held.renews_at),
            credit: format!("{:?}", held.credit()),
            discount: held.discount(),
            scheduled: match scheduled {
                Some(
                    ScheduledChange::ChangePlan(terms) | ScheduledChange::ByUser { terms, .. },
                ) => Some(plan(terms.subscription_plan_id)),
                Some(ScheduledChange::Pause { .. }) | None => None,
            },
            pauses: matches!(scheduled, Some(ScheduledChange::Pause { .. })),
            payments,
        }
    }
}

async fn give(billing: &Billing, id: SubscriptionId, discount: NewDiscount) {
    allow(billing.service().act(id, Action::GiveDiscount(discount)).await);
}

/// Panics if the error is not a refusal by the rules.
fn allow<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    }
}
