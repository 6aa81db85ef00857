//! The simulation of a service whose clock and store the test controls, and of the actors that call it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::{
    Clock, ManualClock, MemoryStore, SeededRandomness, Store, SubscriptionService, Timestamp,
};

use super::actors::Actor;
use super::faults::{ATTEMPTS_MAX, Disturbance, Fault, FaultyStore};
use super::feed::Feed;
use super::invariants::{self, Broken, View};
use super::model::{Model, Seen};
use super::operation::{Operation, Outcome, Reply};
use super::snapshot::Snapshot;
use crate::rng::Rng;

/// The number of last operations that a failure shows.
const LOG_MAX: usize = 20;

/// The start of the simulated time: the 31st, a day that some months do not have.
const START: &str = "2024-01-31T12:00:00.000000Z";

/// One run of the simulation, one operation after the other.
#[derive(Debug)]
pub struct ServiceSimulation {
    seed: u64,
    rng: Rng,
    clock: ManualClock,
    /// The store behind the faults.
    store: Arc<dyn Store>,
    faults: Arc<FaultyStore>,
    service: SubscriptionService,
    actors: Vec<Actor>,
    model: Model,
    feed: Feed,
    snapshot: Snapshot,
    log: VecDeque<String>,
    ran: Ran,
    step: u32,
}

/// The result of a run that broke no invariant.
#[derive(Debug, Default)]
pub struct Ran {
    /// The cases that occurred: error codes, replays, rivals.
    pub met: BTreeSet<&'static str>,
    /// The number of records that the checks of all steps have read.
    pub read: usize,
}

/// A run that broke an invariant, with everything that is needed to repeat it.
#[derive(Debug)]
pub struct Failure {
    pub broken: Broken,
    pub seed: u64,
    pub log: VecDeque<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.broken)?;
        writeln!(f, "repeat with SUBSCRIPTION_TEST_SEED={}; the last operations:", self.seed)?;
        self.log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Creates a service over a store that fails. Also returns its clock and the failing store.
pub fn service_over(
    store: &Arc<dyn Store>,
    seed: u64,
) -> (ManualClock, Arc<FaultyStore>, SubscriptionService) {
    let start: Timestamp = START.parse().expect("a time");
    let clock = ManualClock::at(start);
    let build = |store: Arc<dyn Store>, seed| {
        let builder = SubscriptionService::builder(store);
        builder.clock(clock.clone()).randomness(SeededRandomness::new(seed)).build()
    };
    let rivals = build(Arc::clone(store), !seed);
    let wrapped = Arc::new(FaultyStore::new(Arc::clone(store), rivals));
    let faulty: Arc<dyn Store> = Arc::<FaultyStore>::clone(&wrapped);
    let service = build(faulty, seed);
    (clock, wrapped, service)
}

impl ServiceSimulation {
    /// A simulation over a store in memory without faults of its own.
    pub fn seeded(seed: u64) -> Self {
        Self::over(Arc::new(MemoryStore::default()), seed)
    }

    /// A simulation over any store.
    pub fn over(store: Arc<dyn Store>, seed: u64) -> Self {
        let (clock, faults, service) = service_over(&store, seed);
        let rng = Rng::new(seed);
        let actors = ["web", "mobile", "import"].map(|client| Actor::new(client, rng.fork()));
        Self {
            seed,
            rng,
            clock,
            store,
            faults,
            service,
            actors: actors.into(),
            model: Model::default(),
            feed: Feed::default(),
            snapshot: Snapshot::default(),
            log: VecDeque::new(),
            ran: Ran::default(),
            step: 0,
        }
    }

    /// Runs `steps` steps, or fewer if a step breaks an invariant. Returns the cases that occurred.
    pub async fn run(mut self, steps: u32) -> Result<Ran, Failure> {
        match self.random_steps(steps).await {
            Ok(()) => Ok(self.ran),
            Err(broken) => Err(Failure { broken, seed: self.seed, log: self.log }),
        }
    }

    async fn random_steps(&mut self, steps: u32) -> Result<(), Broken> {
        for _ in 0..steps {
            self.random_step().await?;
            // The number of all records ever created grows with every step, so they are checked less and less often.
            if self.step.is_power_of_two() {
                self.look_at_everything().await?;
            }
        }
        self.look_at_everything().await
    }

    /// One actor performs one operation. If its result is lost and it can be repeated safely, the actor repeats it.
    async fn random_step(&mut self) -> Result<(), Broken> {
        self.step += 1;
        let now = self.clock.now();
        let nth = self.rng.below(3);
        let operation = self.actors[nth].next(&self.model.records, now, self.feed.place);
        if let Operation::TurnClock(seconds) = operation {
            self.turn_clock(seconds);
        }
        loop {
            let rival = self.actors[nth].rival(&operation, &self.model.records, now);
            self.plan_faults(rival);
            let outcome = operation.perform(&self.service).await;
            let unanswered = self.check(&operation, &outcome).await?;
            if !unanswered || operation.key().is_none() {
                return Ok(());
            }
        }
    }

