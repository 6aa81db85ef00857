//! The two servers, each in a process of its own with two workers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use bytes::Bytes;
use chrono::{DateTime, Months, Utc};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use subscription_core::auth::{IdentityKey, User};
use subscription_core::store::{ChangeSet, PostgresOptions};
use subscription_core::{
    Clock as _, EventId, Store as _, SystemClock, SystemRandomness, Timestamp, UserId, Version,
};
use subscription_http::Limits;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::load_parts::callers::{Request, one};
use crate::load_parts::servers::Caller;
use crate::world::ApiWorld;

/// Users for whom subscriptions are created, each on a connection of its own.
const USERS: usize = 32;

/// A server that runs; it ends with this.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    about: Value,
}

impl Running {
    pub(crate) fn start(name: &str, database: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--serve", name, database]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line).unwrap();
        let address = about["address"].as_str().unwrap().parse().unwrap();
        Self { child, address, about }
    }

    /// A request for each user that creates a subscription.
    pub(crate) fn creates(&self) -> Vec<Request> {
        self.of_each_user(|user, caller| {
            let body = json!({ "user_id": user, "subscription_plan_id": self.about["plan"] });
            Request::post("/subscriptions", &body.to_string(), caller)
        })
    }

    /// A request for each user that asks for the entitlement.
    pub(crate) fn entitlements(&self) -> Vec<Request> {
        self.of_each_user(|user, caller| {
            Request::get(&format!("/users/{user}/entitlement"), caller)
        })
    }

    /// A request for a new subscription of each user.
    pub(crate) async fn subscriptions(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for create in self.creates() {
            let made: Value = serde_json::from_slice(&one(self.address, &create).await).unwrap();
            let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
            requests.push(Request::get(&path, &self.caller()));
        }
        requests
    }

    fn of_each_user(&self, request: impl Fn(&str, &Caller) -> Request) -> Vec<Request> {
        let (caller, users) = (self.caller(), self.about["users"].as_array().unwrap().iter());
        users.map(|user| request(user.as_str().unwrap(), &caller)).collect()
    }

    fn caller(&self) -> Caller {
        let text = |name: &str| self.about[name].as_str().unwrap_or_default().to_owned();
        let (client, token) = (text("client"), text("token"));
        Caller { client, token, subscription: String::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Is one of the servers, until it is killed.
pub(crate) fn serve(name: &str, database: &str) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match name {
            "ours" => ours(database).await,
            _ => peer(database).await,
        }
    });
}

async fn ours(database: &str) {
    let store = Arc::new(PostgresOptions::url(database).unwrap().open().await.unwrap());
    let users: Vec<_> = (0..USERS).map(user).collect();
    let ids: Vec<_> = users.iter().map(|user| user.id).collect();
    let writes = users.into_iter().map(Into::into).collect();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    // With the cache of plans and clients that there is in front of a database.
    let world = ApiWorld::over(store, 0, true).await;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = subscription_http::Server::bind(world.api.clone(), address, Limits::default());
    let server = server.await.unwrap().workers(NonZeroUsize::new(2).unwrap()).unwrap();
    let about = json!({
        "address": server.address().unwrap(),
        "client": world.client.expose_secret(),
        "token": world.token.expose_secret(),
        "plan": world.plan,
        "users": ids,
    });
    println!("{about}");
    server.run(std::future::pending()).await;
}

fn user(number: usize) -> User {
    let now = SystemClock.now();
    let text = format!("user-{number}");
    let identity =
        IdentityKey { issuer: "issuer".parse().unwrap(), subject: text.parse().unwrap() };
    let (id, version) = (UserId::new(now, &SystemRandomness).unwrap(), Version::FIRST);
    let email = format!("{text}@example.com").parse().unwrap();
    User { id, identity, email, closing: false, created_at: now, updated_at: now, version }
}

const TABLES: &str = "
    CREATE SCHEMA peer;
    CREATE TABLE peer.plans (id UUID PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        tier BIGINT NOT NULL, features TEXT NOT NULL, node_quota BIGINT NOT NULL, cycle_months INT NOT NULL,
        is_active BOOLEAN NOT NULL);
    CREATE TABLE peer.subscriptions (
        id UUID PRIMARY KEY, user_id UUID NOT NULL, plan_id UUID NOT NULL REFERENCES peer.plans,
        external_id TEXT, status TEXT NOT NULL, renews_at TIMESTAMPTZ, starts_at TIMESTAMPTZ NOT NULL,
        ends_at TIMESTAMPTZ, created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL,
        version BIGINT NOT NULL);
    CREATE INDEX ON peer.subscriptions (user_id);
    CREATE INDEX ON peer.subscriptions (plan_id);
    CREATE INDEX ON peer.subscriptions (status);
    CREATE INDEX ON peer.subscriptions (renews_at);
    CREATE TABLE peer.events (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at TIMESTAMPTZ NOT NULL,
        kind TEXT NOT NULL, payload JSONB NOT NULL);";

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
    status: Cow<'static, str>,
    renews_at: Timestamp,
    starts_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: i64,
}

