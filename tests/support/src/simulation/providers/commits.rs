//! The commits of the workers, and the planted fault between the workers and their store.

use std::sync::{Arc, Mutex, PoisonError};

use subscription_core::store::ChangeSet;

use super::broken::Fault;
use crate::simulation::worker_store::Planted;

/// The commits of all workers, in the order in which they were accepted.
pub(super) type Commits = Arc<Mutex<Vec<ChangeSet>>>;

/// A planted fault, or `None` in the field `fault` for a run without a fault.
#[derive(Debug)]
pub(super) struct PlantedFault {
    pub(super) fault: Option<Fault>,
    pub(super) commits: Commits,
}

impl Planted for PlantedFault {
    fn stored(&self, changes: ChangeSet) -> ChangeSet {
        match self.fault {
            Some(fault) => fault.applied(changes),
            None => changes,
        }
    }

    fn accepted(&self, changes: ChangeSet) {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(changes);
    }
}
