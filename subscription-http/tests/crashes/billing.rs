//! Subscriptions that renew while the program is killed or paused, and while several instances and an embedder
//! are at it: every period is asked for once, and every scheduled change of plan happens once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use subscription_core::billing::{Billing, Policy};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{
    ChangeSet, DueSubscriptions, PageLimit, PaymentQuery, PostgresOptions, Record, StoreExt as _,
};
use subscription_core::subscriptions::{ScheduledChange, Terms};
use subscription_core::{
    Amount, BillingState, Clock as _, EventId, Payment, Store, Subscription, SubscriptionId,
    SubscriptionService, SystemClock, SystemRandomness, Timestamp, UserId,
};
use test_support::cluster::Cluster;
use test_support::trials::Trial;
use test_support::{seed, trials};

use crate::database::{Database, blocking};
use crate::http::{Request, text};
use crate::leaders::{TAKEN_OVER, leader, leaders};
use crate::running::{Running, folder, until};

/// The kills of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const KILLS: u64 = 5;
/// The subscriptions that are due in each round.
const DUE: usize = 200;
/// The periods that eight instances and an embedder ask for; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const SHARED: u64 = 3_000;
/// So many that several rounds are left when something happens to the leader.
const LATER: usize = 600;
/// The periods that each of them has missed, with the running one.
const PERIODS: usize = 3;
/// A little longer than a round takes without optimizations.
const ROUND_MICROS: u64 = 200_000;
const DAY: Duration = Duration::from_hours(24);

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        a_kill_in_a_round_of_the_billing_asks_for_no_period_twice_sqlite,
        a_catch_up_makes_way_for_requests,
    ]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking:
        a_kill_in_a_round_of_the_billing_asks_for_no_period_twice_postgres,
        another_instance_goes_on_with_the_billing_once_the_leader_is_killed,
        two_leaders_after_a_pause_ask_for_no_period_twice,
    ]
}

pub(crate) fn trials_with_a_server_of_their_own() -> Vec<Trial> {
    trials![blocking: eight_instances_and_an_embedder_ask_for_thousands_of_periods_once_each]
}

/// A subscription that the server made, to be copied.
struct Template {
    database: Database,
    subscription: Arc<Subscription>,
}

impl Template {
    /// Lets a server create a daily plan and a subscription to it.
    fn made_by(server: Running, database: Database) -> Self {
        let mut connection = server.connect();
        let plan = json!({"name": "Daily", "slug": "daily", "price": 1, "currency": "EUR", "billing_cycle": "daily"});
        let plan = connection.sure(&Request::post("/subscription-plans", &plan.to_string()));
        let user = UserId::new(SystemClock.now(), &SystemRandomness).unwrap().to_string();
        let plan = text(&plan.expect(201).json(), "id");
        let body = json!({"user_id": user, "subscription_plan_id": plan}).to_string();
        let made = connection.sure(&Request::post("/subscriptions", &body)).expect(201);
        let id: SubscriptionId = text(&made.json(), "id").parse().unwrap();
        server.stop();
        let mut found = None;
        database.look(async |store| {
            found = store.get_as::<Subscription>(&id).await.unwrap();
        });
        Self { database, subscription: found.unwrap() }
    }

    /// Adds copies that have missed periods: each asks for as many payments. Every second one has a change of
    /// plan scheduled, to twice the price.
    fn add(&self, count: usize, periods: usize) -> Vec<SubscriptionId> {
        // The last period began half a day ago.
        let behind = DAY * u32::try_from(periods - 1).unwrap() + DAY / 2;
        let renews_at = SystemClock.now().saturating_sub(behind);
        let mut ids = Vec::with_capacity(count);
        let copy = |nth: usize| self.copy(renews_at, nth % 2 == 1);
        let sets = |count| (0..count).map(copy).collect::<Vec<_>>();
        self.database.look(async |store| {
            for first in (0..count).step_by(200) {
                let (made, sets): (Vec<_>, _) = sets((count - first).min(200)).into_iter().unzip();
                ids.extend(made);
                store.commit_each(sets).await.into_iter().for_each(|made| made.unwrap());
            }
        });
        ids
    }

    fn copy(&self, renews_at: Timestamp, changes: bool) -> (SubscriptionId, ChangeSet) {
        let (starts_at, random) = (renews_at.saturating_sub(DAY), &SystemRandomness);
        let id = SubscriptionId::new(starts_at, random).unwrap();
        let terms = Terms {
            subscription_plan_id: self.subscription.subscription_plan_id,
            billing_cycle: self.subscription.billing_cycle,
            price: "2".parse().unwrap(),
            currency: self.subscription.currency().unwrap(),
            quantity: self.subscription.quantity,
        };
        let billing = BillingState {
            scheduled_change: changes.then_some(ScheduledChange::ChangePlan(terms)),
            current_period_start: Some(starts_at),
            next_action_at: Some(renews_at),
            ..*self.subscription.billing.clone().unwrap()
        };
        let copy = Subscription {
            id,
            user_id: UserId::new(starts_at, random).unwrap(),
            starts_at,
            renews_at: Some(renews_at),
            created_at: starts_at,
            updated_at: starts_at,
            billing: Some(Box::new(billing)),
            ..Subscription::clone(&self.subscription)
        };
        let event = Event {
            id: EventId::new(starts_at, random).unwrap(),
            at: starts_at,
            subject: Subject::Subscription(id),
            version: copy.version,
            change: Change::Created,
            actor: Actor::Library,
        };
        let writes = vec![Record::from(copy)];
        (id, ChangeSet { writes, events: vec![event], ..ChangeSet::default() })
    }

