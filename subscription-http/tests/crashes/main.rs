//! The program when something ends: itself, its database, a neighbour, in order or not.
//!
//! Writers keep a ledger of what they were answered, and go on from there once all is up again. What
//! was answered must be there, to the byte; what was not may be there or not, but wholly.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a test tells what it measured")]

mod audit;
mod backup;
#[expect(dead_code, reason = "what is logged there is read by others")]
#[path = "../../../tests/databases/postgres/cluster.rs"]
mod cluster;
mod deletions;
mod dice;
mod http;
mod instances;
mod kills;
mod ledger;
mod load;
mod outages;
mod place;
mod running;
mod stops;
mod stories;
mod writer;

use libtest_mimic::Arguments;

fn main() {
    let skipped = std::env::var("SUBSCRIPTION_TEST_POSTGRES").is_ok_and(|how| how == "skip");
    let anywhere = [kills::stories(), stops::stories(), backup::stories(), deletions::stories()];
    let with_a_server = [
        kills::stories_with_postgres(),
        deletions::stories_with_postgres(),
        outages::stories(),
        instances::stories(),
        stops::stories_with_postgres(),
    ];
    let anywhere = anywhere.into_iter().flatten().map(|story| story.trial(false));
    let with_a_server = with_a_server.into_iter().flatten().map(|story| story.trial(skipped));
    let done = libtest_mimic::run(&Arguments::from_args(), anywhere.chain(with_a_server).collect());
    place::stop();
    if skipped {
        eprintln!("PostgreSQL was NOT tested: SUBSCRIPTION_TEST_POSTGRES=skip");
    }
    done.exit();
}
