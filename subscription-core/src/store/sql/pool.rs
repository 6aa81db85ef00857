//! A pool of open connections.
//!
//! A connection that was in use within the last second is given to the next caller without a ping, which would double
//! the cost of a short read. If one connection proves dead, all idle connections are closed with it, so that after a
//! restart of the database only one statement fails, not one for each connection. (That statement may be the commit of
//! many callers.)
//!
//! A caller may be cancelled in the middle of a statement or of a transaction. Its connection is reused only after the
//! statement has ended and the transaction was rolled back. Otherwise a later commit would run inside the transaction
//! that was left open: it would be reported as committed, and lost.
//!
//! A database may allow fewer connections than the pool, or share its limit with other programs. Then it refuses a new
//! connection. Callers wait, in the order in which they came, for a connection that is returned. The first of them
//! tries to open a new one every 100 milliseconds.

use std::fmt;
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::ConnectOptions;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::dialect::SqlConnection;
use super::error::{code, failed};
use super::statement::Statement;
use crate::store::StoreError;
use crate::values::locked;

/// The idle time of a connection after which it is pinged before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// The time-out of a ping: other callers wait while a connection does not respond.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// So many statements together have the time-out of one.
const STATEMENTS_A_TIMEOUT: usize = 100;
/// The pause between a refused connection and the next attempt to open one.
const REFUSED_FOR: Duration = Duration::from_millis(100);

pub(super) struct Pool<C: SqlConnection> {
    options: C::Options,
    idle: Mutex<Vec<Idle<C>>>,
    permits: Arc<Semaphore>,
    /// How long a caller waits for a connection.
    pub(super) patience: Duration,
    /// How long the database may take to run a statement.
    answer_max: Duration,
    /// Incremented when a connection proves dead. Connections of an earlier generation are not reused.
    generation: AtomicU64,
    /// The time of the last attempt to open a connection, if the database refused it because of too many connections;
    /// `None` after a success.
    refused_at: Mutex<Option<Instant>>,
    /// Held by the first waiting caller while the database refuses more connections.
    turn: tokio::sync::Mutex<()>,
    /// Wakes the caller who holds `turn`, when a connection is returned.
    returned: Notify,
}

struct Idle<C> {
    connection: C,
    generation: u64,
    since: Instant,
}

impl<C: SqlConnection> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.permits.available_permits();
        f.debug_struct("Pool").field("free", &free).finish_non_exhaustive()
    }
}

