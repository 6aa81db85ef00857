//! What is kept on disk: the stores over SQLite and PostgreSQL, and the server over them.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, reason = "a test tells what it measured")]

mod combinations;
mod contention;
mod damaged;
mod feed;
mod folder;
mod lives;
mod migrations;
mod plan_use;
mod postgres;
mod records;
mod sqlite;
mod transfer;

use test_support::{cluster, needs};

fn main() {
    let no_disk =
        (!sqlite::can_mount()).then(|| "no disk can be mounted (it takes root)".to_owned());
    let no_server = needs::postgres(cluster::missing());
    let no_binaries = needs::postgres(cluster::missing_binaries());
    // The longest first, so that no core is idle at the end.
    let groups = [
        (no_binaries.clone(), vec![postgres::trials_with_a_server_of_their_own()]),
        (
            None,
            vec![
                sqlite::trials(),
                transfer::trials(),
                migrations::trials(),
                contention::trials(),
                combinations::trials(),
                plan_use::trials(),
                damaged::trials(),
                feed::trials(),
            ],
        ),
        (no_disk.clone().or(no_binaries.clone()), vec![postgres::trials_with_a_disk()]),
        (no_disk, vec![sqlite::trials_with_a_disk()]),
        (
            no_server,
            vec![
                postgres::trials(),
                transfer::trials_with_a_server(),
                migrations::trials_with_a_server(),
                contention::trials_with_a_server(),
                combinations::trials_with_a_server(),
                plan_use::trials_with_a_server(),
                damaged::trials_with_a_server(),
                feed::trials_with_a_server(),
            ],
        ),
    ];
    // Some wait for servers and time-outs: one more leaves no core idle.
    needs::run(groups, 1, postgres::stop)
}
