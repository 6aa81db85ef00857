//! What is kept on disk: the stores over SQLite and PostgreSQL, and the server over them.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, reason = "a test tells what it measured")]

mod contention;
mod folder;
mod lives;
mod million;
mod needs;
mod postgres;
mod records;
#[path = "../it/seed.rs"]
mod seed;
#[path = "../it/simulation/mod.rs"]
#[expect(dead_code, unused_imports, reason = "its own tests are those of `it`")]
mod simulation;
mod sqlite;
mod stories;
mod transfer;
mod upgrades;
#[path = "../it/world.rs"]
#[expect(dead_code, reason = "the simulation needs a part of it")]
mod world;

use libtest_mimic::Arguments;

use self::needs::Ignored;

mod logs {
    /// Nobody searches the log of these tests.
    pub(crate) const fn listen() {}
}

fn main() {
    let no_disk =
        (!sqlite::can_mount()).then(|| "no disk can be mounted (it takes root)".to_owned());
    let no_server = needs::postgres(postgres::cluster::missing());
    let no_binaries = needs::postgres(postgres::cluster::missing_binaries());
    let groups = [
        (
            None,
            vec![
                sqlite::stories(),
                transfer::stories(),
                upgrades::stories(),
                contention::stories(),
            ],
        ),
        (no_disk, vec![sqlite::stories_with_a_disk()]),
        (
            no_server,
            vec![
                postgres::stories(),
                transfer::stories_with_a_server(),
                upgrades::stories_with_a_server(),
                contention::stories_with_a_server(),
            ],
        ),
        (no_binaries, vec![postgres::stories_with_a_server_of_their_own()]),
    ];
    let (mut ignored, mut trials) = (Ignored::default(), Vec::new());
    for (reason, stories) in groups {
        let stories = stories.into_iter().flatten();
        trials.extend(stories.map(|story| ignored.for_reason(reason.as_deref(), story.trial())));
    }
    let done = libtest_mimic::run(&Arguments::from_args(), trials);
    postgres::stop();
    ignored.exit(&done)
}
