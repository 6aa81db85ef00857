//! Reads of callers who wait at the same time, as one statement.
//!
//! ```text
//! SELECT found.*, caller.nth
//! FROM unnest($1::uuid[]) WITH ORDINALITY AS caller (v1, nth),
//!      LATERAL (SELECT … FROM subscriptions WHERE id = caller.v1 OFFSET 0) AS found
//! ```
//!
//! A caller who comes while no statement of the same text is under way sends it at once. Those who come
//! later wait until it ends; the first of them then sends one statement for all who wait by then. So nobody
//! gets rows of a statement that was sent before the call, and each sees what was committed before it.
//!
//! The caller who sends a statement may be cancelled: those who wait for its rows then ask again, and the
//! next one sends. Nobody waits for others longer than a set time.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};
use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

use super::super::dialect::SqlConnection as _;
use super::super::error::failed;
use super::super::page::Statement;
use super::super::pool::{Pool, is_lost};
use super::super::value::Value;
use crate::store::StoreError;

/// The callers that one statement reads for.
const CALLERS_MAX: usize = 64;
/// Above this number of lanes those that nobody uses are removed.
const LANES_KEPT: usize = 64;

/// Runs reads, several of them by one statement.
#[derive(Debug)]
pub(super) struct SharedReads {
    pool: Arc<Pool<PgConnection>>,
    /// After this time a caller sends a statement of its own, and later callers do not wait for the one that
    /// is under way: its connection may be dead, or the caller who sent it busy.
    wait_max: Duration,
    lanes: Mutex<Lanes>,
}

/// By the text of the statement for one caller.
type Lanes = HashMap<Cow<'static, str>, Arc<Lane>>;

/// The reads of one text.
#[derive(Debug)]
struct Lane {
    /// The statement for several callers.
    text: Arc<str>,
    types: Vec<Type>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// True while a caller has the turn.
    is_taken: bool,
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// The next of those who wait and were not cancelled.
    fn next(&mut self) -> Option<Waiting> {
        while let Some(next) = self.waiting.pop_front() {
            if !next.tell.is_closed() {
                return Some(next);
            }
        }
        None
    }
}

#[derive(Debug)]
struct Waiting {
    values: Vec<Value>,
    tell: oneshot::Sender<Told>,
}

#[derive(Debug)]
enum Told {
    Rows(Result<Vec<PgRow>, Arc<sqlx::Error>>),
    /// The caller is to send the next statement.
    Turn(Turn),
}

enum Entered {
    Turn(Turn),
    Waits(oneshot::Receiver<Told>),
}

impl SharedReads {
    pub(super) fn new(pool: Arc<Pool<PgConnection>>, wait_max: Duration) -> Self {
        Self { pool, wait_max, lanes: Mutex::default() }
    }

