//! Commits change sets as one statement: one round trip to the database, and one transaction for all of them.
//!
//! ```text
//! WITH check_0 AS (SELECT * FROM unnest($1, …) AS r (set_number, check_number, id, version)),
//!      lock_0 AS (SELECT … FROM check_0 AS r, LATERAL (SELECT … FROM plans AS t
//!                 WHERE t.id = r.id AND t.version = r.version FOR SHARE) AS t),
//!      check_1 AS (… all columns of the subscriptions to update …), lock_1 AS (… FOR NO KEY UPDATE …),
//!      refused AS (SELECT set_number, min(check_number) AS check_number FROM (
//!                  SELECT set_number, check_number FROM check_0 WHERE check_number NOT IN (SELECT … FROM lock_0)
//!                  UNION ALL …) AS unmet GROUP BY set_number),
//!      update_0 AS (UPDATE subscriptions AS t SET … FROM check_1 AS r
//!                   WHERE … AND set_number NOT IN (SELECT set_number FROM refused) RETURNING 1),
//!      insert_0 AS (INSERT INTO payments (…) SELECT … FROM unnest(…) AS r (…) WHERE set_number NOT IN … RETURNING 1),
//!      recorded AS (INSERT INTO events (…) SELECT … FROM unnest(…) AS r (…) WHERE set_number NOT IN …)
//! SELECT set_number, check_number FROM refused
//! ```
//!
//! The statement has an array for each column, so its text is the same for any number of sets. A single set binds plain
//! values instead of arrays: the planner then knows that there is one row.
//!
//! First all records whose versions the sets name are locked in the order of their keys, so that no two commits wait
//! for each other. If a record has another version, the set is refused: it writes nothing, and the number of the check
//! identifies the record. If a key or a unique value is taken, the statement fails. Each part that locks or writes
//! reads the part before it, which makes the parts run in this order.
//!
//! A set that gives a record another unique value would have to be checked after the earlier sets were written. So if
//! one of several sets does this, all of them are refused with -1 as the number of the check, and the caller commits
//! them one by one.
//!
//! A statement that does not wait for locked records begins with `patience AS (SELECT set_config('lock_timeout', …))`,
//! which holds until its end. `FOR … SKIP LOCKED` then leaves out the locked records. A record that was left out, but
//! still has the version that its set names, is locked.

use std::mem::discriminant;
use std::time::Duration;

use super::super::commit::{event_columns, event_values, has_unique_values, sort_writes};
use super::super::statement::Statement;
use super::super::table::{Table, key_values, placeholders, values};
use super::super::value::Value;
use super::notify::{CHANNEL, notifications};
use super::row::Bound;
use crate::store::{ChangeSet, Guard, Key, Record, StoreError};
use crate::values::Version;

/// A change set with more writes and guards, or more events, than this is committed by a transaction of several
/// statements.
const PARTS_MAX: usize = 8;

/// One statement that commits change sets. It returns a row for each set that was refused: the number of the set, and
/// a number that [`BatchStatement::reason`] reads.
#[derive(Debug)]
pub(super) struct BatchStatement {
    pub(super) bound: Bound,
    /// The records whose versions are compared. The number of a check is the index of its record in this list.
    pub(super) checked: Vec<Key>,
}

impl BatchStatement {
    /// The reason why a set was refused, from the number in its row: that of the check that failed. If the record of
    /// check n is locked, the number is -2 - n. If it is -1, or if there is no such check, the reason is `None`: the set
    /// must be committed by itself.
    pub(super) fn reason(checked: &[Key], number: i64) -> Option<StoreError> {
        let key = |number| checked.get(usize::try_from(number).ok()?).cloned();
        if number < -1 {
            return key(-2 - number).map(StoreError::Busy);
        }
        key(number).map(StoreError::Conflict)
    }
}

/// How a statement treats records that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    /// The statement waits for them, as long as its session may wait for a lock.
    Wait,
    /// The change sets that write or guard the locked record are refused. Other locks, such as those of unique values,
    /// are waited for, for this time.
    Refuse(Duration),
}

/// A record that must have this version.
struct Check<'c> {
    set: u64,
    key: Key,
    version: Version,
    /// `None` if the record is only guarded.
    write: Option<&'c Record>,
}

