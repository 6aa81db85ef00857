//! The program is killed, stopped or paused while it sends events: nothing is missing at the receivers, the first
//! deliveries of each record are in order, and at most 200 events an endpoint are repeated for each kill.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use test_support::receiver::{Received, Receiver, Reply};
use test_support::rng::Rng;
use test_support::trials::Trial;
use test_support::{seed, trials};

use crate::database::Database;
use crate::http::{Connection, Request, text};
use crate::leaders::leader;
use crate::running::{Running, folder, until};

/// The kills and the pauses of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number. Another instance takes
/// ten seconds to notice a pause.
const KILLS: u64 = 4;
const PAUSES: u64 = 1;
/// The endpoints, and how long each takes to answer.
const ENDPOINTS: [(&str, Duration); 2] =
    [("/quick", Duration::ZERO), ("/slow", Duration::from_millis(3))];
/// The plans that are written at a time, and how often each is changed.
const WRITERS: usize = 3;
const CHANGES: usize = 4;
/// The events that may be repeated for each kill.
const REPEATED_MAX: usize = 200;
/// The stops of a normal run, the readers beside each, and the deliveries in flight.
const STOPS: u64 = 3;
const READERS: usize = 24;
const IN_FLIGHT: usize = 8;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking: a_kill_while_events_are_sent_loses_none_and_repeats_few_sqlite]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking:
        leaders_that_are_killed_while_they_send_lose_no_event_and_repeat_few_postgres,
        w13_two_leaders_after_a_pause_only_repeat_events,
        a_stop_under_requests_repeats_no_delivery_that_was_answered,
    ]
}

fn a_kill_while_events_are_sent_loses_none_and_repeats_few_sqlite() {
    let sending = Sending::new(Database::file(), 1);
    sending.story("kills while events are sent, SQLite", KILLS, |leader, rng| {
        sending.some_deliveries(rng);
        leader.kill();
    });
}

fn leaders_that_are_killed_while_they_send_lose_no_event_and_repeat_few_postgres() {
    let sending = Sending::new(Database::schema(), 2);
    sending.story("leaders killed while they send, PostgreSQL", KILLS, |leader, rng| {
        sending.some_deliveries(rng);
        if rng.below(4) == 0 {
            leader.stop();
        } else {
            leader.kill();
        }
    });
}

fn w13_two_leaders_after_a_pause_only_repeat_events() {
    let sending = Sending::new(Database::schema(), 2);
    sending.story("two leaders after a pause, PostgreSQL", PAUSES, |paused, rng| {
        // Nobody waits for an answer of an instance that is paused.
        sending.leaves(paused.address);
        sending.some_deliveries(rng);
        paused.signal("STOP");
        // The other one has taken over once more is delivered.
        sending.some_deliveries(rng);
        paused.signal("CONT");
        sending.some_deliveries(rng);
        paused.kill();
    });
}

/// Requests have opened the connections to the database, and end long before the deliveries.
fn a_stop_under_requests_repeats_no_delivery_that_was_answered() {
    let (database, folder, receiver) = (Database::schema(), folder(), Receiver::start());
    let start = || Running::start(&folder, &database.url(), &[]);
    let create = |server: &Running, slug: &str| {
        let plan = json!({"name": "P", "slug": slug, "price": 1, "billing_cycle": "daily"});
        let request = Request::post("/subscription-plans", &plan.to_string());
        server.connect().sure(&request).expect(201);
    };
    receiver.replies("/", Reply::After(Duration::from_millis(1_500), Box::new(Reply::Status(200))));
    let mut server = start();
    let endpoint = json!({ "url": receiver.url("/"), "types": ["plan.created"] }).to_string();
    server.connect().sure(&Request::post("/webhook-endpoints", &endpoint)).expect(201);
    let mut created = 0;

    for stop in 0..seed::steps(STOPS) {
        let address = server.address;
        server = std::thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(move || {
                    let mut connection = Connection::new(address);
                    while connection.ask(&Request::get("/subscriptions")).is_ok() {}
                });
            }
            for nth in 0..IN_FLIGHT {
                create(&server, &format!("plan-{stop}-{nth}"));
            }
            created += IN_FLIGHT;
            until("deliveries in flight", || receiver.distinct("/") == created);
            let log = server.stop();
            assert!(!log.contains("a background job failed"), "{log}");
            start()
        });
    }

    create(&server, "last");
    until("the last delivery", || receiver.distinct("/") == created + 1);
    assert_eq!(receiver.received("/").len(), created + 1);
    server.stop();
}

/// Instances over one database, and a receiver of their events.
struct Sending {
    database: Database,
    folder: std::path::PathBuf,
    instances: usize,
    receiver: Receiver,
    /// The instances that can be written to.
    live: Mutex<Vec<SocketAddr>>,
    is_over: AtomicBool,
}

impl Sending {
    fn new(database: Database, instances: usize) -> Self {
        let receiver = Receiver::start();
        for (path, takes) in ENDPOINTS {
            receiver.replies(path, Reply::After(takes, Box::new(Reply::Status(200))));
        }
        let (live, is_over) = (Mutex::default(), AtomicBool::default());
        Self { database, folder: folder(), instances, receiver, live, is_over }
    }

