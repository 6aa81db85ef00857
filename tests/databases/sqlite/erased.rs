//! People who have left: nothing of them is in the file or in its log.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, Transaction};
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, Origin, ServerKeys, SignIn, SigningKey,
};
use subscription_core::store::{SqliteOptions, SqliteStore};
use subscription_core::{Slug, SubscriptionService};
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_deleted_account_is_gone_from_the_file_and_its_log,
        a_deleted_account_is_gone_once_those_who_read_are_done,
        what_a_killed_process_left_in_the_log_is_gone_after_the_next_start,
        of_many_deleted_accounts_nothing_is_left_after_a_stop,
    ]
}

struct Place {
    file: PathBuf,
    store: Arc<SqliteStore>,
    auth: Authentication,
}

/// The texts that the file and the log are searched for.
const EMAIL: &str = "marked-person";
const AGENT: &str = "Marked-Agent";
const ADDRESS: &str = "198.51.100.77";

impl Place {
    async fn open(file: PathBuf) -> Self {
        let store = Arc::new(SqliteOptions::file(&file).relaxed().open().await.unwrap());
        let shared: Arc<dyn subscription_core::Store> = Arc::clone(&store) as _;
        let service = SubscriptionService::builder(shared).check_users().build();
        let keys = KeyRing::new(SigningKey::ed25519(&vec![7; 32].into()).unwrap());
        let server_keys = ServerKeys::new(1, vec![9; 32].into()).unwrap();
        let auth =
            Authentication::builder(service, Arc::new(DevelopmentIdentities), keys, server_keys);
        Self { file, store, auth: auth.build() }
    }

    async fn fresh() -> Self {
        Self::open(folder().join("store.db")).await
    }

    fn person(name: &str, agent: &str, ip: &str) -> SignIn {
        SignIn {
            client_id: "web".parse().unwrap(),
            access_token: "any".to_owned().into(),
            email: format!("{name}@Example.com").parse().unwrap(),
            origin: Origin {
                ip: Some(ip.parse::<IpAddr>().unwrap()),
                user_agent: Some(agent.parse().unwrap()),
            },
        }
    }

    async fn others(&self, from: usize) {
        for nth in from..from + 50 {
            let person = Self::person(&format!("other-{nth}"), "Some-Agent", "192.0.2.1");
            self.auth.sign_up(person).await.unwrap();
        }
    }

    async fn sign_up_and_delete(&self, name: &str, agent: &str) {
        let person = Self::person(name, agent, ADDRESS);
        self.auth.sign_up(person.clone()).await.unwrap();
        self.auth.sign_in(person.clone()).await.unwrap();
        self.others(100).await;
        let signed_in = self.auth.sign_in(person).await.unwrap();
        let web: Slug = "web".parse().unwrap();
        let caller = self.auth.authenticate(&web, &signed_in.access_token).await.unwrap();
        self.auth.delete_account(&caller, &signed_in.user.id.to_string()).await.unwrap();
    }

    async fn reader(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(&self.file).connect().await.unwrap()
    }

    async fn nothing_is_left(&self) {
        let gone = tokio::time::timeout(Duration::from_mins(1), async {
            while !traces(&self.file).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        gone.await.unwrap_or_else(|_| panic!("{:?}", traces(&self.file)));
    }
}

/// Sees the file as it is now until it ends, so that the log cannot be cut meanwhile.
async fn reading(reader: &mut SqliteConnection) -> Transaction<'_, sqlx::Sqlite> {
    let mut reading = reader.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM users").fetch_one(&mut *reading).await.unwrap();
    reading
}

/// The number of times that each text is found in the file and its log.
fn traces(file: &Path) -> Vec<(&'static str, &'static str, usize)> {
    let mut found = Vec::new();
    for end in ["", "-wal"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        let bytes = std::fs::read(name).unwrap_or_default();
        for mark in [EMAIL, AGENT, ADDRESS] {
            let times = bytes.windows(mark.len()).filter(|part| *part == mark.as_bytes()).count();
            if times > 0 {
                found.push((end, mark, times));
            }
        }
    }
    found
}

async fn a_deleted_account_is_gone_from_the_file_and_its_log() {
    let place = Place::fresh().await;
    place.others(0).await;

    place.sign_up_and_delete(EMAIL, AGENT).await;

    place.nothing_is_left().await;
    place.store.close().await;
    assert_eq!(traces(&place.file), []);
}

async fn a_deleted_account_is_gone_once_those_who_read_are_done() {
    let place = Place::fresh().await;
    place.others(0).await;
    let mut reader = place.reader().await;
    let reading = reading(&mut reader).await;

    place.sign_up_and_delete(EMAIL, AGENT).await;
    // Writers do not wait for those who read.
    place.others(200).await;
    assert_ne!(traces(&place.file), []);
    reading.rollback().await.unwrap();

    place.nothing_is_left().await;
}

async fn what_a_killed_process_left_in_the_log_is_gone_after_the_next_start() {
    let place = Place::fresh().await;
    place.others(0).await;
    let mut reader = place.reader().await;
    let _reading = reading(&mut reader).await;
    place.sign_up_and_delete(EMAIL, AGENT).await;
    let (from, to) = (place.file.parent().unwrap(), folder());
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let left = to.join("store.db");
    assert_ne!(traces(&left), []);

    let again = Place::open(left).await;

    again.nothing_is_left().await;
}

/// Pages are split and joined while people come and go, and rows are moved between them. Copies that stay
/// in the unused part of a page are gone at the latest after a stop.
async fn of_many_deleted_accounts_nothing_is_left_after_a_stop() {
    let place = Place::fresh().await;
    let mut leaving = Vec::new();
    for nth in 0..600_usize {
        let long = "x".repeat(nth * 7919 % 300);
        let marked = Place::person(&format!("{EMAIL}-{nth}"), &format!("{AGENT} {long}"), ADDRESS);
        let other = Place::person(&format!("{nth}-other"), &format!("Agent {long}"), "192.0.2.1");
        place.auth.sign_up(marked.clone()).await.unwrap();
        place.auth.sign_up(other.clone()).await.unwrap();
        for person in [&other, &marked].into_iter().take(nth % 3) {
            place.auth.sign_in(person.clone()).await.unwrap();
        }
        leaving.push(place.auth.sign_in(marked).await.unwrap());
        if nth % 4 == 3 {
            delete(&place, leaving.swap_remove(nth * 104_729 % leaving.len())).await;
        }
    }
    while !leaving.is_empty() {
        let nth = 104_729 % leaving.len();
        delete(&place, leaving.swap_remove(nth)).await;
    }

    place.store.close().await;

    assert_eq!(traces(&place.file), []);
}

async fn delete(place: &Place, leaving: subscription_core::auth::SignedIn) {
    let web: Slug = "web".parse().unwrap();
    let caller = place.auth.authenticate(&web, &leaving.access_token).await.unwrap();
    place.auth.delete_account(&caller, &leaving.user.id.to_string()).await.unwrap();
}
