//! The simulation of the authentication, whose clock and store the test controls, and of the actors that call it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use secrecy::SecretSlice;
use subscription_core::auth::{AuthSettings, KeyRing, ServerKeys, SigningKey};
use subscription_core::{
    Authentication, Clock as _, ManualClock, MemoryStore, SeededRandomness, Store,
    SubscriptionService, UserId,
};

use super::actors::{Actor, Loot};
use super::honest::{Honest, Turn};
use super::invariants::{self, View};
use super::model::{Model, Seen};
use super::operation::{Operation, Outcome, Pair, Provider, Reply};
use super::snapshot::{Snapshot, is_last};
use crate::rng::Rng;
use crate::service_world::{at, new_plan};
use crate::simulation::faults::{ATTEMPTS_MAX, Disturbance, Fault, FaultyStore};
use crate::simulation::feed::Feed;
use crate::simulation::invariants::Broken;
use crate::simulation::world::{Failure, Ran, advance};

/// Maximum number of live sessions of a user with one client. It is small, so that it is often reached.
pub const PER_CLIENT: usize = 3;

/// Maximum number of live sessions that one identity token opens.
pub const PER_IDENTITY_TOKEN: usize = 2;

/// The number of last operations that a failure shows.
const LOG_MAX: usize = 20;

/// How many ended sessions are tried again after each step, in addition to those that ended in this step.
const PROBES: u32 = 2;

/// One run of the simulation.
#[derive(Debug)]
pub struct AccountSimulation {
    seed: u64,
    rng: Rng,
    clock: ManualClock,
    /// The store behind the faults.
    store: Arc<dyn Store>,
    faults: Arc<FaultyStore>,
    service: SubscriptionService,
    auth: Authentication,
    actors: Vec<Actor>,
    honest: Honest,
    loot: Loot,
    model: Model,
    feed: Feed,
    snapshot: Snapshot,
    log: VecDeque<String>,
    ran: Ran,
    step: u32,
}

impl AccountSimulation {
    /// A simulation over a store in memory without faults of its own.
    pub async fn seeded(seed: u64) -> Self {
        Self::over(Arc::new(MemoryStore::default()), seed).await
    }

    /// A simulation over any store.
    pub async fn over(store: Arc<dyn Store>, seed: u64) -> Self {
        let clock = ManualClock::at(at("2025-01-31T00:00:00.000000Z"));
        let build = |store: Arc<dyn Store>, seed| {
            let builder = SubscriptionService::builder(store).check_users();
            builder.clock(clock.clone()).randomness(SeededRandomness::new(seed)).build()
        };
        let sound = build(Arc::clone(&store), !seed);
        let plan = sound.create_plan(new_plan("pro")).await.expect("a plan").id;
        let faults = Arc::new(FaultyStore::new(Arc::clone(&store), sound));
        let service = build(Arc::<FaultyStore>::clone(&faults), seed);
        let auth = authentication(&service);
        let rng = Rng::new(seed);
        let actors = (0..3).map(|_| Actor(rng.fork())).collect();
        let honest = Honest::new(rng.fork());
        let loot = Loot::new(plan, rng.fork());
        Self {
            seed,
            rng,
            clock,
            store,
            faults,
            service,
            auth,
            actors,
            honest,
            loot,
            model: Model::default(),
            feed: Feed::until(is_last),
            snapshot: Snapshot::default(),
            log: VecDeque::new(),
            ran: Ran::default(),
            step: 0,
        }
    }

