//! Random changes of plan: a subscriber previews a change, other things happen, and the change is executed. Plans are
//! edited meanwhile.

use std::time::Duration;

use subscription_core::events::Actor;
use subscription_core::subscriptions::AgreedQuote;
use subscription_core::{
    BillingCycle, Clock as _, Effective, Error, ManagedBy, PaymentChanges, PaymentStatus,
    PlanChange, PlanChanges, Quantity, Quote, Subscription, SubscriptionId, SubscriptionStatus,
    UserId, Version,
};
use uuid::Uuid;

use super::executions::{Execution, Meanwhile};
use super::life::Life;
use super::world::{BillingSimulation, ChangedBy, PLANS, USERS, amount};

impl BillingSimulation {
    /// Makes a preview, lets something happen, and executes the change. The execution may name the previewed quote.
    pub(super) async fn change_plan(&mut self) {
        let Some(id) = self.some_changeable().filter(|_| self.changes_plans) else { return };
        if self.rng.percent(80) {
            self.pay(id).await;
        }
        let mut change = self.random_change(id);
        let mut billing = self.billing.clone();
        let user = self.lives.0.get(&id).and_then(Life::now).map(|now| now.user_id);
        if let Some(user) =
            user.filter(|_| self.changed_by != ChangedBy::Seller && self.rng.percent(60))
        {
            self.change_as_a_stranger(id, user, &change).await;
            let plan = change.subscription_plan_id;
            change = PlanChange::default();
            change.subscription_plan_id = plan;
            change.user_id = Some(user).filter(|_| self.changed_by == ChangedBy::Users);
            billing = billing.by(Actor::User(user));
        }
        let preview = self.billing.preview_plan_change(id, &change).await;
        self.note(format!("preview {id} {change:?}"), &preview);
        let mut meanwhile = self.think(&change).await;
        if let Ok(quote) = preview.as_ref()
            && (change.user_id.is_some() || self.rng.percent(70))
        {
            change = change.as_quoted(quote);
            if self.rng.percent(10) {
                self.forge(&mut change);
                meanwhile = Meanwhile::Changes;
            }
        }
        self.collect();
        let before = self.version(id);
        let changed = billing.change_plan(id, &change).await;
        self.note(format!("change {id} {change:?}"), &changed);
        let preview = match preview {
            Ok(quote) => Some(Ok(quote)),
            Err(error) => (!is_disturbed(&error)).then(|| Err(error.code())),
        };
        let is_changed = changed.is_ok();
        self.executed(id, change, preview, meanwhile, before, changed.err().as_ref());
        if is_changed && self.rng.percent(30) {
            self.change_by_an_old_quote(id).await;
        }
    }

    /// Another user tries the change.
    async fn change_as_a_stranger(
        &mut self,
        id: SubscriptionId,
        owner: UserId,
        change: &PlanChange,
    ) {
        let stranger = UserId::from(Uuid::from_u128(USERS + 1));
        let mut change = change.clone();
        change.user_id = Some(if self.checks_owners { stranger } else { owner });
        let quote = self.billing.preview_plan_change(id, &change).await;
        self.note(format!("a stranger's preview {id}"), &quote);
        let Ok(quote) = quote else { return };
        let billing = self.billing.by(Actor::User(stranger));
        let changed = billing.change_plan(id, &change.as_quoted(&quote)).await;
        self.note(format!("a stranger's change {id}"), &changed);
    }

    /// A downgrade with a quote from before the last change. It requests no payment.
    async fn change_by_an_old_quote(&mut self, id: SubscriptionId) {
        self.pay(id).await;
        let ago = Duration::from_secs(self.rng.below(900));
        let mut change = PlanChange::to_quantity(Quantity::ONE);
        let (at, amount_due) = (self.clock.now().saturating_sub(ago), amount("0"));
        change.agreed = Some(AgreedQuote { at, amount_due, next_amount: None, credit_after: None });
        self.collect();
        let before = self.version(id);
        let changed = self.billing.change_plan(id, &change).await;
        self.note(format!("change {id} {change:?}"), &changed);
        self.executed(id, change, None, Meanwhile::Changes, before, changed.err().as_ref());
    }

    /// Adds an execution to the life of its subscription, unless the store failed before anything was written.
    pub(super) fn executed(
        &mut self,
        id: SubscriptionId,
        change: PlanChange,
        preview: Option<Result<Quote, &'static str>>,
        meanwhile: Meanwhile,
        before: Option<Version>,
        error: Option<&Error>,
    ) {
        self.collect();
        let at = change.agreed.map_or(self.clock.now(), |agreed| agreed.at);
        let Some(life) = self.lives.0.get_mut(&id) else { return };
        let is_its = |version: &Subscription| match change.effective {
            Effective::Now => true,
            Effective::PeriodEnd => version.scheduled_change().is_some(),
        };
        // Every version since then that the clock did not write belongs to this execution.
        let mut written = life.versions.iter().filter(|it| Some(it.subscription.version) > before);
        let written = written.find(|it| !it.by_clock() && is_its(&it.subscription));
        let written = written.map(|it| it.subscription.version);
        let refused = match error {
            // The commit took effect, but its result was lost.
            Some(error) if is_disturbed(error) && written.is_some() => None,
            Some(error) if is_disturbed(error) => return,
            Some(error) => Some(error.code()),
            None => None,
        };
        self.touched.insert(id);
        life.executions.push(Execution { change, at, preview, meanwhile, refused, written });
    }

