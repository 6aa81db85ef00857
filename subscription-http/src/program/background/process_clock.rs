//! The clock of a process with `--clock manual`. It runs at normal speed with an offset to the machine's clock, and can
//! be turned.
//!
//! The offset is stored as a document, so that a restart continues with the same time. A database with this document is
//! never opened with the machine's clock, because its records would lie in the future of that clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use subscription_core::store::{
    ChangeSet, Collection, Document, DocumentKey, StoreError, StoreExt as _,
};
use subscription_core::{Clock, Error, Store, SystemClock, Timestamp, Version};
use subscription_http::{Advanced, PaymentReports, TurnedClock};
use tokio::time::Instant;

use crate::program::Failure;
use crate::program::settings::{ClockKind, Settings};

/// Maximum time of one advance. An advance that takes longer returns unfinished.
const WORK_MAX: Duration = Duration::from_secs(20);

/// A clock that runs with an offset to the machine's clock, or stands still at a moment.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    position: Mutex<Position>,
    store: Arc<dyn Store>,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    /// The clock is this number of microseconds ahead of the machine's clock.
    Running(i64),
    Held(Timestamp),
}

/// The body of the document that stores the offset.
#[derive(Deserialize)]
struct Offset {
    micros: i64,
}

impl ProcessClock {
    /// Opens the clock that the settings name. Returns `None` if they name the machine's clock, even if the database
    /// cannot be reached yet. Fails if they name the machine's clock but the database was used with a manual clock, and
    /// if they name a manual clock but the database cannot be read. If the database has no offset yet, a server stores
    /// the first offset; other commands do not.
    pub(crate) async fn open(
        settings: &Settings,
        is_server: bool,
        store: &Arc<dyn Store>,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let found = match (document(store).await, settings.clock) {
            // The database cannot be reached yet. A server waits until it can.
            (Err(StoreError::Unavailable(_)), ClockKind::System) => return Ok(None),
            (found, _) => found?,
        };
        let offset = match (&found, settings.clock) {
            (None, ClockKind::System) => return Ok(None),
            (Some(_), ClockKind::System) => {
                return Err(Failure::new(
                    "this database was used with a manual clock: use --clock manual (in development \
                     mode only) or another database",
                ));
            }
            (Some(found), ClockKind::Manual) => serde_json::from_str::<Offset>(&found.body)?.micros,
            (None, ClockKind::Manual) => settings.clock_at.map_or(0, offset_to),
        };
        let position = Mutex::new(Position::Running(offset));
        let clock = Self { position, store: Arc::clone(store) };
        if found.is_none() && is_server {
            clock.keep(offset).await?;
        }
        Ok(Some(Arc::new(clock)))
    }

    /// Stops the clock at a moment until [`ProcessClock::release`]. A restart continues from this moment.
    pub(crate) async fn hold(&self, at: Timestamp) -> Result<(), StoreError> {
        if matches!(*self.position(), Position::Held(since) if since == at) {
            return Ok(());
        }
        self.keep(offset_to(at)).await?;
        *self.position() = Position::Held(at);
        Ok(())
    }

