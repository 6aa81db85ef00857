//! How the database finds its lists among a million subscriptions, as it tells itself.
//!
//! The server writes down how it went about each statement that the store sent (`auto_explain`).

use std::time::Instant;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use subscription_core::Store as _;
use subscription_core::store::{Postgres, SubscriptionQuery};

use super::cluster::Cluster;
use crate::million::{COLUMNS, brief, further_pages, is_against_the_grain, lists, row};
use crate::stories::{Story, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories![lists_of_a_million_subscriptions_read_little_more_than_a_page]
}

const EXPLAINING: &str = "-c log_min_messages=log -c session_preload_libraries=auto_explain \
    -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on -c auto_explain.log_format=json \
    -c auto_explain.log_buffers=on -c auto_explain.log_timing=off -c maintenance_work_mem=256MB \
    -c shared_buffers=512MB -c max_wal_size=4GB -c synchronous_commit=off -c autovacuum=off";

/// For a page of 50 of up to ten kinds, on any page of a list; the most where one in a hundred of those
/// that are next in order is to the plan that is asked for.
const ROWS_MAX: u64 = 6_000;
/// Where no index fits, the database looks through what was made or through what renews, whichever it
/// thinks is less.
const AGAINST_THE_GRAIN_MAX: u64 = 100_000;

async fn fill(url: &str) {
    let mut to = PgConnection::connect(url).await.unwrap();
    let indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'subscriptions' \
                   AND indexname <> 'subscriptions_pkey'";
    let indexes = sqlx::query(indexes).fetch_all(&mut to).await.unwrap();
    let mut steps = vec!["SET auto_explain.log_min_duration = -1".to_owned()];
    for index in &indexes {
        steps.push(format!("DROP INDEX {}", index.get::<String, _>(0)));
    }
    let id = |first: &str, last: &str| {
        format!(
            "(lpad(to_hex({first}), 12, '0') || '70008000' || lpad(to_hex({last}), 12, '0'))::uuid"
        )
    };
    let row = row(
        &id("1735689600000 + n * 30000", "n"),
        &id("1", "n / 2"),
        &id("1", "CASE WHEN n % 2 = 0 THEN 1 ELSE 2 + n / 2 % 49 END"),
        |seconds| format!("to_timestamp({seconds})"),
    );
    steps.push(format!(
        "INSERT INTO subscriptions ({COLUMNS}) \
         SELECT {row} FROM generate_series(1::bigint, 1000000) AS n"
    ));
    for index in &indexes {
        steps.push(index.get::<String, _>(1));
    }
    steps.push("VACUUM ANALYZE subscriptions".to_owned());
    for step in steps {
        sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut to).await.unwrap();
    }
}

/// What reading a page took.
#[derive(Debug, Default, Clone, Copy)]
struct Work {
    /// Rows of the table that were looked at.
    rows: u64,
    /// Rows that were put in order, other than by an index.
    sorted: u64,
    /// Pages of the table and its indexes that were looked at.
    blocks: u64,
    by_scan: bool,
}

fn number(node: &Value, name: &str) -> u64 {
    // Rows are an average over loops, in newer versions with a fraction.
    let text = node.get(name).map(ToString::to_string).unwrap_or_default();
    text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
}

fn add_up(node: &Value, work: &mut Work) {
    let kind = node["Node Type"].as_str().unwrap();
    let loops = number(node, "Actual Loops");
    let parts = node["Plans"].as_array().map(Vec::as_slice).unwrap_or_default();
    if kind.contains("Scan") && kind != "Subquery Scan" && kind != "Bitmap Index Scan" {
        let seen = number(node, "Actual Rows") + number(node, "Rows Removed by Filter");
        work.rows += loops * (seen + number(node, "Rows Removed by Index Recheck"));
        work.by_scan |= kind == "Seq Scan" && loops > 0;
    }
    if kind == "Sort" || kind == "Incremental Sort" {
        work.sorted += parts.iter().map(|part| number(part, "Actual Rows")).sum::<u64>() * loops;
    }
    for part in parts {
        add_up(part, work);
    }
}

/// The plans that are in the log.
fn explained(log: &str) -> Vec<Value> {
    let plan = |entry: &str| {
        let json = entry.get(entry.find('{')?..entry.rfind("\n\t}")? + 3)?;
        Some(serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}")))
    };
    log.split("LOG:  duration:").skip(1).filter_map(plan).collect()
}

async fn lists_of_a_million_subscriptions_read_little_more_than_a_page() {
    let cluster = Cluster::start_with(false, EXPLAINING).unwrap();
    let store = Postgres::url(&cluster.url()).unwrap().open().await.unwrap();
    let start = Instant::now();
    fill(&cluster.url()).await;
    println!("a million subscriptions were made in {:?}", start.elapsed());

    let start = Instant::now();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    let (mut most, mut most_against) = (Work::default(), Work::default());
    let (mut firsts, mut lasts) = (0, 0);
    for first in lists() {
        let mut pages: Vec<(&str, SubscriptionQuery)> = vec![("first", first.clone())];
        pages.extend(further_pages(&store, &first).await);
        for (name, page) in pages {
            let from = cluster.log_len();
            store.subscriptions(&page).await.unwrap();
            let plans = explained(&cluster.log(from));
            let mut work = Work::default();
            for plan in &plans {
                add_up(&plan["Plan"], &mut work);
                work.blocks += number(&plan["Plan"], "Shared Hit Blocks");
                work.blocks += number(&plan["Plan"], "Shared Read Blocks");
            }
            asked += 1;
            let (rows, most) = if is_against_the_grain(&page) {
                (AGAINST_THE_GRAIN_MAX, &mut most_against)
            } else {
                (ROWS_MAX, &mut most)
            };
            match name {
                "first" if rows == ROWS_MAX => firsts += work.rows,
                "last" if rows == ROWS_MAX => lasts += work.rows,
                _ => {}
            }
            most.rows = most.rows.max(work.rows);
            most.sorted = most.sorted.max(work.sorted);
            most.blocks = most.blocks.max(work.blocks);
            if work.by_scan || work.rows > rows || work.sorted > rows || work.blocks > rows {
                wrong.push(format!("{} page of {}: {work:?}", name, brief(&page)));
            }
        }
    }
    println!("{asked} pages were read in {:?}, none with more than {most:?}", start.elapsed());
    println!("but spans of renewals in the order of creation with up to {most_against:?}");
    println!("first pages looked at {firsts} rows in all, last pages at {lasts}");
    // Where little is left of a small plan, the planner prefers to look through what renews last.
    assert!(lasts <= 3 * firsts, "a last page costs more than a first");
    assert!(wrong.is_empty(), "{} pages:\n{}", wrong.len(), wrong.join("\n"));
}
