//! The lock of the instance that does the background work: an advisory lock of a session.
//!
//! The lock has a connection of its own and ends with it. The records are safe without the lock, because each commit
//! compares their versions: if two processes hold the lock for a moment, some commits are refused and nothing else
//! happens.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::PostgresStore;
use super::clock_skew::ClockSkew;
use crate::values::SystemClock;
use crate::values::clock::Clock as _;

/// How long the database may take to connect, or to respond.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the server end a session whose client is gone or hangs. The time-outs are 6,000 milliseconds. TCP sends probes
/// after 2 idle seconds and every 2 seconds, and gives up after 2 probes. A setting that an older server lacks is left
/// out.
const END_SILENT_SESSIONS: &str = "SELECT set_config(name, CASE WHEN name LIKE '%timeout' THEN '6000' ELSE '2' END, false) \
     FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_user_timeout', \
     'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')";

/// Gives the session a name, by which it is recognized later. Returns no row if the session has a name already: then
/// another instance uses the session too.
const NAME_SESSION: &str = "SELECT set_config('subscription.session', gen_random_uuid()::text, false) \
     WHERE coalesce(current_setting('subscription.session', true), '') = ''";

/// Acquires the lock unless the session holds it already ($1), and reads the clock of the database in microseconds.
/// Returns NULL instead of true or false if the session does not have this name ($2): a pooler that gives each
/// transaction another session would let several instances hold one lock. Returns false on a stand-by, because a
/// stand-by has locks of its own. Instances with the same schema compete for one lock; each schema has its own lock.
const TRY_LOCK: &str = "SELECT CASE \
     WHEN current_setting('subscription.session', true) IS DISTINCT FROM $2 THEN NULL \
     WHEN pg_is_in_recovery() THEN false WHEN $1 THEN true ELSE \
     pg_try_advisory_lock(hashtext('subscription_leader'), hashtext(current_schema())) END, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Tries to acquire the lock although another session holds it, and selects the version of the database.
const TRY_HELD_LOCK: &str = "SELECT pg_try_advisory_lock(hashtext('subscription_leader'), hashtext(current_schema())), \
     version()";

/// A lock that one of the processes that share a database holds: see [`PostgresStore::leader_lock`].
#[derive(Debug)]
pub struct LeaderLock {
    options: PgConnectOptions,
    session: Mutex<Option<Session>>,
    skew: Arc<ClockSkew>,
}

#[derive(Debug)]
struct Session {
    connection: PgConnection,
    name: String,
    holds: bool,
}

impl PostgresStore {
    /// A lock that one of the processes that share the database holds. The holder does the background work.
    pub fn leader_lock(&self) -> LeaderLock {
        LeaderLock {
            options: self.database.options.clone(),
            session: Mutex::default(),
            skew: Arc::clone(&self.database.skew),
        }
    }
}

impl LeaderLock {
    /// Acquires the lock if no other process holds it, and returns true if this process holds it.
    ///
    /// Call it every two seconds, also in processes that do no background work: a holder whose connection is silent for
    /// six seconds loses the lock, and each call compares the clock of this machine with the clock of the database. If
    /// the clocks differ by more than a minute, this process neither holds the lock nor writes to the store until its
    /// clock is right.
    pub async fn holds(&self) -> bool {
        let asked_at = SystemClock.now();
        let mut place = self.session.lock().await;
        // The session is removed from its place during the call: a caller that is cancelled leaves no session in the
        // middle of a statement.
        let session = place.take();
        let asked = timeout(PATIENCE, async {
            let mut session = match session {
                Some(session) => session,
                None => Session::open(&self.options).await?,
            };
            let held = session.holds;
            let now = session.try_lock().await?;
            if session.holds && !held {
                prove(&self.options).await?;
            }
            Ok::<_, sqlx::Error>((session, now))
        });
        match asked.await.unwrap_or_else(|_| Err(sqlx::Error::Io(ErrorKind::TimedOut.into()))) {
            Ok((session, now)) => {
                self.skew.compare(asked_at, now);
                // If the clock is wrong, the session is dropped, and the lock ends with it.
                let session = Some(session).filter(|_| self.skew.check().is_ok());
                let holds = session.as_ref().is_some_and(|session| session.holds);
                *place = session;
                holds
            }
            Err(error) => {
                tracing::debug!(%error, "the connection of the leader lock failed");
                false
            }
        }
    }

    /// The difference between the clock of this machine and the clock of the database when they were last compared.
    pub fn skew(&self) -> Duration {
        self.skew.get()
    }
}

impl Session {
    async fn open(options: &PgConnectOptions) -> Result<Self, sqlx::Error> {
        let mut connection = options.connect().await?;
        sqlx::query(END_SILENT_SESSIONS).fetch_all(&mut connection).await?;
        let name = sqlx::query_as(NAME_SESSION).fetch_optional(&mut connection).await?;
        let (name,) = name.ok_or_else(is_shared)?;
        Ok(Self { connection, name, holds: false })
    }

    /// Tries to take the lock, and returns the time of the database in microseconds.
    async fn try_lock(&mut self) -> Result<i64, sqlx::Error> {
        let statement = sqlx::query_as(TRY_LOCK).bind(self.holds).bind(&self.name);
        let (holds, now): (Option<bool>, _) = statement.fetch_one(&mut self.connection).await?;
        self.holds = holds.ok_or_else(is_shared)?;
        Ok(now)
    }
}

/// Checks that a second session is refused the lock that the first one holds. Some databases that speak PostgreSQL's
/// protocol grant every lock to everybody: then each instance would do the background work.
async fn prove(options: &PgConnectOptions) -> Result<(), sqlx::Error> {
    let mut second = options.connect().await?;
    let (granted, version): (bool, String) =
        sqlx::query_as(TRY_HELD_LOCK).fetch_one(&mut second).await?;
    second.close().await.ok();
    if !granted {
        return Ok(());
    }
    tracing::error!(
        version,
        "the database grants one advisory lock to two sessions: this instance does no background work. \
         Use PostgreSQL, not a compatible database"
    );
    Err(sqlx::Error::Protocol("one advisory lock has two holders".to_owned()))
}

/// Logs that other instances use the same session, or that this session is not the one that was opened.
fn is_shared() -> sqlx::Error {
    tracing::error!(
        "a pooler shares the connection of the leader lock: this instance does no background work. \
         Use pool_mode = session, or connect to PostgreSQL itself"
    );
    sqlx::Error::Protocol("the session is shared".to_owned())
}