    /// Lets a clock that stands still run again.
    pub(crate) fn release(&self) {
        let mut position = self.position();
        if let Position::Held(at) = *position {
            *position = Position::Running(offset_to(at));
        }
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the offset.
    async fn keep(&self, micros: i64) -> Result<(), StoreError> {
        let version = document(&self.store).await?.map_or(Version::NEW, |found| found.version);
        let document = Document {
            key: key()?,
            version: version.next(),
            owner: None,
            label: None,
            due_at: None,
            body: format!("{{\"micros\":{micros}}}").into(),
        };
        let changes = ChangeSet { writes: vec![document.into()], ..ChangeSet::default() };
        self.store.commit(changes).await
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        match *self.position() {
            Position::Held(at) => at,
            Position::Running(offset) => {
                let micros = SystemClock.now().micros().saturating_add(offset);
                // Only a moment after the year 9999 is out of range: then the clock stands still at its maximum.
                Timestamp::from_micros(micros.max(0)).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// The number of microseconds that a moment is ahead of the machine's clock. It is negative for a moment in the past.
fn offset_to(moment: Timestamp) -> i64 {
    moment.micros() - SystemClock.now().micros()
}

/// The key of the document with the offset.
pub(crate) fn key() -> Result<DocumentKey, StoreError> {
    let id = "offset".parse().map_err(|error| StoreError::Damaged(Box::new(error)))?;
    Ok(DocumentKey { collection: Collection::named("server_clock"), id })
}

/// The document with the offset. `None` if the database has never had a manual clock.
async fn document(store: &Arc<dyn Store>) -> Result<Option<Arc<Document>>, StoreError> {
    store.get_as::<Document>(&key()?).await
}

/// The work that becomes due as time passes. Billing implements this trait.
#[async_trait]
pub(crate) trait DueWork: Send + Sync + fmt::Debug {
    /// The earliest moment after `after` and up to `until` at which work is due. It may lie in the past. `None` if no
    /// work is due then. Without `after`, work of any earlier moment counts.
    async fn next_due(
        &self,
        after: Option<Timestamp>,
        until: Timestamp,
        payments: PaymentReports,
    ) -> Result<Option<Timestamp>, Error>;

    /// Does some of the work that is due now. With `payments` other than [`PaymentReports::Leave`] it also reports the
    /// results of payments that are due.
    async fn work(&self, payments: PaymentReports) -> Result<Worked, Error>;
}

/// The work that was done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Worked {
    /// The number of steps.
    pub(crate) steps: u64,
    /// The number of payments whose results were reported.
    pub(crate) reports: u64,
}

/// How often the work of a moment is tried if none of it is done. A step is not taken while another writer is faster;
/// but work that needs a record that cannot be read is never done, and must not hold up the clock.
const TRIES_MAX: u32 = 3;

/// Turns the clock for `POST /clock/advance`, and does the work that falls due on the way.
#[derive(Debug)]
pub(crate) struct ClockControl {
    clock: Arc<ProcessClock>,
    work: Box<dyn DueWork>,
    /// The lock that a running advance holds: the next advance waits for it, and the background job does no work
    /// meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
    work_max: Duration,
}

impl ClockControl {
    pub(crate) fn new(
        clock: Arc<ProcessClock>,
        work: impl DueWork + 'static,
        turn: Arc<tokio::sync::Mutex<()>>,
    ) -> Self {
        Self { clock, work: Box::new(work), turn, work_max: WORK_MAX }
    }
}

#[async_trait]
impl TurnedClock for ClockControl {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Stops the clock at each moment at which work is due, does all the work that is due then, and ends at `to`. If
    /// this takes longer than `work_max`, it returns early, and `done` is false in the result.
    async fn advance(&self, to: Timestamp, payments: PaymentReports) -> Result<Advanced, Error> {
        let _turn = self.turn.lock().await;
        // The clock is released even if the caller disconnects during the advance.
        let _running = ReleaseWhenDropped(&self.clock);
        let begun = Instant::now();
        let mut steps = 0;
        let mut in_vain = 0;
        let mut after = None;
        loop {
            let due = self.work.next_due(after, to, payments).await?;
            // Work that was due in the past is done at the present time, because the clock is never turned back.
            self.clock.hold(due.unwrap_or(to).max(self.now())).await?;
            if due.is_none() {
                return Ok(Advanced { now: self.now(), steps, done: true });
            }
            let worked = self.work.work(payments).await?;
            steps += worked.steps;
            if worked.steps + worked.reports > 0 {
                (in_vain, after) = (0, None);
            } else if in_vain + 1 < TRIES_MAX {
                in_vain += 1;
            } else {
                (in_vain, after) = (0, due);
            }
            if begun.elapsed() >= self.work_max {
                return Ok(Advanced { now: self.now(), steps, done: false });
            }
        }
    }
}

struct ReleaseWhenDropped<'a>(&'a ProcessClock);

impl Drop for ReleaseWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use subscription_core::MemoryStore;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn manual(first: &str) -> Settings {
        let mut settings = Settings::default();
        settings.clock = ClockKind::Manual;
        settings.clock_at = Some(at(first));
        settings
    }

    fn memory() -> Arc<dyn Store> {
        Arc::new(MemoryStore::default())
    }

    async fn clock(settings: &Settings, store: &Arc<dyn Store>) -> Arc<ProcessClock> {
        ProcessClock::open(settings, true, store).await.unwrap().unwrap()
    }

    /// True if a clock shows a moment, or one that is less than an hour later.
    fn shows(clock: &ProcessClock, moment: Timestamp) -> bool {
        (moment..moment.saturating_add(Duration::from_hours(1))).contains(&clock.now())
    }

    /// Work that is due at the moments in `due`. Each call of `work` does the first of them, and adds its time to
    /// `done`.
    #[derive(Debug)]
    struct Diary {
        clock: Arc<ProcessClock>,
        due: Mutex<Vec<Timestamp>>,
        done: Arc<Mutex<Vec<Timestamp>>>,
        hangs: bool,
        /// The work of this moment is never done.
        never: Option<Timestamp>,
    }

    #[async_trait]
    impl DueWork for Diary {
        async fn next_due(
            &self,
            after: Option<Timestamp>,
            until: Timestamp,
            _: PaymentReports,
        ) -> Result<Option<Timestamp>, Error> {
            let due = self.due.lock().unwrap();
            let later = due.iter().find(|due| after.is_none_or(|after| **due > after));
            Ok(later.copied().filter(|due| *due <= until))
        }

        async fn work(&self, _: PaymentReports) -> Result<Worked, Error> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let mut due = self.due.lock().unwrap();
            assert!(due[0] <= self.clock.now(), "it was not due yet");
            let now = self.clock.now();
            let Some(nth) = due.iter().position(|due| *due <= now && Some(*due) != self.never)
            else {
                return Ok(Worked::default());
            };
            due.remove(nth);
            self.done.lock().unwrap().push(now);
            Ok(Worked { steps: 1, reports: 0 })
        }
    }

    /// A clock control with two steps of work at each moment in `due`, and the list of the times at which steps were
    /// done.
    async fn control(due: &[&str], hangs: bool) -> (ClockControl, Arc<Mutex<Vec<Timestamp>>>) {
        let clock = clock(&manual("2030-01-31T00:00:00Z"), &memory()).await;
        let due: Vec<_> = due.iter().flat_map(|due| [at(due), at(due)]).collect();
        let done = Arc::<Mutex<Vec<Timestamp>>>::default();
        let never = due.iter().copied().find(|due| *due == at(NEVER));
        let due = Mutex::new(due);
        let diary = Diary { clock: Arc::clone(&clock), due, done: Arc::clone(&done), hangs, never };
        (ClockControl::new(clock, diary, Arc::default()), done)
    }

    /// The moment whose work is never done.
    const NEVER: &str = "2030-02-14T00:00:00Z";

    #[tokio::test]
    async fn an_advance_goes_past_a_moment_whose_work_cannot_be_done() {
        let due = ["2030-02-01T00:00:00Z", NEVER, "2030-03-01T00:00:00Z", "2030-03-02T00:00:00Z"];
        let (control, done) = control(&due, false).await;

        let to = at("2030-04-01T00:00:00Z");
        let advanced = control.advance(to, PaymentReports::Leave).await.unwrap();

        assert_eq!(advanced, Advanced { now: to, steps: 6, done: true });
        let [first, _, second, third] = due.map(at);
        assert_eq!(*done.lock().unwrap(), [first, first, second, second, third, third]);
    }

    #[tokio::test]
    async fn the_clock_runs_on_from_where_it_was_held_also_after_a_restart() {
        let store = memory();
        let settings = manual("2030-01-31T00:00:00Z");
        let first = clock(&settings, &store).await;
        assert!(shows(&first, at("2030-01-31T00:00:00Z")));

        first.hold(at("2031-05-01T00:00:00Z")).await.unwrap();
        assert_eq!((first.now(), first.now()), (at("2031-05-01T00:00:00Z"), first.now()));
        first.release();

        assert!(shows(&first, at("2031-05-01T00:00:00Z")));
        let again = clock(&settings, &store).await;
        assert!(shows(&again, at("2031-05-01T00:00:00Z")), "--clock-at is for the first start");
        let by_system = ProcessClock::open(&Settings::default(), true, &store).await;
        assert!(by_system.unwrap_err().to_string().contains("--clock manual"));
    }

    #[tokio::test]
    async fn an_advance_holds_the_clock_at_each_moment_at_which_something_is_due() {
        let due = ["2030-02-01T00:00:00Z", "2030-03-01T00:00:00Z", "2030-05-01T00:00:00Z"];
        let (control, done) = control(&due, false).await;

        let to = at("2030-04-01T00:00:00Z");
        let advanced = control.advance(to, PaymentReports::Leave).await.unwrap();

        assert_eq!(advanced, Advanced { now: to, steps: 4, done: true });
        let [first, second, _] = due.map(at);
        assert_eq!(*done.lock().unwrap(), [first, first, second, second]);
        assert!(shows(&control.clock, to), "it runs on");
    }

    #[tokio::test]
    async fn a_long_advance_returns_unfinished_and_goes_on_when_it_is_called_again() {
        let due = ["2030-02-01T00:00:00Z", "2030-03-01T00:00:00Z"];
        let (mut control, done) = control(&due, false).await;
        control.work_max = Duration::ZERO;
        let to = at("2030-04-01T00:00:00Z");

        for nth in 0..4 {
            let advanced = control.advance(to, PaymentReports::Leave).await.unwrap();
            assert_eq!((advanced.steps, advanced.done), (1, false));
            assert!(shows(&control.clock, at(due.get(nth / 2).unwrap())));
        }
        let last = control.advance(to, PaymentReports::Leave).await.unwrap();

        assert_eq!(last, Advanced { now: to, steps: 0, done: true });
        assert_eq!(done.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn an_advance_whose_caller_goes_away_leaves_a_clock_that_runs() {
        let (control, _) = control(&["2030-02-01T00:00:00Z"], true).await;

        let advance = control.advance(at("2030-04-01T00:00:00Z"), PaymentReports::Leave);
        assert!(advance.now_or_never().is_none());

        assert!(shows(&control.clock, at("2030-02-01T00:00:00Z")));
        assert!(matches!(*control.clock.position(), Position::Running(_)));
    }
}
