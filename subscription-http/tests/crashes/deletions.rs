//! Accounts that are being deleted when the caller leaves or the program is killed: whole or gone.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::store::{SessionQuery, StoreExt as _};

use serde_json::{Value, json};
use subscription_core::store::{
    ChangeSet, PageLimit, Record, SubscriptionFilter, SubscriptionQuery,
};
use subscription_core::{
    Store, Subscription, SubscriptionId, SubscriptionStatus, SystemRandomness, Timestamp, UserId,
};

use crate::database::Database;
use crate::http::{CLIENT, Connection, Request, text};
use crate::running::{Running, folder, until};
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

/// The kills of a normal run, and the callers who leave for each of them; `SUBSCRIPTION_TEST_STEPS` asks for another
/// number of kills.
const KILLS: u64 = 4;
const CALLERS: u64 = 40;
/// So many that the deletion takes several commits.
const SUBSCRIPTIONS: usize = 2_500;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        accounts_of_callers_who_leave_are_whole_or_gone_sqlite,
        a_large_account_is_whole_or_gone_after_a_kill_sqlite,
    ]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking:
        accounts_of_callers_who_leave_are_whole_or_gone_postgres,
        a_large_account_is_whole_or_gone_after_a_kill_postgres,
    ]
}

fn accounts_of_callers_who_leave_are_whole_or_gone_sqlite() {
    accounts_of_callers_who_leave_are_whole_or_gone("callers who leave, SQLite", &Database::file());
}

fn accounts_of_callers_who_leave_are_whole_or_gone_postgres() {
    let story = "callers who leave, PostgreSQL";
    accounts_of_callers_who_leave_are_whole_or_gone(story, &Database::schema());
}

fn a_large_account_is_whole_or_gone_after_a_kill_sqlite() {
    a_large_account_is_whole_or_gone_after_a_kill("kills of deletions, SQLite", &Database::file());
}

fn a_large_account_is_whole_or_gone_after_a_kill_postgres() {
    let story = "kills of deletions, PostgreSQL";
    a_large_account_is_whole_or_gone_after_a_kill(story, &Database::schema());
}

/// Somebody with an account.
struct Owner {
    proof: String,
    user: String,
    token: String,
    subscription: String,
}

fn enter(connection: &mut Connection, how: &str, proof: &str) -> (u16, Value) {
    let answer = connection.sure(&Request::post(&format!("/authentication/{how}"), proof));
    (answer.status, answer.json())
}

fn subscribe(connection: &mut Connection, user: &str, plan: &str) -> (u16, Value) {
    let new = json!({ "user_id": user, "subscription_plan_id": plan }).to_string();
    let answer = connection.sure(&Request::post("/subscriptions", &new));
    (answer.status, answer.json())
}

fn plan(connection: &mut Connection) -> String {
    let new = json!({ "name": "Pro", "slug": "pro", "price": 5, "billing_cycle": "monthly" });
    let made = connection.sure(&Request::post("/subscription-plans", &new.to_string()));
    text(&made.expect(201).json(), "id")
}

impl Owner {
    fn new(connection: &mut Connection, name: &str, plan: &str) -> Self {
        let proof = json!({ "access_token": name, "email": format!("{name}@example.com") });
        let proof = proof.to_string();
        let (status, made) = enter(connection, "sign-up", &proof);
        assert_eq!(status, 201, "{made}");
        let user = text(&made["user"], "id");
        let (status, subscription) = subscribe(connection, &user, plan);
        assert_eq!(status, 201, "{subscription}");
        let (token, subscription) = (text(&made, "access_token"), text(&subscription, "id"));
        Self { proof, user, token, subscription }
    }

    /// Asks for the deletion; whoever drops the connection has left.
    fn leave(&self, server: &Running) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(
            stream,
            "DELETE /authentication/delete-my-account/{} HTTP/1.1\r\nhost: localhost\r\n\
             client-id: {CLIENT}\r\nauthorization: Bearer {}\r\n\r\n",
            self.user, self.token
        )
        .unwrap();
        stream
    }

    /// The code of an error at sign-in, or `None` if it is let in.
    fn refused(&self, connection: &mut Connection) -> Option<String> {
        let (status, answer) = enter(connection, "sign-in", &self.proof);
        (status != 200).then(|| text(&answer, "code"))
    }

    /// The status for the session that asked for the deletion. Unlike sign-ins, which end the oldest session and
    /// with it a deletion that is not let in yet, this changes nothing.
    fn status(&self, connection: &mut Connection) -> u16 {
        let session = Request::post("/authentication/user-logged-in", "").bearer(&self.token);
        connection.sure(&session).status
    }

    /// True if the account is gone, false if it is whole; there is nothing in between.
    fn is_gone(&self, connection: &mut Connection, plan: &str) -> bool {
        until("the deletion is over", || {
            self.refused(connection).as_deref() != Some("account_closing")
        });
        let gone = self.refused(connection).is_some_and(|code| {
            assert_eq!(code, "account_not_found");
            true
        });
        let (expected, status) = if gone { (401, "expired") } else { (200, "active") };
        assert_eq!(self.status(connection), expected);
        let held = Request::get(&format!("/subscriptions/{}", self.subscription));
        assert_eq!(text(&connection.sure(&held).expect(200).json(), "status"), status);
        let (subscribed, _) = subscribe(connection, &self.user, plan);
        assert_eq!(subscribed, if gone { 422 } else { 201 });
        gone
    }
}

