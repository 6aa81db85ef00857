//! The peer: a server that a good engineer writes by hand for the same work, with axum and sqlx.
//!
//! One transaction reads the plan, inserts a subscription into a table with five indexes and inserts an event. Lists
//! are ordered by id and skip rows by OFFSET. Statements are prepared once for each connection of a pool of 16. The
//! responses have the main fields of a subscription.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use axum::http::StatusCode;
use chrono::{DateTime, Months, Utc};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use subscription_core::{Clock as _, EventId, SystemClock, SystemRandomness, Timestamp};
use test_support::million_records as records;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::{Database, SEEDED, USERS};

const POOL: u32 = 16;

fn time<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    Timestamp::from_micros(time.timestamp_micros()).unwrap().serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn time_or_null<S: Serializer>(
    time: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = |time: DateTime<Utc>| Timestamp::from_micros(time.timestamp_micros()).unwrap();
    time.map(shown).serialize(serializer)
}

#[derive(Deserialize)]
struct New {
    user_id: Uuid,
    subscription_plan_id: Uuid,
}

#[derive(Serialize)]
struct SubscriptionBody {
    id: Uuid,
    user_id: Uuid,
    subscription_plan_id: Uuid,
    external_subscription_id: Option<String>,
    billing_cycle: String,
    status: String,
    is_active: bool,
    #[serde(serialize_with = "time_or_null")]
    renews_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "time")]
    starts_at: DateTime<Utc>,
    #[serde(serialize_with = "time_or_null")]
    ends_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "time")]
    created_at: DateTime<Utc>,
    #[serde(serialize_with = "time")]
    updated_at: DateTime<Utc>,
    version: i64,
}

#[derive(Serialize)]
struct PlanBody {
    id: Uuid,
    slug: String,
    name: String,
    price: String,
    billing_cycle: String,
    description: String,
    node_quota: i64,
    features: String,
    tier: i64,
    is_active: bool,
    #[serde(serialize_with = "time")]
    created_at: DateTime<Utc>,
    #[serde(serialize_with = "time")]
    updated_at: DateTime<Utc>,
    version: i64,
}

/// The columns of a row, in the order of the fields.
type SubscriptionRow = (
    Uuid,
    Uuid,
    Uuid,
    Option<String>,
    String,
    String,
    bool,
    Option<DateTime<Utc>>,
    DateTime<Utc>,
    Option<DateTime<Utc>>,
    DateTime<Utc>,
    DateTime<Utc>,
    i64,
);

impl From<SubscriptionRow> for SubscriptionBody {
    fn from(row: SubscriptionRow) -> Self {
        let (
            id,
            user_id,
            subscription_plan_id,
            external_subscription_id,
            billing_cycle,
            status,
            is_active,
            renews_at,
            starts_at,
            ends_at,
            created_at,
            updated_at,
            version,
        ) = row;
        Self {
            id,
            user_id,
            subscription_plan_id,
            external_subscription_id,
            billing_cycle,
            status,
            is_active,
            renews_at,
            starts_at,
            ends_at,
            created_at,
            updated_at,
            version,
        }
    }
}

/// The columns of a row, in the order of the fields.
type PlanRow = (
    Uuid,
    String,
    String,
    String,
    String,
    String,
    i64,
    String,
    i64,
    bool,
    DateTime<Utc>,
    DateTime<Utc>,
    i64,
);

impl From<PlanRow> for PlanBody {
    fn from(row: PlanRow) -> Self {
        let (
            id,
            slug,
            name,
            price,
            billing_cycle,
            description,
            node_quota,
            features,
            tier,
            is_active,
            created_at,
            updated_at,
            version,
        ) = row;
        Self {
            id,
            slug,
            name,
            price,
            billing_cycle,
            description,
            node_quota,
            features,
            tier,
            is_active,
            created_at,
            updated_at,
            version,
        }
    }
}

#[derive(Serialize)]
struct ListBody {
    data: Vec<SubscriptionBody>,
    offset: i64,
}

/// A row of the join: the subscription's id, status, renewal and end; the plan's id, slug, name, tier,
/// features and quota.
type GrantRow = (
    Uuid,
    String,
    Option<DateTime<Utc>>,
    Option<DateTime<Utc>>,
    Uuid,
    String,
    String,
    i64,
    String,
    i64,
);

#[derive(Serialize)]
struct EntitlementBody {
    user_id: Uuid,
    has_access: bool,
    features: BTreeSet<String>,
    node_quota: i64,
    grants: Vec<GrantBody>,
}

#[derive(Serialize)]
struct GrantBody {
    subscription_id: Uuid,
    status: String,
    #[serde(serialize_with = "time_or_null")]
    renews_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "time_or_null")]
    ends_at: Option<DateTime<Utc>>,
    plan: GrantPlan,
}

