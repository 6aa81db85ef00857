//! One run: records change, workers send events, and receivers are created and deleted.

#![expect(clippy::future_not_send, reason = "a run stays on one thread")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use subscription_core::events::TypePattern;
use subscription_core::store::{
    Collection, Document, DocumentFilter, DocumentQuery, PageLimit, StoreExt as _,
};
use subscription_core::webhooks::{
    EndpointChanges, EndpointId, FirstEvent, NewEndpoint, Resend, Rewind,
};
use subscription_core::{
    Clock as _, ManualClock, MemoryStore, SeededRandomness, Store, SubscriptionService, Timestamp,
};

use super::broken::Fault;
use super::invariants::{
    NOTHING_IS_LOST, RECEIVERS_END_WITH_THE_STORES_STATE, Standing, is_the_stored_one, limits_hold,
    nothing_is_lost,
};
use super::life::Life;
use super::receivers::{Mood, Receiver, Receivers, lock};
use super::worker::{Common, Worker};
use crate::rng::Rng;
use crate::simulation::invariants::Broken;
use crate::simulation::world::Failure;

const START: &str = "2025-06-01T10:00:00.000000Z";
const LOG_MAX: usize = 40;
const ENDPOINTS_MAX: usize = 4;
/// The number of plans that a burst creates: more events than a window of the sender can have.
const BURST: usize = 210;
/// A random number chooses each step. From `LEAP` to the start of `CHANGES`, the step moves the clock to the next due
/// moment. In `CHANGES`, it changes receivers, workers or endpoints.
const LEAP: u32 = 210;
const CHANGES: Range<u32> = 230..310;
/// The number of runs of a worker while days pass, and the maximum number of polls of each run.
const ENDURED: usize = 30;
const POLLS_ENDURED: usize = 10_000;
/// Maximum number of runs until everything must be sent, after all faults have ended.
const RUNS_MAX: usize = 3_000;
/// Maximum number of polls until a run must have ended.
const POLLS_MAX: usize = 1_000_000;

/// One run of the simulation.
pub struct WebhookSimulation {
    seed: u64,
    rng: Rng,
    common: Common,
    life: Life,
    /// The worker through which endpoints are managed. Its calls never fail.
    manager: Worker,
    workers: Vec<Worker>,
    started: usize,
    standings: BTreeMap<EndpointId, Standing>,
    hosts: usize,
    /// When the next work is due, as the last finished run said. `None` if nothing is due.
    next_at: Option<Timestamp>,
    checked_commits: usize,
    /// The states that endpoints and events have had.
    met: BTreeSet<String>,
    /// The only invariant that is checked. `None` to check all.
    checked: Option<&'static str>,
    log: VecDeque<String>,
}

