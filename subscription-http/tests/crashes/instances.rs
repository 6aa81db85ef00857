//! Several servers over one database.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::audit::audit;
use crate::database::Database;
use crate::http::{Answer, Connection, Cut, Request, text};
use crate::load::under_load;
use crate::running::{Running, folder, until};
use crate::writer::{Trouble, Writer, settled};
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        instances_that_start_at_once_have_the_same_keys,
        a_session_ended_on_one_is_refused_by_the_others_at_once,
        a_plan_changed_on_one_is_new_on_the_others_at_once,
        of_racing_creations_one_wins,
        racing_twins_get_the_same_answer,
        racing_refreshes_get_the_same_token,
        instances_come_and_go_and_no_request_fails_but_those_on_the_one_that_goes,
    ]
}

/// Servers with the same keys.
struct Instances {
    folder: PathBuf,
    database: Database,
    running: Vec<Running>,
}

impl Instances {
    fn start(count: usize) -> Self {
        let mut instances =
            Self { folder: folder(), database: Database::schema(), running: Vec::new() };
        for _ in 0..count {
            instances.add();
        }
        instances
    }

    fn add(&mut self) -> SocketAddr {
        // Else every one has as many connections as if it were alone.
        let few = ["--database-connections", "8"];
        let started = Running::start(&self.folder, &self.database.url(), &few);
        let address = started.address;
        self.running.push(started);
        address
    }

    fn connect(&self) -> Vec<Connection> {
        self.running.iter().map(Running::connect).collect()
    }

    /// Asks each the same at the same time.
    fn race(connections: &mut [Connection], request: &Request) -> Vec<Answer> {
        let barrier = Barrier::new(connections.len());
        std::thread::scope(|scope| {
            let asked: Vec<_> = connections
                .iter_mut()
                .map(|connection| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        // So that none is held up by connecting.
                        connection.sure(&Request::get("/health/live")).expect(200);
                        barrier.wait();
                        connection.sure(request)
                    })
                })
                .collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        })
    }
}

fn sign_up(connection: &mut Connection, name: &str) -> Value {
    let email = format!("{name}@example.com");
    let body = json!({ "access_token": "believed", "email": email }).to_string();
    connection.sure(&Request::post("/authentication/sign-up", &body)).expect(201).json()
}

fn refresh(token: &Value) -> Request {
    let body = json!({ "refresh_token": token["refresh_token"] }).to_string();
    Request::post("/authentication/refresh-token", &body)
}

fn plan(slug: &str) -> String {
    json!({ "name": slug, "slug": slug, "price": 1, "billing_cycle": "monthly" }).to_string()
}

/// The first in a folder makes them, in development.
fn instances_that_start_at_once_have_the_same_keys() {
    let database = Database::schema();
    for _ in 0..5 {
        let folder = folder();
        let start = || Running::start(&folder, &database.url(), &["--database-connections", "2"]);
        let keys = |server: Running| {
            server.connect().sure(&Request::get("/.well-known/jwks.json")).expect(200).body
        };

        let keys: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..4).map(|_| scope.spawn(|| keys(start()))).collect();
            started.into_iter().map(|started| started.join().unwrap()).collect()
        });

        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}

fn a_session_ended_on_one_is_refused_by_the_others_at_once() {
    let instances = Instances::start(3);
    let mut to = instances.connect();
    let logged_in = |token: &str| Request::post("/authentication/user-logged-in", "").bearer(token);

    for round in 0..12 {
        let (one, others) = (round % 3, [(round + 1) % 3, (round + 2) % 3]);
        let signed_in = sign_up(&mut to[one], &format!("user-{round}"));
        let token = text(&signed_in, "access_token");
        let end = match round % 4 {
            0 => Request::post("/authentication/tokens/logout", ""),
            1 | 2 => Request::post("/authentication/tokens/revoke-all", ""),
            _ => {
                let own = text(&signed_in, "auth_id");
                Request::delete(&format!("/authentication/delete-my-account/{own}"))
            }
        };
        for other in others {
            to[other].sure(&logged_in(&token)).expect(200);
        }

        let ended = to[one].sure(&end.bearer(&token));

        assert!(matches!(ended.status, 200 | 204), "{ended:?}");
        for other in others {
            let refused = to[other].sure(&logged_in(&token)).expect(401);
            assert_eq!(refused.code(), "session_revoked", "{round}");
            to[other].sure(&refresh(&signed_in)).expect(401);
        }
    }
}

fn a_plan_changed_on_one_is_new_on_the_others_at_once() {
    const CHANGES: usize = 30;
    // An instance that is not notified reads a plan again after three seconds.
    const LAG_MAX: Duration = Duration::from_millis(1_500);
    let instances = Instances::start(3);
    let mut to = instances.connect();
    let path = "/subscription-plans/pro";
    to[0].sure(&Request::post("/subscription-plans", &plan("pro"))).expect(201);
    let mut lags = Vec::new();

    for tier in 1..=CHANGES {
        // Now they have it in memory.
        for connection in &mut to {
            connection.sure(&Request::get(path)).expect(200);
        }
        let one = tier % 3;
        to[one].sure(&Request::put(path, &json!({ "tier": tier }).to_string())).expect(200);
        let changed = Instant::now();
        for connection in &mut to {
            until("the change", || connection.sure(&Request::get(path)).json()["tier"] == tier);
        }
        lags.push(changed.elapsed());
    }

    lags.sort();
    let (median, longest) = (lags[CHANGES / 2], lags[CHANGES - 1]);
    println!("a plan changed on one is new on two others after {median:?}, at most {longest:?}");
    // The median: one that the machine was too busy for tells nothing of the others.
    assert!(median <= LAG_MAX, "{lags:?}");
}

