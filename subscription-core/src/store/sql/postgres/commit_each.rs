//! Commits many change sets as one statement: one round trip to the database, and one transaction for all.
//!
//! The sets have one of two forms. Sets that only create records are in `commit_creates.rs`. The others have the form
//! that the billing clock writes: a set updates a subscription, and may insert a payment and write events. The statement
//! gets an array for each column, so its text is the same for any number of sets:
//!
//! ```text
//! WITH asked AS (SELECT * FROM unnest($1, …) AS asked (set_number, id, …)),
//!      found AS (SELECT … FROM asked JOIN subscriptions … ORDER BY id FOR NO KEY UPDATE),
//!      written AS (UPDATE subscriptions SET … FROM found … RETURNING set_number),
//!      paid AS (INSERT INTO payments (…) SELECT … FROM unnest(…) JOIN written …),
//!      recorded AS (INSERT INTO events (…) SELECT … FROM unnest(…) JOIN written …)
//! SELECT set_number FROM asked WHERE set_number NOT IN (SELECT set_number FROM written)
//! ```
//!
//! The subscriptions are locked in the order of their keys, so that no two commits wait for each other. A set
//! whose subscription has another version finds no row, and writes nothing. A set that gives a subscription
//! another unique value would have to be judged after the sets before it, so if there is one (`moved`), the
//! statement writes nothing. A unique value of a payment that is taken fails the statement. The caller commits
//! refused sets one by one.

use std::collections::HashSet;
use std::mem::discriminant;

use super::super::commit::{event_columns, event_values, guarded};
use super::super::table::{SqlRecord as _, Table, placeholders, values};
use super::super::value::Value;
use super::commit_one_statement::is_small;
use super::notify::notifications;
use crate::payments::Payment;
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::subscriptions::Subscription;
use crate::values::Version;

/// The largest number of change sets in one statement.
const SETS_MAX: usize = 200;

/// Several change sets as one statement, which returns the numbers of those that were refused.
#[derive(Debug)]
pub(super) struct OneForAll {
    pub(super) text: String,
    /// The arrays to bind, each with the values of one column.
    pub(super) arrays: Vec<Vec<Value>>,
}

/// A form of which many sets can be one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A step of the billing clock.
    Step,
    /// New records alone.
    Creates,
}

impl Form {
    /// `None` if a set has another form.
    pub(super) fn of(changes: &ChangeSet) -> Option<Self> {
        if is_step(changes) { Some(Self::Step) } else { creates(changes).then_some(Self::Creates) }
    }
}

/// Change sets that can be one statement.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` for a single set of another form.
    pub(super) form: Option<Form>,
    pub(super) sets: Vec<ChangeSet>,
}

/// Divides change sets into groups that can be one statement each, and keeps their order. A record that a set of a group
/// writes is neither written nor guarded by another set of it.
pub(super) fn groups(sets: Vec<ChangeSet>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // The records that the last group writes.
    let mut named: HashSet<Key> = HashSet::new();
    for changes in sets {
        let form = Form::of(&changes);
        let keys = changes.writes.iter().map(Record::key);
        match groups.last_mut() {
            Some(group)
                if form.is_some()
                    && group.form == form
                    && group.sets.len() < SETS_MAX
                    && !guarded(&changes).any(|key| named.contains(key))
                    && !keys.clone().any(|it| named.contains(&it)) =>
            {
                named.extend(keys);
                group.sets.push(changes);
            }
            _ => {
                named = keys.collect();
                groups.push(Group { form, sets: vec![changes] });
            }
        }
    }
    groups
}

/// True if a set creates a few records, and does nothing else but guard records that exist and write events.
fn creates(changes: &ChangeSet) -> bool {
    let is_lockable = |guard: &Guard| {
        matches!(
            guard,
            Guard::Unchanged { key: Key::Plan(_) | Key::Subscription(_) | Key::User(_), version }
                if *version != Version::NEW
        )
    };
    is_small(changes)
        && changes.writes.iter().all(|write| write.version() == Version::FIRST)
        && changes.guards.iter().all(is_lockable)
        && notifications(changes).next().is_none()
}

/// True if a set updates one subscription, inserts at most one payment, and does nothing else but write events.
fn is_step(changes: &ChangeSet) -> bool {
    let ChangeSet { guards, writes, deletes, events: _, forget_events } = changes;
    let is_update = |write: &Record| {
        matches!(write, Record::Subscription(_)) && write.version() != Version::FIRST
    };
    let is_insert =
        |write: &Record| matches!(write, Record::Payment(_)) && write.version() == Version::FIRST;
    let written = match &**writes {
        [only] => is_update(only),
        [a, b] => is_update(a) && is_insert(b) || is_insert(a) && is_update(b),
        _ => false,
    };
    written && guards.is_empty() && deletes.is_empty() && forget_events.is_none()
}

/// A group of change sets as one statement; `None` if it is a single set, or if the values of a column are of
/// several types.
pub(super) fn one_for_all(sets: &[ChangeSet]) -> Option<OneForAll> {
    if sets.len() < 2 {
        return None;
    }
    let mut subscriptions = Vec::new();
    let mut payments = Vec::new();
    let mut events = Vec::new();
    for (number, changes) in (0..).zip(sets) {
        for write in &changes.writes {
            let rows =
                if write.version() == Version::FIRST { &mut payments } else { &mut subscriptions };
            push(rows, number, values(write));
        }
        for event in &changes.events {
            push(&mut events, number, event_values(event));
        }
    }
    let mut building = Building::default();
    building.update(Subscription::TABLE, subscriptions);
    if !payments.is_empty() {
        building.insert("paid", Payment::TABLE, payments, WRITTEN);
    }
    if !events.is_empty() {
        building.record(events, WRITTEN);
    }
    building.finish(
        "SELECT set_number FROM asked WHERE set_number NOT IN (SELECT set_number FROM written)",
    )
}

