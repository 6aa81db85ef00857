//! Descriptions of the tables, and the statements for each table.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::field::Field as _;
use super::value::{Cells, Columns, Value};
use crate::accounts::{Client, Session, User};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{Cause, DamagedRecord, Document, IdempotencyRecord, Key, Kind, Record, Unique};
use crate::subscriptions::Subscription;

/// A record that has a table.
pub(in crate::store) trait SqlRecord: Sized + Send + Sync {
    const TABLE: &'static Table;

    /// The values of the record's columns, in the order of the table.
    fn values(&self) -> Vec<Value>;

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause>;
}

/// The table of a kind of record.
#[derive(Debug)]
pub(in crate::store) struct Table {
    pub(in crate::store) name: &'static str,
    /// The number of columns of the key. They are the first columns.
    pub(in crate::store) key: usize,
    /// The columns of each field.
    pub(super) fields: &'static [&'static [&'static str]],
    /// The number of columns that are computed from the record and never read back. They are the last columns.
    pub(super) derived: usize,
    /// The unique indexes: the name of each, one of its columns, and the rule.
    pub(in crate::store) unique: &'static [(&'static str, &'static str, Unique)],
    pub(in crate::store) read: Reader<Record>,
    pub(in crate::store) texts: LazyLock<Texts>,
}

/// A function that reads a record from a row with the columns of a table.
pub(in crate::store) type Reader<T> = fn(&dyn Columns) -> Result<T, Cause>;

/// The reader of the table of events, which has no [`Record`]s: it returns an error.
pub(super) fn no_record(_: &dyn Columns) -> Result<Record, Cause> {
    Err("the rows of this table are not records".into())
}

/// The statements for a table, built once.
#[derive(Debug)]
pub(in crate::store) struct Texts {
    pub(super) columns: Vec<&'static str>,
    /// The columns that are read: `id, name, …`
    pub(in crate::store) read: String,
    /// The columns that are read, as one text in SQLite: `concat('32:', hex(id), ',', octet_length(name), ':', name, …
    /// ';')`
    #[cfg(feature = "sqlite")]
    pub(in crate::store) row_text: String,
    /// `SELECT id, name, … FROM plans`
    pub(in crate::store) select: String,
    pub(in crate::store) select_one: String,
    pub(in crate::store) select_version: String,
    pub(in crate::store) insert: String,
    pub(in crate::store) update: String,
    pub(in crate::store) delete: String,
}

impl Texts {
    pub(in crate::store) fn of(table: &Table) -> Self {
        let name = table.name;
        let key = table.key;
        let columns = table.fields.concat();
        let named = assignments(columns.iter().take(key), 1).join(" AND ");
        let list = columns.join(", ");
        let values = placeholders(1, columns.len());
        let read = columns.len().saturating_sub(table.derived);
        let read = columns.get(..read).unwrap_or_default();
        let select = format!("SELECT {} FROM {name}", read.join(", "));
        Self {
            select_one: format!("{select} WHERE {named}"),
            select_version: format!("SELECT version FROM {name} WHERE {named}"),
            insert: format!("INSERT INTO {name} ({list}) VALUES ({values})"),
            update: format!(
                "UPDATE {name} SET {} WHERE {named} AND version = ${}",
                assignments(columns.iter().skip(key), key + 1).join(", "),
                columns.len() + 1,
            ),
            delete: format!("DELETE FROM {name} WHERE {named} AND version = ${}", key + 1),
            read: read.join(", "),
            #[cfg(feature = "sqlite")]
            row_text: row_text(name, read),
            select,
            columns,
        }
    }
}

impl Table {
    /// Sets the reader of the table's records.
    pub(super) const fn holds<T: SqlRecord + Kind>(mut self) -> Self {
        self.read = |row| T::read(&mut Cells::new(row)).map(|read| Arc::new(read).into_record());
        self
    }

    pub(in crate::store) const fn of(key: &Key) -> &'static Self {
        match key {
            Key::Plan(_) => Plan::TABLE,
            Key::Subscription(_) => Subscription::TABLE,
            Key::Payment(_) => Payment::TABLE,
            Key::User(_) => User::TABLE,
            Key::Session(_) => Session::TABLE,
            Key::Client(_) => Client::TABLE,
            Key::Idempotency(_) => IdempotencyRecord::TABLE,
            Key::Document(_) => Document::TABLE,
        }
    }