fn accounts_of_callers_who_leave_are_whole_or_gone(story: &str, database: &Database) {
    let server = Running::start(&folder(), &database.url(), &[]);
    let mut connection = server.connect();
    let plan = plan(&mut connection);
    let mut owners = Vec::new();
    let callers = seed::steps(KILLS) * CALLERS;

    for nth in 0..callers {
        let owner = Owner::new(&mut connection, &format!("u{nth}"), &plan);
        let connection = owner.leave(&server);
        // From no time to six milliseconds.
        std::thread::sleep(Duration::from_micros(6_000 * nth / callers));
        drop(connection);
        owners.push(owner);
    }

    let gone = owners.iter().filter(|owner| owner.is_gone(&mut connection, &plan)).count();
    assert!((1..owners.len()).contains(&gone), "{gone} of {callers} are gone");
    server.stop();
    println!("{story}: {gone} of {callers} accounts are gone, the others whole");
}

/// Gives a user copies of a subscription, faster than by requests.
async fn multiply(store: &dyn Store, subscription: &str) {
    let first =
        store.get_as::<Subscription>(&subscription.parse().unwrap()).await.unwrap().unwrap();
    let copies: Vec<_> = (1..SUBSCRIPTIONS)
        .map(|_| {
            let id = SubscriptionId::new(first.created_at, &SystemRandomness).unwrap();
            Record::from(Subscription { id, ..(*first).clone() })
        })
        .collect();
    for writes in copies.chunks(ChangeSet::RECORDS_MAX) {
        let changes = ChangeSet { writes: writes.to_vec(), ..ChangeSet::default() };
        store.commit(changes).await.unwrap();
    }
}

/// The stored state of a user: whether the account is closing, sessions, subscriptions not expired.
async fn left(store: &dyn Store, user: &str) -> (Option<bool>, usize, usize) {
    let user: UserId = user.parse().unwrap();
    let closing = store.get_as::<User>(&user).await.unwrap().map(|user| user.closing);
    let sessions = store
        .list_as::<Session>(SessionQuery::LiveOf { user, now: Timestamp::MIN })
        .await
        .unwrap()
        .items
        .len();
    let statuses = SubscriptionStatus::all().filter(|s| *s != SubscriptionStatus::Expired);
    let (user_id, statuses) = (Some(user), statuses.collect());
    let filter = SubscriptionFilter::default().with_user_id(user_id).with_statuses(statuses);
    let limit = PageLimit::MAX;
    let mut query = SubscriptionQuery::default().with_filter(filter).with_limit(limit);
    let mut live = 0;
    loop {
        let page = store.list_as::<Subscription>(query.clone()).await.unwrap();
        live += page.items.len();
        query.after = page.next;
        if query.after.is_none() {
            return (closing, sessions, live);
        }
    }
}

fn a_large_account_is_whole_or_gone_after_a_kill(story: &str, database: &Database) {
    let (rng, folder, kills) = (seed::rng(story), folder(), seed::steps(KILLS));
    let server = Running::start(&folder, &database.url(), &[]);
    let mut connection = server.connect();
    let plan = plan(&mut connection);
    let owner = |nth| Owner::new(&mut connection, &format!("u{nth}"), &plan);
    let owners: Vec<_> = (0..kills).map(owner).collect();
    server.stop();
    let (mut whole, mut closing, mut gone) = (0, 0, 0);

    for (round, owner) in owners.iter().enumerate() {
        database.look(async |store| multiply(store, &owner.subscription).await);
        let server = Running::start(&folder, &database.url(), &[]);
        let leaving = owner.leave(&server);
        if round % 2 == 0 {
            let mut connection = server.connect();
            until("the deletion has begun", || owner.status(&mut connection) != 200);
            drop(leaving);
        }
        std::thread::sleep(Duration::from_millis(rng.below(40)));
        server.kill();
        database.check_file();
        database.look(async |store| match left(store, &owner.user).await {
            (None, 0, 0) => gone += 1,
            (Some(true), 1.., 0..=SUBSCRIPTIONS) => closing += 1,
            (Some(false), 1.., SUBSCRIPTIONS) => whole += 1,
            half => panic!("{half:?}"),
        });

        let server = Running::start(&folder, &database.url(), &[]);
        let is_gone = owner.is_gone(&mut server.connect(), &plan);
        server.kill();

        database.look(async |store| {
            let (closing, sessions, live) = left(store, &owner.user).await;
            assert_eq!(closing, (!is_gone).then_some(false));
            let alive = if is_gone { 0 } else { SUBSCRIPTIONS + 1 };
            assert_eq!((live, sessions == 0), (alive, is_gone));
        });
    }

    assert!(closing > 0, "no deletion was under way: {whole} whole, {gone} gone");
    println!(
        "{story}: of {kills} killed {whole} were whole, {closing} begun and then finished, {gone} gone"
    );
}
