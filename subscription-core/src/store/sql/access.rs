//! The column `access_class`, and the conditions and statements that use it.
//!
//! The class is a generated column, computed from the record and from `access_phase`. A write sets `access_phase` to 0
//! before the start of the subscription, to 3 between its start and its end, and to 4 after its end. Before a list by
//! access, `access_phase` is set to 1 if the start has passed since the write, and to 2 if the end has passed. The
//! column `access_changes_at` has the time at which the class should change next, `access_changed_at` the time of the
//! last change since the write: so a write that needs no move adds nothing to its index.

use std::sync::LazyLock;

use super::statement::Statement;
use super::value::Value;
use crate::store::SubscriptionFilter;
use crate::store::access_class::{AccessClass, Mark, MayContain};
use crate::subscriptions::{Phase, Subscription, SubscriptionStatus};
use crate::values::Timestamp;

/// The largest number of subscriptions that one statement moves to another class.
const MOVED_MAX: u64 = 10_000;

impl Subscription {
    /// The phase at the last write of the record (`updated_at`), as the number in the column `access_phase`.
    pub(super) fn access_phase(&self) -> u8 {
        match self.phase_at(self.updated_at) {
            Phase::Waiting => 0,
            Phase::Current => 3,
            Phase::Over => 4,
        }
    }
}

/// The text of an access class in the column `access_class`.
pub(super) fn name(class: AccessClass) -> String {
    let mark = match class.mark {
        Mark::Current => "",
        Mark::Waiting => "~",
        Mark::Over => ".",
        Mark::Blocked => "!",
    };
    format!("{}{mark}", class.status)
}

/// The condition for subscriptions of a class. If `is_active` is set, the condition admits only the subscriptions of
/// the class that have access at `now` (true), or that have no access (false).
pub(super) fn in_class(class: AccessClass, is_active: Option<bool>, now: &str) -> String {
    let in_class = format!("access_class = '{}'", name(class));
    let (Some(phase), Some(is_active)) = (class.phase(), is_active) else { return in_class };
    let outdated = outdated(phase, now);
    // `IS NOT TRUE` is used instead of `NOT`: a time that is not set makes the condition NULL. Then `NOT` would give
    // NULL too, which admits no row. The times are compared in one expression: with several conditions, the planner
    // would expect few rows and sort them, instead of reading the index in its order.
    if is_active == (phase == Phase::Current) {
        format!("{in_class} AND {outdated} IS NOT TRUE")
    } else {
        format!("{in_class} AND {outdated}")
    }
}

/// The SQL condition for a subscription whose class stands for `phase`, although this class is wrong at `now`: it has
/// access although the phase grants none, or has no access although the phase grants it.
fn outdated(phase: Phase, now: &str) -> String {
    match phase {
        Phase::Current => format!("(access_changes_at <= {now} OR access_changed_at > {now})"),
        Phase::Waiting => format!("(access_changes_at <= {now} AND ends_order > {now})"),
        Phase::Over => format!(
            "(access_changed_at > {now} AND (starts_at <= {now} OR starts_at <= updated_at))"
        ),
    }
}

/// The statuses that grant access.
static GRANTING: LazyLock<String> =
    LazyLock::new(|| quoted(SubscriptionStatus::all().filter(|status| status.grants_access())));

/// The statuses as a list in SQL, such as `'active', 'cancelled'`.
fn quoted(statuses: impl Iterator<Item = SubscriptionStatus>) -> String {
    statuses.map(|status| format!("'{status}'")).collect::<Vec<_>>().join(", ")
}

/// The conditions on status and access of a single row, for statements that do not use the class.
pub(super) fn row_by_row(filter: &SubscriptionFilter, now: &str) -> Vec<String> {
    let mut conditions = Vec::new();
    if !filter.statuses.is_empty() {
        conditions.push(format!("status IN ({})", quoted(filter.statuses.iter().copied())));
    }
    if let Some(is_active) = filter.is_active {
        // The condition for a row without access: it is blocked, its status grants no access, or it is not between its
        // start and its end. The times are compared with `now`, or with the time of the last write if that is later.
        let none = format!(
            "(blocked OR status NOT IN ({}) OR ((starts_at > {now} AND starts_at > updated_at) \
             OR ends_order <= {now} OR ends_order <= updated_at))",
            *GRANTING,
        );
        conditions.push(if is_active { format!("NOT {none}") } else { none });
    }
    conditions
}

/// An SQL condition that is true if a class may have rows that are requested; `None` if the class usually has such
/// rows. Without the condition, the database would read the whole class even if no row is requested.
pub(super) fn may_contain(may_contain: MayContain, now: &str) -> Option<String> {
    let bound = |function: &str, column: &str| {
        format!("(SELECT {function}({column}) FROM subscriptions WHERE {column} IS NOT NULL)")
    };
    let is_behind = || format!("{} <= {now}", bound("min", "access_changes_at"));
    let is_ahead = || format!("{} > {now}", bound("max", "access_changed_at"));
    match may_contain {
        MayContain::Always => None,
        MayContain::IfBehind => Some(is_behind()),
        MayContain::IfAhead => Some(is_ahead()),
        MayContain::IfOutdated => Some(format!("({} OR {})", is_behind(), is_ahead())),
    }
}

/// Selects whether any class should have changed by `now`.
pub(super) fn is_behind(now: Timestamp) -> Statement {
    // The statement compares only the earliest time: with EXISTS the database might read all rows.
    let text = "SELECT COALESCE(min(access_changes_at) <= $1, FALSE) FROM subscriptions \
                WHERE access_changes_at IS NOT NULL";
    Statement::new(text, vec![Value::time(now)])
}

/// Moves all subscriptions to the classes that they have at `now`, an SQL expression for the time of the database. The
/// clock of the database may differ from ours: lists are still correct, because they also compare the times of each
/// row.
pub(super) fn refresh_all_access_classes(now: &str) -> String {
    format!(
        "UPDATE subscriptions SET access_phase = CASE WHEN ends_at <= {now} THEN 2 ELSE 1 END \
         WHERE access_changes_at <= {now}"
    )
}

/// Moves a batch of subscriptions to the classes that they have at `now`. `locking` is the SQL that locks the selected
/// rows for the update.
pub(super) fn refresh_access_classes(now: Timestamp, locking: &str) -> Statement {
    let text = format!(
        "UPDATE subscriptions SET access_phase = CASE WHEN ends_at <= $1 THEN 2 ELSE 1 END \
         WHERE id IN (SELECT id FROM subscriptions WHERE access_changes_at <= $1 \
         ORDER BY access_changes_at LIMIT {MOVED_MAX}{locking})"
    );
    Statement::new(text, vec![Value::time(now)])
}
