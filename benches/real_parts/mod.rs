//! The two servers, each in a process of its own with two workers, and the requests to them.

mod peer;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_core::auth::{IdentityKey, User};
use subscription_core::store::{ChangeSet, PostgresOptions, SqliteOptions};
use subscription_core::{Clock as _, Store, SystemClock, SystemRandomness, UserId, Version};
use subscription_http::Limits;
use test_support::million_records as records;

use crate::load_parts::callers::{Request, one};
use crate::load_parts::servers::{Caller, start_log};
use crate::world::ApiWorld;

/// The number of users for whom subscriptions are created, each on a connection of its own.
const USERS: usize = 128;
/// The number of subscriptions that both servers have at the start.
const SEEDED: u64 = 50_000;
/// The number of subscriptions before the page that lies far into the list.
const SKIPPED: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Postgres,
    Sqlite,
}

impl Database {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// One of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Ours,
    Peer,
}

/// A running server. It is killed when this value is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    which: Which,
    about: Value,
}

impl Running {
    /// Starts a server over a database, at a URL or in a file.
    pub(crate) fn start(which: Which, database: Database, place: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--serve", &format!("{which:?}"), &format!("{database:?}"), place]);
        // Our server logs a line for each request, which is discarded.
        command.stdout(Stdio::piped()).stderr(match which {
            Which::Ours => Stdio::null(),
            Which::Peer => Stdio::inherit(),
        });
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line).unwrap();
        let address = about["address"].as_str().unwrap().parse().unwrap();
        Self { child, address, which, about }
    }

    /// A request of each caller, which creates a subscription for a user of its own.
    pub(crate) fn creates(&self, callers: usize) -> Vec<Request> {
        self.of_each_user(callers, |user, caller| {
            let body = json!({ "user_id": user, "subscription_plan_id": self.about["plan"] });
            Request::post("/subscriptions", &body.to_string(), caller)
        })
    }

    /// A request of each caller, which reads the entitlement of a user of its own.
    pub(crate) fn entitlements(&self, callers: usize) -> Vec<Request> {
        self.of_each_user(callers, |user, caller| {
            Request::get(&format!("/users/{user}/entitlement"), caller)
        })
    }

    /// A request of each caller, which reads a subscription of its own.
    pub(crate) fn subscriptions(&self, callers: usize) -> Vec<Request> {
        let numbers = (0_u64..).step_by(997).take(callers);
        let paths = numbers.map(|nth| format!("/subscriptions/{}", records::id(nth)));
        paths.map(|path| Request::get(&path, &self.caller())).collect()
    }

    /// The same request for all callers.
    pub(crate) fn same(&self, callers: usize, path: &str) -> Vec<Request> {
        vec![Request::get(path, &self.caller()); callers]
    }

    /// The same request for all callers: the page after [`SKIPPED`] subscriptions.
    pub(crate) async fn far_page(&self, callers: usize) -> Vec<Request> {
        let paths = self.pages(SKIPPED / 200 + 1, 200).await;
        self.same(callers, paths.last().unwrap())
    }

    /// A request of each caller, which reads a page of its own.
    pub(crate) async fn other_pages(&self, callers: usize) -> Vec<Request> {
        let paths = self.pages(callers, 50).await;
        paths.iter().map(|path| Request::get(path, &self.caller())).collect()
    }

    /// The paths of `count` pages of 50. The first begins at the start, and each next one `apart` subscriptions later.
    async fn pages(&self, count: usize, apart: usize) -> Vec<String> {
        if self.which == Which::Peer {
            return (0..count)
                .map(|nth| format!("/subscriptions?offset={}", nth * apart))
                .collect();
        }
        let mut cursor = String::new();
        let mut paths = Vec::new();
        for _ in 0..count {
            paths.push(format!("/subscriptions?limit=50{cursor}"));
            let path = format!("/subscriptions?limit={apart}{cursor}");
            let page = one(self.address, &Request::get(&path, &self.caller())).await;
            let page: Value = serde_json::from_slice(&page).unwrap();
            cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
        }
        paths
    }

    fn of_each_user(
        &self,
        callers: usize,
        request: impl Fn(&str, &Caller) -> Request,
    ) -> Vec<Request> {
        let (caller, users) = (self.caller(), self.about["users"].as_array().unwrap().iter());
        users.take(callers).map(|user| request(user.as_str().unwrap(), &caller)).collect()
    }

    fn caller(&self) -> Caller {
        let text = |name: &str| self.about[name].as_str().unwrap_or_default().to_owned();
        let (client, token) = (text("client"), text("token"));
        Caller { client, token, subscription: String::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs as one of the servers, until the process is killed.
pub(crate) fn serve(which: &str, database: &str, place: &str) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match (which, database) {
            ("Ours", "Postgres") => {
                ours(PostgresOptions::url(place).unwrap().open().await.unwrap()).await;
            }
            ("Ours", _) => ours(SqliteOptions::file(place).open().await.unwrap()).await,
            (_, "Postgres") => peer::serve(Database::Postgres, place).await,
            _ => peer::serve(Database::Sqlite, place).await,
        }
    });
}

async fn ours(store: impl Store + 'static) {
    start_log();
    let store = Arc::new(store);
    let users: Vec<_> = (0..USERS).map(user).collect();
    let ids: Vec<_> = users.iter().map(|user| user.id).collect();
    let writes = users.into_iter().map(Into::into).collect();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    records::fill(&store, 0..SEEDED).await;
    // With the cache of plans and clients that is used in front of a database.
    let world = ApiWorld::over(store, 0, true).await;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = subscription_http::Server::bind(world.api.clone(), address, Limits::default());
    let server = server.await.unwrap().workers(NonZeroUsize::new(2).unwrap()).unwrap();
    let about = json!({
        "address": server.address().unwrap(),
        "client": world.client.expose_secret(),
        "token": world.token.expose_secret(),
        "plan": world.plan,
        "users": ids,
    });
    println!("{about}");
    server.run(std::future::pending()).await;
}

fn user(number: usize) -> User {
    let now = SystemClock.now();
    let text = format!("user-{number}");
    let identity =
        IdentityKey { issuer: "issuer".parse().unwrap(), subject: text.parse().unwrap() };
    let (id, version) = (UserId::new(now, &SystemRandomness).unwrap(), Version::FIRST);
    let email = format!("{text}@example.com").parse().unwrap();
    User { id, identity, email, closing: false, created_at: now, updated_at: now, version }
}
