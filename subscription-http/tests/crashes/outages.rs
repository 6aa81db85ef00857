//! The database goes away and comes back, or is late; the program stays.

use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use test_support::cluster::Cluster;

use crate::audit::audit;
use crate::database::Database;
use crate::http::{Connection, Request};
use crate::load::{some_moment, under_load};
use crate::running::{Running, folder, until};
use crate::writer::{Trouble, Writer, settled};
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        a_database_that_is_killed_loses_nothing_that_was_answered,
        a_restart_of_the_database_loses_nothing_that_was_answered,
        a_server_may_start_before_its_database,
        a_server_with_clients_in_its_settings_may_start_before_its_database,
        a_server_starts_though_its_database_never_answers,
    ]
}

fn a_database_that_is_killed_loses_nothing_that_was_answered() {
    nothing_is_lost("kills of PostgreSQL", Cluster::kill);
}

fn a_restart_of_the_database_loses_nothing_that_was_answered() {
    nothing_is_lost("restarts of PostgreSQL", Cluster::stop);
}

/// A writer that is refused sends the same request again.
fn try_again(trouble: &Trouble, _: &mut Connection) -> ControlFlow<()> {
    if let Trouble::Cut(cut) = trouble {
        panic!("the server went away: {cut:?}");
    }
    std::thread::sleep(Duration::from_millis(5));
    ControlFlow::Continue(())
}

/// The outages of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const OUTAGES: u64 = 2;

fn nothing_is_lost(story: &str, end: fn(&mut Cluster)) {
    let outages = seed::steps(OUTAGES);
    let mut cluster = Cluster::start(true).unwrap();
    let (database, rng) = (Database::Postgres(cluster.url()), seed::rng(story));
    let mut writers = Writer::some(6, &rng);
    let server = Running::start(&folder(), &database.url(), &[]);

    let (answered, refused) = under_load(&mut writers, server.address, try_again, |progress| {
        for _ in 0..outages {
            some_moment(&rng, progress);
            end(&mut cluster);
            let before = progress.unavailable();
            until("refusals", || progress.unavailable() >= before + 20);
            is_not_ready(&server);
            cluster.start_again();
            until("it is ready", || server.status("/health/ready") == 200);
            progress.wait_for(60);
        }
        (progress.answered(), progress.unavailable())
    });

    for writer in &mut writers {
        writer.check(&mut server.connect());
    }
    server.stop();
    audit(&database, &writers);
    println!(
        "{story}: {outages} of them, {answered} answered steps, {refused} refused; {}",
        settled(&writers)
    );
}

fn is_not_ready(server: &Running) {
    assert_eq!(server.status("/health/live"), 200);
    // That it was ready may be remembered for a second.
    until("it is not ready", || server.status("/health/ready") != 200);
    let refused = server.connect().sure(&Request::get("/health/ready")).expect(503);
    assert_eq!(refused.code(), "store_unavailable");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
}

fn a_server_may_start_before_its_database() {
    starts_before_its_database(&folder(), &[]);
}

/// Its clients are set up as soon as they can be.
fn a_server_with_clients_in_its_settings_may_start_before_its_database() {
    let folder = folder();
    let settings = "identity_issuer = \"host\"\nidentity_audience = \"subscription\"\n\
                    identity_secret_file = \"secret\"\n\
                    [[clients]]\nid = \"crashes\"\nscopes = [\"auth\", \"plans:read\"]\n";
    std::fs::write(folder.join("settings.toml"), settings).unwrap();
    std::fs::write(folder.join("secret"), "s".repeat(32)).unwrap();
    // Keys that are made by whoever starts first in development.
    Running::start(&folder, "sqlite://unused.db", &[]).stop();
    starts_before_its_database(&folder, &["--mode", "production", "--config", "settings.toml"]);
}

fn starts_before_its_database(folder: &Path, more: &[&str]) {
    let mut cluster = Cluster::start(false).unwrap();
    cluster.stop();

    let server = Running::start(folder, &cluster.url(), more);

    is_not_ready(&server);
    let plans = Request::get("/subscription-plans");
    assert_eq!(server.connect().sure(&plans).expect(503).code(), "store_unavailable");

    cluster.start_again();

    until("it is ready", || server.status("/health/ready") == 200);
    until("it answers", || server.connect().sure(&plans).status == 200);
    server.stop();
}

/// As behind a firewall that drops what it does not like.
fn a_server_starts_though_its_database_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres@{}/postgres", silent.local_addr().unwrap());

    let server = Running::start(&folder(), &url, &[]);

    is_not_ready(&server);
    server.stop();
}
