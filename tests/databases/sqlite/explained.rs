//! The query plans of SQLite: which index each statement of the store uses, and what a write rewrites.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _, SqliteConnection};
use subscription_core::accounts::{Session, User};
use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{
    Collection, DocumentFilter, DocumentQuery, DuePayments, DueSubscriptions, EmailKey, EventQuery,
    PageLimit, PaymentQuery, Position, Query, SessionQuery, SortKey, SqliteOptions, Store as _,
    StoreExt as _, UniqueValue, UserFilter, UserQuery,
};
use subscription_core::subscriptions::Subscription;
use subscription_core::{
    BillingCycle, Clock as _, ManualClock, NewPlan, NewSubscription, PaymentStatus, StepKind,
    SubscriptionService, SystemRandomness, Timestamp, UserId,
};
use test_support::logs;
use test_support::million::{brief, lists_of_few};
use test_support::service_world::{at, of};
use test_support::trials;
use test_support::trials::Trial;
use tracing::dispatcher::DefaultGuard;
use tracing_subscriber::filter::LevelFilter;

use crate::folder::folder;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        lists_of_one_user_or_one_external_id_are_found_by_its_index,
        users_and_their_sessions_are_found_by_an_index,
        events_of_a_record_are_found_by_an_index,
        what_is_due_is_found_by_an_index,
        payments_of_all_subscriptions_are_read_along_their_key,
        payments_of_a_user_are_found_by_two_indexes,
        the_use_of_a_plan_is_found_by_two_indexes,
        documents_are_found_by_an_index,
        writes_of_subscriptions_build_no_tables_in_memory,
        a_new_period_rewrites_three_indexes,
        each_connection_has_a_page_cache_of_its_own,
    ]
}

/// The words of the statements that are sent while it is there.
#[derive(Clone, Default)]
pub(super) struct Overheard(Arc<Mutex<Vec<u8>>>);

impl io::Write for Overheard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Overheard {
    /// Hears the statements of this thread until the guard is dropped.
    pub(super) fn begin() -> (Self, DefaultGuard) {
        let overheard = Self::default();
        let writer = Mutex::new(overheard.clone());
        let words = tracing_subscriber::fmt().json().with_max_level(LevelFilter::TRACE);
        (overheard, logs::of_this_thread(words.with_writer(writer).finish()))
    }

    /// The last statement.
    pub(super) fn last(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        let line: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
        line.pointer("/fields/statement").and_then(Value::as_str).unwrap().to_owned()
    }
}

/// The plan of a statement, a line for each table or index that is read.
pub(super) async fn plan(of: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let text = format!("EXPLAIN QUERY PLAN {statement}");
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(of).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(3)).collect();
    if !statement.starts_with("SELECT group_concat(") {
        return lines;
    }
    // Each row goes into the one text as it is read, and so in the order of the list.
    let [first, plan @ .., last] = lines.as_slice() else { panic!("{lines:?}") };
    let subquery = first.strip_prefix("CO-ROUTINE ").unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(last.strip_prefix("SCAN "), Some(subquery), "{lines:?}");
    plan.to_vec()
}

/// The database has no statistics, as no program of ours collects any: its planner then goes by the form
/// of a statement alone, so an empty file shows the plans of a large one.
async fn lists_of_one_user_or_one_external_id_are_found_by_its_index() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();

    let (mut wrong, mut asked) = (Vec::new(), 0);
    for page in lists_of_few() {
        store.list_as::<Subscription>(page.clone()).await.unwrap();
        let statement = overheard.last();
        let plan = plan(&mut outsider, &statement).await;
        let index = match page.filter.external_subscription_id {
            Some(_) => "USING INDEX subscriptions_external_id (external_subscription_id=?",
            None => "USING INDEX subscriptions_of_user (user_id=?",
        };
        let reads = |line: &&String| line.starts_with("SEARCH") || line.starts_with("SCAN");
        let mut reads = plan.iter().filter(reads);
        asked += 1;
        if !reads.next().is_some_and(|read| read.contains(index)) || reads.next().is_some() {
            wrong.push(format!("{}: {plan:?}", brief(&page)));
        }
    }

    println!("{asked} plans were looked at");
    assert!(wrong.is_empty(), "{} plans:\n{}", wrong.len(), wrong.join("\n"));
}

