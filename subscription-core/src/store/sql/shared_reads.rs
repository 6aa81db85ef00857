//! Reads of callers who wait at the same time, as one message to the database.
//!
//! A caller who comes while no statement of the same text is under way sends it at once. Those who come
//! later wait until it ends; the first of them then sends one message for all who wait by then. So nobody
//! gets rows of a statement that was sent before the call, and each sees what was committed before it.
//!
//! The caller who sends a message may be cancelled: those who wait for its rows then ask again, and the
//! next one sends. Nobody waits for others longer than a set time.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::Connection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::dialect::SqlConnection;
use super::error::failed;
use super::page::Statement;
use super::pool::{Pool, is_lost};
use super::value::Value;
use crate::store::StoreError;

/// A connection that reads for several callers by one message.
pub(super) trait ReadsForMany: SqlConnection<Row: 'static> + Connection + 'static {
    /// The number of callers that one message reads for, at most so many.
    fn callers(waiting: usize) -> usize;

    /// The text that reads for so many callers what `single` reads for one.
    fn text_for(single: &str, types: &[Type], callers: usize) -> String;

    /// The rows of each caller, in the order of their values.
    fn rows_for(
        &mut self,
        text: Arc<str>,
        types: &[Type],
        callers: &[&[Value]],
    ) -> impl Future<Output = Result<Vec<Vec<Self::Row>>, sqlx::Error>> + Send;
}

/// Above this number of lanes those that nobody uses are removed.
const LANES_KEPT: usize = 64;

/// Runs reads, several of them by one statement.
#[derive(Debug)]
pub(super) struct SharedReads<C: ReadsForMany> {
    pool: Arc<Pool<C>>,
    /// After this time a caller sends a statement of its own, and later callers do not wait for the one that
    /// is under way: its connection may be dead, or the caller who sent it busy.
    wait_max: Duration,
    lanes: Mutex<Lanes<C::Row>>,
}

/// By the text of the statement for one caller.
type Lanes<R> = HashMap<Cow<'static, str>, Arc<Lane<R>>>;

/// The reads of one text.
#[derive(Debug)]
struct Lane<R> {
    types: Vec<Type>,
    /// The texts for several callers, by the number of callers.
    texts: Mutex<HashMap<usize, Arc<str>>>,
    queue: Mutex<Queue<R>>,
}

#[derive(Debug)]
struct Queue<R> {
    /// True while a caller has the turn.
    is_taken: bool,
    waiting: VecDeque<Waiting<R>>,
}

impl<R> Queue<R> {
    /// The next of those who wait and were not cancelled.
    fn next(&mut self) -> Option<Waiting<R>> {
        while let Some(next) = self.waiting.pop_front() {
            if !next.tell.is_closed() {
                return Some(next);
            }
        }
        None
    }
}

#[derive(Debug)]
struct Waiting<R> {
    values: Vec<Value>,
    tell: oneshot::Sender<Told<R>>,
}

#[derive(Debug)]
enum Told<R> {
    Rows(Result<Vec<R>, Arc<sqlx::Error>>),
    /// The caller is to send the next statement.
    Turn(Turn<R>),
}

enum Entered<R> {
    Turn(Turn<R>),
    Waits(oneshot::Receiver<Told<R>>),
}

impl<C: ReadsForMany> SharedReads<C> {
    pub(super) fn new(pool: Arc<Pool<C>>, wait_max: Duration) -> Self {
        Self { pool, wait_max, lanes: Mutex::default() }
    }

    /// The rows of a statement, which is repeated if its connection is lost: a restart of the database does
    /// not fail a read.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<C::Row>, StoreError> {
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
    pub(super) async fn alone(&self, statement: Statement) -> Result<Vec<C::Row>, StoreError> {
        let (rows, _) = self.fetch(None, &statement).await;
        rows.map(|mut rows| rows.pop().unwrap_or_default()).map_err(failed)
    }

    /// Reads for the caller who has the turn, and for those who wait.
    async fn read(
        &self,
        turn: Turn<C::Row>,
        lane: &Lane<C::Row>,
        statement: &Statement,
    ) -> Result<Vec<C::Row>, StoreError> {
        let (rows, callers) = self.fetch(Some(lane), statement).await;
        // Before the rows are handed out, so that the database works meanwhile.
        drop(turn);
        match rows {
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
        lane: Option<&Lane<C::Row>>,
        statement: &Statement,
    ) -> (Result<Vec<Vec<C::Row>>, sqlx::Error>, Vec<Waiting<C::Row>>) {
        let mut callers = Vec::new();
        let mut repeated = false;
        loop {
            let rows = match self.pool.get().await {
                Ok(mut connection) => {
                    let rows = match lane {
                        Some(lane) if lane.take::<C>(&mut callers) => {
                            let others = callers.iter().map(|caller| caller.values.as_slice());
                            let all: Vec<_> = std::iter::once(statement.values.as_slice())
                                .chain(others)
                                .collect();
                            let text = lane.text::<C>(&statement.text, all.len());
                            connection.rows_for(text, &lane.types, &all).await
                        }
                        _ => connection.rows(statement.clone()).await.map(|rows| vec![rows]),
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

    fn lanes(&self) -> MutexGuard<'_, Lanes<C::Row>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane of a statement, if it can be shared.
    fn lane(&self, statement: &Statement) -> Option<Arc<Lane<C::Row>>> {
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
        let lane = Arc::new(Lane::new(types));
        lanes.insert(statement.text.clone(), Arc::clone(&lane));
        Some(lane)
    }
}

impl<R> Lane<R> {
    fn new(types: Vec<Type>) -> Self {
        let queue = Queue { is_taken: false, waiting: VecDeque::new() };
        Self { types, texts: Mutex::default(), queue: Mutex::new(queue) }
    }

    /// The text for so many callers.
    fn text<C: ReadsForMany<Row = R>>(&self, single: &str, callers: usize) -> Arc<str> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = || C::text_for(single, &self.types, callers).into();
        Arc::clone(texts.entry(callers).or_insert_with(text))
    }

    fn queue(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn, or waits for one or for rows.
    fn enter(self: &Arc<Self>, values: &[Value]) -> Entered<R> {
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
    fn take<C: ReadsForMany<Row = R>>(&self, callers: &mut Vec<Waiting<R>>) -> bool {
        let mut queue = self.queue();
        // A caller who was cancelled is not counted, so a message may have room left.
        let count = C::callers(callers.len() + 1 + queue.waiting.len());
        while callers.len() + 1 < count
            && let Some(next) = queue.next()
        {
            callers.push(next);
        }
        !callers.is_empty()
    }
}

/// The right to send a statement. When this is dropped the next caller who waits has it.
#[derive(Debug)]
struct Turn<R>(Arc<Lane<R>>);

impl<R> Drop for Turn<R> {
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
pub(super) enum Type {
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
}
