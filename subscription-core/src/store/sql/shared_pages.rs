//! Pages that several callers ask for at the same time, such as the first page of a list.
//!
//! A caller who comes while the same page is being read waits, and the first of those who wait reads it for all of them.
//! So nobody gets a page that was read before the call. They get the same records, whose JSON is then made once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::page::Statement;
use super::value::Value;
use crate::store::{Page, Record, StoreError};

/// The longest time that a caller waits for others.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The pages that are being read.
#[derive(Debug, Default)]
pub(super) struct SharedPages {
    /// Counts calls and readings, to tell which came first.
    clock: AtomicU64,
    under_way: Mutex<HashMap<Asked, Arc<Readings>>>,
}

/// The text of a statement and its values.
type Asked = (Cow<'static, str>, Vec<Value>);

/// The last reading of a page, locked while the next one is under way.
type Readings = tokio::sync::Mutex<Option<Reading>>;

#[derive(Debug)]
struct Reading {
    begun: u64,
    outcome: Result<Page<Record>, Arc<StoreError>>,
}

impl SharedPages {
    /// Reads a page, or waits for another caller's reading that begins after this call.
    pub(super) async fn read<F>(
        &self,
        statement: &Statement,
        read: impl FnOnce() -> F + Send,
    ) -> Result<Page<Record>, StoreError>
    where
        F: Future<Output = Result<Page<Record>, StoreError>> + Send,
    {
        let came = self.clock.fetch_add(1, Ordering::SeqCst);
        let asked = (statement.text.clone(), statement.values.clone());
        let caller = Caller { pages: self, asked };
        // Given up before the caller leaves.
        let readings = Arc::clone(self.under_way().entry(caller.asked.clone()).or_default());
        let last = timeout(WAIT_MAX, readings.lock()).await;
        let Ok(mut last) = last else { return read().await };
        if let Some(Reading { begun, outcome }) = &*last
            && *begun > came
        {
            return outcome.clone().map_err(shared);
        }
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let outcome = read().await.map_err(Arc::new);
        *last = Some(Reading { begun, outcome: outcome.clone() });
        outcome.map_err(shared)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Asked, Arc<Readings>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a reading, for each of its callers.
fn shared(error: Arc<StoreError>) -> StoreError {
    if matches!(*error, StoreError::Damaged(_)) {
        StoreError::Damaged(error.into())
    } else {
        StoreError::Unavailable(error.into())
    }
}

/// A caller who waits or reads. The page is forgotten when the last of them leaves, also one who is cancelled.
struct Caller<'p> {
    pages: &'p SharedPages,
    asked: Asked,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut under_way = self.pages.under_way();
        // The map alone has it.
        if under_way.get(&self.asked).is_some_and(|readings| Arc::strong_count(readings) == 1) {
            under_way.remove(&self.asked);
        }
    }
}
