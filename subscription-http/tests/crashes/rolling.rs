//! A rolling upgrade: servers of an earlier commit and of this one over one database.
//!
//! `SUBSCRIPTION_TEST_PREVIOUS` names the program of the earlier commit, which `.ci/long` builds. Without it there is no
//! such test. Writers move to a server that has not cached their plans: a plan may be stale for three seconds.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::store::CacheInvalidator;
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

use crate::audit::audit;
use crate::database::Database;
use crate::http::{Connection, Request, text};
use crate::instances::Directory;
use crate::leaders::leaders;
use crate::load::{Progress, under_load_on};
use crate::running::{Running, folder, until};
use crate::writer::{Trouble, Writer, settled};

/// As many steps are answered before the next thing happens.
const STEPS: usize = 100;
/// Lists, the field of a page that says where the next page begins, and the parameter that takes it.
const LISTS: [(&str, &str, &str); 4] = [
    ("/subscription-plans", "next_cursor", "cursor"),
    ("/subscriptions", "next_cursor", "cursor"),
    ("/users", "next_cursor", "cursor"),
    ("/events", "next_after", "after"),
];

pub(crate) fn trials() -> Vec<Trial> {
    if previous().is_none() {
        return Vec::new();
    }
    trials![
        blocking: a_rolling_upgrade_loses_nothing_that_was_answered,
        the_earlier_program_reads_discounts_and_their_payments,
    ]
}

/// The program of the earlier commit.
fn previous() -> Option<PathBuf> {
    let named = std::env::var_os("SUBSCRIPTION_TEST_PREVIOUS").filter(|name| !name.is_empty())?;
    // Servers start in folders of their own.
    Some(std::fs::canonicalize(named).unwrap())
}

/// Servers with the same keys over one database.
struct Upgrade {
    folder: PathBuf,
    database: Database,
    previous: PathBuf,
    directory: Directory,
}

impl Upgrade {
    fn new() -> Self {
        Self {
            folder: folder(),
            database: Database::schema(),
            previous: previous().unwrap(),
            directory: Directory::default(),
        }
    }

    fn start(&self, is_old: bool) -> Running {
        // Else every one has as many connections as if it were alone.
        let url = self.database.url();
        let few = ["--database-connections", "8"];
        if is_old {
            Running::start_program(&self.previous, &self.folder, &url, &few)
        } else {
            Running::start(&self.folder, &url, &few)
        }
    }

    /// Writes over all these servers while `act` runs. Only servers that end break connections off, and the one error
    /// is a database that is locked by a migration.
    fn load<T>(
        &self,
        story: &str,
        writers: &mut [Writer],
        servers: &[SocketAddr],
        act: impl FnOnce(&Progress) -> T,
    ) -> T {
        let directory = &self.directory;
        let handle = |trouble: &Trouble, connection: &mut Connection| {
            if *trouble == Trouble::Unavailable {
                std::thread::sleep(Duration::from_millis(5));
                return ControlFlow::Continue(());
            }
            directory.move_on(trouble, connection)
        };
        caches_expire();
        under_load_on(writers, servers, handle, |progress| {
            let done = act(progress);
            let answered = progress.answered();
            let refused = progress.unavailable();
            println!("{story}: {answered} answered steps, {refused} refused");
            done
        })
    }
}

fn caches_expire() {
    std::thread::sleep(CacheInvalidator::LAG);
}

/// Each writer finds at a server all that it was answered by others.
fn check(writers: &mut [Writer], server: &Running) {
    caches_expire();
    for writer in writers {
        writer.check(&mut server.connect());
    }
}

/// The ids of a whole list, page by page.
fn ids(server: &Running, (path, field, parameter): (&str, &str, &str)) -> Vec<String> {
    let mut connection = server.connect();
    let mut ids = Vec::new();
    let mut query = format!("{path}?limit=50");
    loop {
        let page = connection.sure(&Request::get(&query)).expect(200).json();
        ids.extend(page["data"].as_array().unwrap().iter().map(|record| text(record, "id")));
        if page["has_more"] == false {
            return ids;
        }
        let next = page[field].to_string();
        query = format!("{path}?limit=50&{parameter}={}", next.trim_matches('"'));
    }
}