/// The change sets as one statement; `None` if they cannot be one statement.
pub(super) fn batch_statement(sets: &[ChangeSet], locked: Locked) -> Option<BatchStatement> {
    if !sets.iter().all(|set| is_small(set) && is_of_versions(set)) {
        return None;
    }
    let checks = checks(sets)?;
    let mut builder =
        StatementBuilder { is_single: sets.len() == 1, ..StatementBuilder::default() };
    if let Locked::Refuse(patience) = locked {
        let millis = patience.as_millis().max(1);
        let text = format!("SELECT set_config('lock_timeout', '{millis}', true)");
        builder.push("patience", &text);
    }
    builder.check(&checks, locked);
    builder.insert(sets);
    builder.record(sets);
    builder.notify(sets);
    let checked = checks.into_iter().map(|check| check.key).collect();
    builder.finish(checked)
}

/// True if a change set has at least one write, meets the rule of [`is_one_a_table`], has few writes, guards and
/// events, and deletes no records or events.
pub(super) fn is_small(changes: &ChangeSet) -> bool {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let is_few = writes.len() + guards.len() <= PARTS_MAX && events.len() <= PARTS_MAX;
    is_few
        && !writes.is_empty()
        && deletes.is_empty()
        && forget_events.is_none()
        && is_one_a_table(writes)
}

/// True if a change set writes at most one record of each table, and at most one of its writes has unique values. Then
/// an error that names a table identifies the write, and the write with unique values comes last, after all versions
/// were checked. There are two exceptions from the limit on unique values. A set in which all records are new may have
/// several writes with unique values, such as a subscription with its first payment: if a value is taken, all new
/// records are read, to find out whether one of them exists already. An update of a subscription does not count as a
/// write with unique values, because it rarely changes one.
fn is_one_a_table(writes: &[Record]) -> bool {
    let mut tables: Vec<_> = writes.iter().map(|write| Table::of(&write.key()).name).collect();
    tables.sort_unstable();
    let distinct = tables.windows(2).all(|pair| matches!(pair, [a, b] if a != b));
    let is_update = |write: &Record| matches!(write, Record::Subscription(_)) && !is_new(write);
    let taking = writes.iter().filter(|write| has_unique_values(write) && !is_update(write));
    distinct && (writes.iter().all(is_new) || taking.count() <= 1)
}

fn is_new(write: &Record) -> bool {
    write.version() == Version::FIRST
}

/// True if all guards of a set compare versions of existing records. A record that does not exist cannot be locked.
pub(super) fn is_of_versions(changes: &ChangeSet) -> bool {
    let is_of_version =
        |it: &Guard| matches!(it, Guard::Unchanged { version, .. } if *version != Version::NEW);
    changes.guards.iter().all(is_of_version)
}

/// The records to lock, in the order of their keys. `None` if a set names a record twice.
fn checks(sets: &[ChangeSet]) -> Option<Vec<Check<'_>>> {
    let mut checks = Vec::new();
    for (set, changes) in (0..).zip(sets) {
        for guard in &changes.guards {
            let Guard::Unchanged { key, version } = guard else { continue };
            checks.push(Check { set, key: key.clone(), version: *version, write: None });
        }
        for write in changes.writes.iter().filter(|write| !is_new(write)) {
            let version = write.version().previous();
            checks.push(Check { set, key: write.key(), version, write: Some(write) });
        }
    }
    checks.sort_by(|a, b| (&a.key, a.set).cmp(&(&b.key, b.set)));
    let mut pairs = checks.windows(2);
    let twice = pairs.any(|pair| matches!(pair, [a, b] if (a.set, &a.key) == (b.set, &b.key)));
    (!twice).then_some(checks)
}

/// Selects the rows of sets that were not refused.
const ACCEPTED: &str = "r.set_number NOT IN (SELECT set_number FROM refused)";

/// The parts of a statement, and the values that are bound to it.
#[derive(Default)]
struct StatementBuilder {
    is_single: bool,
    parts: Vec<String>,
    values: Vec<Vec<Value>>,
    /// The SQL condition that makes the next part run after the previous part.
    after: String,
}

impl StatementBuilder {
    /// Binds rows to the statement. Returns the SQL for a table `r` of these rows.
    fn rows(&mut self, rows: Vec<Vec<Value>>, columns: &str) -> String {
        let mut places = Vec::new();
        if self.is_single {
            for row in rows {
                places.push(format!("({})", placeholders(self.values.len() + 1, row.len())));
                self.values.extend(row.into_iter().map(|value| vec![value]));
            }
            return format!("(VALUES {}) AS r ({columns})", places.join(", "));
        }
        let from = self.values.len();
        for row in rows {
            self.values.resize_with(self.values.len().max(from + row.len()), Vec::new);
            for (array, value) in self.values.iter_mut().skip(from).zip(row) {
                array.push(value);
            }
        }
        let arrays = placeholders(from + 1, self.values.len() - from);
        format!("unnest({arrays}) AS r ({columns})")
    }

