//! The lock of the instance that does the background work: an advisory lock of a session.
//!
//! The lock has a connection of its own and ends with it. Nothing is written: safety comes from the versions
//! of records, so two holders for a moment cost refused commits and nothing else.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::PostgresStore;
use super::clock_skew::ClockSkew;
use crate::values::SystemClock;
use crate::values::clock::Clock as _;

/// How long the database may take to connect, or to respond.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lets the server end a session whose client is gone or hangs: timeouts in milliseconds, and the seconds and
/// the number of probes of TCP. A setting that an older server lacks is left out.
const END_SILENT_SESSIONS: &str = "SELECT set_config(name, CASE WHEN name LIKE '%timeout' THEN '6000' ELSE '2' END, false) \
     FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_user_timeout', \
     'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')";

/// Gives the session a name, by which it is known again. No row if it has one: then another instance has the session too.
const NAME_SESSION: &str = "SELECT set_config('subscription.session', gen_random_uuid()::text, false) \
     WHERE coalesce(current_setting('subscription.session', true), '') = ''";

/// Takes the lock unless the session has it ($1), and reads the clock of the database in microseconds. NULL instead of
/// the lock if the session is not the one of this name ($2): a pooler that gives each transaction another session lets
/// several instances hold one lock. Instances over one schema compete for one lock; those of other schemas have their own.
const TRY_LOCK: &str = "SELECT CASE \
     WHEN current_setting('subscription.session', true) IS DISTINCT FROM $2 THEN NULL WHEN $1 THEN true ELSE \
     pg_try_advisory_lock(hashtext('subscription_leader'), hashtext(current_schema())) END, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// A lock that one of all processes over a database holds: see [`PostgresStore::leader_lock`].
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
    /// A lock that one of all processes over the database holds: the one that does the background work.
    pub fn leader_lock(&self) -> LeaderLock {
        LeaderLock {
            options: self.database.options.clone(),
            session: Mutex::default(),
            skew: Arc::clone(&self.database.skew),
        }
    }
}

impl LeaderLock {
    /// Takes the lock if nobody has it, and returns true if this process holds it.
    ///
    /// Call it every two seconds, also in processes that do no background work: a holder whose connection is silent for
    /// six seconds loses the lock, and the clock of the machine is compared with the database's. If they differ by more
    /// than a minute, this process neither holds the lock nor writes to the store until its clock is right.
    pub async fn holds(&self) -> bool {
        let asked_at = SystemClock.now();
        let mut place = self.session.lock().await;
        // Taken out meanwhile: a caller that is cancelled leaves no session in the middle of a statement.
        let session = place.take();
        let asked = timeout(PATIENCE, async {
            let mut session = match session {
                Some(session) => session,
                None => Session::open(&self.options).await?,
            };
            let now = session.try_lock().await?;
            Ok::<_, sqlx::Error>((session, now))
        });
        match asked.await.unwrap_or_else(|_| Err(sqlx::Error::Io(ErrorKind::TimedOut.into()))) {
            Ok((session, now)) => {
                self.skew.compare(asked_at, now);
                // The lock ends with the session.
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

    /// How far the clock of this machine was from the database's when they were last compared.
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

/// Logs that the session is another one than the one that was opened, or is another instance's too.
fn is_shared() -> sqlx::Error {
    tracing::error!(
        "the connection is shared with others: this instance does no background work. \
         Set pool_mode = session in PgBouncer, or connect to PostgreSQL itself"
    );
    sqlx::Error::Protocol("the session is shared".to_owned())
}