async fn users_and_their_sessions_are_found_by_an_index() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let (user, now, some) = (uuid::Uuid::max().into(), Timestamp::MAX, PageLimit::MAX);

    store.list_as::<Session>(SessionQuery::LiveOf { user, now }).await.unwrap();
    let live = overheard.last();
    store
        .list_as::<Session>(SessionQuery::EndedOf { user, now, skip: 100, limit: some })
        .await
        .unwrap();
    let ended = overheard.last();
    store.list_as::<User>(UserQuery::Closing { limit: some }).await.unwrap();
    let closing = overheard.last();

    let mut users = Vec::new();
    let (email, prefix) = ("a@example.com".parse().unwrap(), "ann".parse().unwrap());
    let newest = Position { key: SortKey::CreatedAt, id: uuid::Uuid::max() };
    for (filter, after) in [
        (UserFilter::All, newest.clone()),
        (UserFilter::Ids(vec![user]), newest.clone()),
        (UserFilter::Email(email), newest),
        (
            UserFilter::EmailPrefix(prefix),
            Position {
                key: SortKey::Email(EmailKey::from(&"anna@example.com".parse().unwrap())),
                id: uuid::Uuid::nil(),
            },
        ),
    ] {
        let query = UserQuery::Open { filter, after: Some(after), limit: some };
        store.list_as::<User>(query).await.unwrap();
        users.push(overheard.last());
    }
    let [all, by_id, by_email, by_prefix] = users.try_into().unwrap();

    for (statement, index, sorts) in [
        (all, "PRIMARY KEY (id<?)", false),
        (by_id, "PRIMARY KEY (id=?", false),
        (by_email, "users_email (email_key=?", false),
        (by_prefix, "users_email (email_key>? AND email_key<?)", false),
        (live, "sessions_of_user_by_end (user_id=? AND ended_at>?)", true),
        (ended, "sessions_of_user_by_end (user_id=? AND ended_at<?)", false),
        (closing, "users_closing", false),
    ] {
        let details = plan(&mut outsider, &statement).await;
        assert!(details.first().is_some_and(|first| first.contains(index)), "{details:?}");
        assert_eq!(details.len() > 1, sorts, "{details:?}");
    }
}

async fn events_of_a_record_are_found_by_an_index() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let insert = "INSERT INTO events (id, at, subject, version, change, actor) VALUES (zeroblob(16), 0, \
                '{\"kind\":\"plan\",\"id\":\"00000000-0000-0000-0000-000000000000\"}', 1, '{\"change\":\"created\"}', 'library')";
    sqlx::raw_sql(insert).execute(&mut outsider).await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let all = EventQuery::after(0, PageLimit::MAX);

    for (query, index) in [
        (
            all.clone().with_subject(uuid::Uuid::max()),
            "events_of_subject (<expr>=? AND sequence>?)",
        ),
        (all, "INTEGER PRIMARY KEY (rowid>?)"),
    ] {
        store.events(&query).await.unwrap();
        let plan = plan(&mut outsider, &overheard.last()).await;

        assert_eq!(plan.len(), 1, "{plan:?}");
        assert!(plan.iter().all(|line| line.contains(index)), "{plan:?}");
    }
}

async fn what_is_due_is_found_by_an_index() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let (until, nobody) = (Timestamp::MAX, uuid::Uuid::max());
    let further = Position { key: SortKey::DueAt(Timestamp::MIN), id: nobody };
    let subscriptions = DueSubscriptions::until(until);
    let payments = DuePayments::until(PaymentStatus::Failed, until);

    let mut statements = Vec::new();
    for query in [
        Query::DueSubscriptions(subscriptions.clone()),
        Query::DueSubscriptions(subscriptions.with_after(further.clone())),
        Query::DuePayments(payments.clone()),
        Query::DuePayments(payments.with_after(further)),
        Query::DuePayments(DuePayments::until(PaymentStatus::Pending, until)),
    ] {
        store.list(&query).await.unwrap();
        statements.push(overheard.last());
    }
    store.find(UniqueValue::LiveKey("key")).await.unwrap();
    statements.push(overheard.last());
    store.find(UniqueValue::PaymentPeriod(nobody.into(), until)).await.unwrap();
    statements.push(overheard.last());

    let indexes = [
        "subscriptions_due (next_action_at<?)",
        "subscriptions_due ((next_action_at,id)>(?,?) AND next_action_at<?)",
        "payments_to_retry (next_attempt_at<?)",
        "payments_to_retry ((next_attempt_at,id)>(?,?) AND next_attempt_at<?)",
        "payments_to_collect (status=? AND due_at<?)",
        "subscriptions_live (live_key=?)",
        "payments_period (subscription_id=? AND whole_period=?)",
    ];
    for (statement, index) in statements.iter().zip(indexes) {
        let plan = plan(&mut outsider, statement).await;
        assert_eq!(plan.len(), 1, "{plan:?}");
        assert!(plan.iter().all(|line| line.contains(index)), "{plan:?}");
    }
}

