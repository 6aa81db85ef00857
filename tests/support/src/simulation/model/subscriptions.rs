//! The model of requests about subscriptions.

use subscription_core::events::{Change, Subject};
use subscription_core::subscriptions::{BillingState, Cancellation, ManagedBy, Quantity};
use subscription_core::{
    BillingCycle, ExternalId, Field, NewSubscription, PlanId, Subscription, SubscriptionChanges,
    SubscriptionId, SubscriptionStatus, Timestamp, UserId, Version,
};
use uuid::Uuid;

use super::plans::set;
use super::{Expected, Model, fresh, not_found, rules, subscriptions, update, updated};
use crate::simulation::operation::{Record, Refusal, Reply};

impl Model {
    pub fn create_subscription(
        &self,
        new: &NewSubscription,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let plan = self.plan_by_id(new.subscription_plan_id);
        // For a plan that does not exist, the cycle is a month.
        let plan_cycle = plan.map_or(BillingCycle::MONTHLY, |plan| plan.billing_cycle);
        let cycle = new.billing_cycle.unwrap_or(plan_cycle);
        let starts_at = new.starts_at.unwrap_or(now);
        let by_start =
            if starts_at > now { SubscriptionStatus::Pending } else { SubscriptionStatus::Active };
        let mut made = Subscription {
            id: SubscriptionId::from(Uuid::nil()),
            user_id: new.user_id,
            subscription_plan_id: new.subscription_plan_id,
            external_subscription_id: new.external_subscription_id.clone(),
            billing_cycle: cycle,
            status: new.status.unwrap_or(by_start),
            is_active: false,
            renews_at: match new.renews_at {
                Field::Absent => rules::period_start(starts_at, cycle, 1),
                Field::Null => None,
                Field::Value(at) => Some(at),
            },
            starts_at,
            ends_at: new.ends_at,
            metadata: new.metadata.clone(),
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            blocked: false,
            anchor_at: None,
            managed_by: ManagedBy::Caller,
            quantity: Quantity::ONE,
            billing: None,
            live_key: None,
        };
        end_by_status(&mut made, now);
        follow_renewal(&mut made);
        let mut faults = misplaced(&made);
        faults.extend(access(&mut made, new.is_active, now));
        made.blocked = new.is_active == Some(false) && rules::may_grant(&made);
        self.check(None, &made, faults)?;
        Ok(Expected::Create(Record::Subscription(made)))
    }

    pub fn update_subscription(
        &self,
        id: SubscriptionId,
        changes: &SubscriptionChanges,
        version: Option<Version>,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let current = rules::shown(self.subscription(id)?, now);
        fresh(current.version, version)?;
        let mut next = current.clone();
        set(&mut next.user_id, changes.user_id);
        set(&mut next.subscription_plan_id, changes.subscription_plan_id);
        set_field(&mut next.external_subscription_id, changes.external_subscription_id.clone());
        let new_plan = changes
            .subscription_plan_id
            .filter(|id| *id != current.subscription_plan_id)
            .and_then(|id| self.plan_by_id(id));
        set(
            &mut next.billing_cycle,
            changes.billing_cycle.or(new_plan.map(|plan| plan.billing_cycle)),
        );
        set(&mut next.status, changes.status);
        set_field(&mut next.metadata, changes.metadata.clone());
        set_field(&mut next.renews_at, changes.renews_at);
        set(&mut next.starts_at, changes.starts_at);
        let stepped = next.status != current.status;
        let is_over = match current.status.as_str() {
            "expired" => true,
            "cancelled" => has_ended(&current, now),
            _ => false,
        };
        // A subscription that is over keeps its end, even if the change removes the end.
        if !(is_over && changes.ends_at == Field::Null) {
            let cancelled = current.status.as_str() == "cancelled";
            if stepped && cancelled && next.status.as_str() != "expired" {
                // A resumed subscription gets back the end that it had before it was cancelled, if it had one.
                next.ends_at = found(&current).and_then(|found| found.ends_at);
            }
            set_field(&mut next.ends_at, changes.ends_at);
        }
        remember_cancellation(&current, &mut next, changes.ends_at);
        if next.starts_at != current.starts_at {
            next.anchor_at = None;
        }
        if next.billing_cycle != current.billing_cycle {
            change_cycle(&mut next, current.billing_cycle, changes.renews_at.is_absent(), now);
        }
        if stepped || next.ends_at.is_none() {
            end_by_status(&mut next, now);
        }
        follow_renewal(&mut next);
        let only_start = changes.ends_at.is_absent() && changes.renews_at.is_absent();
        let mut faults = misplaced(&next);
        if only_start {
            faults.fill("starts_at");
        }
        let moves = |end: Timestamp| end > now && Some(end) != current.ends_at;
        if is_over && matches!(changes.ends_at, Field::Value(end) if moves(end)) {
            faults.push("ends_at");
        }
        faults.extend(access(&mut next, changes.is_active, now));
        let step = step(&current, next.status, now);
        self.check(Some((&current, step)), &next, faults)?;
        let change = if stepped {
            Change::SubscriptionStatusChanged { from: current.status, to: next.status }
        } else {
            updated(&current, &next)
        };
        if next != current {
            next.updated_at = now.max(current.updated_at);
            next.version = current.version.next();
        }
        Ok(update(Record::Subscription(current), Record::Subscription(next), change))
    }