    pub(super) fn version(&self, id: SubscriptionId) -> Option<Version> {
        self.lives.0.get(&id).and_then(Life::now).map(|now| now.version)
    }

    /// Lets something happen between a preview and its execution.
    async fn think(&mut self, change: &PlanChange) -> Meanwhile {
        match self.rng.below(20) {
            0..4 => self.clock.advance(Duration::from_mins(1 + self.rng.below(14))),
            4 => self.clock.advance(Duration::from_mins(15 + self.rng.below(60))),
            5..7 => {
                let named =
                    |it: &usize| self.plans.get(*it).copied() == change.subscription_plan_id;
                let named = (0..PLANS.len()).find(named);
                self.edit(named.unwrap_or_default()).await;
                return Meanwhile::Changes;
            }
            7 => {
                self.update().await;
                return Meanwhile::Changes;
            }
            8 => {
                self.report().await;
                return Meanwhile::Changes;
            }
            _ => return Meanwhile::Nothing,
        }
        Meanwhile::Time
    }

    /// Changes an agreed quote into a quote that the service never returned.
    fn forge(&self, change: &mut PlanChange) {
        let Some(agreed) = &mut change.agreed else { return };
        if self.rng.percent(50) {
            agreed.amount_due = amount("123456");
        } else {
            agreed.at = agreed.at.saturating_add(Duration::from_hours(1));
        }
    }

    /// A random change of plan. It is more often to a plan of the same currency.
    pub(super) fn random_change(&self, id: SubscriptionId) -> PlanChange {
        let rng = &self.rng;
        let currency = self.lives.0.get(&id).and_then(Life::now).and_then(Subscription::currency);
        let currency = currency.map(|currency| currency.to_string());
        let any = rng.percent(10);
        let fits = |(slug, _, of, ..): &(&str, &str, Option<&str>, &str, Option<&str>)| {
            any || *of == currency.as_deref() && (*slug != "once" || rng.percent(30))
        };
        let plans = PLANS.iter().zip(&self.plans).filter(|(row, _)| fits(row));
        let Some(plan) = rng.pick(plans.map(|(_, id)| *id)) else { return PlanChange::default() };
        let quantity = Quantity::new(1 + rng.below(5_u64)).unwrap_or_default();
        let cycles = [BillingCycle::WEEKLY, BillingCycle::MONTHLY, BillingCycle::YEARLY];
        let cycle = rng.pick(cycles).filter(|_| rng.percent(95)).unwrap_or(BillingCycle::ONE_TIME);
        let to_plan = PlanChange::to_plan(plan);
        let change = match rng.below(10) {
            0..5 => to_plan,
            5 => to_plan.with_quantity(quantity),
            6..8 => PlanChange::to_quantity(quantity),
            8 => to_plan.with_billing_cycle(cycle),
            _ => PlanChange::default().with_billing_cycle(cycle),
        };
        let change = if rng.percent(30) { change.at_period_end() } else { change };
        if rng.percent(20) { change.unprorated() } else { change }
    }

    /// A random subscription whose plan can change. Sometimes it is any subscription.
    fn some_changeable(&self) -> Option<SubscriptionId> {
        if self.rng.percent(15) {
            return self.some_subscription();
        }
        let statuses =
            [SubscriptionStatus::Active, SubscriptionStatus::OnTrial, SubscriptionStatus::Pending];
        self.some_of(|now| now.managed_by == ManagedBy::Clock && statuses.contains(&now.status))
    }

    /// A random subscription with a scheduled change. `None` if there is none.
    pub(super) fn some_scheduled(&self) -> Option<SubscriptionId> {
        self.some_of(|now| now.scheduled_change().is_some())
    }

    pub(super) fn some_of(&self, is: impl Fn(&Subscription) -> bool) -> Option<SubscriptionId> {
        let lives = self.lives.0.iter().filter(|(_, life)| !life.deleted);
        let some = lives.filter(|(_, life)| life.now().is_some_and(&is));
        self.rng.pick(some.map(|(id, _)| *id))
    }

    /// Reports all unpaid payments of a subscription as paid.
    async fn pay(&mut self, id: SubscriptionId) {
        let Some(life) = self.lives.0.get(&id) else { return };
        let owed = life.last_payments().filter(|payment| payment.is_unpaid());
        let owed: Vec<_> = owed.map(|payment| payment.id).collect();
        for payment in owed {
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            let paid = self.billing.service().update_payment(payment, paid).await;
            self.note(format!("pay {payment}"), &paid);
        }
    }

    /// Changes the price of a random plan, and whether the plan is active. Subscriptions keep their own price.
    pub(super) async fn edit_plan(&mut self) {
        self.edit(self.rng.below(PLANS.len())).await;
    }

    async fn edit(&mut self, nth: usize) {
        let Some((slug, ..)) = PLANS.get(nth) else { return };
        let price = self.rng.maybe(90, |rng| amount(&format!("{}", rng.below(60_u64))));
        let is_active = Some(self.rng.percent(85));
        let changes = PlanChanges { price, is_active, ..PlanChanges::default() };
        let slug = slug.parse().expect("a slug");
        let edited = self.billing.service().update_plan(&slug, changes.clone()).await;
        self.note(format!("edit {slug} {changes:?}"), &edited);
    }
}

fn is_disturbed(error: &Error) -> bool {
    matches!(error.code(), "store_unavailable" | "overloaded")
}