#[derive(Serialize)]
struct GrantPlan {
    id: Uuid,
    slug: String,
    name: String,
    tier: i64,
}

impl EntitlementBody {
    fn of(user_id: Uuid, rows: Vec<GrantRow>) -> Self {
        let mut features = BTreeSet::new();
        let (mut node_quota, mut grants) = (0, Vec::with_capacity(rows.len()));
        for (subscription_id, status, renews_at, ends_at, id, slug, name, tier, listed, quota) in
            rows
        {
            let listed = listed.split(',').map(|feature| feature.trim().to_owned());
            features.extend(listed.filter(|feature| !feature.is_empty()));
            node_quota = quota.max(node_quota);
            let plan = GrantPlan { id, slug, name, tier };
            grants.push(GrantBody { subscription_id, status, renews_at, ends_at, plan });
        }
        Self { user_id, has_access: !grants.is_empty(), features, node_quota, grants }
    }
}

type Answer = Result<(StatusCode, [(&'static str, &'static str); 1], Vec<u8>), StatusCode>;

fn answer(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok((status, [("content-type", "application/json")], body))
}

fn failed(_: sqlx::Error) -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

const COLUMNS: &str = "id, user_id, plan_id AS subscription_plan_id, external_id AS external_subscription_id, \
    billing_cycle, status, is_active, renews_at, starts_at, ends_at, created_at, updated_at, version";