    /// The rows of a statement, which is repeated if its connection is lost: a restart of the database does
    /// not fail a read.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        let Some(lane) = self.lane(&statement) else { return self.alone(statement).await };
        loop {
            let turn = match lane.enter(&statement.values) {
                Entered::Turn(turn) => turn,
                Entered::Waits(told) => match timeout(self.wait_max, told).await {
                    Ok(Ok(Told::Rows(rows))) => return rows.map_err(failed),
                    Ok(Ok(Told::Turn(turn))) => turn,
                    // The caller who had sent the statement was cancelled.
                    Ok(Err(_)) => continue,
                    Err(_) => {
                        self.lanes().retain(|_, kept| !Arc::ptr_eq(kept, &lane));
                        return self.alone(statement).await;
                    }
                },
            };
            return self.read(turn, &lane, &statement).await;
        }
    }

    /// The rows of a statement that nobody shares.
    pub(super) async fn alone(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.fetch(None, &statement).await.0.map_err(failed)
    }

    /// Reads for the caller who has the turn, and for those who wait.
    async fn read(
        &self,
        turn: Turn,
        lane: &Lane,
        statement: &Statement,
    ) -> Result<Vec<PgRow>, StoreError> {
        let (rows, callers) = self.fetch(Some(lane), statement).await;
        // Before the rows are handed out, so that the database works meanwhile.
        drop(turn);
        if callers.is_empty() {
            return rows.map_err(failed);
        }
        match rows.and_then(|rows| by_caller(rows, callers.len() + 1)) {
            Ok(rows) => {
                let mut rows = rows.into_iter();
                let own = rows.next().unwrap_or_default();
                for (caller, rows) in callers.into_iter().zip(rows) {
                    // A caller who was cancelled needs no rows.
                    caller.tell.send(Told::Rows(Ok(rows))).ok();
                }
                Ok(own)
            }
            Err(error) => {
                let error = Arc::new(error);
                for caller in callers {
                    caller.tell.send(Told::Rows(Err(Arc::clone(&error)))).ok();
                }
                Err(failed(error))
            }
        }
    }

    /// The rows of the statement, and of those who wait in its lane when there is a connection to send it.
    async fn fetch(
        &self,
        lane: Option<&Lane>,
        statement: &Statement,
    ) -> (Result<Vec<PgRow>, sqlx::Error>, Vec<Waiting>) {
        let mut callers = Vec::new();
        let mut repeated = false;
        loop {
            let rows = match self.pool.get().await {
                Ok(mut connection) => {
                    let rows = match lane {
                        Some(lane) if lane.take(&mut callers) => {
                            lane.rows(&mut connection, &statement.values, &callers).await
                        }
                        _ => connection.rows(statement.clone()).await,
                    };
                    connection.finish(rows)
                }
                Err(error) => Err(error),
            };
            if repeated || !rows.as_ref().is_err_and(is_lost) {
                return (rows, callers);
            }
            repeated = true;
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane of a statement, if it can be shared.
    fn lane(&self, statement: &Statement) -> Option<Arc<Lane>> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get(&statement.text) {
            return Type::all(&statement.values)
                .eq(lane.types.iter().copied().map(Some))
                .then(|| Arc::clone(lane));
        }
        let types = Type::all(&statement.values).collect::<Option<Vec<_>>>()?;
        if lanes.len() >= LANES_KEPT {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = Arc::new(Lane::new(&statement.text, types));
        lanes.insert(statement.text.clone(), Arc::clone(&lane));
        Some(lane)
    }
}

impl Lane {
    fn new(text: &str, types: Vec<Type>) -> Self {
        let (mut each, mut arrays, mut names) = (text.to_owned(), String::new(), String::new());
        // From the last on, because `$1` is the beginning of `$10`.
        for at in (1..=types.len()).rev() {
            each = each.replace(&format!("${at}"), &format!("caller.v{at}"));
        }
        for (at, kind) in (1..).zip(&types) {
            let comma = if at == 1 { "" } else { ", " };
            // Writing to a string does not fail.
            write!(arrays, "{comma}${at}::{}[]", kind.name()).ok();
            write!(names, "v{at}, ").ok();
        }
        // With OFFSET 0 the planner plans for each caller as for one, and does not join with the whole table.
        let text = format!(
            "SELECT found.*, caller.nth \
             FROM unnest({arrays}) WITH ORDINALITY AS caller ({names}nth), LATERAL ({each} OFFSET 0) AS found"
        );
        Self { text: text.into(), types, queue: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn, or waits for one or for rows.
    fn enter(self: &Arc<Self>, values: &[Value]) -> Entered {
        let mut queue = self.queue();
        if !queue.is_taken {
            queue.is_taken = true;
            return Entered::Turn(Turn(Arc::clone(self)));
        }
        let (tell, told) = oneshot::channel();
        queue.waiting.push_back(Waiting { values: values.to_vec(), tell });
        Entered::Waits(told)
    }

    /// Adds those who wait to the callers of a statement. False if it has none but the one who sends it.
    fn take(&self, callers: &mut Vec<Waiting>) -> bool {
        let mut queue = self.queue();
        while callers.len() + 1 < CALLERS_MAX
            && let Some(next) = queue.next()
        {
            callers.push(next);
        }
        !callers.is_empty()
    }

    /// Reads for several callers; the last column has the number of the caller, from 1.
    async fn rows(
        &self,
        connection: &mut PgConnection,
        first: &[Value],
        others: &[Waiting],
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&self.text)));
        for (at, kind) in self.types.iter().enumerate() {
            let others = others.iter().map(|other| other.values.as_slice());
            let values = std::iter::once(first).chain(others).filter_map(|values| values.get(at));
            query = match kind {
                Type::Id => query.bind(values.filter_map(id).collect::<Vec<_>>()),
                Type::Time => query.bind(values.filter_map(time).collect::<Vec<_>>()),
                Type::Int => query.bind(values.filter_map(int).collect::<Vec<_>>()),
            };
        }
        query.fetch_all(connection).await
    }
}

/// The rows of each caller, in the order of callers.
fn by_caller(rows: Vec<PgRow>, callers: usize) -> Result<Vec<Vec<PgRow>>, sqlx::Error> {
    let mut by_caller: Vec<_> = (0..callers).map(|_| Vec::new()).collect();
    for row in rows {
        let nth: i64 = row.try_get(row.len().saturating_sub(1))?;
        let at = usize::try_from(nth).ok().and_then(|nth| nth.checked_sub(1));
        if let Some(rows) = at.and_then(|at| by_caller.get_mut(at)) {
            rows.push(row);
        }
    }
    Ok(by_caller)
}

/// The right to send a statement. When this is dropped the next caller who waits has it.
#[derive(Debug)]
struct Turn(Arc<Lane>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        let next = queue.next();
        queue.is_taken = next.is_some();
        drop(queue);
        if let Some(next) = next {
            // A caller who was cancelled just now drops the turn, which then goes to the one after.
            next.tell.send(Told::Turn(Self(Arc::clone(&self.0)))).ok();
        }
    }
}

/// The types of values that are shared. Text is not: a text that PostgreSQL refuses would fail the
/// reads of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Id,
    Time,
    Int,
}

impl Type {
    /// The type of each value; `None` for those that are not shared.
    fn all(values: &[Value]) -> impl Iterator<Item = Option<Self>> {
        values.iter().map(|value| match value {
            Value::Id(_) => Some(Self::Id),
            Value::Time(Some(_)) => Some(Self::Time),
            Value::Int(_) => Some(Self::Int),
            Value::IdOrNull(_)
            | Value::Text(_)
            | Value::Bool(_)
            | Value::Time(None)
            | Value::Amount(_)
            | Value::Bytes(_)
            | Value::Json(_)
            | Value::PriceOrder(_)
            | Value::TimeOrder(_) => None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Id => "uuid",
            Self::Time => "timestamptz",
            Self::Int => "int8",
        }
    }
}

fn id(value: &Value) -> Option<Uuid> {
    if let Value::Id(id) = value { Some(*id) } else { None }
}

fn time(value: &Value) -> Option<DateTime<Utc>> {
    if let Value::Time(time) = value { time.map(Into::into) } else { None }
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(number) = value { Some(*number) } else { None }
}
