//! Access classes as a column, and the conditions and statements that go by them.
//!
//! The class is a generated column, computed from the record and from `access_phase`: 0 when the record was
//! written, 1 once its start was found to have passed, 2 once its end was. `access_changes_at` is when
//! that column should change next, `access_changed_at` when it changed last.

use super::page::Statement;
use super::value::Value;
use crate::store::SubscriptionFilter;
use crate::store::access_class::{AccessClass, Holds, Mark};
use crate::subscriptions::{Phase, SubscriptionStatus};
use crate::values::clock::Timestamp;

/// Subscriptions that are moved to another class at a time.
const MOVED_MAX: u64 = 10_000;

/// The class as the column `access_class` has it.
pub(super) fn name(class: AccessClass) -> String {
    let mark = match class.mark {
        Mark::Current => "",
        Mark::Waiting => "~",
        Mark::Over => ".",
        Mark::Blocked => "!",
    };
    format!("{}{mark}", class.status)
}

/// The condition for a subscription of a class to be one that is asked for at `now`.
pub(super) fn in_class(class: AccessClass, is_active: Option<bool>, now: &str) -> String {
    let in_class = format!("access_class = '{}'", name(class));
    let (Some(phase), Some(is_active)) = (class.phase(), is_active) else { return in_class };
    let misplaced = misplaced(phase, now);
    // Not a plain NOT: a time that is not set makes the condition NULL. And as a whole: of conditions
    // that a planner can tell apart it expects that few rows meet them all, and rather sorts those than
    // walks along the index.
    if is_active == (phase == Phase::Current) {
        format!("{in_class} AND {misplaced} IS NOT TRUE")
    } else {
        format!("{in_class} AND {misplaced}")
    }
}

/// The SQL condition under which a subscription that was last seen in `phase` has access at `now` although
/// that phase grants none, or has no access although that phase grants it.
fn misplaced(phase: Phase, now: &str) -> String {
    match phase {
        Phase::Current => format!("(access_changes_at <= {now} OR access_changed_at > {now})"),
        Phase::Waiting => format!("(access_changes_at <= {now} AND ends_order > {now})"),
        Phase::Over => format!(
            "(access_changed_at > {now} AND (starts_at <= {now} OR starts_at <= updated_at))"
        ),
    }
}

/// The conditions on status and access where records are looked at one by one.
pub(super) fn row_by_row(filter: &SubscriptionFilter, now: &str) -> Vec<String> {
    let list = |statuses: &mut dyn Iterator<Item = SubscriptionStatus>| {
        statuses.map(|status| format!("'{status}'")).collect::<Vec<_>>().join(", ")
    };
    let mut conditions = Vec::new();
    if !filter.statuses.is_empty() {
        conditions.push(format!("status IN ({})", list(&mut filter.statuses.iter().copied())));
    }
    if let Some(is_active) = filter.is_active {
        let granting = list(&mut SubscriptionStatus::all().filter(|status| status.grants_access()));
        let none = format!("(blocked OR status NOT IN ({granting}) OR {})", out_of_time(now));
        conditions.push(if is_active { format!("NOT {none}") } else { none });
    }
    conditions
}

/// Not between start and end, by the time of the question or of the last write, if that is later.
fn out_of_time(now: &str) -> String {
    format!(
        "((starts_at > {now} AND starts_at > updated_at) OR ends_order <= {now} OR ends_order <= updated_at)"
    )
}

/// A cheap existence test for a class that hardly ever has records of the list. Without the test the whole
/// class would be read to find nothing.
pub(super) fn may_hold(holds: Holds, now: &str) -> Option<String> {
    let bound = |function: &str, column: &str| {
        format!("(SELECT {function}({column}) FROM subscriptions WHERE {column} IS NOT NULL)")
    };
    let is_behind = || format!("{} <= {now}", bound("min", "access_changes_at"));
    let is_ahead = || format!("{} > {now}", bound("max", "access_changed_at"));
    match holds {
        Holds::Always => None,
        Holds::IfBehind => Some(is_behind()),
        Holds::IfAhead => Some(is_ahead()),
        Holds::IfMisplaced => Some(format!("({} OR {})", is_behind(), is_ahead())),
    }
}

/// Asks whether any class should have changed by `now`.
pub(super) fn is_behind(now: Timestamp) -> Statement {
    // By the first that changes: a database that is asked whether there is any may look at all.
    let text = "SELECT COALESCE(min(access_changes_at) <= $1, FALSE) FROM subscriptions \
                WHERE access_changes_at IS NOT NULL";
    Statement::new(text, vec![Value::time(now)])
}

/// Moves all subscriptions to the classes that they have come to by the database's own time, which `now`
/// is an expression for. Lists look at the times themselves, so that clock need not be ours.
pub(super) fn move_all_due(now: &str) -> String {
    format!(
        "UPDATE subscriptions SET access_phase = CASE WHEN ends_at <= {now} THEN 2 ELSE 1 END \
         WHERE access_changes_at <= {now}"
    )
}

/// Moves a batch of subscriptions to the classes that they have come to by `now`; `locking` is what the
/// database adds to a selection of rows to be updated.
pub(super) fn move_due(now: Timestamp, locking: &str) -> Statement {
    let text = format!(
        "UPDATE subscriptions SET access_phase = CASE WHEN ends_at <= $1 THEN 2 ELSE 1 END \
         WHERE id IN (SELECT id FROM subscriptions WHERE access_changes_at <= $1 \
         ORDER BY access_changes_at LIMIT {MOVED_MAX}{locking})"
    );
    Statement::new(text, vec![Value::time(now)])
}
