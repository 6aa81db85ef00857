//! How fast events are sent to endpoints, and how soon.
//!
//! `cargo bench --bench deliveries` sends events over real HTTP to receivers on loopback, which run on a thread of
//! their own: from a store in memory, from a SQLite file and, if a server can be started, from PostgreSQL.
//! `EVENTS=50000` is the number of events that wait for one endpoint, `LONG=1000000` that of the run whose memory is
//! printed. In each of `ROUNDS=25` rounds, two endpoints are measured alone, beside one that accepts events and beside
//! a dead one. The bench checks that every event arrived.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "rates, not money")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use subscription_core::auth::ServerKeys;
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, FeedSignal, PostgresOptions, Record, SqliteOptions};
use subscription_core::webhooks::{AddressRules, FirstEvent, NewEndpoint, SenderSignals, Webhooks};
use subscription_core::{
    BillingCycle, Clock as _, EventId, MemoryStore, NewPlan, Plan, Store, SubscriptionService,
    SystemClock, SystemRandomness,
};
use subscription_http::{DeliverSettings, HttpDeliver};
use test_support::cluster::Cluster;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The number of plans that the events are about.
const PLANS: usize = 1_000;
/// The number of deliveries in a run that measures their delay.
const SOON: usize = 500;
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let number = |name, other| std::env::var(name).map_or(other, |text| text.parse().unwrap());
    let (events, long) = (number("EVENTS", 50_000), number("LONG", 1_000_000));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("deliveries");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();

    println!(
        "| store | events | repeated | per second | goal | commit to first byte, p50 ms | goal |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let memory = measure("memory", MemoryStore::default, events, 5_000.0).await;
    let goal = memory * 0.8;
    let file = SqliteOptions::file(folder.join("events.db")).open().await.unwrap();
    let file = Arc::new(file);
    measure("SQLite", || Arc::clone(&file), events, goal).await;
    match Cluster::start(true) {
        Ok(cluster) => {
            let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
            let store = Arc::new(store);
            measure("PostgreSQL", || Arc::clone(&store), events, goal).await;
        }
        Err(missing) => println!("PostgreSQL is not measured: {missing}"),
    }
    isolation(number("ROUNDS", 25)).await;
    memory_of(long).await;
}

/// Sends all waiting events, and then one event at a time. Returns the deliveries a second of the first part.
async fn measure<S: Store + 'static>(
    name: &str,
    store: impl Fn() -> S,
    events: usize,
    goal: f64,
) -> f64 {
    let world = World::new(store());
    let receiver = Receiver::start();
    world.endpoint(&receiver.url("/")).await;
    world.events(events).await;

    let begun = Instant::now();
    world.send_until(|| receiver.count() >= events as u64).await;
    let rate = events as f64 / begun.elapsed().as_secs_f64();

    let repeated = receiver.count() - events as u64;

    receiver.watch();
    let sending = world.start();
    for _ in 0..SOON {
        tokio::time::sleep(Duration::from_millis(3)).await;
        let before = receiver.count();
        world.commit_one(&receiver).await;
        while receiver.count() == before {
            tokio::time::sleep(Duration::from_micros(50)).await;
        }
    }
    sending.stop().await;
    let median = receiver.percentile(50, 1).as_secs_f64() * 1_000.0;
    println!("| {name} | {events} | {repeated} | {rate:.0} | {goal:.0} | {median:.2} | 5 |");
    rate
}