/// The handler of the peer: one transaction of three statements.
async fn create(
    State(pool): State<PgPool>,
    body: Bytes,
) -> Result<(StatusCode, [(&'static str, &'static str); 1], Vec<u8>), StatusCode> {
    let new: New = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let failed = |_: sqlx::Error| StatusCode::INTERNAL_SERVER_ERROR;
    let mut transaction = pool.begin().await.map_err(failed)?;
    let text = "SELECT cycle_months FROM peer.plans WHERE id = $1 AND is_active";
    let plan = sqlx::query_as::<_, (i32,)>(text).bind(new.subscription_plan_id);
    let plan = plan.fetch_optional(&mut *transaction).await.map_err(failed)?;
    let (months,) = plan.ok_or(StatusCode::NOT_FOUND)?;
    let now = SystemClock.now();
    let (at, period) = (DateTime::<Utc>::from(now), Months::new(months.unsigned_abs()));
    let renews_at = at + period;
    let created = SubscriptionBody {
        id: new_id(),
        user_id: new.user_id,
        subscription_plan_id: new.subscription_plan_id,
        status: "active".into(),
        renews_at: Timestamp::from_micros(renews_at.timestamp_micros()).unwrap(),
        starts_at: now,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let payload = serde_json::to_vec(&created).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let text = "INSERT INTO peer.subscriptions (id, user_id, plan_id, status, renews_at, starts_at, \
                created_at, updated_at, version) VALUES ($1, $2, $3, 'active', $4, $5, $5, $5, 1)";
    let insert = sqlx::query(text).bind(created.id).bind(created.user_id);
    let insert = insert.bind(created.subscription_plan_id).bind(renews_at).bind(at);
    insert.execute(&mut *transaction).await.map_err(failed)?;
    let text =
        "INSERT INTO peer.events (at, kind, payload) VALUES ($1, 'subscription.created', $2)";
    let payload_json = json!({ "id": created.id, "version": 1 });
    let event = sqlx::query(text).bind(at).bind(sqlx::types::Json(payload_json));
    event.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok((StatusCode::CREATED, [("content-type", "application/json")], payload))
}

/// The peer's subscription by its id.
async fn subscription(
    State(pool): State<PgPool>,
    Path(id): Path<Uuid>,
) -> Result<([(&'static str, &'static str); 1], Vec<u8>), StatusCode> {
    type Row =
        (Uuid, Uuid, String, DateTime<Utc>, DateTime<Utc>, DateTime<Utc>, DateTime<Utc>, i64);
    let text = "SELECT user_id, plan_id, status, renews_at, starts_at, created_at, updated_at, version \
                FROM peer.subscriptions WHERE id = $1";
    let row = sqlx::query_as::<_, Row>(text).bind(id).fetch_optional(&pool).await;
    let row = row.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let (user_id, plan, status, renews_at, starts_at, created_at, updated_at, version) =
        row.ok_or(StatusCode::NOT_FOUND)?;
    let shown = |at: DateTime<Utc>| Timestamp::from_micros(at.timestamp_micros()).unwrap();
    let found = SubscriptionBody {
        id,
        user_id,
        subscription_plan_id: plan,
        status: status.into(),
        renews_at: shown(renews_at),
        starts_at: shown(starts_at),
        created_at: shown(created_at),
        updated_at: shown(updated_at),
        version,
    };
    let body = serde_json::to_vec(&found).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([("content-type", "application/json")], body))
}

const GRANTS: &str = "SELECT s.id, s.status, s.renews_at, s.ends_at, p.id, p.slug, \
    p.name, p.tier, p.features, p.node_quota FROM peer.subscriptions s JOIN peer.plans p ON p.id = s.plan_id \
    WHERE s.user_id = $1 AND s.status IN ('on_trial', 'active', 'past_due', 'cancelled') \
    AND s.starts_at <= $2 AND (s.ends_at IS NULL OR s.ends_at > $2) ORDER BY s.id DESC";

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
    renews_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    plan: PlanBody,
}

#[derive(Serialize)]
struct PlanBody {
    id: Uuid,
    slug: String,
    name: String,
    tier: i64,
}

/// The peer's entitlement: one join.
async fn entitlement(
    State(pool): State<PgPool>,
    Path(user_id): Path<Uuid>,
) -> Result<([(&'static str, &'static str); 1], Vec<u8>), StatusCode> {
    let now = DateTime::<Utc>::from(SystemClock.now());
    let rows = sqlx::query_as::<_, GrantRow>(GRANTS).bind(user_id).bind(now);
    let rows = rows.fetch_all(&pool).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let mut features = BTreeSet::new();
    let (mut node_quota, mut grants) = (0, Vec::with_capacity(rows.len()));
    let shown = |at: DateTime<Utc>| Timestamp::from_micros(at.timestamp_micros()).unwrap();
    for (subscription_id, status, renews_at, ends_at, id, slug, name, tier, listed, quota) in rows {
        let listed = listed.split(',').map(|feature| feature.trim().to_owned());
        features.extend(listed.filter(|feature| !feature.is_empty()));
        node_quota = quota.max(node_quota);
        let plan = PlanBody { id, slug, name, tier };
        let (renews_at, ends_at) = (renews_at.map(shown), ends_at.map(shown));
        grants.push(GrantBody { subscription_id, status, renews_at, ends_at, plan });
    }
    let has_access = !grants.is_empty();
    let body = EntitlementBody { user_id, has_access, features, node_quota, grants };
    let body = serde_json::to_vec(&body).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([("content-type", "application/json")], body))
}

/// A UUID of version 7.
fn new_id() -> Uuid {
    EventId::new(SystemClock.now(), &SystemRandomness).unwrap().uuid()
}

async fn peer(database: &str) {
    let pool = PgPoolOptions::new().max_connections(16).connect(database).await.unwrap();
    sqlx::raw_sql(TABLES).execute(&pool).await.unwrap();
    let plan = new_id();
    let text = "INSERT INTO peer.plans VALUES ($1, 'pro', 'Pro', 0, '', 0, 1, true)";
    sqlx::query(text).bind(plan).execute(&pool).await.unwrap();
    let app: axum::Router = axum::Router::new()
        .route("/subscriptions", post(create))
        .route("/subscriptions/{id}", get(subscription))
        .route("/users/{id}/entitlement", get(entitlement))
        .with_state(pool);
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
