//! Commits many change sets that create records as one statement.
//!
//! ```text
//! WITH asked_0 AS (SELECT * FROM unnest($1, $2, $3) AS asked (set_number, id, version)),
//!      lock_0 AS (SELECT id, version FROM plans WHERE id = ANY($2) ORDER BY id FOR SHARE),
//!      refused AS (SELECT set_number FROM asked_0 WHERE (id, version) NOT IN (SELECT id, version FROM lock_0)),
//!      created_0 AS (INSERT INTO subscriptions (…) SELECT … FROM unnest(…)
//!                    WHERE set_number NOT IN (SELECT set_number FROM refused)),
//!      recorded AS (INSERT INTO events (…) SELECT … FROM unnest(…) WHERE set_number NOT IN …)
//! SELECT set_number FROM refused
//! ```
//!
//! A record that many sets guard, such as the plan that all callers buy, is locked once for all. The records of a
//! kind are locked in the order of their keys and kinds have an order too, so that no two commits wait for each other. A
//! set whose guard does not hold writes nothing. A key or a unique value that is taken fails the statement, and the
//! caller commits the sets one by one.

use std::collections::BTreeMap;

use super::super::commit::{event_columns, event_values};
use super::super::table::{Table, key_values, values};
use super::super::value::Value;
use super::commit_each::{Building, OneForAll, push};
use super::notify::notifications;
use crate::store::{ChangeSet, Guard, Key};
use crate::values::version::Version;

/// The arrays of the columns of each table, by its name.
type Rows = BTreeMap<&'static str, (&'static Table, Vec<Vec<Value>>)>;

/// True if a set creates records, and does nothing else but guard records that exist and write events.
pub(super) fn creates(changes: &ChangeSet) -> bool {
    let ChangeSet { guards, writes, deletes, events: _, forget_events } = changes;
    let is_lockable = |guard: &Guard| {
        matches!(
            guard,
            Guard::Unchanged { key: Key::Plan(_) | Key::Subscription(_) | Key::User(_), version }
                if *version != Version::NEW
        )
    };
    !writes.is_empty()
        && writes.iter().all(|write| write.version() == Version::FIRST)
        && guards.iter().all(is_lockable)
        && deletes.is_empty()
        && forget_events.is_none()
        && notifications(changes).next().is_none()
}

/// The sets as one statement, which returns the numbers of those that were refused; `None` if it is a single set, or
/// if the values of a column are of several types.
pub(super) fn one_for_all(sets: &[ChangeSet]) -> Option<OneForAll> {
    if sets.len() < 2 {
        return None;
    }
    let (mut guarded, mut created, mut events) = (Rows::new(), Rows::new(), Vec::new());
    for (number, changes) in (0..).zip(sets) {
        for guard in &changes.guards {
            if let Guard::Unchanged { key, version } = guard {
                let mut row = key_values(key);
                row.push(Value::version(*version));
                add(&mut guarded, Table::of(key), number, row);
            }
        }
        for write in &changes.writes {
            add(&mut created, Table::of(&write.key()), number, values(write));
        }
        for event in &changes.events {
            push(&mut events, number, event_values(event));
        }
    }
    let mut building = Building::default();
    lock(&mut building, guarded);
    for (nth, (table, rows)) in created.into_values().enumerate() {
        let (name, columns) = (table.name, table.columns().join(", "));
        let (rows, order) = (building.unnest(rows), table.key_columns().join(", "));
        building.parts.push(format!(
            "created_{nth} AS (INSERT INTO {name} ({columns}) SELECT {columns} \
             FROM {rows} AS asked (set_number, {columns}) WHERE {ACCEPTED} ORDER BY {order})"
        ));
    }
    if !events.is_empty() {
        let (columns, rows) = (event_columns(), building.unnest(events));
        building.parts.push(format!(
            "recorded AS (INSERT INTO events ({columns}) SELECT {columns} \
             FROM {rows} WITH ORDINALITY AS asked (set_number, {columns}, place) \
             WHERE {ACCEPTED} ORDER BY place)"
        ));
    }
    building.finish("SELECT set_number FROM refused")
}

/// The condition of the rows of sets that are not refused.
const ACCEPTED: &str = "set_number NOT IN (SELECT set_number FROM refused)";

fn add(rows: &mut Rows, table: &'static Table, number: u64, row: Vec<Value>) {
    let (_, arrays) = rows.entry(table.name).or_insert_with(|| (table, Vec::new()));
    push(arrays, number, row);
}

/// Locks the guarded records, a kind after the other, and finds the sets whose guards do not hold.
fn lock(building: &mut Building, guarded: Rows) {
    let mut refused = Vec::new();
    for (nth, (table, rows)) in guarded.into_values().enumerate() {
        let name = table.name;
        let rows = building.unnest(rows);
        building.parts.push(format!(
            "asked_{nth} AS (SELECT * FROM {rows} AS asked (set_number, id, version))"
        ));
        // Reading the locks of the kind before it makes them come first.
        let before = match nth {
            0 => String::new(),
            _ => format!(" AND (SELECT count(*) FROM lock_{}) >= 0", nth - 1),
        };
        building.parts.push(format!(
            "lock_{nth} AS (SELECT id, version FROM {name} \
             WHERE id = ANY (ARRAY(SELECT id FROM asked_{nth})){before} ORDER BY id FOR SHARE)"
        ));
        refused.push(format!(
            "SELECT set_number FROM asked_{nth} \
             WHERE (id, version) NOT IN (SELECT id, version FROM lock_{nth})"
        ));
    }
    if refused.is_empty() {
        refused.push("SELECT 0::bigint AS set_number WHERE FALSE".to_owned());
    }
    building.parts.push(format!("refused AS ({})", refused.join(" UNION ALL ")));
}
