//! One run: an account changes, its webhooks arrive in any order, twice or never, and two workers update our records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use subscription_core::providers::{
    EventState, ListedEvent, ObjectKind, ObjectRef, PauseMeans, ProviderKind, Reason, Received,
    SyncCounts, SyncKind,
};
use subscription_core::store::{PageLimit, PaymentQuery};
use subscription_core::{
    Clock as _, ManualClock, MemoryStore, Payment, SeededRandomness, Store, SubscriptionChanges,
    SubscriptionService, UserId,
};

use super::broken::Fault;
use super::commits::Commits;
use super::invariants::{AT_THE_END, COMMITS_SHOW_STATES_OF_THEIR_TIME, End, Records};
use super::shop::{all_subscriptions, key, listed, plans, seconds, source, started};
use super::worker::{Common, Done, POLLS_MAX, Task, Worker, finish, poll};
use crate::fake_provider::{Account, Courier, Event, History, SECRET, shared};
use crate::rng::Rng;
use crate::simulation::invariants::Broken;
use crate::simulation::world::Failure;

const START: &str = "2025-06-01T10:00:00.000000Z";
const LOG_MAX: usize = 40;
const USERS: usize = 4;
/// The percentage of purchases that a user makes as the customer of another user.
const STRANGERS: u32 = 25;
const ROUNDS_MAX: usize = 2_000;
const WORKERS: usize = 2;
/// How often waiting events are retried at the end of a run.
const WAITED_MAX: usize = 5;

/// One run of the simulation.
#[derive(Debug)]
pub struct ProviderSimulation {
    seed: u64,
    rng: Rng,
    common: Common,
    workers: Vec<Worker>,
    courier: Courier,
    users: Vec<String>,
    records: Records,
    /// The only invariant that is checked. `None` to check all.
    checked: Option<&'static str>,
    /// True if the API shows old states. Then only the records at the end are checked, after a sync.
    lags: bool,
    taken_in: BTreeSet<String>,
    log: VecDeque<String>,
    met: BTreeSet<String>,
}

impl ProviderSimulation {
    /// Creates a run with an account at a provider, over a store.
    pub async fn over(store: Arc<dyn Store>, kind: ProviderKind, seed: u64) -> Self {
        Self::with(store, kind, seed, None).await
    }

    /// Creates a run with a planted fault. Only the invariant `checked` is checked, and it must find the fault.
    pub async fn broken(
        fault: Fault,
        checked: &'static str,
        kind: ProviderKind,
        seed: u64,
    ) -> Self {
        let store = Arc::new(MemoryStore::default());
        Self { checked: Some(checked), ..Self::with(store, kind, seed, Some(fault)).await }
    }

    /// Creates a run whose API lags two changes behind, until the end of the run.
    pub async fn lagging(kind: ProviderKind, seed: u64) -> Self {
        let run = Self::over(Arc::new(MemoryStore::default()), kind, seed).await;
        shared(&run.common.account).lag = 2;
        Self { lags: true, ..run }
    }

    async fn with(
        store: Arc<dyn Store>,
        kind: ProviderKind,
        seed: u64,
        fault: Option<Fault>,
    ) -> Self {
        let rng = Rng::new(seed);
        let clock = ManualClock::at(START.parse().unwrap());
        let account = Account::new(kind, seconds(&clock)).into_shared();
        shared(&account).lag = u64::from(fault == Some(Fault::ShowsOldStates));
        shared(&account).strangers = if fault.is_none() { STRANGERS } else { 0 };
        let random = SeededRandomness::new(seed);
        let users = (0..USERS).map(|_| UserId::new(clock.now(), &random).unwrap().to_string());
        let users = users.collect();
        let pause = if rng.percent(50) { PauseMeans::Keep } else { PauseMeans::Stop };
        let plans = plans(Arc::clone(&store), &clock, kind).await;
        let commits = Commits::default();
        let calm = Arc::new(AtomicBool::new(false));
        let common = Common { store, commits, account, clock, calm, fault };
        let lost = if rng.percent(50) { 0 } else { 20 };
        let courier = Courier::new(rng.fork(), lost, 20);
        let mut records = Records::default();
        (records.plans, records.pause) = (plans, pause);
        let workers = (0..WORKERS).map(|_| started(&common, &rng, pause)).collect();
        Self {
            seed,
            rng,
            common,
            workers,
            courier,
            users,
            records,
            checked: None,
            lags: false,
            taken_in: BTreeSet::new(),
            log: VecDeque::new(),
            met: BTreeSet::new(),
        }
    }

