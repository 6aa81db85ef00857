//! What is kept on disk: the stores over SQLite and PostgreSQL, and the server over them.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a test tells what it measured")]

mod contention;
mod folder;
mod lives;
mod million;
mod moving;
mod postgres;
mod records;
#[path = "../it/simulation/mod.rs"]
#[expect(dead_code, unused_imports, reason = "its own tests are those of `it`")]
mod simulation;
mod sqlite;
mod stories;
mod upgrades;
#[path = "../it/world.rs"]
#[expect(dead_code, reason = "the simulation needs a part of it")]
mod world;

use libtest_mimic::Arguments;

mod logs {
    /// Nobody searches the log of these tests.
    pub(crate) const fn listen() {}
}

fn main() {
    let skipped = std::env::var("SUBSCRIPTION_TEST_POSTGRES").is_ok_and(|how| how == "skip");
    let anywhere = sqlite::stories().into_iter().chain(moving::stories());
    let anywhere = anywhere.chain(upgrades::stories()).chain(contention::stories());
    let anywhere = anywhere.map(|story| story.trial(false));
    let without_a_disk = !sqlite::can_mount();
    let with_a_disk = sqlite::stories_with_a_disk().into_iter();
    let with_a_disk = with_a_disk.map(|story| story.trial(without_a_disk));
    let with_a_server = postgres::stories().into_iter().chain(moving::stories_with_a_server());
    let with_a_server = with_a_server.chain(upgrades::stories_with_a_server());
    let with_a_server = with_a_server.chain(contention::stories_with_a_server());
    let with_a_server = with_a_server.map(|story| story.trial(skipped));
    let all = anywhere.chain(with_a_disk).chain(with_a_server).collect();
    let done = libtest_mimic::run(&Arguments::from_args(), all);
    postgres::stop();
    if skipped {
        eprintln!("PostgreSQL was NOT tested: SUBSCRIPTION_TEST_POSTGRES=skip");
    }
    if without_a_disk {
        eprintln!("disks that fail were NOT tested: mounting one takes root");
    }
    done.exit();
}