    fn start(&self) -> Running {
        let running =
            Running::start(&self.folder, &self.database.url(), &["--database-connections", "8"]);
        self.live.lock().unwrap().push(running.address);
        running
    }

    /// Waits until some more events are delivered, and a little.
    fn some_deliveries(&self, rng: &Rng) {
        let count =
            || ENDPOINTS.iter().map(|(path, _)| self.receiver.distinct(path)).sum::<usize>();
        let goal = count() + 20 + rng.below(200);
        until("deliveries", || count() >= goal);
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
    }

    /// Writes go to other instances from now on.
    fn leaves(&self, address: SocketAddr) {
        self.live.lock().unwrap().retain(|live| *live != address);
    }

    /// Writes plans through any live instance until the story is over.
    fn write(&self, writer: usize) {
        let mut connection: Option<Connection> = None;
        for nth in 0.. {
            for change in 0..=CHANGES {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let slug = format!("plan-{writer}-{nth}");
                let plan = json!({"name": format!("P{change}"), "slug": slug, "price": change, "billing_cycle": "daily"});
                let request = if change == 0 {
                    Request::post("/subscription-plans", &plan.to_string())
                } else {
                    let name = json!({ "name": format!("P{change}") }).to_string();
                    Request::put(&format!("/subscription-plans/{slug}"), &name)
                };
                let live = self.live.lock().unwrap().clone();
                let open = connection.take().filter(|open| live.contains(&open.address));
                let mut open = open.or_else(|| {
                    live.get(writer % live.len().max(1)).map(|address| Connection::new(*address))
                });
                if open.as_mut().is_some_and(|open| open.ask(&request).is_ok()) {
                    connection = open;
                } else {
                    // The instance is gone. The write may have been taken or not.
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// Lets something happen to the leader again and again while events are written and sent, and checks the
    /// deliveries.
    fn story(&self, story: &str, kills: u64, happens: impl Fn(Running, &Rng)) {
        let (rng, kills) = (seed::rng(story), seed::steps(kills));
        let mut instances: Vec<_> = (0..self.instances).map(|_| self.start()).collect();
        let secrets = ENDPOINTS.map(|(path, _)| {
            let new = json!({ "url": self.receiver.url(path), "types": ["*"] }).to_string();
            let made = instances[0].connect().sure(&Request::post("/webhook-endpoints", &new));
            text(&made.expect(201).json(), "secret")
        });

        std::thread::scope(|scope| {
            let _over = Over(&self.is_over);
            for writer in 0..WRITERS {
                scope.spawn(move || self.write(writer));
            }
            for _ in 0..kills {
                let leader = leader(&mut instances);
                let address = leader.address;
                happens(leader, &rng);
                self.leaves(address);
                self.database.check_file();
                instances.push(self.start());
            }
            self.some_deliveries(&rng);
        });

        let events = events(&instances[0]);
        for ((path, _), secret) in ENDPOINTS.into_iter().zip(secrets) {
            let is_received = || {
                let ids = self.receiver.received(path).iter().map(id).collect::<BTreeSet<_>>();
                events.iter().all(|event| ids.contains(event["id"].as_str().unwrap()))
            };
            until("every event is delivered", is_received);
            let received = self.receiver.received(path);
            let repeated = received.len() - events.len();
            println!(
                "{story}, {path}: {} events, {repeated} repeated, {kills} kills",
                events.len()
            );
            assert!(repeated <= REPEATED_MAX * usize::try_from(kills).unwrap(), "{repeated}");
            check(&received, &secret);
        }
        for running in instances {
            let log = running.stop();
            assert!(!log.contains("\"ERROR\""), "{log}");
        }
    }
}

/// Ends the writers, also where a story panics.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn id(received: &Received) -> String {
    received.header("webhook-id").to_owned()
}

/// All events of plans.
fn events(server: &Running) -> Vec<Value> {
    let (mut events, mut after, mut connection) = (Vec::new(), 0, server.connect());
    loop {
        let path = format!("/events?type=plan.*&limit=200&after={after}");
        let page = connection.sure(&Request::get(&path)).expect(200).json();
        events.extend(page["data"].as_array().unwrap().iter().cloned());
        after = page["next_after"].as_u64().unwrap();
        if page["has_more"] == false {
            return events;
        }
    }
}

/// Each delivery is signed, and the first deliveries of a record are in the order of its versions.
fn check(received: &[Received], secret: &str) {
    let (mut seen, mut versions) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    for delivery in received {
        assert!(delivery.is_signed_with(secret), "{delivery:?}");
        if !seen.insert(id(delivery)) {
            continue;
        }
        let body = delivery.json();
        let (record, version) = (text(&body["data"], "id"), body["data"]["version"].as_u64());
        let before = versions.insert(record, version.unwrap());
        assert!(before < version, "{before:?} before {body}");
    }
}
