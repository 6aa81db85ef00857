//! Idempotency records in memory: by key, and by the time at which they expire.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::store::idempotency::{IdempotencyKey, IdempotencyRecord};
use crate::values::Timestamp;

#[derive(Debug, Default)]
pub(super) struct IdempotencyTable {
    records: HashMap<IdempotencyKey, Arc<IdempotencyRecord>>,
    by_expiry: BTreeSet<(Timestamp, IdempotencyKey)>,
}

impl IdempotencyTable {
    pub(super) fn get(&self, key: &IdempotencyKey) -> Option<&Arc<IdempotencyRecord>> {
        self.records.get(key)
    }

    pub(super) fn expired(&self, now: Timestamp, limit: usize) -> Vec<Arc<IdempotencyRecord>> {
        let expired = self.by_expiry.iter().take_while(|(expires_at, _)| *expires_at <= now);
        expired.filter_map(|(_, key)| self.records.get(key).cloned()).take(limit).collect()
    }

    pub(super) fn put(&mut self, record: Arc<IdempotencyRecord>) {
        self.delete(&record.key);
        self.by_expiry.insert((record.expires_at, record.key.clone()));
        self.records.insert(record.key.clone(), record);
    }

    pub(super) fn delete(&mut self, key: &IdempotencyKey) {
        if let Some(record) = self.records.remove(key) {
            self.by_expiry.remove(&(record.expires_at, record.key.clone()));
        }
    }
}
