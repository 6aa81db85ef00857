//! The program is killed while it writes.

use crate::audit::audit;
use crate::database::Database;
use crate::load::{beside_readers, leave_when_cut, seconds, some_moment, under_load};
use crate::running::{Running, folder};
use crate::writer::{Writer, settled};
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

/// The kills of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const KILLS: u64 = 8;
/// With `SUBSCRIPTION_TEST_SECONDS`, which says how long each of them takes.
const LONG_ROUNDS: u64 = 10;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking: a_kill_loses_nothing_that_was_answered_sqlite]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking: a_kill_loses_nothing_that_was_answered_postgres]
}

fn a_kill_loses_nothing_that_was_answered_sqlite() {
    a_kill_loses_nothing_that_was_answered("kills over SQLite", &Database::file());
}

fn a_kill_loses_nothing_that_was_answered_postgres() {
    a_kill_loses_nothing_that_was_answered("kills over PostgreSQL", &Database::schema());
}

fn a_kill_loses_nothing_that_was_answered(story: &str, database: &Database) {
    let (rng, folder, mut answered) = (seed::rng(story), folder(), 0);
    let rounds = if seconds().is_some() { LONG_ROUNDS } else { seed::steps(KILLS) };
    let mut writers = Writer::some(6, &rng);
    for writer in &mut writers {
        writer.hangs_up = true;
    }

    for round in 0..rounds {
        let server = Running::start(&folder, &database.url(), &[]);
        for writer in &mut writers {
            writer.check(&mut server.connect());
        }
        let address = server.address;
        answered += beside_readers(&rng, address, || {
            under_load(&mut writers, address, leave_when_cut, |progress| {
                some_moment(&rng, progress);
                let log = server.log();
                assert!(!log.contains("\"ERROR\""), "{log}");
                server.kill();
                progress.answered()
            })
        });
        // Every other time the server itself is the first to see the file again.
        if round % 2 == 0 {
            database.check_file();
        }
    }

    let server = Running::start(&folder, &database.url(), &[]);
    for writer in &mut writers {
        writer.check(&mut server.connect());
    }
    server.kill();
    audit(database, &writers);
    println!("{story}: {rounds} kills, {answered} answered steps; {}", settled(&writers));
}
