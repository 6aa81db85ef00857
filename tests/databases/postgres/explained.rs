//! The query plans of PostgreSQL: each list finds its rows by an index, among a million subscriptions.
//!
//! The server logs the plan of each statement that the store sends (`auto_explain`).

use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use subscription_core::accounts::IdentityKey;
use subscription_core::store::{
    ChangeSet, Collection, Direction, DocumentFilter, DocumentKey, DocumentQuery, DuePayments,
    DueSubscriptions, EmailKey, EventQuery, Guard, IdempotencyKey, IdempotencyQuery, Key,
    Operation, PageLimit, PaymentQuery, PlanFilter, PlanOrder, PlanQuery, Position,
    PostgresOptions, PostgresStore, Query, SessionQuery, SortKey, StoreExt as _, SubscriptionQuery,
    UniqueValue, UserFilter, UserQuery,
};
use subscription_core::subscriptions::Subscription;
use subscription_core::{Clock as _, PaymentStatus, Store as _, SystemClock, Timestamp};
use test_support::cluster::Cluster;
use test_support::million::{
    COLUMNS, brief, further_pages, id, is_against_the_grain, lists, lists_of_few, now, row,
};
use test_support::seed::{sample, steps};
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
    -c shared_buffers=512MB -c max_wal_size=4GB -c synchronous_commit=off -c autovacuum=off \
    -c wal_level=minimal -c max_wal_senders=0";

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
    // Rows of a table that was emptied in the same transaction are not written to the log.
    let begin = "SET auto_explain.log_min_duration = -1; BEGIN; TRUNCATE subscriptions";
    let mut steps = vec![begin.to_owned()];
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
    steps.push("COMMIT".to_owned());
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
    for first in sample(lists(), 3) {
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

/// As many rows of every other table as make a scan of it dear: `SUBSCRIPTION_TEST_STEPS`, or a fifth of 100,000.
fn rows() -> u64 {
    steps(20_000)
}

/// Rows of every other table. The number of [`rows`] stands in place of 100000.
const OTHERS: [&str; 9] = [
    "INSERT INTO plans (id, name, product_id, variants, slug, price, href, billing_cycle, description, node_quota, \
     features, most_popular, tier, is_active, created_at, updated_at, version) SELECT gen_random_uuid(), 'plan ' || n, 'product ' || n % 5000, '[]', 'plan-' || n, n, \
     NULL, 'monthly', '', 0, '', false, n % 10000, true, now(), now(), 1 FROM generate_series(1, 20000) n",
    "INSERT INTO payments (id, subscription_id, amount, currency, external_payment_id, status, created_at, updated_at, \
     version, settled) SELECT gen_random_uuid(), ('00000000-0000-7000-8000-' || lpad((n % 1000)::text, 12, \
     '0'))::uuid, n, 'EUR', 'pay-' || n, 'paid', now(), now(), 1, true FROM generate_series(1, 100000) n",
    "INSERT INTO payments (id, subscription_id, amount, currency, status, created_at, updated_at, version, \
     settled, due_at, next_attempt_at, whole_period) SELECT gen_random_uuid(), gen_random_uuid(), n, 'EUR', CASE \
     n % 3 WHEN 0 THEN 'pending' WHEN 1 THEN 'failed' ELSE 'processing' END, now(), now(), 1, false, now() - n * interval '1 second', \
     now() - n * interval '1 second', now() FROM generate_series(1, 100000) n",
    "INSERT INTO subscriptions (id, user_id, subscription_plan_id, billing_cycle, status, is_active, starts_at, \
     created_at, updated_at, version, blocked, managed_by, quantity, access_phase, live_key, next_action_at, \
     scheduled_plan_id) SELECT \
     gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'monthly', 'active', true, now(), now(), now(), 1, \
     false, 'clock', 1, 3, 'key-' || n, now() - n * interval '1 second', gen_random_uuid() FROM generate_series(1, 100000) n",
    "INSERT INTO users SELECT gen_random_uuid(), 'issuer', 'subject ' || n, n || '@example.com', \
     n || '@example.com', false, now(), now(), 1 FROM generate_series(1, 100000) n",
    "INSERT INTO sessions SELECT gen_random_uuid(), gen_random_uuid(), 'web', 'issuer', '', 1, '', 1, now(), \
     false, now(), now(), now(), now(), NULL, NULL, NULL, NULL, now(), now(), 1, \
     now() + n * interval '1 second' FROM generate_series(1, 100000) n",
    "INSERT INTO answers (operation, client, request_key, version, fingerprint, answer, expires_at) SELECT 'create_subscription', 'web', 'key-' || n, 1, '', '{}', \
     now() + n * interval '1 second' FROM generate_series(1, 100000) n",
    "INSERT INTO events (id, at, subject, version, change, actor, sequence) SELECT gen_random_uuid(), now(), \
     jsonb_build_object('kind', 'plan', 'id', '00000000-0000-0000-0000-' || lpad((n % 9000)::text, 12, '0')), 1, \
     '{\"change\": \"created\"}', 'library', nextval('feed') FROM generate_series(1, 100000) n",
    "INSERT INTO documents SELECT CASE WHEN n % 2 = 0 THEN 'notes' ELSE 'others' END, 'note-' || n, 1, \
     gen_random_uuid(), CASE WHEN n % 10 = 0 THEN 'open' ELSE 'done' END, now() + n * interval '1 second', \
     '{}' FROM generate_series(1, 100000) n",
];

const NOTES: Collection = Collection::named("notes");

async fn every_other_read_finds_its_rows_by_an_index() {
    let cluster = Cluster::start_with(false, EXPLAINING).unwrap();
    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
    let mut to = PgConnection::connect(&cluster.url()).await.unwrap();
    let begun = cluster.log_len();
    read_together(&store).await;
    // Of these tables the planner knows nothing yet, and would join with all rows of a small one.
    for plan in explained(&cluster.log(begun)) {
        assert!(!plan.to_string().contains("Hash Join"), "{plan:#}");
    }
    let rows = rows();
    println!("{rows} rows in each table");
    for fill in OTHERS {
        let fill = fill.replace("100000", &rows.to_string());
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut to).await.unwrap();
    }
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut to).await.unwrap();
    let from = cluster.log_len();

    read_together(&store).await;
    read_records(&store).await;
    for query in plan_lists().into_iter().chain(payment_lists()).chain(other_lists()) {
        store.list(&query).await.unwrap();
    }
    for query in due_lists(rows) {
        let page = store.list(&query).await.unwrap();
        assert_eq!(page.items.len(), PageLimit::default().get());
    }
    let events = EventQuery::after(10, PageLimit::default());
    store.events(&events).await.unwrap();
    store.events(&events.with_subject(id(7))).await.unwrap();
    let guards = vec![Guard::PlanUnused(id(1).into())];
    store.commit(ChangeSet { guards, ..ChangeSet::default() }).await.unwrap();

    let plans = explained(&cluster.log(from));
    let is_shared = |plan: &&Value| plan["Query Text"].as_str().unwrap().contains("caller.nth");
    let shared = plans.iter().filter(is_shared).count();
    // Where the first is answered at once there is nobody to share with.
    assert!(shared > 0, "no statement was for several callers");
    let is_guard = |plan: &&Value| plan.to_string().contains("subscriptions_to_plan");
    assert_eq!(plans.iter().filter(is_guard).count(), 1);
    assert!(plans.len() >= 63 + 6 * ROUNDS, "{} statements were explained", plans.len());
    for plan in &plans {
        let mut work = Work::default();
        add_up(&plan["Plan"], &mut work);
        assert!(!work.by_scan && work.rows <= 200 && work.sorted <= 200, "{work:?} {plan:#}");
    }
}

