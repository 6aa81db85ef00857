//! The tables, and the statements that each of them needs.

use std::sync::LazyLock;

use super::value::{Cells, Columns, Value};
use crate::store::{Guard, Key, Record, StoreError, Unique};

/// A record that has a table.
pub(super) trait Kept: Sized + Send + Sync {
    const TABLE: &'static Table;

    /// Its columns, in the table's order.
    fn values(&self) -> Vec<Value>;

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError>;
}

/// A kind of record as the database keeps it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The first so many columns name the record.
    pub(super) key: usize,
    pub(super) columns: &'static [&'static str],
    /// The columns that exports of an earlier release lack, and what they hold then, as JSON. A migration
    /// that adds a column adds it here too, with the default that it gives to the rows that are there.
    pub(super) defaults: &'static [(&'static str, &'static str)],
    /// SQL appended to the SET list of every UPDATE.
    pub(super) reset: &'static str,
    /// Its unique indexes, and a column of each.
    pub(super) unique: &'static [(&'static str, &'static str, Unique)],
    pub(super) texts: LazyLock<Texts>,
}

/// The statements that a table needs, put together once.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) select_one: String,
    pub(super) select_version: String,
    pub(super) insert: String,
    pub(super) update: String,
    pub(super) delete: String,
}

impl Texts {
    pub(super) fn of(table: &Table) -> Self {
        let (name, columns, named) = (table.name, table.columns.join(", "), table.named(1));
        let values = placeholders(1, table.columns.len());
        Self {
            select_one: format!("{} WHERE {named}", table.select()),
            select_version: format!("SELECT version FROM {name} WHERE {named}"),
            insert: format!("INSERT INTO {name} ({columns}) VALUES ({values})"),
            update: table.update(1),
            delete: format!("DELETE FROM {name} WHERE {named} AND version = ${}", table.key + 1),
        }
    }
}

impl Table {
    pub(super) const fn of(key: &Key) -> &'static Self {
        match key {
            Key::Plan(_) => &PLANS,
            Key::Subscription(_) => &SUBSCRIPTIONS,
            Key::Payment(_) => &PAYMENTS,
            Key::User(_) => &USERS,
            Key::Session(_) => &SESSIONS,
            Key::Client(_) => &CLIENTS,
            Key::Idempotency(_) => &ANSWERS,
            Key::Document(_) => &DOCUMENTS,
        }
    }

    /// `SELECT id, name, … FROM plans`
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.columns.join(", "), self.name)
    }

    /// `id = $1`, the key from parameter `from` on.
    pub(super) fn named(&self, from: usize) -> String {
        let columns = self.columns.iter().take(self.key).zip(from..);
        columns.map(|(column, at)| format!("{column} = ${at}")).collect::<Vec<_>>().join(" AND ")
    }

    /// Takes the columns from parameter `from` on; the version before comes last.
    pub(super) fn update(&self, from: usize) -> String {
        let columns = self.columns.iter().zip(from..).skip(self.key);
        let columns: Vec<_> = columns.map(|(column, at)| format!("{column} = ${at}")).collect();
        let version = from + self.columns.len();
        format!(
            "UPDATE {} SET {}{} WHERE {} AND version = ${version}",
            self.name,
            columns.join(", "),
            self.reset,
            self.named(from),
        )
    }
}