/// Accepts the rows of sets whose subscription was updated.
const WRITTEN: &str = "JOIN written USING (set_number)";

/// Adds a row to the arrays of its columns, the first of which has the number of its set.
pub(super) fn push(arrays: &mut Vec<Vec<Value>>, number: u64, row: Vec<Value>) {
    arrays.resize_with(row.len() + 1, Vec::new);
    for (array, value) in arrays.iter_mut().zip([Value::count(number)].into_iter().chain(row)) {
        array.push(value);
    }
}

/// The parts of a statement and the arrays that are bound to it.
#[derive(Default)]
pub(super) struct Building {
    pub(super) parts: Vec<String>,
    arrays: Vec<Vec<Value>>,
}

impl Building {
    /// `unnest($1, $2, $3)`
    pub(super) fn unnest(&mut self, arrays: Vec<Vec<Value>>) -> String {
        let places = placeholders(self.arrays.len() + 1, arrays.len());
        self.arrays.extend(arrays);
        format!("unnest({places})")
    }

    /// Locks the rows of a table that have the expected version, and updates them.
    fn update(&mut self, table: &Table, rows: Vec<Vec<Value>>) {
        let name = table.name;
        let columns = table.columns().join(", ");
        let rows = self.unnest(rows);
        let each = |columns: &[&str], text: &dyn Fn(&str) -> String, between: &str| {
            columns.iter().map(|column| text(column)).collect::<Vec<_>>().join(between)
        };
        let (keys, others) = table.columns().split_at_checked(table.key).unwrap_or_default();
        let named_by =
            |rows: &str| each(keys, &|key| format!("{name}.{key} = {rows}.{key}"), " AND ");
        let at_version = |rows: &str| format!("{name}.version = {rows}.version - 1");
        // A value that is given up is free for later sets only, and those are `moved` if they take it.
        let moved = each(
            &unique_columns(table),
            &|column| {
                format!(
                    "asked.{column} IS NOT NULL AND {name}.{column} IS DISTINCT FROM asked.{column}"
                )
            },
            " OR ",
        );
        let order = each(keys, &|key| format!("{name}.{key}"), ", ");
        let assigned = each(others, &|column| format!("{column} = found.{column}"), ", ");
        self.parts
            .push(format!("asked AS (SELECT * FROM {rows} AS asked (set_number, {columns}))"));
        self.parts.push(format!(
            "found AS (SELECT asked.*, ({moved}) AS moved FROM asked JOIN {name} ON {} AND {} \
             ORDER BY {order} FOR NO KEY UPDATE OF {name})",
            named_by("asked"),
            at_version("asked"),
        ));
        self.parts.push(format!(
            "written AS (UPDATE {name} SET {assigned} FROM found WHERE {} AND {} \
             AND NOT EXISTS (SELECT 1 FROM found WHERE moved) RETURNING found.set_number)",
            named_by("found"),
            at_version("found"),
        ));
    }

    /// Inserts the rows that a condition accepts, in the order of their unique values.
    pub(super) fn insert(
        &mut self,
        part: &str,
        table: &Table,
        rows: Vec<Vec<Value>>,
        accepted: &str,
    ) {
        let name = table.name;
        let columns = table.columns().join(", ");
        let rows = self.unnest(rows);
        let order = [&unique_columns(table), table.key_columns()].concat().join(", ");
        self.parts.push(format!(
            "{part} AS (INSERT INTO {name} ({columns}) SELECT {columns} \
             FROM {rows} AS asked (set_number, {columns}) {accepted} ORDER BY {order} RETURNING 1)"
        ));
    }

    /// Appends the events that a condition accepts to the feed, in their order.
    pub(super) fn record(&mut self, rows: Vec<Vec<Value>>, accepted: &str) {
        let columns = event_columns();
        let rows = self.unnest(rows);
        self.parts.push(format!(
            "recorded AS (INSERT INTO events ({columns}) SELECT {columns} \
             FROM {rows} WITH ORDINALITY AS asked (set_number, {columns}, place) {accepted} ORDER BY place)"
        ));
    }

    /// The statement with its last part, which says what was committed; `None` if the values of a column are of several
    /// types.
    pub(super) fn finish(self, select: &str) -> Option<OneForAll> {
        let is_of_one_type = |array: &Vec<Value>| {
            let mut types = array.iter().map(discriminant);
            types.next().is_some_and(|first| types.all(|other| other == first))
        };
        let text = format!("WITH {} {select}", self.parts.join(", "));
        let arrays = self.arrays;
        arrays.iter().all(is_of_one_type).then_some(OneForAll { text, arrays })
    }
}

/// The columns of a table that have unique indexes.
fn unique_columns(table: &Table) -> Vec<&'static str> {
    let columns = table.unique.iter().filter_map(|(_, column, _)| column.split('.').next_back());
    columns.filter(|column| table.columns().contains(column)).collect()
}
