//! Commits that were made, and whose answers were lost on the way: nothing is made a second time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use subscription_core::store::PostgresOptions;
use subscription_core::{
    Error, ErrorKind, Metadata, NewSubscription, Plan, Subscription, SubscriptionChanges,
    SubscriptionService, SystemRandomness, UserId,
};
use test_support::cluster::Cluster;
use test_support::service_world::new_plan;
use test_support::trials;
use test_support::trials::Trial;

use super::proxy::{Answer, Proxy, error, has};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_commit_whose_connection_a_pooler_lost_is_not_repeated,
        a_commit_that_could_not_be_confirmed_is_not_repeated,
    ]
}

/// A text that only the commits of a test have.
const MARK: &str = "the answer to this commit is lost";

/// A service behind a proxy, which decides on the answers to a message with [`MARK`] and to those that follow.
struct World {
    service: SubscriptionService,
    plan: Arc<Plan>,
    answers: Vec<Answer>,
    /// The answers that are left; empty until the next message with [`MARK`] gets the first one.
    left: Arc<Mutex<VecDeque<Answer>>>,
    outsider: PgConnection,
    _parts: (Proxy, Cluster),
}

impl World {
    async fn new(answers: Vec<Answer>) -> Self {
        let cluster = Cluster::start(false).unwrap();
        let left = Arc::new(Mutex::new(VecDeque::new()));
        let (decided, count) = (Arc::clone(&left), answers.len());
        let proxy = Proxy::of(&cluster, move |message| {
            let mut left = decided.lock().unwrap();
            let has_begun = left.len() < count || has(message, MARK.as_bytes());
            if has_begun { left.pop_front().unwrap_or(Answer::Sent) } else { Answer::Sent }
        });
        let store = PostgresOptions::url(&proxy.url()).unwrap().open().await.unwrap();
        let service = SubscriptionService::new(Arc::new(store));
        let plan = service.create_plan(new_plan("pro")).await.unwrap();
        let outsider = PgConnection::connect(&cluster.url()).await.unwrap();
        Self { service, plan, answers, left, outsider, _parts: (proxy, cluster) }
    }

    /// From the next message with [`MARK`] on, messages get the answers of this world.
    fn arm(&self) {
        *self.left.lock().unwrap() = self.answers.clone().into();
    }

    fn user(&self) -> UserId {
        UserId::new(self.service.now(), &SystemRandomness).unwrap()
    }

    async fn create(&self, user: UserId) -> Result<Arc<Subscription>, Error> {
        let mut new = NewSubscription::new(user, self.plan.id);
        new.metadata = Metadata::new([("note", MARK)]).unwrap();
        self.service.create_subscription(new).await
    }

    async fn change(&self, of: &Subscription) -> Result<Arc<Subscription>, Error> {
        let metadata = Metadata::new([("note", MARK), ("changed", "yes")]).unwrap().into();
        let changes = SubscriptionChanges { metadata, ..SubscriptionChanges::default() };
        self.service.update_subscription_if(of.id, of.version, changes).await
    }

    /// The number and the highest version of the subscriptions of a user.
    async fn stored(&mut self, user: UserId) -> (i64, i64) {
        let text =
            "SELECT count(*), COALESCE(max(version), 0) FROM subscriptions WHERE user_id = $1";
        let query = sqlx::query_as(text).bind(user.uuid());
        query.fetch_one(&mut self.outsider).await.unwrap()
    }

    /// Creates and changes a subscription, and loses both answers.
    async fn both_are_unknown_and_made_once(mut self, story: &str) {
        let user = self.user();

        self.arm();
        let created = self.create(user).await;

        assert!(self.left.lock().unwrap().is_empty(), "{story}: no answer was lost");
        assert!(is_unavailable(&created), "{story}: {created:?}");
        assert_eq!(self.stored(user).await, (1, 1), "{story}: {created:?}");

        let user = self.user();
        let before = self.create(user).await.unwrap();
        self.arm();
        let changed = self.change(&before).await;

        assert!(is_unavailable(&changed), "{story}: {changed:?}");
        assert_eq!(self.stored(user).await, (1, 2), "{story}: {changed:?}");
    }
}

fn is_unavailable<T>(outcome: &Result<T, Error>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
}

/// As `PgBouncer` and other poolers report that they lost the server.
async fn a_commit_whose_connection_a_pooler_lost_is_not_repeated() {
    let cases = [
        ("FATAL", "08P01"),
        ("FATAL", "25P03"),
        ("FATAL", "XX000"),
        ("ERROR", "08006"),
        ("ERROR", "57P01"),
    ];
    for (severity, code) in cases {
        let lost = Answer::Lost(error(severity, code, "server conn crashed?"));
        let world = World::new(vec![lost]).await;
        world.both_are_unknown_and_made_once(&format!("{severity} {code}")).await;
    }
}

/// The commit is made and slow. Then the statement that asks about the replication fails, with an error after which a
/// commit would be tried again.
async fn a_commit_that_could_not_be_confirmed_is_not_repeated() {
    let late = Answer::Late(Duration::from_millis(1_200));
    let failed = Answer::Failed(error("ERROR", "40001", "could not serialize access"));
    World::new(vec![late, failed]).await.both_are_unknown_and_made_once("unconfirmed").await;
}