    /// Checks that each subscription was asked for each of its periods once, and that none is due.
    fn audit(&self, ids: &[SubscriptionId], periods: usize) {
        let now = SystemClock.now();
        self.database.look(async |store| {
            let due = DueSubscriptions::until(now).with_limit(PageLimit::MAX);
            assert_eq!(store.due_subscriptions(due).await.unwrap().items, []);
            // Some at a time: ten thousand one after the other take long.
            let mut changed = 0;
            for ids in ids.chunks(50) {
                let audits = join_all(ids.iter().map(|id| audit_one(store, *id, periods))).await;
                changed += audits.into_iter().filter(|changed| *changed).count();
            }
            assert_eq!(changed, ids.len() / 2);
        });
    }
}

/// Checks that a subscription was asked for each of its periods once, at its price; true if its plan was changed.
async fn audit_one(store: &dyn Store, id: SubscriptionId, periods: usize) -> bool {
    let renewed = store.get_as::<Subscription>(&id).await.unwrap().unwrap();
    let query = PaymentQuery::of(id).with_limit(PageLimit::MAX);
    let asked = store.list_as::<Payment>(query).await.unwrap().items;
    let mut starts: Vec<_> =
        asked.iter().map(|payment| payment.asked.as_ref().unwrap().period_start).collect();
    starts.sort();
    let first = renewed.starts_at.saturating_add(DAY);
    let count = u32::try_from(periods).unwrap();
    let expected: Vec<_> = (0..count).map(|n| first.saturating_add(DAY * n)).collect();
    assert_eq!(starts, expected, "{renewed:?}");
    assert_eq!(renewed.renews_at, Some(first.saturating_add(DAY * count)), "{renewed:?}");
    assert_eq!(renewed.scheduled_change(), None);
    let price = renewed.price().unwrap().value();
    assert!(asked.iter().all(|payment| payment.amount.value() == price), "{asked:?}");
    price == "2".parse::<Amount>().unwrap().value()
}

