//! The server over SQLite and PostgreSQL beside a server that a good engineer writes by hand for the same work.
//!
//! `cargo bench --bench real` starts a durable PostgreSQL and two files of SQLite, our server over each with all that
//! production has, and the peer (`real_parts/peer.rs`). 32 connections send requests in slices of 100 ms, one server
//! after the other. It prints the medians, and the ratio of each pair of slices with the middle half of its spread; at
//! the end a table of ratios and goals. `-- sqlite` or `-- postgres` measures that database alone, and any other word
//! only the rows whose name contains it.

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

use load_parts::callers::{Compared, Connections, Request, middle};
use real_parts::{Database, Running, Which};
use sqlx::{Connection as _, PgConnection};
use test_support::cluster::Cluster;

/// The number of pairs of slices of each row, unless the environment variable `SLICES` sets another.
const SLICES: usize = 40;

/// The rows with their names and goals: the smallest ratio on SQLite and on PostgreSQL, or 0 without a goal.
const ROWS: [(Row, &str, f64, f64); 9] = [
    (Row::Plan, "a plan by its slug", 4.0, 4.0),
    (Row::Subscription, "a subscription by its id", 1.5, 1.5),
    (Row::Entitlement, "an entitlement", 0.0, 2.0),
    (Row::First, "the first page of 50", 2.0, 2.0),
    (Row::ByStatus, "the first page of 50 by status", 1.5, 1.5),
    (Row::Far, "the page after 20,000", 3.0, 5.0),
    (Row::Others, "a page of 50, another for each caller", 0.0, 0.0),
    (Row::Create32, "a new subscription, 32 callers", 5.0, 1.2),
    (Row::Create128, "a new subscription, 128 callers", 5.0, 1.2),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Plan,
    Subscription,
    Entitlement,
    First,
    ByStatus,
    Far,
    Others,
    Create32,
    Create128,
}

impl Row {
    /// The requests of each connection to a server.
    async fn requests(self, of: &Running) -> Vec<Request> {
        match self {
            Self::Plan => of.same(32, "/subscription-plans/pro"),
            Self::Subscription => of.subscriptions(32),
            Self::Entitlement => of.entitlements(32),
            Self::First => of.same(32, "/subscriptions"),
            Self::ByStatus => of.same(32, "/subscriptions?status=active"),
            Self::Far => of.far_page(32).await,
            Self::Others => of.other_pages(32).await,
            Self::Create32 => of.creates(32),
            Self::Create128 => of.creates(128),
        }
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        real_parts::serve(&arguments[at + 1], &arguments[at + 2], &arguments[at + 3]);
        return;
    }
    // `cargo test --benches` only checks that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let words: Vec<_> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let (databases, words): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|word| ["sqlite", "postgres"].contains(&word.as_str()));
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(*word));
    let takes = |name: &str| databases.is_empty() || databases.iter().any(|word| *word == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut on_sqlite, mut on_postgres) = (Vec::new(), Vec::new());
    if takes("sqlite") {
        let folder = std::env::temp_dir().join(format!("bench-real-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let places = [place("ours.db"), place("peer.db")];
        on_sqlite = runtime.block_on(compare(Database::Sqlite, places, is_asked));
        std::fs::remove_dir_all(&folder).unwrap();
    }
    if takes("postgres") {
        match Cluster::start(true) {
            Ok(cluster) => {
                let places = [cluster.url(), cluster.url()];
                on_postgres = runtime.block_on(compare(Database::Postgres, places, is_asked));
            }
            Err(missing) => println!("PostgreSQL is not measured: {missing}"),
        }
    }
    println!("\n| ours ÷ hand-written | SQLite | goal | PostgreSQL | goal |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (row, name, sqlite_goal, postgres_goal) in ROWS.into_iter().filter(|it| is_asked(it.1)) {
        let cells = |measured: &[(Row, f64)], goal: f64| {
            let found = measured.iter().find(|it| it.0 == row);
            let ratio = found.map_or_else(|| "–".to_owned(), |it| format!("{:.2}", it.1));
            let goal = if goal > 0.0 { format!("{goal}") } else { "–".to_owned() };
            format!("{ratio} | {goal}")
        };
        let (first, second) = (cells(&on_sqlite, sqlite_goal), cells(&on_postgres, postgres_goal));
        println!("| {name} | {first} | {second} |");
    }
}

/// The ratio of each row.
async fn compare(
    database: Database,
    [ours, peer]: [String; 2],
    is_asked: impl Fn(&str) -> bool + Send + Sync,
) -> Vec<(Row, f64)> {
    let ours_at = ours.clone();
    let ours = Running::start(Which::Ours, database, &ours);
    let peer = Running::start(Which::Peer, database, &peer);
    if database == Database::Postgres {
        // As the database does by itself after a minute.
        let mut connection = PgConnection::connect(&ours_at).await.unwrap();
        sqlx::raw_sql("VACUUM ANALYZE").execute(&mut connection).await.unwrap();
    }
    println!("\n| {} | ours, requests/s | hand-written | ratio | middle half |", database.name());
    println!("| --- | ---: | ---: | ---: | --- |");
    // Creates a subscription for each user, in both servers.
    for server in [&ours, &peer] {
        Connections::open_each(server.address, server.creates(128)).await;
    }
    let slices = std::env::var("SLICES").ok().and_then(|number| number.parse().ok());
    let mut ratios = Vec::new();
    for (row, name, ..) in ROWS.into_iter().filter(|it| is_asked(it.1)) {
        let first = Connections::open_each(ours.address, row.requests(&ours).await).await;
        let second = Connections::open_each(peer.address, row.requests(&peer).await).await;
        let compared = Compared::of(first, second, slices.unwrap_or(SLICES)).await;
        let (one, two) = (middle(compared.first).0, middle(compared.second).0);
        let (ratio, low, high) = middle(compared.ratios);
        println!("| {name} | {one:.0} | {two:.0} | {ratio:.2} | {low:.2} to {high:.2} |");
        ratios.push((row, ratio));
    }
    ratios
}
