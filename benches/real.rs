//! The server over PostgreSQL beside a server that a good engineer writes by hand for the same work.
//!
//! `cargo bench --bench real` starts a durable PostgreSQL, our server over it with all that production has,
//! and the peer: axum and sqlx, one transaction that reads the plan, inserts a subscription into a table with
//! five indexes and inserts an event; prepared statements and a pool of 16. 32 connections create
//! subscriptions in slices, one server after the other, and before that ask for the entitlement of a user with
//! one grant, which the peer reads by one join, and for a subscription by its id. It prints the medians, and the ratio of each pair of
//! slices with the middle half of its spread.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(clippy::float_arithmetic, reason = "ratios, not money")]
#![expect(clippy::indexing_slicing, reason = "of bytes that were just read")]

#[expect(dead_code, reason = "the rest is for the bench of load")]
mod load_parts;
mod real_parts;
mod world;

use load_parts::callers::{Compared, Connections, middle};
use real_parts::Running;
use test_support::cluster::Cluster;

const SLICES: usize = 40;

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let Some(name) = arguments.iter().position(|argument| argument == "--serve") {
        real_parts::serve(&arguments[name + 1], &arguments[name + 2]);
        return;
    }
    // `cargo test --benches` only checks that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    match Cluster::start(true) {
        Ok(cluster) => {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(compare(&cluster));
        }
        Err(missing) => println!("not measured: {missing}"),
    }
}

async fn compare(cluster: &Cluster) {
    let ours = Running::start("ours", &cluster.url());
    let peer = Running::start("peer", &cluster.url());
    println!("| what | ours, requests/s | axum and sqlx | ratio | middle half |");
    println!("| --- | ---: | ---: | ---: | --- |");
    // Each connection that is opened has had one answer, so every user has one subscription by now.
    let first = Connections::open_each(ours.address, ours.creates()).await;
    let second = Connections::open_each(peer.address, peer.creates()).await;
    let asking = Connections::open_each(ours.address, ours.entitlements()).await;
    let asking_peer = Connections::open_each(peer.address, peer.entitlements()).await;
    pair("an entitlement on PostgreSQL", asking, asking_peer).await;
    let reading = Connections::open_each(ours.address, ours.subscriptions().await).await;
    let reading_peer = Connections::open_each(peer.address, peer.subscriptions().await).await;
    pair("a subscription by its id on PostgreSQL", reading, reading_peer).await;
    pair("a new subscription on PostgreSQL", first, second).await;
}

/// Measures slices of both in turn, and prints a row.
async fn pair(what: &str, first: Connections, second: Connections) {
    let compared = Compared::of(first, second, SLICES).await;
    let (one, two) = (middle(compared.first).0, middle(compared.second).0);
    let (ratio, low, high) = middle(compared.ratios);
    println!("| {what} | {one:.0} | {two:.0} | {ratio:.2} | {low:.2} to {high:.2} |");
}