async fn payments_of_all_subscriptions_are_read_along_their_key() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let further = Position { key: SortKey::CreatedAt, id: uuid::Uuid::max() };

    for (after, read) in [(None, "SCAN payments"), (Some(further), "PRIMARY KEY (id>?)")] {
        store.list(&Query::Payment(PaymentQuery::all().with_after(after))).await.unwrap();
        let plan = plan(&mut outsider, &overheard.last()).await;

        assert_eq!(plan.len(), 1, "{plan:?}");
        assert!(plan.iter().all(|line| line.contains(read)), "{plan:?}");
    }
}

async fn payments_of_a_user_are_found_by_two_indexes() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let further = Position { key: SortKey::CreatedAt, id: uuid::Uuid::max() };

    for after in [None, Some(further)] {
        let query = PaymentQuery::of_user(uuid::Uuid::max().into()).with_after(after);
        store.list(&Query::Payment(query)).await.unwrap();
        let plan = plan(&mut outsider, &overheard.last()).await;

        for index in [
            "payments USING INDEX payments_of_subscription (subscription_id=?",
            "subscriptions USING COVERING INDEX subscriptions_of_user (user_id=?)",
        ] {
            assert!(plan.iter().any(|line| line.contains(index)), "{plan:?}");
        }
        assert!(!plan.iter().any(|line| line.starts_with("SCAN")), "{plan:?}");
    }
}

/// The statement of the guard of an unused plan as the writer's task sends it, where it is not overheard. In
/// PostgreSQL it is the one that the store sends.
async fn the_use_of_a_plan_is_found_by_two_indexes() {
    let file = folder().join("store.db");
    SqliteOptions::file(&file).relaxed().open().await.unwrap().close().await;
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let statement = "SELECT 1 FROM subscriptions WHERE subscription_plan_id = $1 UNION ALL \
                     SELECT 1 FROM subscriptions WHERE scheduled_plan_id = $1 LIMIT 1";

    let plan = plan(&mut outsider, statement).await;

    for index in ["subscriptions_to_plan (scheduled_plan_id=?)", "(subscription_plan_id=?)"] {
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:?}");
    }
    assert!(!plan.iter().any(|line| line.starts_with("SCAN")), "{plan:?}");
}

async fn documents_are_found_by_an_index() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (overheard, _listening) = Overheard::begin();
    let now = Timestamp::MAX;
    let notes = |filter| DocumentQuery::new(Collection::named("notes"), filter);
    let after = |due_at| Position {
        key: SortKey::Document { due_at, id: "a".parse().unwrap() },
        id: uuid::Uuid::nil(),
    };

    for (filter, due_at, index, further) in [
        (DocumentFilter::All, None, "PRIMARY KEY (collection=?", " AND id>?)"),
        (
            DocumentFilter::Owner(uuid::Uuid::max()),
            None,
            "documents_of_owner (collection=? AND owner=?",
            " AND id>?)",
        ),
        (
            DocumentFilter::Label("open".parse().unwrap()),
            None,
            "documents_with_label (collection=? AND label=?",
            " AND id>?)",
        ),
        (
            DocumentFilter::DueBy(now),
            Some(now),
            "documents_due (collection=? AND ",
            "(due_at,id)>(?,?) AND due_at<?)",
        ),
    ] {
        for (query, end) in
            [(notes(filter.clone()), ""), (notes(filter).with_after(after(due_at)), further)]
        {
            store.list(&Query::Document(query)).await.unwrap();
            let plan = plan(&mut outsider, &overheard.last()).await;

            assert_eq!(plan.len(), 1, "{plan:?}");
            assert!(plan.iter().all(|line| line.contains(&format!("{index}{end}"))), "{plan:?}");
        }
    }
}