fn of_racing_creations_one_wins() {
    let instances = Instances::start(3);
    let mut to = instances.connect();
    let user = text(&sign_up(&mut to[0], "ada"), "auth_id");
    let pro = to[0].sure(&Request::post("/subscription-plans", &plan("pro"))).expect(201);
    let pro = text(&pro.json(), "id");

    for round in 0..10 {
        let external = format!("external-{round}");
        let subscription = json!({
            "user_id": user, "subscription_plan_id": pro, "external_subscription_id": external,
        });
        let by_slug = Request::post("/subscription-plans", &plan(&external));
        let by_external_id = Request::post("/subscriptions", &subscription.to_string());
        for (request, code) in [(by_slug, "slug_taken"), (by_external_id, "external_id_taken")] {
            let answers = Instances::race(&mut to, &request);

            let won = answers.iter().filter(|answer| answer.status == 201).count();
            assert_eq!(won, 1, "{answers:?}");
            for lost in answers.iter().filter(|answer| answer.status != 201) {
                assert_eq!((lost.status, lost.code().as_str()), (409, code), "{lost:?}");
            }
        }
    }
}

fn racing_twins_get_the_same_answer() {
    let instances = Instances::start(3);
    let mut to = instances.connect();

    for round in 0..10 {
        let slug = format!("twins-{round}");
        let request = Request::post("/subscription-plans", &plan(&slug)).key(&slug);
        let mut answers = Instances::race(&mut to, &request);
        for (answer, connection) in answers.iter_mut().zip(&mut to) {
            if answer.status == 409 {
                assert_eq!(answer.code(), "idempotency_in_progress", "{answer:?}");
                *answer = connection.sure(&request);
            }
        }

        let made = answers.iter().filter(|one| one.header("idempotency-replayed").is_none());
        assert_eq!(made.count(), 1, "{answers:?}");
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (201, &answers[0].body), "{answers:?}");
        }
    }
}

fn racing_refreshes_get_the_same_token() {
    let instances = Instances::start(3);
    let mut to = instances.connect();
    let mut signed_in = sign_up(&mut to[0], "ada");

    for round in 0..10 {
        let answers = Instances::race(&mut to, &refresh(&signed_in));

        let tokens: Vec<_> = answers.into_iter().map(|answer| answer.expect(200).json()).collect();
        for token in &tokens {
            assert_ne!(token["refresh_token"], signed_in["refresh_token"], "{round}");
            assert_eq!(token["refresh_token"], tokens[0]["refresh_token"], "{round}");
        }
        signed_in = tokens[round % 3].clone();
    }
}

/// The instances that serve, and those that are about to stop or to be killed.
#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<Addresses>);

#[derive(Debug, Default)]
struct Addresses {
    serving: Vec<SocketAddr>,
    ending: Vec<SocketAddr>,
    killed: Vec<SocketAddr>,
}

impl Directory {
    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn serves(&self, address: SocketAddr) {
        self.addresses().serving.push(address);
    }

    pub(crate) fn ends(&self, address: SocketAddr) {
        let mut addresses = self.addresses();
        addresses.serving.retain(|serving| *serving != address);
        addresses.ending.push(address);
    }

    /// It ends, and an answer of it may break off.
    pub(crate) fn is_killed(&self, address: SocketAddr) {
        self.addresses().killed.push(address);
        self.ends(address);
    }

    /// Another server for whoever was on one that ends.
    fn instead_of(&self, address: SocketAddr) -> SocketAddr {
        let Addresses { serving, ending, .. } = &*self.addresses();
        assert!(ending.contains(&address), "a request failed on a server that goes on");
        serving[usize::from(address.port()) % serving.len()]
    }

    /// Whoever was on a server that ends goes to another one.
    pub(crate) fn move_on(
        &self,
        trouble: &Trouble,
        connection: &mut Connection,
    ) -> ControlFlow<()> {
        match trouble {
            Trouble::Unavailable => panic!("the store is not out of reach"),
            Trouble::Busy => return ControlFlow::Continue(()),
            Trouble::Cut(Cut::Within(begun)) => {
                let is_killed = self.addresses().killed.contains(&connection.address);
                assert!(is_killed, "an answer broke off: {begun}");
            }
            Trouble::Cut(Cut::Before | Cut::HungUp) => {}
        }
        *connection = Connection::new(self.instead_of(connection.address));
        ControlFlow::Continue(())
    }
}

fn instances_come_and_go_and_no_request_fails_but_those_on_the_one_that_goes() {
    const ROUNDS: usize = 8;
    let story = "instances that come and go";
    let rng = seed::rng(story);
    let mut writers = Writer::some(6, &rng);
    let mut instances = Instances::start(3);
    let directory = Directory::default();
    for running in &instances.running {
        directory.serves(running.address);
    }
    let move_on =
        |trouble: &Trouble, connection: &mut Connection| directory.move_on(trouble, connection);

    let first = instances.running[0].address;
    let answered = under_load(&mut writers, first, move_on, |progress| {
        for round in 0..ROUNDS {
            let address = instances.add();
            directory.serves(address);
            progress.wait_for(20 + rng.below(60));
            let goes = instances.running.remove(0);
            if round % 2 == 0 {
                directory.is_killed(goes.address);
                goes.kill();
            } else {
                directory.ends(goes.address);
                goes.stop();
            }
            progress.wait_for(20);
        }
        progress.answered()
    });

    for writer in &mut writers {
        writer.check(&mut instances.running[0].connect());
    }
    for running in instances.running.drain(..) {
        running.stop();
    }
    audit(&instances.database, &writers);
    println!("{story}: {ROUNDS} of them, {answered} answered steps; {}", settled(&writers));
}