    /// What a row says of a record that cannot be read.
    pub(super) fn damaged(&self, row: &dyn Columns, cause: &Cause) -> DamagedRecord {
        // The key of a document is its collection and its id, and that of a client is a text. All other ids are UUIDs.
        let names_text = matches!(self.key_columns(), ["collection", ..]) || self.name == "clients";
        let part = |at| {
            let text = if names_text {
                row.text(at).ok().flatten().map(Cow::into_owned)
            } else {
                row.id(at).ok().map(|id| id.to_string())
            };
            text.unwrap_or_default()
        };
        let cause = cause.to_string();
        if self.name == IdempotencyRecord::TABLE.name {
            return DamagedRecord { kind: "idempotency record", id: String::new(), cause };
        }
        // The name of each other table is the plural of its kind.
        let kind = self.name.strip_suffix('s').unwrap_or(self.name);
        let id: Vec<_> = (0..self.key).map(part).collect();
        DamagedRecord { kind, id: id.join(" "), cause }
    }

    pub(in crate::store) fn columns(&self) -> &[&'static str] {
        &self.texts.columns
    }

    /// The columns of the key.
    pub(in crate::store) fn key_columns(&self) -> &[&'static str] {
        self.columns().get(..self.key).unwrap_or_default()
    }
}

/// SQL that writes the columns of a row as one text, with commas between the values and a semicolon after the last one.
/// Bytes become hexadecimal. A text that may contain a comma is preceded by its length; NULL has no length: `4:a, b,:;`
#[cfg(feature = "sqlite")]
fn row_text(table: &str, columns: &[&str]) -> String {
    let id = if ["clients", "documents"].contains(&table) { "" } else { "id " };
    // The ids in these columns are never NULL and always have 16 bytes, so the length of their text is always 32.
    let ids = id.to_owned() + "user_id subscription_id subscription_plan_id";
    // Columns of numbers, and of texts that never contain a comma. They are written without a length.
    let plain = "amount at auth_time billing_cycle blocked closing currency generation is_active key_id managed_by \
                 most_popular node_quota price quantity sequence settled status successor_used tier version";
    let value = |column: &&str| {
        let is_one_of = |names: &str| names.split(' ').any(|name| name == *column);
        if is_one_of(&ids) {
            format!("'32:', hex({column})")
        } else if is_one_of("owner opened_with salt fingerprint") {
            format!("hex({column})")
        } else if is_one_of(plain) || column.ends_with("_at") {
            (*column).to_owned()
        } else {
            format!("octet_length({column}), ':', {column}")
        }
    };
    format!("concat({}, ';')", columns.iter().map(value).collect::<Vec<_>>().join(", ',', "))
}

/// `id = $1` for each column. The first placeholder has the number `from`.
fn assignments<'c>(columns: impl Iterator<Item = &'c &'c str>, from: usize) -> Vec<String> {
    columns.zip(from..).map(|(column, at)| format!("{column} = ${at}")).collect()
}

/// Placeholders such as `$1, $2, $3`. The first one has the number `from`.
pub(in crate::store) fn placeholders(from: usize, count: usize) -> String {
    (from..from + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

/// The values of a record's columns.
pub(in crate::store) fn values(record: &Record) -> Vec<Value> {
    match record {
        Record::Plan(plan) => plan.values(),
        Record::Subscription(subscription) => subscription.values(),
        Record::Payment(payment) => payment.values(),
        Record::User(user) => user.values(),
        Record::Session(session) => session.values(),
        Record::Client(client) => client.values(),
        Record::Idempotency(record) => record.values(),
        Record::Document(document) => document.values(),
    }
}

/// The values of the key's columns.
pub(in crate::store) fn key_values(key: &Key) -> Vec<Value> {
    let mut values = Vec::new();
    match key {
        Key::Plan(id) => id.write(&mut values),
        Key::Subscription(id) => id.write(&mut values),
        Key::Payment(id) => id.write(&mut values),
        Key::User(id) => id.write(&mut values),
        Key::Session(id) => id.write(&mut values),
        Key::Client(id) => id.write(&mut values),
        Key::Document(key) => key.write(&mut values),
        Key::Idempotency(key) => key.write(&mut values),
    }
    values
}
