//! The store in a database server.

mod abandoned;
pub(crate) mod cluster;
mod explained;
mod instances;
mod limits;
mod outages;

use std::sync::{LazyLock, Mutex, PoisonError};

use subscription_core::store::{PostgresOptions, PostgresStore};

use self::cluster::{Cluster, fresh_schema};
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
    PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap()
}

pub(crate) fn stories() -> Vec<Story> {
    let mut all = Story::suite("postgres", fresh);
    all.extend(lives::stories("postgres", fresh));
    all.extend(abandoned::stories());
    all.extend(instances::stories());
    all.extend(limits::stories());
    all
}

/// Those that start, stop or kill a server, or set it up: one that others use is no good to them.
pub(crate) fn stories_with_a_server_of_their_own() -> Vec<Story> {
    let mut all = abandoned::stories_with_a_server_of_their_own();
    all.extend(explained::stories());
    all.extend(outages::stories());
    all
}