    fn turn_clock(&self, seconds: i64) {
        if seconds >= 0 {
            advance(&self.clock, seconds.unsigned_abs());
        } else {
            let back = self.clock.now().micros() + seconds * 1_000_000;
            self.clock.set(Timestamp::from_micros(back).expect("long after 1970"));
        }
    }

    fn plan_faults(&mut self, rival: Option<Operation>) {
        let rng = &self.rng;
        let rival = rival.map(|rival| Fault::Rival(Box::new(rival)));
        let commits = match rng.below(100) {
            0..6 => vec![Fault::Conflict],
            6..8 => vec![Fault::Conflict, Fault::Conflict, Fault::LostAnswer],
            8..9 => vec![Fault::Conflict; ATTEMPTS_MAX],
            9..13 => vec![Fault::Refusal],
            13..18 => vec![Fault::LostAnswer],
            18..33 => rival.into_iter().collect(),
            33..35 => rival.into_iter().chain([Fault::LostAnswer]).collect(),
            _ => Vec::new(),
        };
        let reads = rng.maybe(3, |rng| rng.below(4));
        self.faults.plan(commits, reads);
    }

    /// Applies an operation to the model and checks all invariants. Returns true if the result of the operation was
    /// lost.
    async fn check(&mut self, operation: &Operation, outcome: &Outcome) -> Result<bool, Broken> {
        let report = self.faults.report();
        let at = self.clock.now();
        match outcome {
            Ok(Reply::Created { replayed: true, .. }) => self.ran.met.insert("replay"),
            Ok(_) => false,
            Err(refusal) => self.ran.met.insert(refusal.code),
        };
        for (rival, outcome) in &report.rivals {
            self.ran.met.insert("rival");
            self.note(&format!("rival: {rival:?} -> {}", brief(outcome)));
        }
        let disturbance = report.disturbance;
        self.note(&format!("{operation:?} -> {} ({disturbance:?})", brief(outcome)));

        let fresh = self.feed.read_on(&*self.store).await?;
        let names = self.feed.names(&fresh, &self.rng);
        let store = Snapshot::take(&*self.store, names, at, &self.rng).await;
        self.ran.read += store.names.len();
        let (before, feed) = (&self.snapshot, &self.feed);
        let view = View { now: at, before, store: &store, feed, fresh: &fresh };
        // The invariants of the store are checked first: they describe a fault better than a difference to the model
        // does.
        invariants::check_store(&view)?;

        let mut untaken: VecDeque<_> = fresh.iter().map(|told| told.event.clone()).collect();
        let swept = store.answers.iter().all(|kept| at < kept.expires_at);
        for (rival, outcome) in &report.rivals {
            let undisturbed = Disturbance::None;
            let seen = Seen { operation: rival, at, outcome, disturbance: undisturbed, swept };
            self.model.accept(&seen, &mut untaken)?;
        }
        let seen = Seen { operation, at, outcome, disturbance, swept };
        self.model.accept(&seen, &mut untaken)?;
        if let Some(event) = untaken.pop_front() {
            let detail = format!("{operation:?}: no change belongs to {event:?}");
            return Err(Broken::new("every_change_has_one_event", detail));
        }
        invariants::check_model(&view, &self.model)?;
        self.snapshot = store;
        Ok(disturbance != Disturbance::None)
    }

    /// Checks all records that exist or ever existed, also those that were last written long ago.
    async fn look_at_everything(&mut self) -> Result<(), Broken> {
        let (now, names) = (self.clock.now(), self.feed.all_names());
        let store = Snapshot::take(&*self.store, names, now, &self.rng).await;
        self.ran.read += store.names.len();
        let (before, feed) = (&self.snapshot, &self.feed);
        let view = View { now, before, store: &store, feed, fresh: &[] };
        invariants::check_store(&view)?;
        invariants::check_model(&view, &self.model)
    }

    fn note(&mut self, line: &str) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        let at = self.clock.now();
        self.log.push_back(format!("{} at {at}: {line}", self.step));
    }
}

/// Advances the clock by `seconds`, or by less near the last year that a timestamp can have, so that no run reaches it.
pub fn advance(clock: &ManualClock, seconds: u64) {
    let late: Timestamp = "9000-01-01T00:00:00Z".parse().expect("a time");
    let seconds = if clock.now() < late { seconds } else { seconds % 60 };
    clock.advance(Duration::from_secs(seconds));
}

/// A short description of an outcome.
fn brief(outcome: &Outcome) -> String {
    match outcome {
        Ok(reply) => format!("{reply:?}").chars().take(60).collect(),
        Err(refusal) => format!("{} {:?}", refusal.code, refusal.about),
    }
}
