//! The store in a database server.

mod abandoned;
pub(crate) mod cluster;
mod instances;
mod outages;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use sqlx::{Connection as _, PgConnection};
use subscription_core::store::{Postgres, PostgresStore};

use self::cluster::Cluster;
use crate::lives;
use crate::stories::Story;

/// The server that most tests share: its address, or why there is none.
static SHARED: LazyLock<Result<String, String>> = LazyLock::new(|| {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        return Ok(url);
    }
    let cluster = Cluster::start(false)?;
    let url = cluster.url();
    *OURS.lock().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
    Ok(url)
});

static OURS: Mutex<Option<Cluster>> = Mutex::new(None);

/// Stops the shared server, if it was started.
pub(crate) fn stop() {
    OURS.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// The address of the server that most tests share.
pub(crate) fn shared() -> &'static str {
    SHARED.as_deref().unwrap_or_else(|missing| panic!("{missing}"))
}

pub(crate) async fn fresh() -> PostgresStore {
    let schema = fresh_schema(shared()).await;
    Postgres::url(shared()).unwrap().schema(&schema).open().await.unwrap()
}

pub(crate) fn stories() -> Vec<Story> {
    let mut all = Story::suite("postgres", fresh);
    all.extend(lives::stories("postgres", fresh));
    all.extend(abandoned::stories());
    all.extend(instances::stories());
    all.extend(outages::stories());
    all
}

/// Makes an empty schema in a database, and gives its name.
pub(crate) async fn fresh_schema(url: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let schema = format!("test_{}_{number}", std::process::id());
    let mut connection = PgConnection::connect(url).await.unwrap();
    let text = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    schema
}
