//! How costs grow with the number of records, memory with records and connections, and responses with callers.
//!
//! `cargo bench --bench growth` prints tables and draws `benches/plots`. Ten million subscriptions are left out, with a
//! message, if 10 GiB of memory or 16 GiB of disk are not free for them. The arguments `start`, `connections`, `idle`,
//! `memory` and `sqlite` measure these parts alone.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it tells"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "times, not money")]
#![expect(clippy::indexing_slicing, reason = "of bytes that were just read")]

mod growth_parts;
#[expect(dead_code, reason = "a part of it is for the bench `load`")]
mod load_parts;
#[expect(dead_code, reason = "bars are for another bench")]
mod plot;
mod world;

use growth_parts::{connections, over_records, start};
use load_parts::servers;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    // The servers that are measured are further processes of this program.
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        servers::serve(&arguments[at + 1], arguments.get(at + 2));
        return;
    }
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|named| *named == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if wanted("start") {
        start::tell();
    }
    if wanted("connections") {
        runtime.block_on(connections::answers());
    }
    if wanted("idle") {
        runtime.block_on(connections::idle());
    }
    let memory = wanted("memory").then(|| runtime.block_on(over_records::memory()));
    let sqlite = wanted("sqlite").then(|| runtime.block_on(over_records::sqlite()));
    if let (Some(memory), Some(sqlite)) = (memory, sqlite) {
        let lines: Vec<_> = memory.into_iter().chain(sqlite).collect();
        plot::lines(
            "Growth over records: what one operation costs",
            "subscriptions in the store",
            plot::time,
            &lines,
        );
    }
}
