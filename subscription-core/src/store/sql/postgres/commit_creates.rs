//! Commits many change sets that create records as one statement.
//!
//! ```text
//! WITH asked_0 AS (SELECT * FROM unnest($1, $2, $3) AS asked (set_number, id, version)),
//!      lock_0 AS (SELECT id, version FROM plans WHERE id = ANY($2) FOR SHARE SKIP LOCKED),
//!      refused AS (SELECT set_number FROM asked_0 WHERE (id, version) NOT IN (SELECT id, version FROM lock_0)),
//!      created_0 AS (INSERT INTO subscriptions (…) SELECT … FROM unnest(…)
//!                    WHERE set_number NOT IN (SELECT set_number FROM refused)),
//!      recorded AS (INSERT INTO events (…) SELECT … FROM unnest(…) WHERE set_number NOT IN …)
//! SELECT set_number FROM refused
//! ```
//!
//! A record that many sets guard, such as the plan that all callers buy, is locked once for all. A set is refused and
//! writes nothing if its guard does not hold, or if another transaction has locked the record: the others do not wait for
//! that. A key or a unique value that is taken fails the statement. The caller commits such sets one by one. Tables and
//! rows are written in an order, so that no two commits wait for each other.

use std::collections::BTreeMap;

use super::super::commit::event_values;
use super::super::table::{Table, key_values, values};
use super::super::value::Value;
use super::commit_each::{Building, OneForAll, push};
use crate::store::{ChangeSet, Guard};

/// The arrays of the columns of each table, in the order in which `commit_one_statement.rs` writes: tables without
/// unique values first, then by name.
type Rows = BTreeMap<(bool, &'static str), (&'static Table, Vec<Vec<Value>>)>;

/// The sets as one statement, which returns the numbers of those that were refused; `None` if the values of a column
/// are of several types.
pub(super) fn one_for_all(sets: &[ChangeSet]) -> Option<OneForAll> {
    let mut guarded = Rows::new();
    let mut created = Rows::new();
    let mut events = Vec::new();
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
        // Reading the table before it makes that one come first.
        let before = match nth {
            0 => String::new(),
            _ => format!(" AND (SELECT count(*) FROM created_{}) >= 0", nth - 1),
        };
        building.insert(&format!("created_{nth}"), table, rows, &format!("{ACCEPTED}{before}"));
    }
    if !events.is_empty() {
        building.record(events, ACCEPTED);
    }
    building.finish("SELECT set_number FROM refused")
}

/// Accepts the rows of sets that are not refused.
const ACCEPTED: &str = "WHERE set_number NOT IN (SELECT set_number FROM refused)";

fn add(rows: &mut Rows, table: &'static Table, number: u64, row: Vec<Value>) {
    let place = (!table.unique.is_empty(), table.name);
    let (_, arrays) = rows.entry(place).or_insert_with(|| (table, Vec::new()));
    push(arrays, number, row);
}

/// Locks the guarded records, and finds the sets whose guards do not hold.
fn lock(building: &mut Building, guarded: Rows) {
    let mut refused = Vec::new();
    for (nth, (table, rows)) in guarded.into_values().enumerate() {
        let name = table.name;
        let rows = building.unnest(rows);
        building.parts.push(format!(
            "asked_{nth} AS (SELECT * FROM {rows} AS asked (set_number, id, version))"
        ));
        building.parts.push(format!(
            "lock_{nth} AS (SELECT id, version FROM {name} \
             WHERE id = ANY (ARRAY(SELECT id FROM asked_{nth})) FOR SHARE SKIP LOCKED)"
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
