//! Records as they go over the wire, written once for as long as they stay as they are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use subscription_core::auth::{Session, User};
use subscription_core::{Payment, Plan, Subscription, Version};

use crate::api::error::ApiError;
use crate::handlers::authentication::{SessionBody, UserBody};

/// How many records of a kind are remembered, at the most: two to the power of this.
const SLOTS_LOG2: u32 = 12;

/// Room for a record, so that its JSON is not moved as it grows; nearly all are shorter.
const RECORD_BYTES: usize = 768;

/// Room for each record of a page beyond the length of the first.
const SPARE_BYTES: usize = 32;

/// The JSON of records.
///
/// A record is known again by its place in memory. As long as it is held here nobody can change it or
/// put another there, so what is remembered of it is never out of date.
pub(crate) struct Rendered<T> {
    slots: Box<[Mutex<Option<Slot<T>>>]>,
}

struct Slot<T> {
    record: Arc<T>,
    json: Bytes,
}

impl<T: Shown> Rendered<T> {
    /// The JSON of a record.
    pub(crate) fn json(&self, record: &Arc<T>) -> Result<Bytes, ApiError> {
        self.with(record, Bytes::clone)
    }

    /// Does something with the JSON of a record.
    fn with<R>(&self, record: &Arc<T>, act: impl FnOnce(&Bytes) -> R) -> Result<R, ApiError> {
        // Nobody else has it: it was read for this answer, and will not come again.
        if Arc::strong_count(record) == 1 {
            return Ok(act(&record.written()?));
        }
        // Two that belong to the same slot have another beside it, or each would push out the other for
        // ever on a page that both are on.
        let place = place(record);
        let slots = [place, place ^ 1].map(|place| self.slots.get(place));
        for slot in slots.into_iter().flatten() {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            match &*slot {
                Some(known) if Arc::ptr_eq(&known.record, record) => return Ok(act(&known.json)),
                // Still in use elsewhere.
                Some(known) if Arc::strong_count(&known.record) > 1 => {}
                Some(_) | None => {
                    let json = record.written()?;
                    let done = act(&json);
                    *slot = Some(Slot { record: Arc::clone(record), json });
                    return Ok(done);
                }
            }
        }
        let json = record.written()?;
        let done = act(&json);
        if let [Some(slot), _] = slots {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some(Slot { record: Arc::clone(record), json });
        }
        Ok(done)
    }

    /// The JSON of a page of records, with where the next one begins.
    pub(crate) fn page(
        &self,
        records: &[Arc<T>],
        next_cursor: Option<String>,
    ) -> Result<Vec<u8>, ApiError> {
        let mut page = b"{\"data\":[".to_vec();
        for (nth, record) in records.iter().enumerate() {
            self.with(record, |json| {
                if nth == 0 {
                    // Records of a kind are about as long as each other.
                    page.reserve(records.len() * (json.len() + SPARE_BYTES));
                } else {
                    page.push(b',');
                }
                page.extend_from_slice(json);
            })?;
        }
        let end = PageEnd { has_more: next_cursor.is_some(), next_cursor };
        let end = serde_json::to_vec(&end).map_err(ApiError::unforeseen)?;
        page.extend_from_slice(b"],");
        page.extend_from_slice(end.strip_prefix(b"{").unwrap_or_default());
        Ok(page)
    }
}

/// What a page says after its records.
#[derive(Serialize)]
struct PageEnd {
    has_more: bool,
    next_cursor: Option<String>,
}

/// Spreads addresses, whose lowest bits are all alike, over the slots (Fibonacci hashing: the upper bits
/// are the ones that are spread).
fn place<T>(record: &Arc<T>) -> usize {
    let spread = (Arc::as_ptr(record).addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(spread >> (u64::BITS - SLOTS_LOG2)).unwrap_or_default()
}

impl<T> Default for Rendered<T> {
    fn default() -> Self {
        Self { slots: (0..1 << SLOTS_LOG2).map(|_| Mutex::default()).collect() }
    }
}

impl<T> fmt::Debug for Rendered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rendered")
    }
}

/// What has been written of each kind of record.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    plans: Rendered<Plan>,
    subscriptions: Rendered<Subscription>,
    payments: Rendered<Payment>,
    users: Rendered<User>,
    sessions: Rendered<Session>,
}

/// A record that callers are shown.
pub(crate) trait Shown: Sized {
    /// What callers are shown of it.
    type Body<'a>: Serialize + From<&'a Self>
    where
        Self: 'a;

    fn version(&self) -> Version;
    fn shelf(shelves: &Shelves) -> &Rendered<Self>;

    fn written(&self) -> Result<Bytes, ApiError> {
        let body = Self::Body::from(self);
        let mut json = Vec::with_capacity(RECORD_BYTES);
        serde_json::to_writer(&mut json, &body).map_err(ApiError::unforeseen)?;
        Ok(json.into())
    }
}

impl Shown for Plan {
    type Body<'a> = &'a Self;

    fn version(&self) -> Version {
        self.version
    }

    fn shelf(shelves: &Shelves) -> &Rendered<Self> {
        &shelves.plans
    }
}

impl Shown for Subscription {
    type Body<'a> = &'a Self;

    fn version(&self) -> Version {
        self.version
    }

    fn shelf(shelves: &Shelves) -> &Rendered<Self> {
        &shelves.subscriptions
    }
}

impl Shown for Payment {
    type Body<'a> = &'a Self;

    fn version(&self) -> Version {
        self.version
    }

    fn shelf(shelves: &Shelves) -> &Rendered<Self> {
        &shelves.payments
    }
}

impl Shown for User {
    type Body<'a> = UserBody<'a>;

    fn version(&self) -> Version {
        self.version
    }

    fn shelf(shelves: &Shelves) -> &Rendered<Self> {
        &shelves.users
    }
}

impl Shown for Session {
    type Body<'a> = SessionBody<'a>;

    fn version(&self) -> Version {
        self.version
    }

    fn shelf(shelves: &Shelves) -> &Rendered<Self> {
        &shelves.sessions
    }
}
