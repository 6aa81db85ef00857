//! How the database finds its lists among a million subscriptions, as it tells itself.
//!
//! The server writes down how it went about each statement that the store sent (`auto_explain`).

use std::time::Instant;
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::payments::Payment;
use subscription_core::plans::Plan;
use subscription_core::store::{
    EventQuery, IdempotencyQuery, IdempotencyRecord, SessionQuery, StoreExt as _, UniqueValue,
    UserQuery,
};
use subscription_core::subscriptions::Subscription;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use subscription_core::Store as _;
use subscription_core::auth::IdentityKey;
use subscription_core::store::{
    Direction, IdempotencyKey, Operation, PageLimit, PaymentQuery, PlanFilter, PlanOrder,
    PlanQuery, Position, PostgresOptions, PostgresStore, SortKey, SubscriptionQuery,
};
use test_support::cluster::Cluster;
use test_support::million::{
    COLUMNS, brief, further_pages, id, is_against_the_grain, lists, lists_of_few, now, row,
};
use test_support::trials;
use test_support::trials::Trial;
use uuid::Uuid;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        lists_of_a_million_subscriptions_read_little_more_than_a_page,
        every_other_read_finds_its_rows_by_an_index,
    ]
}

const EXPLAINING: &str = "-c log_min_messages=log -c session_preload_libraries=auto_explain \
    -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on -c auto_explain.log_format=json \
    -c auto_explain.log_buffers=on -c auto_explain.log_timing=off -c maintenance_work_mem=256MB \
    -c shared_buffers=512MB -c max_wal_size=4GB -c synchronous_commit=off -c autovacuum=off";