    /// Adds a part that runs after the previous one.
    fn push(&mut self, name: &str, text: &str) {
        self.parts.push(format!("{name} AS ({text})"));
        self.after = format!(" AND (SELECT count(*) FROM {name}) >= 0");
    }

    /// Locks the records to be checked, finds the sets that are refused, and updates the records of the others.
    fn check(&mut self, checks: &[Check<'_>], locked: Locked) {
        let mut refused = Vec::new();
        let mut updates = Vec::new();
        let mut number = 0..;
        let kind = |check: &Check<'_>| (Table::of(&check.key).name, check.write.is_some());
        for (nth, checks) in checks.chunk_by(|a, b| kind(a) == kind(b)).enumerate() {
            let Some(Check { key, write, .. }) = checks.first() else { continue };
            let table = Table::of(key);
            let keys = table.key_columns();
            let rows = checks.iter().zip(number.by_ref()).map(|(check, number): (_, u64)| {
                let guarded =
                    || [key_values(&check.key), vec![Value::version(check.version)]].concat();
                let row = check.write.map_or_else(guarded, values);
                [Value::count(check.set), Value::count(number)].into_iter().chain(row).collect()
            });
            let rows = rows.collect();
            let guarded = [keys, &["version"]].concat();
            let columns = if write.is_some() { table.columns() } else { &guarded };
            let rows =
                self.rows(rows, &format!("set_number, check_number, {}", columns.join(", ")));
            self.parts.push(format!("check_{nth} AS (SELECT * FROM {rows})"));
            let same = each(keys, " AND ", |key| format!("t.{key} = r.{key}"));
            let version = if write.is_some() { "r.version - 1" } else { "r.version" };
            let same = format!("{same} AND t.version = {version}");
            let name = table.name;
            let strength = if write.is_some() { "NO KEY UPDATE" } else { "SHARE" };
            let waits = locked == Locked::Wait;
            let skip = if waits { "" } else { " SKIP LOCKED" };
            let after = &self.after;
            let unique = if write.is_some() { unique_columns(table) } else { Vec::new() };
            let read = each(&unique, "", |column| format!(", t.{column}"));
            // Because of LATERAL, the planner looks up each record by its key. In a plain join it might read the whole
            // table.
            let lock = format!(
                "SELECT r.check_number{read} FROM check_{nth} AS r, \
                 LATERAL (SELECT t.version{read} FROM {name} AS t WHERE {same}{after} FOR {strength}{skip}) AS t"
            );
            self.push(&format!("lock_{nth}"), &lock);
            let number = if waits { "check_number" } else { &number_of_unlocked(name, &same) };
            refused.push(format!(
                "SELECT set_number, {number} AS check_number FROM check_{nth} AS r \
                 WHERE check_number NOT IN (SELECT check_number FROM lock_{nth})"
            ));
            if write.is_none() {
                continue;
            }
            let assigned = each(columns, ", ", |column| format!("{column} = r.{column}"));
            // The version is compared again, although the row is locked, so that no UPDATE can replace another version
            // than the one that was read.
            updates.push(format!(
                "UPDATE {name} AS t SET {assigned} FROM check_{nth} AS r WHERE {same} AND {ACCEPTED}"
            ));
            if !self.is_single && !unique.is_empty() {
                // An update that takes a unique value meets one of these conditions. Its change set is then refused
                // with -1, and its caller commits it by itself. An update that only frees a value writes NULL, and
                // meets no condition.
                let moves =
                    |it: &str| format!("r.{it} IS NOT NULL AND t.{it} IS DISTINCT FROM r.{it}");
                let moves = each(&unique, " OR ", moves);
                refused.push(format!(
                    "SELECT set_number, -1 FROM check_{nth} WHERE EXISTS \
                     (SELECT 1 FROM lock_{nth} AS t JOIN check_{nth} AS r USING (check_number) WHERE {moves})"
                ));
            }
        }
        if refused.is_empty() {
            let none = "SELECT 0::bigint AS set_number, 0::bigint AS check_number WHERE FALSE";
            refused.push(none.to_owned());
        }
        self.parts.push(format!(
            "refused AS (SELECT set_number, min(check_number) AS check_number FROM ({}) AS unmet GROUP BY set_number)",
            refused.join(" UNION ALL "),
        ));
        for (nth, update) in updates.iter().enumerate() {
            let text = format!("{update}{} RETURNING 1", self.after);
            self.push(&format!("update_{nth}"), &text);
        }
    }

    /// Inserts the new records of the sets that are not refused.
    fn insert(&mut self, sets: &[ChangeSet]) {
        let numbered = (0..).zip(sets).flat_map(|(set, changes): (u64, _)| {
            changes.writes.iter().filter(|write| is_new(write)).map(move |write| (set, write))
        });
        let mut writes: Vec<_> = numbered.collect();
        sort_writes(&mut writes, |(_, write)| *write);
        let table = |(_, write): &(u64, &Record)| Table::of(&write.key());
        for (nth, writes) in writes.chunk_by(|a, b| table(a).name == table(b).name).enumerate() {
            let Some(Table { name, texts, .. }) = writes.first().map(table) else { continue };
            let columns = texts.columns.join(", ");
            let rows = writes.iter().map(|(set, write)| {
                [Value::count(*set)].into_iter().chain(values(write)).collect()
            });
            let rows = rows.collect();
            let rows = self.rows(rows, &format!("set_number, {columns}"));
            let after = &self.after;
            let text = format!(
                "INSERT INTO {name} ({columns}) SELECT {columns} FROM {rows} WHERE {ACCEPTED}{after} RETURNING 1"
            );
            self.push(&format!("insert_{nth}"), &text);
        }
    }

    /// Appends the events of the sets that are not refused to the feed, in their order.
    fn record(&mut self, sets: &[ChangeSet]) {
        let mut rows = Vec::new();
        for (set, changes) in (0..).zip(sets) {
            for event in &changes.events {
                let mut row = vec![Value::count(set), Value::count(rows.len() as u64)];
                row.extend(event_values(event));
                rows.push(row);
            }
        }
        if !rows.is_empty() {
            let columns = event_columns();
            let rows = self.rows(rows, &format!("set_number, place, {columns}"));
            self.parts.push(format!(
                "recorded AS (INSERT INTO events ({columns}) SELECT {columns} FROM {rows} WHERE {ACCEPTED} ORDER BY place)"
            ));
        }
    }

    /// Notifies the other instances of changed plans and clients.
    fn notify(&mut self, sets: &[ChangeSet]) {
        let mut rows = Vec::new();
        for (set, changes) in (0..).zip(sets) {
            let texts = notifications(changes).map(Value::text);
            rows.extend(texts.map(|text| vec![Value::count(set), text]));
        }
        if !rows.is_empty() {
            let rows = self.rows(rows, "set_number, text");
            let after = &self.after;
            let text =
                format!("SELECT pg_notify('{CHANNEL}', text) FROM {rows} WHERE {ACCEPTED}{after}");
            self.push("notified", &text);
        }
    }

    /// The statement; `None` if the values of a column are of several types.
    fn finish(self, checked: Vec<Key>) -> Option<BatchStatement> {
        let is_of_one_type = |values: &Vec<Value>| {
            let mut types = values.iter().map(discriminant);
            types.next().is_some_and(|first| types.all(|other| other == first))
        };
        let parts = self.parts.join(", ");
        // PostgreSQL does not run a part that nothing reads, so the last part is read here.
        let after = self.after;
        let text =
            format!("WITH {parts} SELECT set_number, check_number FROM refused WHERE TRUE{after}");
        if !self.values.iter().all(is_of_one_type) {
            return None;
        }
        let bound = if self.is_single {
            Bound::Values(Statement::new(text, self.values.concat()))
        } else {
            Bound::Arrays(text, self.values)
        };
        Some(BatchStatement { bound, checked })
    }
}

/// The number of a check whose record was not locked: see [`BatchStatement::reason`]. `same` is the condition for its row
/// `t`.
fn number_of_unlocked(table: &str, same: &str) -> String {
    // This is not an EXISTS, which might read the whole table once.
    let busy = format!("(SELECT -2 - r.check_number FROM {table} AS t WHERE {same})");
    format!("COALESCE({busy}, r.check_number)")
}

/// The texts of the columns, joined by `between`.
fn each(columns: &[&str], between: &str, text: impl Fn(&str) -> String) -> String {
    columns.iter().map(|column| text(column)).collect::<Vec<_>>().join(between)
}

/// The columns of a table that have unique indexes.
fn unique_columns(table: &Table) -> Vec<&'static str> {
    let columns = table.unique.iter().filter_map(|(_, column, _)| column.split('.').next_back());
    columns.filter(|column| table.columns().contains(column)).collect()
}