impl WebhookSimulation {
    /// Creates a run over a store in memory.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, None)
    }

    /// Creates a run with a planted fault. Only the invariant `checked` is checked, and it must find the fault.
    pub fn broken(fault: Fault, checked: &'static str, seed: u64) -> Self {
        Self { checked: Some(checked), ..Self::with(seed, Some(fault)) }
    }

    fn with(seed: u64, fault: Option<Fault>) -> Self {
        let rng = Rng::new(seed);
        let clock = ManualClock::at(START.parse().unwrap());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(seed))
            .build();
        let life = Life::new(&service, Arc::clone(&store));
        let receivers = Arc::new(Mutex::new(Receivers::default()));
        let common = Common {
            store,
            receivers,
            clock,
            calm: Arc::default(),
            fault,
            seen: Arc::default(),
            commits: Arc::default(),
        };
        let quiet = Common { calm: Arc::new(true.into()), fault: None, ..common.clone() };
        let manager = Worker::start(&quiet, &rng, usize::MAX);
        let workers = (0..2).map(|number| Worker::start(&common, &rng, number)).collect();
        Self {
            seed,
            rng,
            common,
            life,
            manager,
            workers,
            started: 2,
            standings: BTreeMap::new(),
            hosts: 0,
            next_at: None,
            checked_commits: 0,
            met: BTreeSet::new(),
            checked: None,
            log: VecDeque::new(),
        }
    }

    /// Runs `steps` steps, finishes all work, and compares the receivers with the store. Returns the states that
    /// endpoints and events have had.
    pub async fn run(mut self, steps: u64) -> Result<BTreeSet<String>, Failure> {
        let result = self.live_on(steps).await;
        let met = std::mem::take(&mut self.met);
        result.map(|()| met).map_err(|broken| Failure { broken, seed: self.seed, log: self.log })
    }

    async fn live_on(&mut self, steps: u64) -> Result<(), Broken> {
        self.create().await;
        for _ in 0..steps {
            self.step().await?;
            self.check().await?;
        }
        self.rest().await?;
        self.check_the_end().await
    }

    fn note(&mut self, who: &str, what: impl Debug) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{} {who}: {what:?}", self.common.clock.now()));
    }

    async fn step(&mut self) -> Result<(), Broken> {
        let mut roll = self.rng.below(1_000);
        if self.is_patient() && CHANGES.contains(&roll) && self.rng.percent(90) {
            roll = LEAP;
        }
        match roll {
            0..150 => self.life.step(&self.rng).await,
            150..152 => {
                self.burst().await;
                if self.is_patient() {
                    self.endure().await?;
                    self.refuse_one_record();
                    self.endure().await?;
                }
            }
            152..LEAP => self.pass_time(),
            LEAP..230 => {
                // The clock jumps to the moment at which the next try of an event or an endpoint is due.
                let next_at = self.next_at.unwrap_or(self.common.clock.now());
                self.common.clock.set(next_at.max(self.common.clock.now()));
                self.note("leap", next_at);
            }
            230..260 => self.change_mood(),
            260..272 => self.crash(),
            272..278 => {
                let worker = self.rng.below(self.workers.len());
                self.workers[worker].stop();
                self.note("stop", worker);
            }
            278..290 if self.standings.len() < ENDPOINTS_MAX => self.create().await,
            278..310 => self.manage().await,
            _ => self.go_on(),
        }
        self.read_feed().await;
        Ok(())
    }

    /// True for every third seed. In such a run little changes except the time, so that events are tried until they are
    /// given up.
    fn is_patient(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// Lets every receiver accept all events except those of one record.
    fn refuse_one_record(&mut self) {
        let mut shared = lock(&self.common.receivers);
        let subject = shared.feed.last().and_then(|it| it.event.subject.uuid());
        for receiver in shared.by_host.values_mut() {
            receiver.mood = Mood::Well;
            receiver.refused = subject.map(|id| id.to_string()).into_iter().collect();
        }
    }

    /// Lets days pass with a few events. A worker tries everything that is due, and the behaviour of the receivers does
    /// not change.
    async fn endure(&mut self) -> Result<(), Broken> {
        for _ in 0..ENDURED {
            self.life.plan().await;
            self.read_feed().await;
            for _ in 0..POLLS_ENDURED {
                if let Some(result) = self.workers[0].poll() {
                    self.next_at = result.as_ref().ok().copied().flatten();
                    self.note("endures", result);
                    break;
                }
                self.common.clock.advance(Duration::from_millis(1));
            }
            self.check().await?;
            let now = self.common.clock.now();
            self.common.clock.set(self.next_at.unwrap_or(now).max(now));
            if self.workers[0].is_stopped() {
                self.replace(0);
            }
        }
        Ok(())
    }

    /// Creates many events at once. Then one receiver may begin to refuse every second event.
    async fn burst(&mut self) {
        let bursts = if self.is_patient() { 2 } else { 1 };
        for _ in 0..bursts * BURST {
            self.life.plan().await;
        }
        self.read_feed().await;
        let mut shared = lock(&self.common.receivers);
        let Receivers { by_host, feed, .. } = &mut *shared;
        let wants = |it: &&mut Receiver| {
            it.deleted_at.is_none() && feed.last().is_some_and(|event| it.wants(event))
        };
        let picky = self.rng.pick(by_host.values_mut().filter(wants));
        if let Some(receiver) = picky.filter(|_| self.is_patient() || self.rng.percent(70)) {
            receiver.mood = Mood::Picky;
        }
    }

    fn pass_time(&mut self) {
        let span = match self.rng.below(20) {
            0..12 => Duration::from_millis(self.rng.below(1_500)),
            12..17 => Duration::from_secs(self.rng.below(30)),
            17..19 => Duration::from_mins(self.rng.below(120)),
            _ => Duration::from_hours(self.rng.below(140)),
        };
        self.common.clock.advance(span);
        self.note("time", span);
    }

    fn change_mood(&mut self) {
        let mood = match self.rng.below(10) {
            0..5 => Mood::Well,
            5 => Mood::Picky,
            6 => Mood::Fails(500),
            7 => Mood::Slow,
            8 => Mood::Vanished,
            _ => self.rng.maybe(20, |_| Mood::Gone).unwrap_or(Mood::Fails(429)),
        };
        let mut shared = lock(&self.common.receivers);
        let subject = self.rng.pick(shared.feed.iter().filter_map(|it| it.event.subject.uuid()));
        let Some(host) = self.rng.pick(shared.by_host.keys().cloned()) else { return };
        let receiver = shared.by_host.get_mut(&host).unwrap();
        receiver.mood = mood;
        match subject.map(|id| id.to_string()) {
            Some(subject) if self.rng.percent(70) => drop(receiver.refused.insert(subject)),
            _ => receiver.refused.clear(),
        }
        drop(shared);
        self.note(&host, mood);
    }

    fn crash(&mut self) {
        let worker = self.rng.below(self.workers.len());
        self.replace(worker);
        self.note("crash", worker);
    }

    fn replace(&mut self, worker: usize) {
        self.workers[worker] = Worker::start(&self.common, &self.rng, self.started);
        self.started += 1;
    }

    async fn create(&mut self) {
        self.hosts += 1;
        let host = format!("receiver-{}.example", self.hosts);
        let types: &[&str] = match self.hosts % 3 {
            1 => &["*"],
            2 => &["subscription.*", "user.*"],
            _ => &["payment.status_changed", "plan.*"],
        };
        let types: Vec<TypePattern> = types.iter().map(|text| text.parse().unwrap()).collect();
        let from = if self.rng.percent(50) { FirstEvent::Now } else { FirstEvent::Start };
        let url = format!("https://{host}/in").parse().unwrap();
        let new = NewEndpoint { types: types.clone(), from, ..NewEndpoint::new(url) };
        let made = self.manager.webhooks.create(new).await.unwrap().endpoint;
        let receiver = Receiver::new(made.id, types, made.cursor);
        lock(&self.common.receivers).by_host.insert(host.clone(), receiver);
        self.standings.insert(made.id, Standing::default());
        self.note("create", host);
    }

    /// Makes a random call that manages an endpoint.
    async fn manage(&mut self) {
        let Some(id) = self.rng.pick(self.standings.keys().copied()) else { return };
        let webhooks = self.manager.webhooks.clone();
        let changes = |enabled| EndpointChanges { enabled, ..EndpointChanges::default() };
        let done = match self.rng.below(10) {
            0 => {
                webhooks.delete_if(id, None).await.unwrap();
                self.standings.remove(&id);
                let now = self.common.clock.now();
                let mut shared = lock(&self.common.receivers);
                let receiver = shared.by_host.values_mut().find(|it| it.endpoint == id).unwrap();
                receiver.deleted_at = Some(now);
                "deleted"
            }
            1 => {
                webhooks.update_if(id, None, changes(Some(false))).await.unwrap();
                "disabled"
            }
            2..5 => {
                webhooks.update_if(id, None, changes(Some(true))).await.unwrap();
                "enabled"
            }
            5 => {
                webhooks.rotate_secret(id, Duration::ZERO).await.unwrap();
                "rotated"
            }
            6 => {
                let start = self.start_of(id);
                let cursor = webhooks.get(id).await.unwrap().cursor;
                let to = start + self.rng.below(cursor.saturating_sub(start) + 1);
                webhooks.rewind(id, Rewind::To(to)).await.unwrap();
                self.standings.get_mut(&id).unwrap().is_rewound = true;
                "rewound"
            }
            7 => {
                webhooks.ping(id).await.ok();
                "pinged"
            }
            _ => {
                webhooks.resend(id, Resend::All).await.ok();
                "sent again"
            }
        };
        self.note(done, id);
    }

    fn start_of(&self, id: EndpointId) -> u64 {
        let shared = lock(&self.common.receivers);
        shared.by_host.values().find(|it| it.endpoint == id).unwrap().start
    }

    /// Polls a random worker a random number of times.
    fn go_on(&mut self) {
        let nth = self.rng.below(self.workers.len());
        if self.rng.percent(50) {
            self.workers[nth].signal();
        }
        for _ in 0..=self.rng.below(8) {
            if let Some(result) = self.workers[nth].poll() {
                self.next_at = result.as_ref().ok().copied().flatten();
                self.note("ran", (nth, result));
                break;
            }
        }
        if self.workers[nth].is_stopped() {
            self.replace(nth);
        }
    }

    async fn read_feed(&mut self) {
        loop {
            let last = lock(&self.common.receivers).feed.last().map_or(0, |it| it.sequence);
            let events = self.life.service.events(last, PageLimit::MAX).await.unwrap();
            if events.is_empty() {
                return;
            }
            let mut shared = lock(&self.common.receivers);
            for event in events {
                shared.add(event);
            }
        }
    }

    async fn documents(&self, collection: &'static str) -> Vec<Arc<Document>> {
        let query = DocumentQuery::new(Collection::named(collection), DocumentFilter::All);
        let mut query = query.with_limit(PageLimit::MAX);
        let mut all = Vec::new();
        loop {
            let page = self.common.store.list_as::<Document>(query.clone()).await.unwrap();
            all.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                return all;
            }
        }
    }

    /// Reads the stored state of all endpoints.
    async fn read_standings(&mut self) {
        for document in self.documents("webhook_delivery").await {
            let id = EndpointId::from(document.owner.unwrap());
            let standing = self.standings.entry(id).or_default();
            standing.delivery = serde_json::from_str(&document.body).unwrap();
            let stall = standing.delivery.stall.as_ref();
            self.met.extend(stall.map(|stall| format!("stalled: {}", stall.reason)));
            standing.parked.clear();
            standing.given_up.clear();
        }
        for document in self.documents("webhook_parked").await {
            let id = EndpointId::from(document.owner.unwrap());
            let Some(standing) = self.standings.get_mut(&id) else { continue };
            let (_, sequence) = document.key.id.as_str().split_once('/').unwrap();
            let sequence = sequence.parse().unwrap();
            self.met.insert(document.label.as_ref().unwrap().to_string());
            if document.label.as_ref().unwrap().as_str() == "given_up" {
                standing.given_up.insert(sequence);
                standing.once_given_up.insert(sequence);
            } else {
                standing.parked.insert(sequence);
            }
        }
    }

    /// The ids of records with an event that was given up, and that was deleted after 30 days before anybody had it
    /// sent again.
    fn given_up_for_good(&self, shared: &Receivers, receiver: &Receiver) -> BTreeSet<String> {
        let given_up = self.standings.get(&receiver.endpoint).map(|it| &it.once_given_up);
        let lost = shared.feed.iter().filter(|event| {
            given_up.is_some_and(|it| it.contains(&event.sequence))
                && !receiver.accepted.contains(&event.sequence)
        });
        lost.filter_map(|event| event.event.subject.uuid()).map(|id| id.to_string()).collect()
    }

    /// Records why endpoints are disabled.
    async fn read_endpoints(&mut self) {
        for document in self.documents("webhook_endpoint").await {
            let body: Value = serde_json::from_str(&document.body).unwrap();
            let reason = body["disabled"]["reason"].as_str();
            self.met.extend(reason.map(|reason| format!("disabled: {reason}")));
        }
    }

    fn is_checked(&self, name: &str) -> bool {
        self.checked.is_none_or(|only| only == name)
    }

    async fn check(&mut self) -> Result<(), Broken> {
        let mut broken = std::mem::take(&mut lock(&self.common.receivers).broken);
        let commits = self.common.commits.load(Ordering::SeqCst);
        let is_changed = std::mem::replace(&mut self.checked_commits, commits) != commits;
        if is_changed {
            self.read_standings().await;
            self.read_endpoints().await;
        }
        let shared = lock(&self.common.receivers);
        let changed = shared.by_host.values().filter(|_| is_changed);
        for receiver in changed {
            let Some(standing) = self.standings.get(&receiver.endpoint) else { continue };
            broken.extend(nothing_is_lost(&shared, receiver, standing).err());
            broken.extend(limits_hold(receiver, standing).err());
        }
        drop(shared);
        match broken.into_iter().find(|broken| self.is_checked(broken.invariant)) {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }

    /// Ends all faults, and sends everything.
    async fn rest(&mut self) -> Result<(), Broken> {
        self.common.calm.store(true, Ordering::SeqCst);
        for receiver in lock(&self.common.receivers).by_host.values_mut() {
            receiver.mood = Mood::Well;
            receiver.refused.clear();
        }
        for worker in 0..self.workers.len() {
            self.replace(worker);
        }
        for id in self.standings.keys().copied().collect::<Vec<_>>() {
            let enabled = EndpointChanges { enabled: Some(true), ..EndpointChanges::default() };
            self.manager.webhooks.update_if(id, None, enabled).await.unwrap();
        }
        for _ in 0..RUNS_MAX {
            let next_at = self.run_to_the_end(0);
            self.check().await?;
            let last = lock(&self.common.receivers).feed.last().map_or(0, |it| it.sequence);
            let mut is_done = true;
            for (id, standing) in &self.standings {
                if !standing.given_up.is_empty() {
                    self.manager.webhooks.resend(*id, Resend::All).await.ok();
                }
                is_done &= standing.parked.is_empty() && standing.given_up.is_empty();
                // A cursor may be behind if it has passed only events that the endpoint does not want: then it is
                // written later.
                let missing = lock(&self.common.receivers).wanted_after(*id, standing);
                is_done &= missing == 0 || standing.delivery.cursor >= last;
            }
            if is_done {
                return Ok(());
            }
            let now = self.common.clock.now();
            let next_at = next_at.unwrap_or(now).max(now.saturating_add(Duration::from_secs(1)));
            self.common.clock.set(next_at);
        }
        if self.is_checked(NOTHING_IS_LOST) {
            return Err(Broken::new(NOTHING_IS_LOST, format!("never sent: {:?}", self.standings)));
        }
        Ok(())
    }

    /// Runs a worker until nothing is due, while time passes.
    fn run_to_the_end(&mut self, worker: usize) -> Option<Timestamp> {
        for _ in 0..POLLS_MAX {
            if let Some(result) = self.workers[worker].poll() {
                self.note("rests", &result);
                return result.unwrap_or_else(|error| panic!("{error:?}"));
            }
            self.common.clock.advance(Duration::from_millis(50));
        }
        panic!("a run does not end");
    }

    async fn check_the_end(&mut self) -> Result<(), Broken> {
        if !self.is_checked(RECEIVERS_END_WITH_THE_STORES_STATE) {
            return Ok(());
        }
        let kept: Vec<_> = {
            let shared = lock(&self.common.receivers);
            let of_all = shared.by_host.values().filter(|receiver| {
                receiver.deleted_at.is_none() && receiver.types == [TypePattern::LEDGER]
            });
            let kept = of_all.flat_map(|receiver| {
                let lost = self.given_up_for_good(&shared, receiver);
                receiver.kept.iter().filter(move |((_, id), _)| !lost.contains(id))
            });
            kept.map(|((kind, id), (_, object))| (kind.clone(), id.clone(), object.clone()))
                .collect()
        };
        let service = &self.life.service;
        for (kind, id, object) in kept {
            let stored: Option<Value> = match kind.as_str() {
                "plan" => json(service.plan_by_id(id.parse().unwrap()).await),
                "subscription" => json(service.subscription(id.parse().unwrap()).await),
                _ => json(service.payment(id.parse().unwrap()).await),
            };
            is_the_stored_one(&object, stored)?;
        }
        Ok(())
    }
}

fn json<T: serde::Serialize>(record: Result<Arc<T>, subscription_core::Error>) -> Option<Value> {
    record.ok().map(|record| serde_json::to_value(&*record).unwrap())
}

impl Receivers {
    /// The number of wanted events after the cursor of an endpoint.
    fn wanted_after(&self, id: EndpointId, standing: &Standing) -> usize {
        let receiver = self.by_host.values().find(|it| it.endpoint == id).unwrap();
        let after = self.feed.iter().filter(|event| event.sequence > standing.delivery.cursor);
        after.filter(|event| receiver.wants(event)).count()
    }
}