/// The handlers over one kind of database. They differ by types alone; `sqlx::Any` would cost the peer time.
macro_rules! peer {
    ($module:ident, $pool:ty, $begin:literal) => {
        mod $module {
            use axum::extract::{Path, RawQuery, State};
            use axum::routing::{get, post};
            use bytes::Bytes;

            use super::*;

            async fn create(State(pool): State<$pool>, body: Bytes) -> Answer {
                let new: New =
                    serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
                let mut transaction = pool.begin_with($begin).await.map_err(failed)?;
                let text =
                    "SELECT billing_cycle, cycle_months FROM peer_plans WHERE id = $1 AND is_active";
                let plan = sqlx::query_as::<_, (String, i32)>(text).bind(new.subscription_plan_id);
                let plan = plan.fetch_optional(&mut *transaction).await.map_err(failed)?;
                let (billing_cycle, months) = plan.ok_or(StatusCode::NOT_FOUND)?;
                let now = now();
                let created = SubscriptionBody {
                    id: new_id(),
                    user_id: new.user_id,
                    subscription_plan_id: new.subscription_plan_id,
                    external_subscription_id: None,
                    billing_cycle,
                    status: "active".to_owned(),
                    is_active: true,
                    renews_at: Some(now + Months::new(months.unsigned_abs())),
                    starts_at: now,
                    ends_at: None,
                    created_at: now,
                    updated_at: now,
                    version: 1,
                };
                insert(&mut *transaction, &created).await.map_err(failed)?;
                let text = "INSERT INTO peer_events (at, kind, payload) VALUES ($1, 'subscription.created', $2)";
                let payload = sqlx::types::Json(json!({ "id": created.id, "version": 1 }));
                let event = sqlx::query(text).bind(now).bind(payload);
                event.execute(&mut *transaction).await.map_err(failed)?;
                transaction.commit().await.map_err(failed)?;
                answer(StatusCode::CREATED, &created)
            }

            async fn insert(
                connection: &mut <<$pool as PoolOf>::Database as sqlx::Database>::Connection,
                new: &SubscriptionBody,
            ) -> Result<(), sqlx::Error> {
                let text = "INSERT INTO peer_subscriptions (id, user_id, plan_id, external_id, billing_cycle, \
                            status, is_active, renews_at, starts_at, ends_at, created_at, updated_at, version) \
                            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
                let insert = sqlx::query(text).bind(new.id).bind(new.user_id);
                let insert = insert.bind(new.subscription_plan_id);
                let insert = insert.bind(&new.external_subscription_id).bind(&new.billing_cycle);
                let insert = insert.bind(&new.status).bind(new.is_active).bind(new.renews_at);
                let insert = insert.bind(new.starts_at).bind(new.ends_at).bind(new.created_at);
                let insert = insert.bind(new.updated_at).bind(new.version);
                insert.execute(connection).await.map(drop)
            }

            async fn subscription(State(pool): State<$pool>, Path(id): Path<Uuid>) -> Answer {
                let text =
                    sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM peer_subscriptions WHERE id = $1"));
                let found = sqlx::query_as::<_, SubscriptionRow>(text).bind(id);
                let found = found.fetch_optional(&pool).await.map_err(failed)?;
                answer(StatusCode::OK, &found.map(SubscriptionBody::from).ok_or(StatusCode::NOT_FOUND)?)
            }

            async fn list(State(pool): State<$pool>, RawQuery(query): RawQuery) -> Answer {
                let (mut status, mut offset) = (None, 0_i64);
                let query = query.unwrap_or_default();
                for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
                    match &*name {
                        "status" => status = Some(value.into_owned()),
                        "offset" => offset = value.parse().map_err(|_| StatusCode::BAD_REQUEST)?,
                        _ => return Err(StatusCode::BAD_REQUEST),
                    }
                }
                let filter = if status.is_some() { "WHERE status = $2 " } else { "" };
                let text = format!(
                    "SELECT {COLUMNS} FROM peer_subscriptions {filter}ORDER BY id DESC LIMIT 50 OFFSET $1"
                );
                let found = sqlx::query_as::<_, SubscriptionRow>(sqlx::AssertSqlSafe(text)).bind(offset);
                let found = match status {
                    Some(status) => found.bind(status),
                    None => found,
                };
                let found = found.fetch_all(&pool).await.map_err(failed)?;
                let data = found.into_iter().map(SubscriptionBody::from).collect();
                answer(StatusCode::OK, &ListBody { data, offset })
            }

            async fn plan(State(pool): State<$pool>, Path(slug): Path<String>) -> Answer {
                let text = "SELECT id, slug, name, price, billing_cycle, description, node_quota, features, tier, \
                            is_active, created_at, updated_at, version FROM peer_plans WHERE slug = $1";
                let found = sqlx::query_as::<_, PlanRow>(text).bind(slug);
                let found = found.fetch_optional(&pool).await.map_err(failed)?;
                answer(StatusCode::OK, &found.map(PlanBody::from).ok_or(StatusCode::NOT_FOUND)?)
            }

            async fn entitlement(State(pool): State<$pool>, Path(user): Path<Uuid>) -> Answer {
                let text = "SELECT s.id, s.status, s.renews_at, s.ends_at, p.id, p.slug, p.name, p.tier, \
                            p.features, p.node_quota FROM peer_subscriptions s \
                            JOIN peer_plans p ON p.id = s.plan_id WHERE s.user_id = $1 \
                            AND s.status IN ('on_trial', 'active', 'past_due', 'cancelled') \
                            AND s.starts_at <= $2 AND (s.ends_at IS NULL OR s.ends_at > $2) ORDER BY s.id DESC";
                let rows = sqlx::query_as::<_, GrantRow>(text).bind(user).bind(now());
                let rows = rows.fetch_all(&pool).await.map_err(failed)?;
                answer(StatusCode::OK, &EntitlementBody::of(user, rows))
            }

            /// Makes the tables and their rows, and returns the id of the plan that can be bought.
            async fn fill(pool: &$pool, tables: &'static str) -> Uuid {
                sqlx::raw_sql(tables).execute(pool).await.unwrap();
                let plan = new_id();
                let text = "INSERT INTO peer_plans VALUES ($1, 'pro', 'Pro', '19.90', 'monthly', '', 0, '', 0, true, \
                            $2, $2, 1, 1)";
                sqlx::query(text).bind(plan).bind(now()).execute(pool).await.unwrap();
                let mut transaction = pool.begin_with($begin).await.unwrap();
                for nth in 0..SEEDED {
                    insert(&mut *transaction, &seeded(nth)).await.unwrap();
                }
                transaction.commit().await.unwrap();
                plan
            }

            pub(super) async fn serve(pool: $pool, tables: &'static str) {
                let plan_id = fill(&pool, tables).await;
                let app = axum::Router::new()
                    .route("/subscription-plans/{slug}", get(plan))
                    .route("/subscriptions", post(create).get(list))
                    .route("/subscriptions/{id}", get(subscription))
                    .route("/users/{id}/entitlement", get(entitlement))
                    .with_state(pool);
                super::listen(app, plan_id).await;
            }
        }
    };
}

/// The database of a pool.
trait PoolOf {
    type Database: sqlx::Database;
}

impl<D: sqlx::Database> PoolOf for sqlx::Pool<D> {
    type Database = D;
}

peer!(postgres, sqlx::PgPool, "BEGIN");
peer!(sqlite, sqlx::SqlitePool, "BEGIN IMMEDIATE");