/// So often that PostgreSQL keeps a plan.
const ROUNDS: usize = 8;

/// Reads for three callers at once: the first sends a statement, and then the second one for the others.
async fn read_together(store: &PostgresStore) {
    let (nobody, now) = (id(1), now());
    let keys = [
        Key::Plan(nobody.into()),
        Key::Payment(nobody.into()),
        Key::User(nobody.into()),
        Key::Session(nobody.into()),
    ];
    let lists = [
        Query::Payment(PaymentQuery::of(nobody.into())),
        Query::Session(SessionQuery::LiveOf { user: nobody.into(), now }),
    ];
    for _ in 0..ROUNDS {
        for key in &keys {
            tokio::try_join!(store.get(key), store.get(key), store.get(key)).unwrap();
        }
        for list in &lists {
            tokio::try_join!(store.list(list), store.list(list), store.list(list)).unwrap();
        }
    }
}

async fn read_records(store: &PostgresStore) {
    let (nobody, text) = (id(1), "nothing".parse().unwrap());
    let (operation, client) = (Operation::CreateSubscription, "web".to_owned());
    let request = IdempotencyKey { operation, client, key: "k".parse().unwrap() };
    let document = DocumentKey { collection: NOTES, id: "nothing".parse().unwrap() };
    for key in [
        Key::Plan(nobody.into()),
        Key::Payment(nobody.into()),
        Key::User(nobody.into()),
        Key::Session(nobody.into()),
        Key::Idempotency(request),
        Key::Document(document),
    ] {
        store.get(&key).await.unwrap();
    }
    let identity = IdentityKey { issuer: "issuer".parse().unwrap(), subject: "x".parse().unwrap() };
    let (slug, email) = ("nothing".parse().unwrap(), "nobody@example.com".parse().unwrap());
    for value in [
        UniqueValue::PlanSlug(&slug),
        UniqueValue::ExternalPayment(&text),
        UniqueValue::LiveKey("nothing"),
        UniqueValue::PaymentPeriod(nobody.into(), now()),
        UniqueValue::UserIdentity(&identity),
        UniqueValue::UserEmail(&email),
    ] {
        store.find(value).await.unwrap();
    }
}