    /// Runs `steps` steps, or fewer if a step breaks an invariant. Returns the cases that occurred.
    pub async fn run(mut self, steps: u32) -> Result<Ran, Failure> {
        if let Err(broken) = self.random_steps(steps).await {
            return Err(Failure { broken, seed: self.seed, log: self.log });
        }
        if self.honest.recovered > 0 {
            self.ran.met.insert("recovery");
        }
        Ok(self.ran)
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

    /// Runs one operation of one actor, two operations at the same time, or a turn of the honest actor.
    async fn random_step(&mut self) -> Result<(), Broken> {
        self.step += 1;
        match self.rng.below(100) {
            0..55 => self.one_alone().await,
            55..90 => self.two_at_once().await,
            _ => self.honest_turn().await,
        }
    }

    async fn one_alone(&mut self) -> Result<(), Broken> {
        let operation = self.next();
        self.turn_clock(&operation);
        self.plan_faults();
        let outcome = operation.perform(&self.auth, &self.service).await;
        let disturbance = self.faults.report().disturbance;
        let turn = vec![(operation, outcome)];
        self.note(&turn);
        self.check(&turn, Some(disturbance)).await
    }

    async fn two_at_once(&mut self) -> Result<(), Broken> {
        let first = self.next();
        let nth = self.rng.below(3);
        let second = self.actors[nth].meanwhile(&first, &self.loot);
        self.turn_clock(&first);
        self.turn_clock(&second);
        self.faults.draw_from(self.rng.fork());
        let (a, b) = tokio::join!(
            first.perform(&self.auth, &self.service),
            second.perform(&self.auth, &self.service)
        );
        self.faults.report();
        let turn = vec![(first, a), (second, b)];
        self.note(&turn);
        self.check(&turn, None).await
    }

    async fn honest_turn(&mut self) -> Result<(), Broken> {
        self.faults.draw_from(self.rng.fork());
        let mut turn = Turn::new();
        let kept = self.honest.turn(&self.auth, &self.service, &self.clock, &mut turn).await;
        self.faults.report();
        self.note(&turn);
        kept?;
        self.check(&turn, None).await
    }

    fn next(&mut self) -> Operation {
        let nth = self.rng.below(3);
        self.actors[nth].next(&self.loot)
    }

    fn turn_clock(&self, operation: &Operation) {
        if let Operation::TurnClock(seconds) = operation {
            advance(&self.clock, *seconds);
        }
    }

    fn plan_faults(&mut self) {
        let rng = &self.rng;
        let commits = match rng.below(100) {
            0..8 => vec![Fault::Conflict],
            8..10 => vec![Fault::Conflict, Fault::Conflict, Fault::LostAnswer],
            10..12 => vec![Fault::Conflict; ATTEMPTS_MAX],
            12..17 => vec![Fault::Refusal],
            17..27 => vec![Fault::LostAnswer],
            _ => Vec::new(),
        };
        let reads = rng.maybe(4, |rng| rng.below(4));
        self.faults.plan(commits, reads);
    }

    /// Applies the operations to the model and checks all invariants.
    ///
    /// `alone` is the disturbance of the store in a step with one operation. It is `None` if other operations ran at
    /// the same time.
    async fn check(&mut self, turn: &Turn, alone: Option<Disturbance>) -> Result<(), Broken> {
        failures_of_the_store_are_told(turn, alone)?;
        let mut wrongly_taken = self.wrongly_taken(turn);
        let fresh = self.feed.read_on(&*self.store).await?;
        let names = self.feed.names(&fresh, &self.rng);
        let store = Snapshot::take(&*self.store, names).await;
        self.ran.read += store.names.len();
        let now = self.clock.now();
        let ended_before = self.model.ended.len() + self.model.gone.len();
        for (operation, outcome) in turn {
            let (before, after) = (&self.snapshot, &store);
            let alone = alone.is_some();
            self.model.accept(&Seen { operation, outcome, now, before, after, alone })?;
        }
        self.model.resolve(&store);
        self.learn(turn);
        let more_ended = self.model.ended.len() + self.model.gone.len() > ended_before;
        wrongly_taken.extend(self.probe(turn, more_ended).await);
        let subscribed: Vec<UserId> = turn.iter().filter_map(subscriber).collect();
        invariants::check_all(&View {
            now,
            before: &self.snapshot,
            store: &store,
            feed: &self.feed,
            fresh: &fresh,
            model: &self.model,
            wrongly_taken: &wrongly_taken,
            subscribed: &subscribed,
        })?;
        self.snapshot = store;
        Ok(())
    }

    /// Checks all records that exist or ever existed, also those that were last written long ago.
    async fn look_at_everything(&mut self) -> Result<(), Broken> {
        let store = Snapshot::take(&*self.store, self.feed.all_names()).await;
        self.ran.read += store.names.len();
        invariants::check_all(&View {
            now: self.clock.now(),
            before: &self.snapshot,
            store: &store,
            feed: &self.feed,
            fresh: &[],
            model: &self.model,
            wrongly_taken: &[],
            subscribed: &[],
        })
    }

    /// Descriptions of tokens that were accepted although their session had ended before the request.
    fn wrongly_taken(&self, turn: &Turn) -> Vec<String> {
        let ended = turn.iter().filter(|(operation, outcome)| {
            let shown = match operation {
                Operation::Refresh(pair) | Operation::Authenticate(pair) => Some(pair),
                Operation::SignUp(_)
                | Operation::SignIn(_)
                | Operation::LogOut(_)
                | Operation::RevokeAll(_)
                | Operation::RevokeOthers(_)
                | Operation::DeleteAccount(_)
                | Operation::ForgetEnded
                | Operation::Subscribe(..)
                | Operation::CreateClient(_)
                | Operation::RotateClientKey(_)
                | Operation::RevokeClient(_)
                | Operation::TurnClock(_) => None,
            };
            outcome.is_ok() && shown.is_some_and(|pair| self.model.has_ended(pair))
        });
        ended.map(|(operation, _)| format!("{operation:?} was taken")).collect()
    }

    /// Tries tokens of ended sessions, and returns those that were accepted, which is a fault. The store does not fail
    /// meanwhile.
    async fn probe(&mut self, turn: &Turn, more_ended: bool) -> Vec<String> {
        let users: BTreeSet<UserId> = turn.iter().filter_map(|(asked, _)| user_of(asked)).collect();
        let mut tried: Vec<Pair> = Vec::new();
        let known = self.loot.pairs.values().filter_map(|pairs| pairs.last());
        let ended = self.loot.relics.iter().chain(known);
        let ended: Vec<&Pair> = ended.filter(|pair| self.model.has_ended(pair)).collect();
        if more_ended {
            let just_now = ended.iter().filter(|pair| users.contains(&pair.user));
            tried.extend(just_now.rev().take(4).map(|pair| (*pair).clone()));
        }
        for _ in 0..PROBES {
            tried.extend(self.rng.pick(ended.iter().copied()).cloned());
        }
        let mut taken = Vec::new();
        for pair in tried {
            for ask in [Operation::Authenticate(pair.clone()), Operation::Refresh(pair)] {
                if ask.perform(&self.auth, &self.service).await.is_ok() {
                    taken.push(format!("{ask:?} is taken"));
                }
            }
        }
        taken
    }

    /// Adds the tokens and callers of the results to the loot, except those of the honest actor, which no other actor
    /// may use.
    fn learn(&mut self, turn: &Turn) {
        for (_, outcome) in turn {
            match outcome {
                Ok(Reply::Tokens(pair)) if pair.client.as_str() != "honest" => {
                    self.loot.keep(pair.clone());
                }
                Ok(Reply::Caller(caller)) if caller.claims.client_id.as_str() != "honest" => {
                    self.loot.meet((**caller).clone());
                }
                Ok(Reply::Tokens(_) | Reply::Caller(_) | Reply::Count(_) | Reply::Done) => {}
                Err(code) => {
                    self.ran.met.insert(code);
                }
            }
        }
    }

    fn note(&mut self, turn: &Turn) {
        let now = self.clock.now();
        for (operation, outcome) in turn {
            if self.log.len() == LOG_MAX {
                self.log.pop_front();
            }
            let line: String = format!("{operation:?} -> {outcome:?}").chars().take(300).collect();
            self.log.push_back(format!("{} at {now}: {line}", self.step));
        }
    }
}

fn authentication(service: &SubscriptionService) -> Authentication {
    let secret = |byte: u8| SecretSlice::from(vec![byte; 32]);
    let keys = KeyRing::new(SigningKey::ed25519(&secret(7)).expect("a key"));
    let server_keys = ServerKeys::new(1, secret(8)).expect("a key");
    let settings = AuthSettings::default()
        .with_sessions_per_client(PER_CLIENT)
        .with_sessions_per_identity_token(PER_IDENTITY_TOKEN);
    Authentication::builder(service.clone(), Arc::new(Provider), keys, server_keys)
        .settings(settings)
        .build()
}

/// The user whom an operation is about. `None` if it names no user.
fn user_of(operation: &Operation) -> Option<UserId> {
    match operation {
        Operation::LogOut(pair) => Some(pair.user),
        Operation::RevokeAll(by) | Operation::RevokeOthers(by) | Operation::DeleteAccount(by) => {
            Some(by.claims.sub)
        }
        Operation::SignUp(_)
        | Operation::SignIn(_)
        | Operation::Refresh(_)
        | Operation::Authenticate(_)
        | Operation::ForgetEnded
        | Operation::Subscribe(..)
        | Operation::CreateClient(_)
        | Operation::RotateClientKey(_)
        | Operation::RevokeClient(_)
        | Operation::TurnClock(_) => None,
    }
}

/// The user for whom an operation created a subscription. `None` if it created none.
fn subscriber((operation, outcome): &(Operation, Outcome)) -> Option<UserId> {
    match (operation, outcome) {
        (Operation::Subscribe(user, _), Ok(_)) => Some(*user),
        _ => None,
    }
}

/// Checks that an operation reports a failure of the store if there was one, and only then. If operations ran at the
/// same time, only the code `internal` is refused.
fn failures_of_the_store_are_told(turn: &Turn, alone: Option<Disturbance>) -> Result<(), Broken> {
    for (operation, outcome) in turn {
        let code = outcome.as_ref().err().copied();
        let told = match alone {
            Some(Disturbance::Unavailable) => code == Some("store_unavailable"),
            Some(Disturbance::Busy) => code == Some("overloaded"),
            Some(Disturbance::None) => {
                !matches!(code, Some("store_unavailable" | "overloaded" | "internal"))
            }
            None => code != Some("internal"),
        };
        if !told {
            let detail = format!("{alone:?}, but {operation:?} -> {outcome:?}");
            return Err(Broken::new("failures_of_the_store_are_told", detail));
        }
    }
    Ok(())
}
