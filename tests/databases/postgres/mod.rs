//! The store in a database server.

mod abandoned;
mod explained;
mod full;
mod groups;
mod index_costs;
mod instances;
mod limits;
mod locked;
mod lost_answers;
mod migrating;
mod numbering;
mod outages;
mod proxy;
mod shared_reads;
mod silent;
mod standby;

use subscription_core::store::{PostgresOptions, PostgresStore};
use test_support::cluster::{Shared, fresh_schema};
use test_support::trials::{Trial, conformance};

use crate::lives;

static SHARED: Shared = Shared::new();

/// Stops the shared server, if it was started.
pub(crate) fn stop() {
    SHARED.stop();
}

/// The address of the server that most tests share.
pub(crate) fn shared() -> &'static str {
    SHARED.url()
}

pub(crate) async fn fresh() -> PostgresStore {
    let schema = fresh_schema(shared()).await;
    PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap()
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut all = conformance("postgres", fresh);
    all.extend(lives::trials("postgres", fresh));
    all.extend(abandoned::trials());
    all.extend(groups::trials());
    all.extend(instances::trials());
    all.extend(limits::trials());
    all.extend(locked::trials());
    all.extend(numbering::trials());
    all.extend(shared_reads::trials());
    all
}

pub(crate) use self::full::trials as trials_with_a_disk;

/// Those that start, stop or kill a server, or set it up: one that others use is no good to them.
pub(crate) fn trials_with_a_server_of_their_own() -> Vec<Trial> {
    let mut all = abandoned::trials_with_a_server_of_their_own();
    all.extend(explained::trials());
    all.extend(index_costs::trials());
    all.extend(lost_answers::trials());
    all.extend(migrating::trials());
    all.extend(outages::trials());
    all.extend(silent::trials());
    all.extend(standby::trials());
    all
}
