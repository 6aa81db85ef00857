//! The planted faults between the workers and their store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use subscription_core::Version;
use subscription_core::store::{ChangeSet, Document, Key, Page, Record};

use super::broken::Fault;
use crate::simulation::worker_store::Planted;

/// A planted fault, or `None` in the field `fault` for a run without a fault.
#[derive(Debug)]
pub(super) struct PlantedFault {
    pub(super) fault: Option<Fault>,
    pub(super) seen: Arc<Mutex<HashMap<Key, Record>>>,
    /// The number of commits of all workers so far.
    pub(super) commits: Arc<AtomicUsize>,
}

impl Planted for PlantedFault {
    fn shown(&self, key: &Key, found: Option<Record>) -> Option<Record> {
        let is_endpoint = is_of(key, "webhook_endpoint");
        let is_record = !matches!(key, Key::Document(_));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match self.fault {
            Some(Fault::ShowsOldRecords) if is_record => {
                let found = found?;
                Some(seen.entry(key.clone()).or_insert(found).clone())
            }
            Some(Fault::RemembersEndpoints) if is_endpoint => {
                if let Some(found) = &found {
                    seen.insert(key.clone(), found.clone());
                }
                found.or_else(|| seen.get(key).cloned())
            }
            _ => found,
        }
    }

    fn listed(&self, page: &mut Page<Record>) {
        if self.fault == Some(Fault::HidesParked) {
            page.items.retain(|record| !is_of(&record.key(), "webhook_parked"));
        }
    }

    fn stored(&self, mut changes: ChangeSet) -> ChangeSet {
        match self.fault {
            Some(Fault::DropsParked) => changes.writes.retain(|record| {
                record.version() != Version::FIRST || !is_of(&record.key(), "webhook_parked")
            }),
            Some(Fault::LosesCursors) => {
                for record in &mut changes.writes {
                    if let Record::Document(document) = record
                        && document.key.collection.as_str() == "webhook_delivery"
                    {
                        let mut body: Value = serde_json::from_str(&document.body).unwrap();
                        body["cursor"] = json!(0);
                        let body = body.to_string().into();
                        *record = Record::from(Document { body, ..(**document).clone() });
                    }
                }
            }
            _ => {}
        }
        changes
    }

    fn accepted(&self, _: ChangeSet) {
        self.commits.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_of(key: &Key, collection: &str) -> bool {
    matches!(key, Key::Document(key) if key.collection.as_str() == collection)
}
