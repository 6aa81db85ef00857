//! The two servers, each in a process of its own with two workers.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use chrono::{DateTime, Months, Utc};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use subscription_core::store::PostgresOptions;
use subscription_http::Limits;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::load_parts::servers::World;
use crate::world;

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

    pub(crate) fn world(&self) -> World {
        let text = |name: &str| self.about[name].as_str().unwrap_or_default().to_owned();
        World { client: text("client"), token: text("token"), subscription: text("subscription") }
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
    let store = PostgresOptions::url(database).unwrap().open().await.unwrap();
    let world = world::World::over(store).await;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = subscription_http::Server::bind(world.api.clone(), address, Limits::default());
    let server = server.await.unwrap().workers(NonZeroUsize::new(2).unwrap()).unwrap();
    let about = json!({
        "address": server.address().unwrap(),
        "client": world.client.expose_secret(),
        "token": world.token.expose_secret(),
        "subscription": world.new_subscription(),
    });
    println!("{about}");
    server.run(std::future::pending()).await;
}

const TABLES: &str = "
    CREATE SCHEMA peer;
    CREATE TABLE peer.plans (id UUID PRIMARY KEY, slug TEXT NOT NULL UNIQUE, cycle_months INT NOT NULL,
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
struct Created {
    id: Uuid,
    user_id: Uuid,
    subscription_plan_id: Uuid,
    status: &'static str,
    renews_at: DateTime<Utc>,
    starts_at: DateTime<Utc>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
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
    let now = now();
    let created = Created {
        id: Uuid::from_u128(random()),
        user_id: new.user_id,
        subscription_plan_id: new.subscription_plan_id,
        status: "active",
        renews_at: now + Months::new(months.unsigned_abs()),
        starts_at: now,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let payload = serde_json::to_vec(&created).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let text = "INSERT INTO peer.subscriptions (id, user_id, plan_id, status, renews_at, starts_at, \
                created_at, updated_at, version) VALUES ($1, $2, $3, 'active', $4, $5, $5, $5, 1)";
    let insert = sqlx::query(text).bind(created.id).bind(created.user_id);
    let insert = insert.bind(created.subscription_plan_id).bind(created.renews_at).bind(now);
    insert.execute(&mut *transaction).await.map_err(failed)?;
    let text =
        "INSERT INTO peer.events (at, kind, payload) VALUES ($1, 'subscription.created', $2)";
    let payload_json = json!({ "id": created.id, "version": 1 });
    let event = sqlx::query(text).bind(now).bind(sqlx::types::Json(payload_json));
    event.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok((StatusCode::CREATED, [("content-type", "application/json")], payload))
}

fn now() -> DateTime<Utc> {
    use subscription_core::Clock as _;
    subscription_core::SystemClock.now().into()
}

/// A UUID of version 7, as an engineer would choose it for a primary key.
fn random() -> u128 {
    use subscription_core::Clock as _;
    let now = subscription_core::SystemClock.now();
    let id = subscription_core::EventId::new(now, &subscription_core::SystemRandomness);
    id.unwrap().uuid().as_u128()
}

async fn peer(database: &str) {
    let pool = PgPoolOptions::new().max_connections(16).connect(database).await.unwrap();
    sqlx::raw_sql(TABLES).execute(&pool).await.unwrap();
    let plan = Uuid::from_u128(random());
    let text = "INSERT INTO peer.plans VALUES ($1, 'pro', 1, true)";
    sqlx::query(text).bind(plan).execute(&pool).await.unwrap();
    let app: axum::Router =
        axum::Router::new().route("/subscriptions", post(create)).with_state(pool);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let body = json!({ "user_id": Uuid::from_u128(random()), "subscription_plan_id": plan });
    let address = listener.local_addr().unwrap();
    println!("{}", json!({ "address": address, "subscription": body.to_string() }));
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