/// The first page and a further one, in both directions.
fn pages(key: &SortKey) -> [(Direction, Option<Position>); 4] {
    let place = || Some(Position { key: key.clone(), id: id(10_000) });
    [
        (Direction::Ascending, None),
        (Direction::Descending, None),
        (Direction::Ascending, place()),
        (Direction::Descending, place()),
    ]
}

fn plan_lists() -> Vec<Query> {
    let orders = [
        (PlanOrder::Tier, SortKey::Tier("5000".parse().unwrap())),
        (PlanOrder::Price, SortKey::Price("15000".parse().unwrap())),
        (PlanOrder::Name, SortKey::Name("plan 5".parse().unwrap())),
        (PlanOrder::CreatedAt, SortKey::CreatedAt),
    ];
    let mut lists = Vec::new();
    for (order, key) in orders {
        for (direction, after) in pages(&key) {
            let query =
                PlanQuery::default().with_order(order).with_direction(direction).with_after(after);
            lists.push(Query::Plan(query));
        }
    }
    let product_id = Some("product 7".parse().unwrap());
    let filter = PlanFilter::default().with_product_id(product_id);
    lists.push(Query::Plan(PlanQuery::default().with_filter(filter)));
    lists
}

fn payment_lists() -> impl Iterator<Item = Query> {
    let of = PaymentQuery::of(Uuid::from_u128(0x7000_8000_0000_0000_0007).into());
    let of_user = PaymentQuery::of_user(id(1).into());
    let list = |(direction, after): (Direction, Option<Position>)| {
        [of.clone(), of_user.clone(), PaymentQuery::all()]
            .map(|query| Query::Payment(query.with_direction(direction).with_after(after.clone())))
    };
    pages(&SortKey::CreatedAt).into_iter().flat_map(list).collect::<Vec<_>>().into_iter()
}

/// The first page and a further one from the middle, of all that is there.
fn due_lists(rows: u64) -> Vec<Query> {
    use PaymentStatus::{Failed, Pending, Processing};
    let at = SystemClock.now().saturating_sub(Duration::from_secs(rows / 2));
    let further = Some(Position { key: SortKey::DueAt(at), id: id(1) });
    let until = Timestamp::MAX;
    let mut lists = Vec::new();
    for after in [None, further] {
        let subscriptions = DueSubscriptions::until(until).with_after(after.clone());
        lists.push(Query::DueSubscriptions(subscriptions));
        for status in [Pending, Processing, Failed] {
            let payments = DuePayments::until(status, until).with_after(after.clone());
            lists.push(Query::DuePayments(payments));
        }
    }
    lists
}

fn other_lists() -> Vec<Query> {
    let (user, now, limit) = (id(1).into(), now(), PageLimit::default());
    let mut lists = vec![
        Query::Session(SessionQuery::LiveOf { user, now }),
        Query::Session(SessionQuery::EndedOf { user, now, skip: 100, limit }),
        Query::Session(SessionQuery::Ended { by: now, limit }),
        Query::User(UserQuery::Closing { limit }),
        Query::Idempotency(IdempotencyQuery::Expired { by: now, limit }),
    ];
    let newest = |n| Position { key: SortKey::CreatedAt, id: id(n) };
    let by_key = Position {
        key: SortKey::Email(EmailKey::from(&"1234@example.com".parse().unwrap())),
        id: id(5),
    };
    let users = [
        (UserFilter::All, newest(10_000)),
        (UserFilter::Ids((1..=50).map(|n| id(n).into()).collect()), newest(25)),
        (UserFilter::Email("7@example.com".parse().unwrap()), newest(10_000)),
        (UserFilter::EmailPrefix("123".parse().unwrap()), by_key),
    ];
    for (filter, position) in users {
        for after in [None, Some(position)] {
            let filter = filter.clone();
            lists.push(Query::User(UserQuery::Open { filter, after, limit }));
        }
    }
    let filters = [
        DocumentFilter::All,
        DocumentFilter::Owner(id(1)),
        DocumentFilter::Label("open".parse().unwrap()),
        DocumentFilter::DueBy(now),
    ];
    let notes = filters.map(|filter| Query::Document(DocumentQuery::new(NOTES, filter)));
    lists.extend(notes);
    lists
}