    pub fn delete_subscription(
        &self,
        id: SubscriptionId,
        version: Option<Version>,
    ) -> Result<Expected, Refusal> {
        let current = self.subscription(id)?;
        fresh(current.version, version)?;
        Ok(Expected::Delete(Record::Subscription(current.clone())))
    }

    pub fn read_subscription(
        &self,
        id: SubscriptionId,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let shown = rules::shown(self.subscription(id)?, now);
        Ok(Expected::Answer(Ok(Reply::Found(Record::Subscription(shown)))))
    }

    pub fn subscription(&self, id: SubscriptionId) -> Result<&Subscription, Refusal> {
        match self.records.get(&Subject::Subscription(id)) {
            Some(Record::Subscription(subscription)) => Ok(subscription),
            Some(Record::Plan(_) | Record::Payment(_)) | None => Err(not_found()),
        }
    }

    /// Cancels a subscription: the step to `cancelled`, from any status.
    pub fn cancel(
        &self,
        id: SubscriptionId,
        user: Option<UserId>,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        self.of_user(id, user)?;
        let changes = SubscriptionChanges::status(SubscriptionStatus::Cancelled);
        self.update_subscription(id, &changes, None, now)
    }

    /// Resumes a subscription: the step from `cancelled` or `paused` to `active`. An active subscription stays
    /// unchanged.
    pub fn resume(
        &self,
        id: SubscriptionId,
        user: Option<UserId>,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let status = self.of_user(id, user)?.status.as_str();
        if !["active", "cancelled", "paused"].contains(&status) {
            let allowed = rules::moves(rules::SUBSCRIPTION_MOVES, status);
            let allowed = allowed.iter().filter(|state| **state != "active");
            return Err(Refusal::about("invalid_transition", allowed));
        }
        let was_trial = found(self.subscription(id)?).map(|found| found.status);
        let was_trial = was_trial == Some(SubscriptionStatus::OnTrial);
        let status =
            if was_trial { SubscriptionStatus::OnTrial } else { SubscriptionStatus::Active };
        self.update_subscription(id, &SubscriptionChanges::status(status), None, now)
    }

    fn of_user(&self, id: SubscriptionId, user: Option<UserId>) -> Result<&Subscription, Refusal> {
        let held = self.subscription(id)?;
        if user.is_some_and(|user| user != held.user_id) { Err(not_found()) } else { Ok(held) }
    }

    /// Checks a new or changed subscription. Only the first fault is reported, in this order: invalid fields, the step,
    /// the plan, the external id.
    fn check(
        &self,
        before: Option<(&Subscription, Result<(), Refusal>)>,
        next: &Subscription,
        mut faults: Vec<&'static str>,
    ) -> Result<(), Refusal> {
        let (current, step) = before.unzip();
        let unchanged = |id: PlanId| current.is_some_and(|now| now.subscription_plan_id == id);
        let plan = self.plan_by_id(next.subscription_plan_id);
        let moves = !unchanged(next.subscription_plan_id);
        if moves && plan.is_none() {
            faults.push("subscription_plan_id");
        }
        if !faults.is_empty() {
            return Err(Refusal::about("validation_failed", faults));
        }
        step.unwrap_or(Ok(()))?;
        if moves && plan.is_some_and(|plan| !plan.is_active) {
            return Err(Refusal::new("plan_inactive"));
        }
        let holder = |id: &ExternalId| {
            subscriptions(&self.records)
                .find(|other| other.external_subscription_id.as_ref() == Some(id))
                .filter(|other| other.id != next.id)
        };
        match next.external_subscription_id.as_ref().and_then(holder) {
            Some(holder) => {
                Err(Refusal::about("external_id_taken", [Subject::Subscription(holder.id)]))
            }
            None => Ok(()),
        }
    }
}

pub fn set_field<T>(field: &mut Option<T>, value: Field<T>) {
    match value {
        Field::Absent => {}
        Field::Null => *field = None,
        Field::Value(value) => *field = Some(value),
    }
}