/// SQLite builds one for `IN` with more than two values in a generated column, each time that it computes the column.
async fn writes_of_subscriptions_build_no_tables_in_memory() {
    let file = folder().join("store.db");
    SqliteOptions::file(&file).open().await.unwrap().close().await;
    let mut connection: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();

    for statement in [
        "INSERT INTO subscriptions (id, status, updated_at) VALUES (x'01', 'active', 1)",
        "UPDATE subscriptions SET status = 'active', updated_at = 1, access_phase = 0 WHERE id = x'01'",
    ] {
        let explained = AssertSqlSafe(format!("EXPLAIN {statement}"));
        let steps = sqlx::query(explained).fetch_all(&mut connection).await.unwrap();
        let steps: Vec<String> = steps.iter().map(|step| step.get("opcode")).collect();

        assert!(steps.iter().any(|step| step == "IdxInsert"), "{steps:?}");
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{statement}: {steps:?}");
    }
}

/// SQLite rewrites the entries of a row in every index of a column that an UPDATE sets, and of each column made from it. A
/// new period is in two lists by renewal and in the list of what is due.
async fn a_new_period_rewrites_three_indexes() {
    let file = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let clock = ManualClock::at(at("2030-01-31T00:00:00Z"));
    let service = SubscriptionService::builder(Arc::clone(&store)).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let plan = NewPlan::new(of("Pro"), of("pro"), of("10"), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some(of("EUR")), ..plan };
    let plan = billing.service().create_plan(plan).await.unwrap();
    let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
    let held = NewSubscription::new(user, plan.id);
    let held = billing.service().create_subscription(held).await.unwrap();
    let renews_at = held.renews_at.unwrap();
    // The renewal is announced before.
    clock.set(renews_at.saturating_sub(Duration::from_secs(1)));
    assert_eq!(billing.advance(10).await.unwrap().steps, 1);
    let mut connection: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info('subscriptions')");
    let columns: Vec<String> = columns.fetch_all(&mut connection).await.unwrap();
    connection.execute("CREATE TABLE set_columns (name)").await.unwrap();
    for name in &columns {
        // It runs for a statement that sets the column, also to the same value.
        let trigger = format!(
            "CREATE TRIGGER sets_{name} AFTER UPDATE OF {name} ON subscriptions \
             BEGIN INSERT INTO set_columns VALUES ('{name}'); END"
        );
        connection.execute(AssertSqlSafe(trigger)).await.unwrap();
    }

    clock.set(renews_at);
    let advanced = billing.advance(10).await.unwrap();

    assert_eq!(advanced.by_kind.into_iter().collect::<Vec<_>>(), [(StepKind::PeriodStarted, 1)]);
    let set = sqlx::query_scalar("SELECT name FROM set_columns");
    let set: Vec<String> = set.fetch_all(&mut connection).await.unwrap();
    for name in &columns {
        connection.execute(AssertSqlSafe(format!("DROP TRIGGER sets_{name}"))).await.unwrap();
    }
    let same: Vec<String> = set.iter().map(|name| format!("{name} = {name}")).collect();
    let statement =
        format!("EXPLAIN UPDATE subscriptions SET {} WHERE id = x'01'", same.join(", "));
    let steps = sqlx::query(AssertSqlSafe(statement)).fetch_all(&mut connection).await.unwrap();
    let steps: Vec<String> = steps.iter().map(|step| step.get("opcode")).collect();
    assert_eq!(steps.iter().filter(|step| *step == "IdxDelete").count(), 3, "{set:?}");
}

/// `.cargo/config.toml` says how SQLite is compiled.
async fn each_connection_has_a_page_cache_of_its_own() {
    let mut connection: SqliteConnection =
        SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();

    let options: Vec<String> =
        sqlx::query_scalar("PRAGMA compile_options").fetch_all(&mut connection).await.unwrap();

    assert!(options.iter().any(|option| option == "THREADSAFE=1"), "{options:?}");
    assert!(!options.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{options:?}");
    assert!(options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"), "{options:?}");
}