impl<C: SqlConnection + 'static> Pool<C> {
    pub(super) fn new(
        options: C::Options,
        size: usize,
        patience: Duration,
        answer_max: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS))),
            patience,
            answer_max,
            generation: AtomicU64::new(0),
            refused_at: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            returned: Notify::new(),
        })
    }

    /// Lends a connection to `work`, which sends about this number of statements. Returns also how long the work took,
    /// without the wait for a connection.
    ///
    /// This is the only way to a connection, so whatever uses one ends in time: a database may be gone without closing
    /// its connections. If the work fails, the transaction that it may have left open is rolled back.
    pub(super) async fn lend_timed<T>(
        self: &Arc<Self>,
        statements: usize,
        work: impl AsyncFnOnce(&mut C) -> Result<T, sqlx::Error>,
    ) -> Result<(T, Duration), sqlx::Error> {
        let mut lease = self.get().await?;
        let times = u32::try_from(1 + statements / STATEMENTS_A_TIMEOUT).unwrap_or(u32::MAX);
        let began = Instant::now();
        let worked = timeout(self.answer_max.saturating_mul(times), work(&mut lease)).await;
        let silent = |_| sqlx::Error::Io(ErrorKind::TimedOut.into());
        let outcome = lease.finish(worked.map_err(silent).flatten())?;
        Ok((outcome, began.elapsed()))
    }

    /// Lends a connection to `work`, which sends a statement.
    pub(super) async fn lend<T>(
        self: &Arc<Self>,
        work: impl AsyncFnOnce(&mut C) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        Ok(self.lend_timed(1, work).await?.0)
    }

    /// A connection, as soon as one is free.
    async fn get(self: &Arc<Self>) -> Result<Lease<C>, sqlx::Error> {
        let opened = timeout(self.patience, async {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permit.map_err(|_| sqlx::Error::PoolClosed)?;
            Ok::<_, sqlx::Error>((self.open().await?, permit))
        });
        let opened = opened.await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let ((connection, generation), permit) = opened?;
        let pool = Arc::clone(self);
        let connection = Some(connection);
        let permit = Some(permit);
        Ok(Lease { connection, generation, tidy: false, pool, permit })
    }

    /// The rows of a statement. The statement is repeated once if its connection is lost, so that a restart of the
    /// database does not fail a read.
    pub(super) async fn rows(
        self: &Arc<Self>,
        statement: Statement,
    ) -> Result<Vec<C::Row>, StoreError> {
        let rows = self.rows_once(statement.clone()).await;
        let is_lost = rows.as_ref().is_err_and(is_lost::<C>);
        if is_lost { self.rows_once(statement).await } else { rows }.map_err(failed)
    }

    /// The rows of a statement.
    pub(super) async fn rows_once(
        self: &Arc<Self>,
        statement: Statement,
    ) -> Result<Vec<C::Row>, sqlx::Error> {
        self.lend(async |connection| connection.rows(statement).await).await
    }

    /// An idle connection, or a new one.
    async fn open(&self) -> Result<(C, u64), sqlx::Error> {
        if locked(&self.refused_at).is_none() {
            if let Some(idle) = self.idle().await {
                return Ok(idle);
            }
            if let Some(opened) = self.connect().await? {
                return Ok(opened);
            }
        }
        let _turn = self.turn.lock().await;
        loop {
            if let Some(idle) = self.idle().await {
                return Ok(idle);
            }
            let next = locked(&self.refused_at).map(|refused_at| refused_at + REFUSED_FOR);
            match next.filter(|next| *next > Instant::now()) {
                // If a connection was returned before this call, `notified` completes at once.
                Some(next) => drop(timeout_at(next, self.returned.notified()).await),
                None => {
                    if let Some(opened) = self.connect().await? {
                        return Ok(opened);
                    }
                }
            }
        }
    }

    /// An idle connection that is alive.
    async fn idle(&self) -> Option<(C, u64)> {
        while let Some(idle) = self.pop() {
            let generation = self.generation.load(Ordering::Acquire);
            if idle.generation != generation {
                continue;
            }
            let mut connection = idle.connection;
            if idle.since.elapsed() < TRUSTED_FOR
                || matches!(timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(())))
            {
                return Some((connection, generation));
            }
        }
        None
    }

    /// A new connection; `None` if the database refuses it because too many are open.
    async fn connect(&self) -> Result<Option<(C, u64)>, sqlx::Error> {
        let generation = self.generation.load(Ordering::Acquire);
        match self.options.connect().await {
            Ok(connection) => {
                *locked(&self.refused_at) = None;
                Ok(Some((connection, generation)))
            }
            Err(error) if is_one_too_many(&error) => {
                if locked(&self.refused_at).replace(Instant::now()).is_none() {
                    tracing::warn!(%error, "the database refuses more connections: callers wait until one is free");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn push(&self, connection: C, generation: u64) {
        if !self.permits.is_closed() {
            let idle = Idle { connection, generation, since: Instant::now() };
            locked(&self.idle).push(idle);
            self.returned.notify_one();
        }
    }

    fn pop(&self) -> Option<Idle<C>> {
        locked(&self.idle).pop()
    }

    /// Closes idle connections. Later calls of [`get`](Self::get) fail.
    pub(super) async fn close(&self) {
        self.permits.close();
        while let Some(idle) = self.pop() {
            // The connection is closed even if the database cannot be notified of it.
            idle.connection.close().await.ok();
        }
    }
}

/// A connection while a caller uses it.
struct Lease<C: SqlConnection + 'static> {
    connection: Option<C>,
    generation: u64,
    /// True if neither a statement nor a transaction is running.
    tidy: bool,
    pool: Arc<Pool<C>>,
    /// `None` once the lease has ended.
    permit: Option<OwnedSemaphorePermit>,
}

impl<C: SqlConnection + 'static> Lease<C> {
    /// Ends the lease. The connection is closed if `outcome` shows that it is lost; otherwise the pool gets it back.
    fn finish<T>(mut self, outcome: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if outcome.as_ref().is_err_and(is_lost::<C>) {
            self.connection = None;
            let pool = &self.pool.generation;
            // If several connections are lost together, only the first one changes the generation.
            let known = self.generation;
            pool.compare_exchange(known, known + 1, Ordering::AcqRel, Ordering::Relaxed).ok();
        }
        // A statement that failed may have left a transaction open, so the connection is tidy only after a success.
        self.tidy = outcome.is_ok();
        outcome
    }
}

impl<C: SqlConnection + 'static> Drop for Lease<C> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let pool = Arc::clone(&self.pool);
        let generation = self.generation;
        if self.tidy {
            pool.push(connection, generation);
            return;
        }
        // If the async runtime has ended, the connection is closed, which also rolls back.
        let Ok(runtime) = Handle::try_current() else { return };
        let permit = self.permit.take();
        runtime.spawn(async move {
            // The transaction is ended now, not by the next caller: until then it would hold its locks, and others
            // would wait.
            if let Ok(Ok(())) = timeout(pool.patience, connection.end_transaction()).await {
                pool.push(connection, generation);
            }
            drop(permit);
        });
    }
}

#[expect(clippy::expect_used, reason = "it is only taken when the lease ends")]
impl<C: SqlConnection + 'static> Deref for Lease<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("a lease has its connection")
    }
}

#[expect(clippy::expect_used, reason = "it is only taken when the lease ends")]
impl<C: SqlConnection + 'static> DerefMut for Lease<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("a lease has its connection")
    }
}

/// True if the database, the role or the server has reached its maximum number of connections.
fn is_one_too_many(error: &sqlx::Error) -> bool {
    code(error).as_deref() == Some("53300")
}

/// True if the connection is lost. The statement may have been executed or not.
pub(super) fn is_lost<C: SqlConnection>(error: &sqlx::Error) -> bool {
    let broken = matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
    );
    broken || error.as_database_error().is_some_and(C::ends_connection)
}