fn step(current: &Subscription, to: SubscriptionStatus, now: Timestamp) -> Result<(), Refusal> {
    let from = current.status.as_str();
    let ended = has_ended(current, now);
    let mut allowed = rules::moves(rules::SUBSCRIPTION_MOVES, from).to_vec();
    if from == "cancelled" && ended {
        allowed.retain(|to| *to == "expired");
    }
    if from == to.as_str() || allowed.contains(&to.as_str()) {
        return Ok(());
    }
    Err(Refusal::about("invalid_transition", allowed))
}

/// Stores the status and the end that a cancellation finds, except for an active subscription without an end. An end
/// that is set after the cancellation is stored too.
fn remember_cancellation(
    current: &Subscription,
    next: &mut Subscription,
    ends_at: Field<Timestamp>,
) {
    if next.status != current.status {
        next.billing = None;
        let is_plain = current.status.as_str() == "active" && current.ends_at.is_none();
        if next.status.as_str() == "cancelled" && !is_plain {
            let (status, ends_at) = (current.status, current.ends_at);
            let cancelled = Some(Cancellation { status, ends_at, by_user: false });
            next.billing = Some(Box::new(BillingState { cancelled, ..Default::default() }));
        }
        return;
    }
    let is_moved = match ends_at {
        Field::Absent => false,
        Field::Null => current.ends_at.is_some(),
        Field::Value(end) => current.ends_at != Some(end),
    };
    if let Some(cancelled) = next.billing.as_mut().and_then(|it| it.cancelled.as_mut())
        && is_moved
    {
        set_field(&mut cancelled.ends_at, ends_at);
    }
}

/// The state that the cancellation of a subscription found. `None` if nothing was stored.
fn found(subscription: &Subscription) -> Option<Cancellation> {
    subscription.billing.as_ref().and_then(|billing| billing.cancelled)
}

fn has_ended(subscription: &Subscription, now: Timestamp) -> bool {
    let now = now.max(subscription.updated_at);
    subscription.ends_at.is_some_and(|end| end <= now)
}

/// Applies a change of the cycle. A subscription whose cycle becomes `one_time` does not renew any more. If the cycle
/// was `one_time`, it renews at the next period. If the renewal is on the grid of the start, periods are counted from
/// the start again.
fn change_cycle(next: &mut Subscription, from: BillingCycle, sets_renewal: bool, now: Timestamp) {
    let once = BillingCycle::ONE_TIME;
    if sets_renewal && next.billing_cycle == once {
        next.renews_at = None;
    } else if sets_renewal && from == once {
        let after = now.max(next.starts_at);
        next.renews_at = rules::next_period(rules::anchor(next), next.billing_cycle, after);
    }
    if let Some(renews_at) = next.renews_at
        && (next.billing_cycle != once || renews_at == next.starts_at)
        && rules::on_grid(next.starts_at, next.billing_cycle, renews_at)
    {
        next.anchor_at = None;
    }
}

/// Sets the end of a subscription that is cancelled or over. The end is not before its start.
fn end_by_status(subscription: &mut Subscription, now: Timestamp) {
    let now = now.max(subscription.starts_at);
    let ends_at = subscription.ends_at;
    match subscription.status.as_str() {
        "cancelled" => {
            let renewal = subscription.renews_at.map_or(now, |at| at.max(now));
            subscription.ends_at = Some(ends_at.unwrap_or(renewal));
        }
        "expired" => {
            subscription.ends_at = Some(ends_at.filter(|ends_at| *ends_at <= now).unwrap_or(now));
        }
        _ => {}
    }
}

/// Moves the anchor if the renewal is not on the grid.
fn follow_renewal(subscription: &mut Subscription) {
    if let Some(renews_at) = subscription.renews_at
        && !rules::on_grid(rules::anchor(subscription), subscription.billing_cycle, renews_at)
    {
        subscription.anchor_at = Some(renews_at);
    }
}

fn misplaced(subscription: &Subscription) -> Vec<&'static str> {
    let starts_at = subscription.starts_at;
    [("renews_at", subscription.renews_at), ("ends_at", subscription.ends_at)]
        .into_iter()
        .filter(|(_, at)| at.is_some_and(|at| at < starts_at))
        .map(|(field, _)| field)
        .collect()
}

/// Sets or removes the block on access, as the caller requests. A request for access is a fault if the subscription
/// grants none, unless the request lifts a block.
fn access(
    subscription: &mut Subscription,
    wanted: Option<bool>,
    now: Timestamp,
) -> Option<&'static str> {
    match (wanted, rules::grants(subscription, now)) {
        (Some(true), false) if !subscription.blocked => return Some("is_active"),
        (Some(true), _) => subscription.blocked = false,
        (Some(false), true) => subscription.blocked = true,
        (Some(false), false) | (None, _) => {}
    }
    subscription.is_active = rules::is_active(subscription, now);
    None
}
