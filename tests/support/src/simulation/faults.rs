//! A store that sometimes fails, as networks and databases do.
//!
//! It wraps another store. The faults are either planned in advance for each commit, so that the model knows what to
//! expect, or drawn at random, for actors that run at the same time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{Store, SubscriptionService};

use super::operation::{Operation, Outcome};
use crate::rng::Rng;

/// How often the service retries after a conflict before it fails.
pub const ATTEMPTS_MAX: usize = 64;

/// A fault that is injected into a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The commit is refused with a conflict, although no other writer was faster.
    Conflict,
    /// The commit is refused, and nothing is written.
    Refusal,
    /// The commit takes effect, but its result is lost.
    LostAnswer,
    /// Another writer commits this operation first.
    Rival(Box<Operation>),
    /// Other writers commit these operations after the store has returned its result, but before the service uses it.
    Overtaken(Vec<Operation>),
}

/// The combined effect of the faults of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// The caller must not notice anything.
    None,
    /// The service must report that the store is unavailable.
    Unavailable,
    /// The service must report that it is overloaded.
    Busy,
}

/// A store that calls another store, unless a fault is injected.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    /// The service of rival writers. It uses the inner store without faults.
    rivals: SubscriptionService,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    commits: VecDeque<Fault>,
    /// How many reads succeed before one fails. `None` if no read fails.
    reads: Option<u32>,
    random: Option<Rng>,
    conflicts: usize,
    unavailable: bool,
    rivals: Vec<(Operation, Outcome)>,
}

/// The faults that were injected during an operation.
#[derive(Debug)]
pub struct Report {
    pub disturbance: Disturbance,
    /// Operations that rivals performed before the operation's own commit, in order.
    pub rivals: Vec<(Operation, Outcome)>,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn Store>, rivals: SubscriptionService) -> Self {
        Self { inner, rivals, script: Mutex::default() }
    }

    /// Draws faults at random from now on, and yields to other tasks between calls.
    pub fn draw_from(&self, rng: Rng) {
        self.script().random = Some(rng);
    }

    /// Plans the faults of the next commits, and the number of reads after which one fails.
    pub fn plan(&self, commits: Vec<Fault>, reads: Option<u32>) {
        *self.script() = Script { commits: commits.into(), reads, ..Script::default() };
    }

    /// The faults that were injected since they were planned.
    pub fn report(&self) -> Report {
        let script = std::mem::take(&mut *self.script());
        let disturbance = if script.unavailable {
            Disturbance::Unavailable
        } else if script.conflicts >= ATTEMPTS_MAX {
            Disturbance::Busy
        } else {
            Disturbance::None
        };
        Report { disturbance, rivals: script.rivals }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_fault(&self, changes: &ChangeSet) -> Option<Fault> {
        let mut script = self.script();
        let drawn = script.random.as_mut().and_then(|rng| match rng.below(100) {
            0..8 => Some(Fault::Conflict),
            8..11 => Some(Fault::Refusal),
            11..15 => Some(Fault::LostAnswer),
            _ => None,
        });
        // Only a change set that names a record can have a conflict.
        let fault = drawn.or_else(|| script.commits.pop_front());
        let fault = fault.filter(|fault| *fault != Fault::Conflict || named(changes).is_some())?;
        match fault {
            Fault::Conflict => script.conflicts += 1,
            Fault::Refusal | Fault::LostAnswer => script.unavailable = true,
            Fault::Rival(_) | Fault::Overtaken(_) => {}
        }
        Some(fault)
    }

    /// Runs before every read: yields to other tasks, and sometimes fails.
    async fn before_read(&self) -> Result<(), StoreError> {
        self.let_others_run().await;
        let mut script = self.script();
        let drawn = script.random.as_mut().is_some_and(|rng| rng.percent(1));
        let planned = script.reads == Some(0);
        script.reads = script.reads.and_then(|left| left.checked_sub(1));
        if drawn || planned {
            script.unavailable = true;
            return Err(unavailable());
        }
        Ok(())
    }

    async fn let_others_run(&self) {
        let turns = self.script().random.as_mut().map_or(0, |rng| rng.below(3));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable(Box::new(io::Error::from(io::ErrorKind::ConnectionReset)))
}

/// The key of one record that a change set writes or deletes. `None` if it writes and deletes none.
fn named(changes: &ChangeSet) -> Option<Key> {
    let deleted = changes.deletes.iter().map(|delete| delete.key.clone());
    changes.writes.iter().map(Record::key).chain(deleted).last()
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.before_read().await?;
        self.inner.get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.before_read().await?;
        self.inner.find(value).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.before_read().await?;
        self.inner.list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.before_read().await?;
        self.inner.events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.let_others_run().await;
        match self.next_fault(&changes) {
            Some(Fault::Conflict) => match named(&changes) {
                Some(key) => Err(StoreError::Conflict(key)),
                None => self.inner.commit(changes).await,
            },
            Some(Fault::Refusal) => Err(unavailable()),
            Some(Fault::LostAnswer) => {
                self.inner.commit(changes).await.ok();
                Err(unavailable())
            }
            Some(Fault::Rival(operation)) => {
                let outcome = operation.perform(&self.rivals).await;
                self.script().rivals.push((*operation, outcome));
                self.inner.commit(changes).await
            }
            Some(Fault::Overtaken(operations)) => {
                let answer = self.inner.commit(changes).await;
                for operation in operations {
                    let outcome = operation.perform(&self.rivals).await;
                    self.script().rivals.push((operation, outcome));
                }
                answer
            }
            None => self.inner.commit(changes).await,
        }
    }

    /// Draws a fault for each set. Rivals come before all sets, or after them.
    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        self.let_others_run().await;
        let (mut outcomes, mut passed, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for changes in sets {
            // The error that the caller receives in place of the store's result, and whether the set takes effect.
            let (answer, takes_effect) = match self.next_fault(&changes) {
                Some(Fault::Conflict) => (named(&changes).map(StoreError::Conflict), false),
                Some(Fault::Refusal) => (Some(unavailable()), false),
                Some(Fault::LostAnswer) => (Some(unavailable()), true),
                Some(Fault::Rival(operation)) => {
                    let outcome = operation.perform(&self.rivals).await;
                    self.script().rivals.push((*operation, outcome));
                    (None, true)
                }
                Some(Fault::Overtaken(operations)) => {
                    late.extend(operations);
                    (None, true)
                }
                None => (None, true),
            };
            if takes_effect {
                passed.push(changes);
            }
            outcomes.push((answer, takes_effect));
        }
        let mut committed = self.inner.commit_each(passed).await.into_iter();
        for operation in late {
            let outcome = operation.perform(&self.rivals).await;
            self.script().rivals.push((operation, outcome));
        }
        let outcomes = outcomes.into_iter().map(|(answer, takes_effect)| {
            let committed = if takes_effect { committed.next() } else { None };
            answer.map_or_else(|| committed.unwrap_or(Ok(())), Err)
        });
        outcomes.collect()
    }
}