/// `$1, $2, $3`
pub(super) fn placeholders(from: usize, count: usize) -> String {
    (from..from + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

/// The columns of the record that is to be written.
pub(super) fn values(write: &Record) -> Vec<Value> {
    match write {
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

/// Finds an idempotency record that has expired: its key, and then the moment.
pub(super) const EXPIRED_ANSWER: &str = "SELECT 1 FROM answers \
    WHERE operation = $1 AND client = $2 AND request_key = $3 AND expires_at <= $4";

/// The idempotency record of a guard, and what is bound to [`EXPIRED_ANSWER`] for it.
pub(super) fn expiry_values(guard: &Guard) -> Option<(Key, Vec<Value>)> {
    let Guard::Expired { key, by } = guard else { return None };
    let key = Key::Idempotency(key.clone());
    let mut values = key_values(&key);
    values.push(Value::time(*by));
    Some((key, values))
}

/// What names the record, as its key columns have it.
pub(super) fn key_values(key: &Key) -> Vec<Value> {
    match key {
        Key::Plan(id) => vec![Value::Id(id.uuid())],
        Key::Subscription(id) => vec![Value::Id(id.uuid())],
        Key::Payment(id) => vec![Value::Id(id.uuid())],
        Key::User(id) => vec![Value::Id(id.uuid())],
        Key::Session(id) => vec![Value::Id(id.uuid())],
        Key::Client(id) => vec![Value::text(id)],
        Key::Idempotency(key) => vec![
            Value::text(key.operation.as_str()),
            Value::text(&key.client),
            Value::text(key.key.as_str()),
        ],
        Key::Document(key) => vec![Value::text(key.collection.as_str()), Value::text(&key.id)],
    }
}

/// The subscriptions of a user that are not expired.
pub(super) const LIVE_SUBSCRIPTIONS: &str =
    "SELECT id FROM subscriptions WHERE user_id = $1 AND status <> 'expired'";

pub(super) static PLANS: Table = Table {
    name: "plans",
    key: 1,
    columns: &[
        "id",
        "name",
        "product_id",
        "variants",
        "slug",
        "price",
        "href",
        "billing_cycle",
        "description",
        "node_quota",
        "features",
        "most_popular",
        "tier",
        "is_active",
        "created_at",
        "updated_at",
        "version",
    ],
    defaults: &[],
    reset: "",
    unique: &[("plans_slug", "plans.slug", Unique::PlanSlug)],
    texts: LazyLock::new(|| Texts::of(&PLANS)),
};

pub(super) static SUBSCRIPTIONS: Table = Table {
    name: "subscriptions",
    key: 1,
    columns: &[
        "id",
        "user_id",
        "subscription_plan_id",
        "external_subscription_id",
        "billing_cycle",
        "status",
        "is_active",
        "renews_at",
        "starts_at",
        "ends_at",
        "created_at",
        "updated_at",
        "version",
        "blocked",
        "anchor_at",
    ],
    defaults: &[],
    // `is_over` is read by the release before this one.
    reset: ", is_over = FALSE, access_phase = 0",
    unique: &[(
        "subscriptions_external_id",
        "subscriptions.external_subscription_id",
        Unique::ExternalSubscription,
    )],
    texts: LazyLock::new(|| Texts::of(&SUBSCRIPTIONS)),
};

pub(super) static PAYMENTS: Table = Table {
    name: "payments",
    key: 1,
    columns: &[
        "id",
        "subscription_id",
        "amount",
        "currency",
        "external_payment_id",
        "status",
        "created_at",
        "updated_at",
        "version",
        "settled",
    ],
    defaults: &[],
    reset: "",
    unique: &[("payments_external_id", "payments.external_payment_id", Unique::ExternalPayment)],
    texts: LazyLock::new(|| Texts::of(&PAYMENTS)),
};

pub(super) static USERS: Table = Table {
    name: "users",
    key: 1,
    columns: &[
        "id",
        "issuer",
        "subject",
        "email",
        "email_key",
        "closing",
        "created_at",
        "updated_at",
        "version",
    ],
    defaults: &[],
    reset: "",
    unique: &[
        ("users_identity", "users.issuer", Unique::UserIdentity),
        ("users_email", "users.email_key", Unique::UserEmail),
    ],
    texts: LazyLock::new(|| Texts::of(&USERS)),
};

pub(super) static SESSIONS: Table = Table {
    name: "sessions",
    key: 1,
    columns: &[
        "id",
        "user_id",
        "client_id",
        "issuer",
        "opened_with",
        "key_id",
        "salt",
        "generation",
        "rotated_at",
        "successor_used",
        "auth_time",
        "last_seen_at",
        "expires_at",
        "idle_expires_at",
        "revoked_at",
        "revocation_reason",
        "ip",
        "user_agent",
        "created_at",
        "updated_at",
        "version",
        "ended_at",
    ],
    defaults: &[],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&SESSIONS)),
};

pub(super) static CLIENTS: Table = Table {
    name: "clients",
    key: 1,
    columns: &[
        "id",
        "name",
        "kind",
        "scopes",
        "keys",
        "revoked_at",
        "origins",
        "source",
        "left_at",
        "created_at",
        "updated_at",
        "version",
    ],
    defaults: &[("origins", "[]"), ("source", "\"command\""), ("left_at", "null")],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&CLIENTS)),
};

pub(super) static ANSWERS: Table = Table {
    name: "answers",
    key: 3,
    columns: &[
        "operation",
        "client",
        "request_key",
        "version",
        "fingerprint",
        "answer",
        "expires_at",
    ],
    defaults: &[],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&ANSWERS)),
};

pub(super) static DOCUMENTS: Table = Table {
    name: "documents",
    key: 2,
    columns: &["collection", "id", "version", "owner", "label", "due_at", "body"],
    defaults: &[],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&DOCUMENTS)),
};

/// Events that have a place.
pub(super) static EVENTS: Table = Table {
    name: "events",
    key: 1,
    columns: &["sequence", "id", "at", "subject", "version", "change"],
    defaults: &[],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&EVENTS)),
};
