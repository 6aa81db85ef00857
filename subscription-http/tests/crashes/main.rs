//! The program when something ends: itself, its database, a neighbour, in order or not.
//!
//! Writers keep a ledger of what they were answered, and go on from there once all is up again. What
//! was answered must be there, to the byte; what was not may be there or not, but wholly.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, reason = "a test tells what it measured")]

mod audit;
mod backup;
mod billing;
mod database;
mod deletions;
mod http;
mod instances;
mod kills;
mod leaders;
mod ledger;
mod load;
mod outages;
mod providers;
mod running;
mod stops;
mod webhooks;
mod writer;

use test_support::{cluster, needs};

fn main() {
    let no_server = needs::postgres(cluster::missing());
    let no_binaries = needs::postgres(cluster::missing_binaries());
    // The longest first, so that no core is idle at the end.
    let groups = [
        (
            no_binaries,
            vec![
                outages::trials(),
                leaders::trials_with_a_server_of_their_own(),
                billing::trials_with_a_server_of_their_own(),
            ],
        ),
        (
            None,
            vec![
                kills::trials(),
                stops::trials(),
                backup::trials(),
                deletions::trials(),
                billing::trials(),
                providers::trials(),
                webhooks::trials(),
            ],
        ),
        (
            no_server,
            vec![
                kills::trials_with_postgres(),
                backup::trials_with_postgres(),
                deletions::trials_with_postgres(),
                instances::trials(),
                leaders::trials(),
                billing::trials_with_postgres(),
                providers::trials_with_postgres(),
                webhooks::trials_with_postgres(),
                stops::trials_with_postgres(),
            ],
        ),
    ];
    // They wait for servers that start and end: two more leave no core idle.
    needs::run(groups, 2, database::stop)
}
