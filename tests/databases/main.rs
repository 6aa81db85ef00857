//! What is kept on disk: the stores over SQLite and PostgreSQL, and the server over them.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a test tells what it measured")]

mod folder;
mod postgres;
mod records;
mod sqlite;
mod stories;

use libtest_mimic::Arguments;

fn main() {
    let skipped = std::env::var("SUBSCRIPTION_TEST_POSTGRES").is_ok_and(|how| how == "skip");
    let anywhere = sqlite::stories().into_iter().map(|story| story.trial(false));
    let with_a_server = postgres::stories().into_iter().map(|story| story.trial(skipped));
    let done = libtest_mimic::run(&Arguments::from_args(), anywhere.chain(with_a_server).collect());
    postgres::stop();
    if skipped {
        eprintln!("PostgreSQL was NOT tested: SUBSCRIPTION_TEST_POSTGRES=skip");
    }
    done.exit();
}
