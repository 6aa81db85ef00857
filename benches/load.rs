//! The server under load, compared with a bare hyper and with a small server that one would write instead.
//!
//! `cargo bench --bench load` starts everything itself, each server as a process of its own with two workers: ours with
//! all that production has and with its log, over memory; a bare hyper that returns the same bytes from a static (the
//! upper limit); and a CRUD on axum. 64 connections send requests in short slices, one server after the other, so that
//! other load on the machine affects all. Every response is checked. The bench prints medians, and the ratio of each
//! pair of slices with the middle half of its spread. Loopback only; about a minute and a half.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it tells"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "ratios, not money")]
#![expect(clippy::indexing_slicing, reason = "of bytes that were just read")]

mod load_parts;
#[expect(dead_code, reason = "lines are for another bench")]
mod plot;
mod world;

use std::time::Duration;

use load_parts::callers::{self, Compared, Connections, Request, middle};
use load_parts::servers::{self, Running, Server};

const CONNECTIONS: usize = 64;
const SLICES: usize = 60;
/// How long connections are idle before the memory of the server is read.
const IDLES: Duration = Duration::from_secs(3);

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let Some(name) = arguments.iter().position(|argument| argument == "--serve") {
        servers::serve(&arguments[name + 1], arguments.get(name + 2));
        return;
    }
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(compare());
}

async fn compare() {
    let ours = Running::start(Server::Ours, None);
    let axum = Running::start(Server::Axum, None);
    let world = ours.caller();
    println!("| what | against | ours, requests/s | the other | ratio | middle half |");
    println!("| --- | --- | --- | --- | --- | --- |");

    let plan = Request::get("/subscription-plans/pro", &world);
    let page = Request::get("/subscriptions?limit=50", &world);
    let body: serde_json::Value = serde_json::from_str(&world.subscription).unwrap();
    let user = body["user_id"].as_str().unwrap();
    let entitlement = Request::get(&format!("/users/{user}/entitlement"), &world);
    let logged_in = Request::post("/authentication/user-logged-in", "", &world);
    let mut bars = Vec::new();
    for (what, request, label, goal) in [
        ("a plan by its slug", &plan, "a plan by its slug, to bare hyper", 0.9),
        ("a page of 50 subscriptions", &page, "a page of 50 subscriptions, to bare hyper", 0.6),
        ("an entitlement, one grant", &entitlement, "an entitlement, to bare hyper", 0.7),
        ("user-logged-in", &logged_in, "user-logged-in, to bare hyper", 0.75),
    ] {
        let answer = callers::one(ours.address, request).await;
        let ceiling = Running::start(Server::Hyper, Some(&answer));
        let against = "bare hyper, the same bytes";
        let ratio = pair(what, against, (&ours, request), (&ceiling, request)).await;
        bars.push((label, ratio, goal));
    }
    let cached = Running::start(Server::Cached, None);
    let plan_cached = Request::get("/subscription-plans/pro", &cached.caller());
    let ceiling = Running::start(Server::Hyper, Some(&callers::one(ours.address, &plan).await));
    let (what, against) = ("a plan, from the cache of a database", "bare hyper, the same bytes");
    let ratio = pair(what, against, (&cached, &plan_cached), (&ceiling, &plan_cached)).await;
    bars.push(("a plan from the cache, to bare hyper", ratio, 0.9));
    drop((cached, ceiling));
    let silent = Running::start(Server::Silent, None);
    let unlogged = Request::get("/subscription-plans/pro", &silent.caller());
    pair("a plan by its slug", "the same without a log", (&ours, &plan), (&silent, &unlogged))
        .await;
    drop(silent);
    let ratio = pair("a plan by its slug", "axum CRUD", (&ours, &plan), (&axum, &plan)).await;
    bars.push(("a plan by its slug, to a CRUD on axum", ratio, 1.4));
    let created = Request::post("/subscriptions", &world.subscription, &world);
    let (first, second) = ((&ours, &created), (&axum, &created));
    let ratio = pair("a new subscription", "axum into a map", first, second).await;
    bars.push(("a new subscription, to axum into a map", ratio, 1.0));
    plot::bars("Load: requests a second, as a ratio", &bars);
    memory(&ours).await;
}

/// Measures slices of both servers in turn, prints the medians, and returns the ratio.
async fn pair(
    what: &str,
    against: &str,
    ours: (&Running, &Request),
    other: (&Running, &Request),
) -> f64 {
    let first = Connections::open(ours.0.address, CONNECTIONS, ours.1).await;
    let second = Connections::open(other.0.address, CONNECTIONS, other.1).await;
    let compared = Compared::of(first, second, SLICES).await;
    let (one, two) = (middle(compared.first).0, middle(compared.second).0);
    let (ratio, low, high) = middle(compared.ratios);
    println!("| {what} | {against} | {one:.0} | {two:.0} | {ratio:.2} | {low:.2} to {high:.2} |");
    ratio
}

/// The memory of an idle server, and of each idle connection.
async fn memory(ours: &Running) {
    let fresh = Running::start(Server::Ours, None);
    let at_rest = fresh.resident();
    let request = Request::get("/health/live", &ours.caller());
    let idle = Connections::open(fresh.address, 900, &request).await;
    tokio::time::sleep(IDLES).await;
    let with_idle = fresh.resident();
    drop(idle);
    println!(
        "\nresident at rest {:.1} MiB, with 900 idle connections {:.1} KiB more for each",
        at_rest as f64 / 1024.0,
        (with_idle - at_rest) as f64 / 900.0,
    );
}
