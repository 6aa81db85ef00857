//! The program when something ends: itself, its database, a neighbour, in order or not.
//!
//! Writers keep a ledger of what they were answered, and go on from there once all is up again. What
//! was answered must be there, to the byte; what was not may be there or not, but wholly.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, reason = "a test tells what it measured")]

mod audit;
mod backup;
mod deletions;
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
use test_support::cluster;
use test_support::needs::{self, Ignored};

fn main() {
    let no_server = needs::postgres(cluster::missing());
    let no_binaries = needs::postgres(cluster::missing_binaries());
    let groups = [
        (None, vec![kills::stories(), stops::stories(), backup::stories(), deletions::stories()]),
        (
            no_server,
            vec![
                kills::stories_with_postgres(),
                deletions::stories_with_postgres(),
                instances::stories(),
                stops::stories_with_postgres(),
            ],
        ),
        (no_binaries, vec![outages::stories()]),
    ];
    let (mut ignored, mut trials) = (Ignored::default(), Vec::new());
    for (reason, stories) in groups {
        let stories = stories.into_iter().flatten();
        trials.extend(stories.map(|story| ignored.for_reason(reason.as_deref(), story.trial())));
    }
    let done = libtest_mimic::run(&Arguments::from_args(), trials);
    place::stop();
    ignored.exit(&done)
}