fn a_rolling_upgrade_loses_nothing_that_was_answered() {
    let upgrade = Upgrade::new();
    let directory = &upgrade.directory;
    let mut writers = Writer::some(6, &seed::rng("a rolling upgrade"));
    for writer in &mut writers {
        writer.across_releases = true;
    }
    let first = upgrade.start(true);
    let second = upgrade.start(true);

    let old = [first.address, second.address];
    let new = upgrade.load("tables are migrated", &mut writers, &old, |progress| {
        progress.wait_for(STEPS);
        let new = upgrade.start(false);
        progress.wait_for(STEPS);
        new
    });
    check(&mut writers, &new);

    directory.serves(new.address);
    let all = [new.address, first.address, second.address];
    let again = upgrade.load("an old one is killed, one stops", &mut writers, &all, |progress| {
        progress.wait_for(STEPS);
        directory.is_killed(first.address);
        first.kill();
        progress.wait_for(STEPS);
        // On tables that it may not know.
        let again = upgrade.start(true);
        directory.ends(second.address);
        second.stop();
        progress.wait_for(STEPS);
        again
    });

    let both = [new.address, again.address];
    upgrade.load("one of each", &mut writers, &both, |progress| progress.wait_for(2 * STEPS));
    check(&mut writers, &again);
    for list in LISTS {
        until("both list the same", || ids(&new, list) == ids(&again, list));
        assert!(!ids(&again, list).is_empty(), "{list:?}");
    }

    upgrade.load("the last old one stops", &mut writers, &both, |progress| {
        progress.wait_for(STEPS);
        directory.ends(again.address);
        again.stop();
        progress.wait_for(STEPS);
    });
    check(&mut writers, &new);
    until("the new one leads", || leaders(std::slice::from_ref(&new)) == 1);
    new.stop();
    audit(&upgrade.database, &writers);
    println!("a rolling upgrade: {}", settled(&writers));
}

/// Each field that the earlier program shows has the value that this one shows.
fn the_earlier_program_reads_discounts_and_their_payments() {
    let upgrade = Upgrade::new();
    let new = upgrade.start(false);
    let old = upgrade.start(true);
    let create = |path: &str, body: Value| {
        new.connect().sure(&Request::post(path, &body.to_string())).expect(201).json()
    };
    let proof = json!({ "access_token": "believed", "email": "ada@example.com" });
    let user = text(&create("/authentication/sign-up", proof), "auth_id");
    let plan = json!({ "name": "Pro", "slug": "pro", "price": "19.99", "currency": "USD", "billing_cycle": "monthly" });
    let plan = text(&create("/subscription-plans", plan), "id");
    let discount = json!({ "percent": 50, "periods": 3 });
    let subscription =
        json!({ "user_id": user, "subscription_plan_id": plan, "discount": discount });
    let subscription = text(&create("/subscriptions", subscription), "id");

    let read = |server: &Running, path: &str| {
        server.connect().sure(&Request::get(path)).expect(200).json()
    };
    let payments = format!("/subscriptions/{subscription}/payments");
    let payment = text(&read(&new, &payments)["data"][0], "id");
    let subscription = format!("/subscriptions/{subscription}");
    let payment = format!("/subscription-payments/{payment}");
    assert_eq!(read(&new, &subscription)["discount"]["percent"], 50);
    assert_eq!(read(&new, &payment)["amount"].to_string(), "9.99");
    for path in [subscription, payment] {
        let known = read(&old, &path);
        let shown = read(&new, &path);
        assert!(known.as_object().unwrap().len() > 5, "{known}");
        for (field, value) in known.as_object().unwrap() {
            assert_eq!(value, &shown[field], "{field} of {path}");
        }
    }
    old.stop();
    new.stop();
}