/// For a page of 50 of up to ten kinds, on any page of a list.
const ROWS_MAX: u64 = 2_000;
const BLOCKS_MAX: u64 = 500;
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
    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
    let start = Instant::now();
    fill(&cluster.url()).await;
    println!("a million subscriptions were made in {:?}", start.elapsed());

    let start = Instant::now();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    let (mut most, mut most_against) = (Work::default(), Work::default());
    let (mut firsts, mut lasts) = (0, 0);
    for first in lists() {
        let mut at_first = 0;
        let mut pages: Vec<(&str, SubscriptionQuery)> = vec![("first", first.clone())];
        pages.extend(further_pages(&store, &first).await);
        for (name, page) in pages {
            let from = cluster.log_len();
            store.list_as::<Subscription>(page.clone()).await.unwrap();
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
                "first" => {
                    at_first = work.rows;
                    firsts += if rows == ROWS_MAX { work.rows } else { 0 };
                }
                "last" => {
                    lasts += if rows == ROWS_MAX { work.rows } else { 0 };
                    if work.rows > 2 * at_first + 100 {
                        wrong.push(format!("first {at_first}, last {work:?}: {}", brief(&page)));
                    }
                }
                _ => {}
            }
            most.rows = most.rows.max(work.rows);
            most.sorted = most.sorted.max(work.sorted);
            most.blocks = most.blocks.max(work.blocks);
            let blocks = if rows == ROWS_MAX { BLOCKS_MAX } else { rows };
            if work.by_scan || work.rows > rows || work.sorted > rows || work.blocks > blocks {
                wrong.push(format!("{} page of {}: {work:?}", name, brief(&page)));
            }
        }
    }
    println!("{asked} pages were read in {:?}, none with more than {most:?}", start.elapsed());
    println!("but spans of renewals in the order of creation with up to {most_against:?}");
    println!("first pages looked at {firsts} rows in all, last pages at {lasts}");
    wrong.extend(few_by_many(&cluster, &store).await);
    assert!(lasts <= firsts * 5 / 4, "a last page costs more than a first");
    assert!(wrong.is_empty(), "{} pages:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lists of one user or one external id that looked at more than a few rows. PostgreSQL has statistics, and
/// takes another index only where it has fewer rows still.
async fn few_by_many(cluster: &Cluster, store: &PostgresStore) -> Vec<String> {
    let mut wrong = Vec::new();
    // Of so many a part will do, of every kind some.
    for page in lists_of_few().into_iter().step_by(7) {
        let from = cluster.log_len();
        store.list_as::<Subscription>(page.clone()).await.unwrap();
        let mut work = Work::default();
        if let Some(plan) = explained(&cluster.log(from)).last() {
            add_up(&plan["Plan"], &mut work);
        }
        if work.by_scan || work.rows > 20 {
            wrong.push(format!("{}: {work:?}", brief(&page)));
        }
    }
    wrong
}

/// Rows of every other table, as many as make a scan of it dear.
const OTHERS: [&str; 6] = [
    "INSERT INTO plans SELECT gen_random_uuid(), 'plan ' || n, 'product ' || n % 5000, '[]', 'plan-' || n, n, \
     NULL, 'monthly', '', 0, '', false, n % 10000, true, now(), now(), 1 FROM generate_series(1, 20000) n",
    "INSERT INTO payments SELECT gen_random_uuid(), ('00000000-0000-7000-8000-' || lpad((n % 1000)::text, 12, \
     '0'))::uuid, n, 'EUR', 'pay-' || n, 'paid', now(), now(), 1, true FROM generate_series(1, 100000) n",
    "INSERT INTO users SELECT gen_random_uuid(), 'issuer', 'subject ' || n, n || '@example.com', \
     n || '@example.com', false, now(), now(), 1 FROM generate_series(1, 100000) n",
    "INSERT INTO sessions SELECT gen_random_uuid(), gen_random_uuid(), 'web', 'issuer', '', 1, '', 1, now(), \
     false, now(), now(), now(), now(), NULL, NULL, NULL, NULL, now(), now(), 1, \
     now() + n * interval '1 second' FROM generate_series(1, 100000) n",
    "INSERT INTO answers SELECT 'create_subscription', 'web', 'key-' || n, 1, '', '{}', \
     now() + n * interval '1 second' FROM generate_series(1, 100000) n",
    "INSERT INTO events (id, at, subject, version, change, sequence) SELECT gen_random_uuid(), now(), '{}', \
     1, '{}', nextval('feed') FROM generate_series(1, 100000) n",
];

async fn every_other_read_finds_its_rows_by_an_index() {
    let cluster = Cluster::start_with(false, EXPLAINING).unwrap();
    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
    let mut to = PgConnection::connect(&cluster.url()).await.unwrap();
    for fill in OTHERS {
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut to).await.unwrap();
    }
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut to).await.unwrap();
    let (nobody, some) = (id(1), PageLimit::default());
    let place = |key| Some(Position { key, id: id(10_000) });
    let from = cluster.log_len();

    store.get_as::<Plan>(&nobody.into()).await.unwrap();
    store.find_as::<Plan>(UniqueValue::PlanSlug(&"nothing".parse().unwrap())).await.unwrap();
    let tier = "5000".parse().unwrap();
    let price = "15000".parse().unwrap();
    let name = "plan 5".parse().unwrap();
    for (order, key) in [
        (PlanOrder::Tier, SortKey::Tier(tier)),
        (PlanOrder::Price, SortKey::Price(price)),
        (PlanOrder::Name, SortKey::Name(name)),
        (PlanOrder::CreatedAt, SortKey::CreatedAt),
    ] {
        for (direction, after) in [
            (Direction::Ascending, None),
            (Direction::Descending, None),
            (Direction::Ascending, place(key.clone())),
            (Direction::Descending, place(key.clone())),
        ] {
            store
                .list_as::<Plan>(PlanQuery { order, direction, after, ..PlanQuery::default() })
                .await
                .unwrap();
        }
    }
    let product_id = Some("product 7".parse().unwrap());
    let filter = PlanFilter { product_id, ..PlanFilter::default() };
    store.list_as::<Plan>(PlanQuery { filter, ..PlanQuery::default() }).await.unwrap();
    store.get_as::<Payment>(&nobody.into()).await.unwrap();
    store
        .find_as::<Payment>(UniqueValue::ExternalPayment(&"nothing".parse().unwrap()))
        .await
        .unwrap();
    let of = PaymentQuery::of(Uuid::from_u128(0x7000_8000_0000_0000_0007).into());
    for (direction, after) in [
        (Direction::Ascending, None),
        (Direction::Descending, None),
        (Direction::Ascending, place(SortKey::CreatedAt)),
        (Direction::Descending, place(SortKey::CreatedAt)),
    ] {
        store.list_as::<Payment>(PaymentQuery { direction, after, ..of.clone() }).await.unwrap();
    }
    store.get_as::<User>(&nobody.into()).await.unwrap();
    let identity =
        IdentityKey { issuer: "issuer".parse().unwrap(), subject: "nobody".parse().unwrap() };
    store.find_as::<User>(UniqueValue::UserIdentity(&identity)).await.unwrap();
    store.get_as::<Session>(&nobody.into()).await.unwrap();
    store
        .list_as::<Session>(SessionQuery::LiveOf { user: nobody.into(), now: now() })
        .await
        .unwrap()
        .items;
    store
        .list_as::<Session>(SessionQuery::EndedOf {
            user: nobody.into(),
            now: now(),
            skip: 100,
            limit: some,
        })
        .await
        .unwrap()
        .items;
    store.list_as::<User>(UserQuery::Closing { limit: some }).await.unwrap().items;
    store.list_as::<Session>(SessionQuery::Ended { by: now(), limit: some }).await.unwrap().items;
    let operation = Operation::CreateSubscription;
    let key = IdempotencyKey { operation, client: "web".to_owned(), key: "k".parse().unwrap() };
    store.get_as::<IdempotencyRecord>(&key).await.unwrap();
    store
        .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired { by: now(), limit: some })
        .await
        .unwrap()
        .items;
    store.events(&EventQuery::after(1_000_000, some)).await.unwrap().items;

    let plans = explained(&cluster.log(from));
    assert!(plans.len() >= 34, "{} statements were explained", plans.len());
    for plan in &plans {
        let mut work = Work::default();
        add_up(&plan["Plan"], &mut work);
        assert!(!work.by_scan && work.rows <= 200 && work.sorted <= 200, "{work:?} {plan:#}");
    }
}
