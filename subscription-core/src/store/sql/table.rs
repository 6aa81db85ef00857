//! The tables, and the statements that each of them needs.

use std::sync::LazyLock;

use super::value::{Cells, Columns, Value};
use crate::store::{Guard, Key, StoreError, Unique, Write};

/// A record that has a table.
pub(in crate::store) trait SqlRecord: Sized + Send + Sync {
    const TABLE: &'static Table;

    /// Its columns, in the table's order.
    fn values(&self) -> Vec<Value>;

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError>;
}

/// A kind of record as the database keeps it.
#[derive(Debug)]
pub(in crate::store) struct Table {
    pub(in crate::store) name: &'static str,
    /// The first so many columns name the record.
    pub(in crate::store) key: usize,
    pub(in crate::store) columns: &'static [&'static str],
    /// The columns that exports of an earlier release lack, and what they hold then, as JSON. A migration
    /// that adds a column adds it here too, with the default that it gives to the rows that are there.
    pub(in crate::store) defaults: &'static [(&'static str, &'static str)],
    /// SQL appended to the SET list of every UPDATE.
    pub(in crate::store) reset: &'static str,
    /// Its unique indexes, and a column of each.
    pub(in crate::store) unique: &'static [(&'static str, &'static str, Unique)],
    pub(in crate::store) texts: LazyLock<Texts>,
}

/// The statements that a table needs, put together once.
#[derive(Debug)]
pub(in crate::store) struct Texts {
    pub(in crate::store) select_one: String,
    pub(in crate::store) select_version: String,
    pub(in crate::store) insert: String,
    pub(in crate::store) update: String,
    pub(in crate::store) delete: String,
}

impl Texts {
    pub(in crate::store) fn of(table: &Table) -> Self {
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
    pub(in crate::store) const fn of(key: &Key) -> &'static Self {
        match key {
            Key::Plan(_) => &PLANS,
            Key::Subscription(_) => &SUBSCRIPTIONS,
            Key::Payment(_) => &PAYMENTS,
            Key::User(_) => &USERS,
            Key::Session(_) => &SESSIONS,
            Key::Client(_) => &CLIENTS,
            Key::Idempotency(_) => &ANSWERS,
        }
    }

    /// `SELECT id, name, … FROM plans`
    pub(in crate::store) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.columns.join(", "), self.name)
    }

    /// `id = $1`, the key from parameter `from` on.
    pub(in crate::store) fn named(&self, from: usize) -> String {
        let columns = self.columns.iter().take(self.key).zip(from..);
        columns.map(|(column, at)| format!("{column} = ${at}")).collect::<Vec<_>>().join(" AND ")
    }

    /// Takes the columns from parameter `from` on; the version before comes last.
    pub(in crate::store) fn update(&self, from: usize) -> String {
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
pub(in crate::store) fn placeholders(from: usize, count: usize) -> String {
    (from..from + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

/// The columns of the record that is to be written.
pub(in crate::store) fn values(write: &Write) -> Vec<Value> {
    match write {
        Write::Plan(plan) => plan.values(),
        Write::Subscription(subscription) => subscription.values(),
        Write::Payment(payment) => payment.values(),
        Write::User(user) => user.values(),
        Write::Session(session) => session.values(),
        Write::Client(client) => client.values(),
        Write::Idempotency(record) => record.values(),
    }
}

/// Finds an idempotency record that has expired: its key, and then the moment.
pub(in crate::store) const EXPIRED_ANSWER: &str = "SELECT 1 FROM answers \
    WHERE operation = $1 AND client = $2 AND request_key = $3 AND expires_at <= $4";

/// The idempotency record of a guard, and what is bound to [`EXPIRED_ANSWER`] for it.
pub(in crate::store) fn expiry_values(guard: &Guard) -> Option<(Key, Vec<Value>)> {
    let Guard::Expired { key, by } = guard else { return None };
    let key = Key::Idempotency(key.clone());
    let mut values = key_values(&key);
    values.push(Value::time(*by));
    Some((key, values))
}

/// What names the record, as its key columns have it.
pub(in crate::store) fn key_values(key: &Key) -> Vec<Value> {
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
    }
}

/// The subscriptions of a user that are not expired.
pub(in crate::store) const LIVE_SUBSCRIPTIONS: &str =
    "SELECT id FROM subscriptions WHERE user_id = $1 AND status <> 'expired'";

pub(in crate::store) static PLANS: Table = Table {
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

pub(in crate::store) static SUBSCRIPTIONS: Table = Table {
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

pub(in crate::store) static PAYMENTS: Table = Table {
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

pub(in crate::store) static USERS: Table = Table {
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

pub(in crate::store) static SESSIONS: Table = Table {
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

pub(in crate::store) static CLIENTS: Table = Table {
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

pub(in crate::store) static ANSWERS: Table = Table {
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

/// Events that have a place.
pub(in crate::store) static EVENTS: Table = Table {
    name: "events",
    key: 1,
    columns: &["sequence", "id", "at", "subject", "version", "change"],
    defaults: &[],
    reset: "",
    unique: &[],
    texts: LazyLock::new(|| Texts::of(&EVENTS)),
};