/// Measures two endpoints alone, beside a third that accepts events, and beside a dead third, in turn in each round.
async fn isolation(rounds: usize) {
    let mut beside = [("none", Vec::new()), ("well", Vec::new()), ("dead", Vec::new())];
    for _ in 0..rounds {
        for (third, p99s) in &mut beside {
            p99s.push(p99_beside(third).await);
        }
    }
    println!(
        "\n| third endpoint | p99 of the two others, ms, median of {rounds} rounds | all rounds |"
    );
    println!("| --- | ---: | --- |");
    for (third, p99s) in &beside {
        let mut p99s = p99s.clone();
        p99s.sort_unstable();
        let millis = |time: &Duration| format!("{:.2}", time.as_secs_f64() * 1_000.0);
        let all = p99s.iter().map(millis).collect::<Vec<_>>().join(", ");
        println!("| {third} | {} | {all} |", millis(&p99s[rounds / 2]));
    }
    let [none, well, (_, dead)] = &beside;
    for (third, others) in [none, well] {
        let pairs = dead.iter().zip(others);
        let mut ratios: Vec<_> =
            pairs.map(|(dead, other)| dead.as_secs_f64() / other.as_secs_f64()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let [low, middle, high] = [1, 2, 3].map(|quarter| ratios[rounds * quarter / 4]);
        // With 6 rounds and more, the true median is between these ranks in more than 95 of 100 cases, whatever the
        // distribution.
        let reach = rounds.isqrt() + 1;
        let from = ratios[(rounds / 2).saturating_sub(reach)];
        let to = ratios[(rounds / 2 + reach).min(rounds - 1)];
        println!(
            "\ndead ÷ {third}, round by round: {low:.2}, {middle:.2}, {high:.2} (quartiles); the median is \
             between {from:.2} and {to:.2} with a confidence of 95 % (goal 1.05)"
        );
    }
}

/// The 99th percentile of the time from commit to delivery at two endpoints, beside the third.
async fn p99_beside(third: &str) -> Duration {
    let world = World::new(MemoryStore::default());
    let receiver = Receiver::start();
    for path in ["/one", "/two"] {
        world.endpoint(&receiver.url(path)).await;
    }
    // This endpoint never responds, so each try lasts until its time-out.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}/", silent.local_addr().unwrap());
    match third {
        "dead" => world.endpoint(&dead).await,
        "well" => world.endpoint(&receiver.url("/three")).await,
        _ => {}
    }
    receiver.watch();
    let sending = world.start();
    for _ in 0..1_000 {
        world.commit_one(&receiver).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    sending.task.abort();
    receiver.percentile(99, 2)
}

/// Sends `events` events, and prints the memory of the process on the way.
async fn memory_of(events: usize) {
    let world = World::new(MemoryStore::default());
    let receiver = Receiver::start();
    world.endpoint(&receiver.url("/")).await;
    world.events(events).await;
    println!("\n| of {events} events sent | memory, MiB |");
    println!("| --- | ---: |");
    let sending = world.start();
    for part in 0..=4 {
        while receiver.count() < (events * part / 4) as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("| {} | {} |", events * part / 4, memory_mib());
    }
    sending.stop().await;
}

fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1_024
}

/// A service and its webhooks over a store.
struct World {
    store: Arc<dyn Store>,
    webhooks: Webhooks,
    signal: Arc<Notify>,
    plans: Mutex<Vec<Plan>>,
}

impl World {
    fn new(store: impl Store + 'static) -> Self {
        let signal = Arc::new(Notify::new());
        let notify = Arc::clone(&signal);
        let store: Arc<dyn Store> = Arc::new(FeedSignal::new(store, move || notify.notify_one()));
        let service = SubscriptionService::new(Arc::clone(&store));
        let addresses = AddressRules::default().with_loopback(true);
        let settings = DeliverSettings::default().with_addresses(addresses.clone());
        let transport = HttpDeliver::new(&settings).unwrap();
        let keys = ServerKeys::new(1, vec![2; 32].into()).unwrap();
        let webhooks = Webhooks::new(service, keys, transport).with_addresses(addresses);
        Self { store, webhooks, signal, plans: Mutex::default() }
    }

    async fn endpoint(&self, url: &str) {
        let new = NewEndpoint { from: FirstEvent::Start, ..NewEndpoint::new(url.parse().unwrap()) };
        self.webhooks.create(new).await.unwrap();
        if self.plans.lock().unwrap().is_empty() {
            self.make_plans();
        }
    }

    fn make_plans(&self) {
        let now = SystemClock.now();
        let mut plans = self.plans.lock().unwrap();
        for nth in 0..PLANS {
            let (name, price) = ("Pro".parse().unwrap(), "19.99".parse().unwrap());
            let slug = format!("plan-{nth}").parse().unwrap();
            let new = NewPlan::new(name, slug, price, BillingCycle::MONTHLY);
            let id = subscription_core::PlanId::new(now, &SystemRandomness).unwrap();
            plans.push(Plan::create(new, id, now).unwrap());
        }
    }

    /// Writes events of plans that exist, in few commits.
    async fn events(&self, count: usize) {
        let plans: Vec<_> = self.plans.lock().unwrap().clone();
        let writes = plans.iter().cloned().map(Record::from).collect();
        self.store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
        for begin in (0..count).step_by(PLANS) {
            let events = plans.iter().take(count - begin).map(event).collect();
            self.store.commit(ChangeSet { events, ..ChangeSet::default() }).await.unwrap();
        }
    }

    /// The change set of a new plan, with its event.
    fn changed_plan(&self) -> ChangeSet {
        let plans = self.plans.lock().unwrap();
        let mut plan = plans[0].clone();
        let id = subscription_core::PlanId::new(SystemClock.now(), &SystemRandomness).unwrap();
        (plan.id, plan.slug) = (id, format!("new-{id}").parse().unwrap());
        let events = vec![event(&plan)];
        ChangeSet { writes: vec![Record::from(plan)], events, ..ChangeSet::default() }
    }

    /// Commits one event, whose delivery the receiver watches.
    async fn commit_one(&self, receiver: &Receiver) {
        let changes = self.changed_plan();
        receiver.note(changes.events[0].id.to_string());
        self.store.commit(changes).await.unwrap();
    }

    /// Runs the sending job in a task of its own.
    fn start(&self) -> Sending {
        let wake =
            Arc::new(Signals { signal: Arc::clone(&self.signal), stopped: AtomicBool::new(false) });
        let (mut sender, waking) = (self.webhooks.sender(), Arc::clone(&wake));
        let task = tokio::spawn(async move {
            while !waking.is_stopped() {
                sender.run(&*waking).await.unwrap();
                if !waking.is_stopped() {
                    waking.wait(Duration::from_secs(1)).await;
                }
            }
        });
        Sending { wake, task }
    }

    async fn send_until(&self, is_done: impl Fn() -> bool) {
        let sending = self.start();
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sending.stop().await;
    }
}

fn event(plan: &Plan) -> Event {
    Event {
        id: EventId::new(SystemClock.now(), &SystemRandomness).unwrap(),
        at: SystemClock.now(),
        subject: Subject::Plan(plan.id),
        version: plan.version,
        change: Change::Created,
        actor: Actor::Library,
    }
}

struct Sending {
    wake: Arc<Signals>,
    task: tokio::task::JoinHandle<()>,
}

impl Sending {
    async fn stop(self) {
        self.wake.stopped.store(true, Ordering::SeqCst);
        self.wake.signal.notify_one();
        self.task.await.unwrap();
    }
}

struct Signals {
    signal: Arc<Notify>,
    stopped: AtomicBool,
}

#[async_trait]
impl SenderSignals for Signals {
    async fn wait(&self, longest: Duration) {
        if self.is_stopped() {
            // Tries in flight get this time.
            return tokio::time::sleep(longest).await;
        }
        tokio::time::timeout(longest, self.signal.notified()).await.ok();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// A receiver that accepts everything. It runs on a thread of its own.
struct Receiver {
    address: std::net::SocketAddr,
    received: Arc<Received>,
}

/// When the commit of each event began, and when each event was received, by its id.
type Watched = (HashMap<String, Instant>, Vec<(String, Instant)>);

#[derive(Default)]
struct Received {
    count: AtomicU64,
    /// `None` if nobody watches.
    watched: Mutex<Option<Watched>>,
}

impl Receiver {
    fn start() -> Self {
        let received = Arc::new(Received::default());
        let (tell, told) = mpsc::channel();
        let of = Arc::clone(&received);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let of = Arc::clone(&of);
                    tokio::spawn(async move {
                        let answer = service_fn(|request| accept(&of, request));
                        let serve = hyper::server::conn::http1::Builder::new();
                        serve.serve_connection(TokioIo::new(stream), answer).await.ok();
                    });
                }
            });
        });
        Self { address: told.recv().unwrap(), received }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn count(&self) -> u64 {
        self.received.count.load(Ordering::SeqCst)
    }

    fn watch(&self) {
        *self.received.watched.lock().unwrap() = Some((HashMap::new(), Vec::new()));
    }

    /// Stores the time at which the commit of an event begins.
    fn note(&self, event: String) {
        if let Some((committed, _)) = &mut *self.received.watched.lock().unwrap() {
            committed.insert(event, Instant::now());
        }
    }

    /// The percentile `part` of the time from commit to delivery. Each event must have reached `endpoints` endpoints.
    fn percentile(&self, part: usize, endpoints: usize) -> Duration {
        let watched = self.received.watched.lock().unwrap();
        let (committed, received) = watched.as_ref().unwrap();
        let times = received
            .iter()
            .filter_map(|(id, at)| Some(at.saturating_duration_since(*committed.get(id)?)));
        let mut times: Vec<_> = times.collect();
        assert!(times.len() >= committed.len() * endpoints, "deliveries are missing");
        times.sort_unstable();
        times[(times.len() - 1) * part / 100]
    }
}

async fn accept(
    of: &Received,
    request: http::Request<Incoming>,
) -> Result<http::Response<Empty<Bytes>>, Infallible> {
    let at = Instant::now();
    let is_watched = request.uri().path() != "/three";
    let id = request.headers().get("webhook-id").unwrap().to_str().unwrap().to_owned();
    request.into_body().collect().await.unwrap();
    if is_watched && let Some((_, received)) = &mut *of.watched.lock().unwrap() {
        received.push((id, at));
    }
    of.count.fetch_add(1, Ordering::SeqCst);
    let mut response = http::Response::new(Empty::new());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    Ok(response)
}