const TABLES_OF_POSTGRES: &str = "
    CREATE TABLE peer_plans (id UUID PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL, price TEXT NOT NULL,
        billing_cycle TEXT NOT NULL, description TEXT NOT NULL, node_quota BIGINT NOT NULL, features TEXT NOT NULL,
        tier BIGINT NOT NULL, is_active BOOLEAN NOT NULL, created_at TIMESTAMPTZ NOT NULL,
        updated_at TIMESTAMPTZ NOT NULL, version BIGINT NOT NULL, cycle_months INT NOT NULL);
    CREATE TABLE peer_subscriptions (
        id UUID PRIMARY KEY, user_id UUID NOT NULL, plan_id UUID NOT NULL, external_id TEXT,
        billing_cycle TEXT NOT NULL, status TEXT NOT NULL, is_active BOOLEAN NOT NULL, renews_at TIMESTAMPTZ,
        starts_at TIMESTAMPTZ NOT NULL, ends_at TIMESTAMPTZ, created_at TIMESTAMPTZ NOT NULL,
        updated_at TIMESTAMPTZ NOT NULL, version BIGINT NOT NULL);
    CREATE INDEX peer_user ON peer_subscriptions (user_id);
    CREATE INDEX peer_plan ON peer_subscriptions (plan_id);
    CREATE INDEX peer_status ON peer_subscriptions (status);
    CREATE INDEX peer_renews ON peer_subscriptions (renews_at);
    CREATE TABLE peer_events (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at TIMESTAMPTZ NOT NULL,
        kind TEXT NOT NULL, payload JSONB NOT NULL);";

const TABLES_OF_SQLITE: &str = "
    CREATE TABLE peer_plans (id BLOB PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL, price TEXT NOT NULL,
        billing_cycle TEXT NOT NULL, description TEXT NOT NULL, node_quota INTEGER NOT NULL, features TEXT NOT NULL,
        tier INTEGER NOT NULL, is_active BOOLEAN NOT NULL, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, version INTEGER NOT NULL, cycle_months INTEGER NOT NULL);
    CREATE TABLE peer_subscriptions (
        id BLOB PRIMARY KEY, user_id BLOB NOT NULL, plan_id BLOB NOT NULL, external_id TEXT,
        billing_cycle TEXT NOT NULL, status TEXT NOT NULL, is_active BOOLEAN NOT NULL, renews_at TEXT,
        starts_at TEXT NOT NULL, ends_at TEXT, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, version INTEGER NOT NULL);
    CREATE INDEX peer_user ON peer_subscriptions (user_id);
    CREATE INDEX peer_plan ON peer_subscriptions (plan_id);
    CREATE INDEX peer_status ON peer_subscriptions (status);
    CREATE INDEX peer_renews ON peer_subscriptions (renews_at);
    CREATE TABLE peer_events (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
        kind TEXT NOT NULL, payload TEXT NOT NULL);";

/// The subscription of this number, the same as in our server.
fn seeded(nth: u64) -> SubscriptionBody {
    let ours = records::subscription(nth);
    let time = |time: Timestamp| DateTime::<Utc>::from(time);
    SubscriptionBody {
        id: ours.id.uuid(),
        user_id: ours.user_id.uuid(),
        subscription_plan_id: ours.subscription_plan_id.uuid(),
        external_subscription_id: Some(format!("sub-{nth}")),
        billing_cycle: "monthly".to_owned(),
        status: ours.status.to_string(),
        is_active: ours.is_active,
        renews_at: ours.renews_at.map(time),
        starts_at: time(ours.starts_at),
        ends_at: ours.ends_at.map(time),
        created_at: time(ours.created_at),
        updated_at: time(ours.updated_at),
        version: 1,
    }
}

fn now() -> DateTime<Utc> {
    SystemClock.now().into()
}

/// A UUID of version 7.
fn new_id() -> Uuid {
    EventId::new(SystemClock.now(), &SystemRandomness).unwrap().uuid()
}

/// Runs as the peer over a database, until the process is killed.
pub(super) async fn serve(database: Database, place: &str) {
    match database {
        Database::Postgres => {
            let pool = PgPoolOptions::new().max_connections(POOL).connect(place).await.unwrap();
            postgres::serve(pool, TABLES_OF_POSTGRES).await;
        }
        Database::Sqlite => {
            let options = SqliteConnectOptions::from_str(place).unwrap();
            let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
            let options = options.synchronous(SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new().max_connections(POOL).connect_with(options).await;
            sqlite::serve(pool.unwrap(), TABLES_OF_SQLITE).await;
        }
    }
}

async fn listen(app: axum::Router, plan: Uuid) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let users: Vec<_> = (0..USERS).map(|_| new_id()).collect();
    let address = listener.local_addr().unwrap();
    println!("{}", json!({ "address": address, "plan": plan, "users": users }));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = hyper_util::service::TowerToHyperService::new(app.clone());
        tokio::spawn(async move {
            let executor = hyper_util::rt::TokioExecutor::new();
            let builder = hyper_util::server::conn::auto::Builder::new(executor);
            builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await.ok();
        });
    }
}
