//! A cache of the JSON of records, keyed by the address of a record's `Arc`.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use subscription_core::{Payment, Plan, Subscription, Version};

use crate::api::ApiError;

/// The binary logarithm of the number of slots: a cache has at most 4,096 records of one kind.
const SLOTS_LOG2: u32 = 12;

/// Initial capacity for the JSON of a record, in bytes. Nearly all records are shorter.
const RECORD_BYTES: usize = 768;

/// Spare bytes for each record of a page, added to the length of the first record.
const SPARE_BYTES: usize = 32;

/// A cache of the JSON of the records of one kind.
///
/// Entries are found by the address of their record's `Arc`. A slot keeps that `Arc`, so the record cannot change and
/// its address cannot be reused: an entry is never out of date.
pub(crate) struct JsonCache<T> {
    slots: Box<[Mutex<Option<Slot<T>>>]>,
}

struct Slot<T> {
    record: Arc<T>,
    json: Bytes,
}

impl<T: ToJson> JsonCache<T> {
    /// The JSON of a record.
    pub(crate) fn json(&self, record: &Arc<T>) -> Result<Bytes, ApiError> {
        self.with(record, Bytes::clone)
    }

    /// Calls `act` with the JSON of a record.
    fn with<R>(&self, record: &Arc<T>, act: impl FnOnce(&Bytes) -> R) -> Result<R, ApiError> {
        // Nothing else shares this record: it was read for this response only, so its JSON is not cached.
        if Arc::strong_count(record) == 1 {
            return Ok(act(&record.json()?));
        }
        // Each record has two possible slots. With only one slot, two records of a page that share it would always
        // evict each other.
        let nth = slot_of(record);
        let first = self.slots.get(nth);
        let mut free = None;
        for slot in first.into_iter().chain(self.slots.get(nth ^ 1)) {
            match &*slot.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(known) if Arc::ptr_eq(&known.record, record) => return Ok(act(&known.json)),
                // The record of this slot is still used outside of this cache, so its JSON may be needed again. If this
                // is the first slot, the second one is tried.
                Some(known) if Arc::strong_count(&known.record) > 1 => {}
                Some(_) | None => {
                    free = Some(slot);
                    break;
                }
            }
        }
        let json = record.json()?;
        let done = act(&json);
        if let Some(slot) = free.or(first) {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some(Slot { record: Arc::clone(record), json });
        }
        Ok(done)
    }

    /// The JSON of a page of records and of the cursor of the next page.
    pub(crate) fn page(
        &self,
        records: &[Arc<T>],
        next_cursor: Option<String>,
        unreadable: Vec<&str>,
    ) -> Result<Vec<u8>, ApiError> {
        let mut page = b"{\"data\":[".to_vec();
        for (nth, record) in records.iter().enumerate() {
            self.with(record, |json| {
                if nth == 0 {
                    // Records of a kind have similar lengths.
                    page.reserve(records.len() * (json.len() + SPARE_BYTES));
                } else {
                    page.push(b',');
                }
                page.extend_from_slice(json);
            })?;
        }
        let end = PageEnd { has_more: next_cursor.is_some(), next_cursor, unreadable };
        let end = serde_json::to_vec(&end).map_err(ApiError::unforeseen)?;
        page.extend_from_slice(b"],");
        page.extend_from_slice(end.strip_prefix(b"{").unwrap_or_default());
        Ok(page)
    }
}

/// The members of a page after its records.
#[derive(Serialize)]
struct PageEnd<'a> {
    has_more: bool,
    next_cursor: Option<String>,
    /// The ids of the records that are left out, because they cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<&'a str>,
}

/// The slot of a record by Fibonacci hashing: the lowest bits of all addresses are alike, but the upper bits of the
/// product are well distributed.
fn slot_of<T>(record: &Arc<T>) -> usize {
    let spread = (Arc::as_ptr(record).addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(spread >> (u64::BITS - SLOTS_LOG2)).unwrap_or_default()
}

impl<T> Default for JsonCache<T> {
    fn default() -> Self {
        Self { slots: (0..1 << SLOTS_LOG2).map(|_| Mutex::default()).collect() }
    }
}

/// A cache for each kind of record.
#[derive(Default)]
pub(crate) struct JsonCaches {
    plans: JsonCache<Plan>,
    subscriptions: JsonCache<Subscription>,
    payments: JsonCache<Payment>,
}

/// A record whose JSON is cached.
pub(crate) trait ToJson: Serialize + Sized {
    fn version(&self) -> Version;
    fn cache(caches: &JsonCaches) -> &JsonCache<Self>;

    fn json(&self) -> Result<Bytes, ApiError> {
        let mut json = Vec::with_capacity(RECORD_BYTES);
        serde_json::to_writer(&mut json, self).map_err(ApiError::unforeseen)?;
        Ok(json.into())
    }
}

macro_rules! to_json {
    ($($record:ty: $cache:ident,)+) => {$(
        impl ToJson for $record {
            fn version(&self) -> Version {
                self.version
            }

            fn cache(caches: &JsonCaches) -> &JsonCache<Self> {
                &caches.$cache
            }
        }
    )+};
}

to_json! { Plan: plans, Subscription: subscriptions, Payment: payments, }