    /// Runs `steps` steps, finishes all work, and compares our records with the account. Returns the states that events
    /// had at the end.
    pub async fn run(mut self, steps: u32) -> Result<BTreeSet<String>, Failure> {
        let run = self.live_on(steps).await;
        let met = std::mem::take(&mut self.met);
        run.map(|()| met).map_err(|broken| Failure { broken, seed: self.seed, log: self.log })
    }

    async fn live_on(&mut self, steps: u32) -> Result<(), Broken> {
        for _ in 0..steps {
            self.step()?;
        }
        self.rest()?;
        let end = self.end().await?;
        let account = shared(&self.common.account);
        let checked = AT_THE_END.iter();
        let checked = checked.filter(|(name, _)| self.checked.is_none_or(|only| only == *name));
        for (name, holds) in checked {
            holds(&account, &self.records, &end).map_err(|detail| Broken::new(name, detail))?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Broken> {
        match self.rng.below(100) {
            0..20 => {
                shared(&self.common.account).live(&self.rng, &self.users);
                self.note("the account", "changed");
            }
            20..45 => self.deliver(),
            45..52 => self.pass_time(),
            52..55 => self.crash(),
            55..60 => self.begin_advance(),
            60..62 => self.begin_observation(),
            62..64 => self.begin_sync(),
            _ => self.go_on()?,
        }
        Ok(())
    }

    fn note(&mut self, who: &str, what: impl Debug) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{} {who}: {what:?}", self.common.clock.now()));
    }

    fn pass_time(&mut self) {
        let millis = match self.rng.below(10) {
            0..7 => self.rng.below(1_500),
            7..9 => self.rng.below(20_000),
            _ => self.rng.below(3_600_000),
        };
        self.move_clock(Duration::from_millis(millis));
    }

    fn move_clock(&self, span: Duration) {
        self.common.clock.advance(span);
        shared(&self.common.account).now = seconds(&self.common.clock);
    }

    fn some_worker(&self) -> usize {
        self.rng.below(WORKERS)
    }

    /// Kills a worker between two awaits, and starts a new one. Webhooks that were not acknowledged are delivered
    /// again.
    fn crash(&mut self) {
        let worker = self.some_worker();
        self.workers[worker] = started(&self.common, &self.rng, self.records.pause);
        self.note("crash", worker);
    }

    fn deliver(&mut self) {
        let event = self.courier.take(&mut shared(&self.common.account));
        let Some(event) = event else { return };
        let worker = self.some_worker();
        self.note(&format!("to {worker}"), (event.name, &event.object));
        let task = self.receive_webhook(worker, event);
        self.workers[worker].running.push(task);
    }

    fn receive_webhook(&self, worker: usize, event: Event) -> Task {
        let providers = self.workers[worker].providers.clone();
        let account = Arc::clone(&self.common.account);
        let kind = shared(&account).kind;
        let clock = self.common.clock.clone();
        // The provider would send the event again until it receives a response.
        let mut unanswered = Unanswered { account, event: Some(event.clone()) };
        Box::pin(async move {
            let webhook = event.signed(kind, SECRET, seconds(&clock));
            let taken = providers
                .receive_webhook(&source(), &[webhook.signature.as_bytes()], &webhook.body)
                .await;
            if taken.is_ok() {
                drop(unanswered.event.take());
            }
            Done::TookIn(event, taken)
        })
    }

    fn begin_advance(&mut self) {
        let worker = self.some_worker();
        let limit = 1 + self.rng.below(20);
        let providers = self.workers[worker].providers.clone();
        let task: Task = Box::pin(async move { Done::Advanced(providers.advance(limit).await) });
        self.workers[worker].running.push(task);
    }

    /// Begins an observation of a subscription or an order, as the page after a checkout does.
    fn begin_observation(&mut self) {
        let target = {
            let account = shared(&self.common.account);
            let subscriptions =
                account.subscriptions.keys().map(|id| (ObjectKind::Subscription, id.clone()));
            let orders = account.one_time_orders();
            let orders = orders.map(|order| (ObjectKind::Order, order.id.clone()));
            self.rng.pick(subscriptions.chain(orders))
        };
        let Some((kind, id)) = target else { return };
        let worker = self.some_worker();
        let target = ObjectRef { kind, id: id.parse().unwrap() };
        let providers = self.workers[worker].providers.clone();
        self.workers[worker].running.push(Box::pin(async move {
            Done::Observed(providers.observe_now(&source(), &target, None).await)
        }));
    }

    fn begin_sync(&mut self) {
        let worker = self.some_worker();
        let task = self.sync_page(worker, self.rng.percent(20));
        self.workers[worker].running.push(task);
    }

    fn sync_page(&self, worker: usize, dry_run: bool) -> Task {
        let providers = self.workers[worker].providers.clone();
        Box::pin(async move {
            Done::Synced(providers.sync_page(&source(), SyncKind::All, dry_run).await)
        })
    }

    /// Polls a random task a random number of times.
    fn go_on(&mut self) -> Result<(), Broken> {
        let worker = self.some_worker();
        let count = self.workers[worker].running.len();
        if count == 0 {
            self.begin_advance();
            return Ok(());
        }
        let nth = self.rng.below(count);
        for _ in 0..=self.rng.below(12) {
            if self.poll_one(worker, nth)? {
                break;
            }
        }
        Ok(())
    }

    /// Polls a task of a worker once. Returns true if the task has ended.
    fn poll_one(&mut self, worker: usize, nth: usize) -> Result<bool, Broken> {
        let done = poll(&mut self.workers[worker].running[nth]);
        self.check_commits()?;
        let Some(done) = done else { return Ok(false) };
        drop(self.workers[worker].running.swap_remove(nth));
        self.ended(worker, done);
        Ok(true)
    }

    fn check_commits(&mut self) -> Result<(), Broken> {
        let commits = &self.common.commits;
        let commits = std::mem::take(&mut *commits.lock().unwrap_or_else(PoisonError::into_inner));
        let account = shared(&self.common.account);
        let name = COMMITS_SHOW_STATES_OF_THEIR_TIME;
        for changes in commits {
            let added = self.records.add(&account, &changes);
            if !self.lags && self.checked.is_none_or(|only| only == name) {
                added.map_err(|detail| Broken::new(name, detail))?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, worker: usize, done: Done) {
        match done {
            Done::TookIn(event, taken) => {
                if matches!(taken, Ok(Received::Stored | Received::Known)) {
                    self.taken_in.insert(key(shared(&self.common.account).kind, &event));
                }
                self.note(&format!("{worker} took in"), &taken);
                assert!(
                    !matches!(
                        taken,
                        Ok(Received::SignatureInvalid
                            | Received::UnknownSource
                            | Received::Unlisted)
                    ),
                    "{}: {taken:?}",
                    event.name
                );
            }
            Done::Advanced(applied) => self.note(&format!("{worker} advanced"), applied),
            Done::Observed(observed) => self.note(&format!("{worker} observed"), observed),
            Done::Synced(step) => self.note(&format!("{worker} synced"), step),
            Done::Bound(bound) | Done::Decided(bound) => {
                self.note(&format!("{worker} bound"), bound);
            }
        }
    }

    /// Runs a task to its end.
    fn finish(&mut self, task: Task) -> Result<Done, Broken> {
        let done = finish(task);
        self.check_commits()?;
        Ok(done)
    }

    /// Runs all tasks to their end. They are polled in turn, because a task may wait for another task of its worker.
    fn finish_running(&mut self) -> Result<(), Broken> {
        for _ in 0..POLLS_MAX {
            for worker in 0..WORKERS {
                for nth in (0..self.workers[worker].running.len()).rev() {
                    self.poll_one(worker, nth)?;
                }
            }
            if self.workers.iter().all(|worker| worker.running.is_empty()) {
                return Ok(());
            }
        }
        panic!("with seed {} a task does not end", self.seed)
    }

    /// Ends all faults, delivers all remaining webhooks and applies all events. If webhooks were lost, a sync replaces
    /// them.
    fn rest(&mut self) -> Result<(), Broken> {
        self.finish_running()?;
        self.common.calm.store(true, Ordering::SeqCst);
        let losing = self.courier.lost > 0 || self.lags;
        if self.lags {
            shared(&self.common.account).lag = 0;
        }
        for _ in 0..ROUNDS_MAX {
            if shared(&self.common.account).outbox.is_empty() {
                break;
            }
            let event = self.courier.take(&mut shared(&self.common.account));
            if let Some(event) = event {
                let task = self.receive_webhook(0, event);
                let done = self.finish(task)?;
                self.ended(0, done);
            }
        }
        self.drain()?;
        if losing {
            self.sync()?;
            self.bind_customers()?;
            self.drain()?;
        }
        self.decide_conflicts()?;
        self.drain()
    }

    /// Advances until no event is open, or only events that wait for a person.
    fn drain(&mut self) -> Result<(), Broken> {
        let mut waited = 0;
        for round in 0..ROUNDS_MAX {
            let providers = self.workers[round % WORKERS].providers.clone();
            let advance = Box::pin(async move { Done::Advanced(providers.advance(50).await) });
            let Done::Advanced(applied) = self.finish(advance)? else { continue };
            self.note("drains", &applied);
            let applied = applied.unwrap_or_else(|error| panic!("{error:?}"));
            let next = applied.next_at.map(|at| at.since(self.common.clock.now()));
            self.move_clock(match next {
                _ if applied.more => Duration::from_millis(200),
                // A longer span is the deletion of finished events, which is due much later.
                Some(span) if span < Duration::from_hours(7) => span.max(Duration::from_secs(1)),
                _ => Duration::from_secs(1),
            });
            let open = self.open_events();
            // Events that wait for a person are retried for ever.
            waited = if open.contains(&EventState::Pending) { 0 } else { waited + 1 };
            if open.is_empty() || waited > WAITED_MAX {
                return Ok(());
            }
        }
        Err(Broken::new("nothing_is_dropped", "events never come to an end"))
    }

    /// The states of the events that are not finished.
    fn open_events(&self) -> BTreeSet<EventState> {
        let events = self.listed_events().into_iter().map(|listed| listed.event);
        events.filter(|event| event.status().is_open()).map(|event| event.state).collect()
    }

    fn listed_events(&self) -> Vec<ListedEvent> {
        let providers = self.workers[0].providers.clone();
        let mut listing = Box::pin(async move { listed(&providers).await });
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(events) = listing.as_mut().poll(&mut context) {
                return events;
            }
        }
    }

    /// Syncs all objects.
    fn sync(&mut self) -> Result<SyncCounts, Broken> {
        for _ in 0..ROUNDS_MAX {
            let task = self.sync_page(1, false);
            let Done::Synced(step) = self.finish(task)? else { continue };
            self.note("syncs", &step);
            let step = step.unwrap_or_else(|error| panic!("{error:?}"));
            if step.report.finished_at.is_some() {
                return Ok(step.report.counts);
            }
            self.move_clock(Duration::from_secs(1));
        }
        Err(Broken::new("no_drift_after_a_sync", "a sync never ends"))
    }

    /// Links customers to users, as an operator does if the events with the user's id were lost. Customers with objects
    /// of several users are not linked: their objects are decided one by one.
    fn bind_customers(&mut self) -> Result<(), Broken> {
        let mut bindings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        {
            let account = shared(&self.common.account);
            let own = account.subscriptions.values().map(History::last);
            let own = own.map(|of| (of.customer.clone(), of.user.clone()));
            let orders = account.orders.values().map(History::last);
            let orders = orders.map(|of| (of.customer.clone(), of.user.clone()));
            let sessions = account.sessions.values().map(History::last);
            let sessions = sessions.map(|of| (of.customer.clone(), of.user.clone()));
            for (customer, user) in own.chain(orders).chain(sessions) {
                bindings.entry(customer).or_default().extend(user);
            }
        }
        for (customer, users) in bindings {
            let mut users = users.into_iter();
            let (Some(user), None) = (users.next(), users.next()) else { continue };
            let providers = self.workers[0].providers.clone();
            let (customer, user) = (customer.parse().unwrap(), user.parse().unwrap());
            let bind = Box::pin(async move {
                Done::Bound(providers.bind_customer(&source(), &customer, user).await)
            });
            let done = self.finish(bind)?;
            let Done::Bound(Ok(())) = &done else { panic!("{done:?}") };
        }
        Ok(())
    }

    /// Decides, as an operator does, to which user each object belongs that is listed as waiting for its user.
    fn decide_conflicts(&mut self) -> Result<(), Broken> {
        for _ in 0..ROUNDS_MAX {
            let waiting = self.listed_events().into_iter().find(|listed| {
                let waits = [Reason::CustomerConflict, Reason::UnknownCustomer];
                listed.event.reason.is_some_and(|reason| waits.contains(&reason))
            });
            let Some(ListedEvent { id, event, .. }) = waiting else { return Ok(()) };
            let object = event.resolved.clone().unwrap();
            let (target, user) = {
                let account = shared(&self.common.account);
                let user = account.user_of(object.kind, object.id.as_str()).unwrap();
                let invoice = account.invoices.get(object.id.as_str());
                let target = invoice.map_or(object.clone(), |invoice| ObjectRef {
                    kind: ObjectKind::Subscription,
                    id: invoice.last().subscription.parse().unwrap(),
                });
                (target, user.parse::<UserId>().unwrap())
            };
            self.note("an operator decides", (&event, user));
            let providers = self.workers[0].providers.clone();
            let service = SubscriptionService::builder(Arc::clone(&self.common.store))
                .clock(self.common.clock.clone())
                .build();
            let decide = Box::pin(async move {
                // Events do not move a record that was created for another user before the event arrived.
                if let Some(made) = event.subscription_id {
                    let changes = SubscriptionChanges { user_id: Some(user), ..Default::default() };
                    service.update_subscription(made, changes).await.unwrap();
                } else {
                    providers.observe_now(&source(), &target, Some(user)).await.unwrap();
                }
                Done::Decided(providers.replay(&id).await.map(drop))
            });
            let done = self.finish(decide)?;
            let Done::Decided(Ok(())) = &done else { panic!("{done:?}") };
            self.move_clock(Duration::from_secs(1));
        }
        Err(Broken::new("nothing_is_dropped", "conflicts never come to an end"))
    }

    async fn end(&mut self) -> Result<End, Broken> {
        // A sync that was in progress ends with its earlier findings.
        self.sync()?;
        let sync = self.sync()?;
        let providers = self.workers[0].providers.clone();
        let events = listed(&providers).await;
        let events: Vec<_> = events.into_iter().map(|listed| listed.event).collect();
        self.met.extend(events.iter().map(|event| {
            let reason = event.reason.map(|reason| format!(":{reason}")).unwrap_or_default();
            format!("{}{reason}", event.state)
        }));
        let service = SubscriptionService::builder(Arc::clone(&self.common.store)).build();
        let subscriptions = all_subscriptions(&service).await;
        let mut payments: Vec<Arc<Payment>> = Vec::new();
        for of in &subscriptions {
            let query = PaymentQuery::of(of.id).with_limit(PageLimit::MAX);
            payments.extend(service.payments(query).await.unwrap().items);
        }
        let taken_in = self.taken_in.iter().cloned().collect();
        Ok(End { subscriptions, payments, taken_in, events, sync })
    }
}

/// An event in delivery. It goes back into the outbox if there is no response.
struct Unanswered {
    account: crate::fake_provider::Shared,
    event: Option<Event>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            shared(&self.account).outbox.push(event);
        }
    }
}