/// The steps that an instance has taken.
fn steps(running: &Running) -> usize {
    let metrics = running.connect().sure(&Request::get("/metrics")).expect(200).body;
    let lines =
        metrics.lines().filter(|line| line.starts_with("subscription_http_clock_steps_total"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

/// Numbers of the clock of an instance.
fn clock_numbers<const N: usize>(running: &Running, names: [&str; N]) -> [f64; N] {
    let metrics = running.connect().sure(&Request::get("/metrics")).expect(200).body;
    names.map(|name| {
        let name = format!("subscription_http_clock_{name} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    })
}

/// True if an instance leads, and its last round found nothing due.
fn has_caught_up(running: &Running) -> bool {
    let [leads, rounds, lag] =
        clock_numbers(running, ["leads", "round_seconds_count", "lag_seconds"]);
    leads > 0.0 && rounds > 0.0 && lag <= 0.0
}

const SETTINGS: [&str; 4] = ["--users", "any", "--database-connections", "4"];

fn start(database: &Database) -> Running {
    Running::start(&folder(), &database.url(), &SETTINGS)
}

fn a_kill_in_a_round_of_the_billing_asks_for_no_period_twice_sqlite() {
    a_kill_in_a_round_asks_for_no_period_twice("kills of billing, SQLite", &Database::file());
}

fn a_kill_in_a_round_of_the_billing_asks_for_no_period_twice_postgres() {
    a_kill_in_a_round_asks_for_no_period_twice("kills of billing, PostgreSQL", &Database::schema());
}

fn a_kill_in_a_round_asks_for_no_period_twice(story: &str, database: &Database) {
    let (rng, kills) = (seed::rng(story), seed::steps(KILLS));
    let template = Template::made_by(start(database), database.clone());
    let (mut ids, mut taken) = (Vec::new(), 0);

    for _ in 0..kills {
        ids.extend(template.add(DUE, PERIODS));
        let server = start(database);
        // Some rounds are left.
        let (goal, mut seen) = (rng.below(DUE), 0);
        until("some steps", || {
            seen = steps(&server);
            seen >= goal
        });
        taken += seen;
        // The number changes between two rounds: the kill is to come within one.
        std::thread::sleep(Duration::from_micros(rng.below(ROUND_MICROS)));
        server.kill();
        database.check_file();
    }

    let (last, all) = (start(database), ids.len() * PERIODS + ids.len() / 2);
    println!("{story}: {kills} kills, {taken} of {all} steps seen before them");
    until("nothing is due", || has_caught_up(&last));
    last.stop();
    template.audit(&ids, PERIODS);
}

/// Rounds take 200 steps where nobody waits, and 20 where clients have sent requests a moment ago.
fn a_catch_up_makes_way_for_requests() {
    let database = Database::file();
    let template = Template::made_by(start(&database), database.clone());
    let catch_up = |request: Option<&Request>| {
        let due = template.add(600, 1);
        let server = start(&database);
        let mut client = server.connect();
        until("nothing is due", || {
            if let Some(request) = request {
                client.sure(request).expect(200);
            }
            has_caught_up(&server)
        });
        let [rounds] = clock_numbers(&server, ["round_seconds_count"]);
        server.stop();
        template.audit(&due, 1);
        rounds
    };

    // Probes and readers of metrics are no clients.
    let (alone, probed) = (catch_up(None), catch_up(Some(&Request::get("/health/ready"))));
    let beside_requests = catch_up(Some(&Request::get("/subscription-plans")));

    println!(
        "900 steps in rounds: {alone} alone, {probed} probed, {beside_requests} beside requests"
    );
    assert!(alone.max(probed) < 12.0, "{alone} {probed}");
    assert!(beside_requests > 20.0, "{beside_requests}");
}

fn another_instance_goes_on_with_the_billing_once_the_leader_is_killed() {
    let database = Database::schema();
    let template = Template::made_by(start(&database), database.clone());
    let mut instances: Vec<_> = (0..3).map(|_| start(&database)).collect();
    let first = leader(&mut instances);
    let ids = template.add(LATER, PERIODS);
    until("it takes steps", || steps(&first) > 0);

    first.kill();
    let begun = Instant::now();
    until("another takes steps", || instances.iter().any(|running| steps(running) > 0));

    let took = begun.elapsed();
    println!("another instance takes steps after {took:?}");
    assert!(took < TAKEN_OVER, "{took:?}");
    until("nothing is due", || instances.iter().any(has_caught_up));
    template.audit(&ids, PERIODS);
}

fn two_leaders_after_a_pause_ask_for_no_period_twice() {
    let database = Database::schema();
    let template = Template::made_by(start(&database), database.clone());
    let mut instances: Vec<_> = (0..2).map(|_| start(&database)).collect();
    let paused = leader(&mut instances);
    let ids = template.add(LATER, PERIODS);
    until("it takes steps", || steps(&paused) > 0);

    paused.signal("STOP");
    until("the other takes steps", || instances.iter().any(|running| steps(running) > 0));
    if seed::steps(KILLS) > KILLS {
        std::thread::sleep(Duration::from_mins(1));
    }
    paused.signal("CONT");

    until("nothing is due", || instances.iter().any(has_caught_up));
    let log = paused.stop();
    assert!(!log.contains("\"ERROR\""), "{log}");
    template.audit(&ids, PERIODS);
}

fn eight_instances_and_an_embedder_ask_for_thousands_of_periods_once_each() {
    let mut cluster = Cluster::start(false).unwrap();
    let database = Database::Postgres(cluster.url());
    let template = Template::made_by(start(&database), database.clone());
    let instances: Vec<_> = (0..8).map(|_| start(&database)).collect();
    until("one leads", || leaders(&instances) == 1);
    let ids = template.add(usize::try_from(seed::steps(SHARED)).unwrap(), 1);
    until("it takes steps", || instances.iter().any(|running| steps(running) > 0));

    let (by_embedder, refused) = blocking(embedded(cluster.url()));
    until("nothing is due", || instances.iter().any(has_caught_up));

    let by_instances: usize = instances.iter().map(steps).sum();
    println!("{by_instances} steps by instances, {by_embedder} by an embedder, {refused} refused");
    assert_eq!(by_instances + by_embedder, ids.len() + ids.len() / 2);
    template.audit(&ids, 1);
    drop(instances);
    cluster.stop();
}

/// Two tasks of another program advance the billing until nothing is due; the steps taken and refused.
async fn embedded(url: String) -> (usize, usize) {
    let store = Arc::new(PostgresOptions::url(&url).unwrap().open().await.unwrap());
    let service = SubscriptionService::new(Arc::clone(&store));
    let billing = Billing::new(service, Policy::default());
    let advance = async || {
        let (mut taken, mut refused) = (0, 0);
        loop {
            let advanced = billing.advance(50).await.unwrap();
            assert_eq!(advanced.failed, 0, "{advanced:?}");
            (taken, refused) = (taken + advanced.steps, refused + advanced.refused);
            if !advanced.more && advanced.refused == 0 {
                return (taken, refused);
            }
        }
    };
    let ((first, lost), (second, lost_too)) = tokio::join!(advance(), advance());
    store.close().await;
    (first + second, lost + lost_too)
}
