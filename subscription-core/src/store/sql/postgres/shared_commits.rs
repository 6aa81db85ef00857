//! Commits of callers who wait at the same time, as one statement.
//!
//! A set that creates records is committed at once, unless as many groups as may be are under way. Then it waits, and goes
//! with all that wait by then into the next group: one round trip, one lock of the plan that all of them buy, one flush of the
//! database's log.
//!
//! A task of its own commits a group, so that a caller who is cancelled takes nobody else's commit along.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::super::error::unavailable;
use super::Postgres;
use super::commit_each::{Form, Group};
use crate::store::{ChangeSet, StoreError};

/// The groups that may be under way at the same time.
const GROUPS_MAX: usize = 2;
/// The largest number of change sets in a group.
const SETS_MAX: usize = 64;

/// The change sets that wait for the next group.
#[derive(Debug, Default)]
pub(super) struct SharedCommits(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// The number of groups that are under way.
    under_way: usize,
}

#[derive(Debug)]
struct Waiting {
    changes: ChangeSet,
    tell: oneshot::Sender<Result<(), StoreError>>,
}

impl SharedCommits {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a set that creates records, alone or with those of other callers.
    pub(super) async fn commit(database: &Postgres, changes: ChangeSet) -> Result<(), StoreError> {
        let (tell, told) = oneshot::channel();
        let next = {
            let mut queue = database.commits.queue();
            queue.waiting.push(Waiting { changes, tell });
            if queue.under_way < GROUPS_MAX {
                queue.under_way += 1;
                queue.next()
            } else {
                Vec::new()
            }
        };
        if !next.is_empty() {
            let running = Running { database: database.clone(), is_done: false };
            tokio::spawn(running.run(next));
        }
        told.await.map_err(|_| unavailable("the store closed meanwhile"))?
    }
}

impl Queue {
    fn next(&mut self) -> Vec<Waiting> {
        let count = self.waiting.len().min(SETS_MAX);
        self.waiting.drain(..count).collect()
    }
}

/// A task that commits groups until nobody waits.
struct Running {
    database: Postgres,
    /// True once the task is no longer counted as under way.
    is_done: bool,
}

impl Running {
    async fn run(mut self, mut next: Vec<Waiting>) {
        while !next.is_empty() {
            let (sets, callers): (Vec<_>, Vec<_>) =
                next.into_iter().map(|waiting| (waiting.changes, waiting.tell)).unzip();
            let group = Group { form: Some(Form::Creates), sets };
            let outcomes = self.database.commit_group(group).await;
            for (caller, outcome) in callers.into_iter().zip(outcomes) {
                // A caller who was cancelled needs no outcome.
                caller.send(outcome).ok();
            }
            let mut queue = self.database.commits.queue();
            next = queue.next();
            if next.is_empty() {
                queue.under_way -= 1;
                self.is_done = true;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_done {
            // The runtime has ended. Nobody else would commit the sets that wait: their callers are told so.
            let mut queue = self.database.commits.queue();
            queue.under_way -= 1;
            queue.waiting.clear();
        }
    }
}
