//! Reads of callers who wait at the same time, as one message to the database.
//!
//! Statements of the same text are a group ([`super::groups`]): while one is under way, those who come wait, and the next message
//! reads for all of them. So nobody gets rows of a statement that was sent before the call, and each sees what was
//! committed before it. Nobody waits for others longer than a set time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::dialect::SqlConnection;
use super::error::{failed, unavailable};
use super::groups::{Groups, Handler};
use super::page::Statement;
use super::pool::{Pool, is_lost};
use super::value::Value;
use crate::store::StoreError;

/// A connection that reads for several callers by one message.
pub(super) trait ReadsForMany:
    SqlConnection<Row: Debug + 'static> + Debug + 'static
{
    /// The number of callers that one message reads for, if so many wait.
    fn callers(waiting: usize) -> usize;

    /// The text that reads for so many callers what `single` reads for one.
    fn text_for(single: &str, types: &[Type], callers: usize) -> String;

    /// The rows of each caller, in the order of their values.
    fn rows_for(
        &mut self,
        text: Arc<str>,
        types: &[Type],
        callers: &[Vec<Value>],
    ) -> impl Future<Output = Result<Vec<Vec<Self::Row>>, sqlx::Error>> + Send;
}

/// Above this number of texts those that nobody reads are forgotten.
const TEXTS_KEPT: usize = 64;

/// Runs reads, several of them by one message.
#[derive(Debug)]
pub(super) struct SharedReads<C: ReadsForMany> {
    pool: Arc<Pool<C>>,
    /// After this time a caller sends a statement of its own, and later callers do not wait for the one that
    /// is under way: its connection may be dead.
    wait_max: Duration,
    reads: Mutex<Reads<C>>,
}

/// By the text of the statement for one caller.
type Reads<C> = HashMap<Cow<'static, str>, Arc<Groups<ReadsOfText<C>>>>;

/// The reads of one text.
#[derive(Debug)]
struct ReadsOfText<C: ReadsForMany> {
    pool: Arc<Pool<C>>,
    single: Cow<'static, str>,
    types: Vec<Type>,
    /// The texts for several callers, by the number of callers.
    texts: Mutex<HashMap<usize, Arc<str>>>,
}

impl<C: ReadsForMany> SharedReads<C> {
    pub(super) fn new(pool: Arc<Pool<C>>, wait_max: Duration) -> Self {
        Self { pool, wait_max, reads: Mutex::default() }
    }

    /// The rows of a statement, which is repeated if its connection is lost: a restart of the database does
    /// not fail a read.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<C::Row>, StoreError> {
        let Some(reads) = self.of_text(&statement) else { return self.alone(statement).await };
        match timeout(self.wait_max, reads.answer(statement.values.clone())).await {
            Ok(Some(rows)) => rows.map_err(failed),
            Ok(None) => Err(unavailable("the store closed meanwhile")),
            Err(_) => {
                self.reads().retain(|_, kept| !Arc::ptr_eq(kept, &reads));
                self.alone(statement).await
            }
        }
    }

    /// The rows of a statement that nobody shares.
    pub(super) async fn alone(&self, statement: Statement) -> Result<Vec<C::Row>, StoreError> {
        let reads = ReadsOfText::new(Arc::clone(&self.pool), statement.text, Vec::new());
        let rows = reads.rows(&[statement.values]).await.map_err(failed)?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    fn reads(&self) -> MutexGuard<'_, Reads<C>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reads of the same text, if the statement can be shared.
    fn of_text(&self, statement: &Statement) -> Option<Arc<Groups<ReadsOfText<C>>>> {
        let mut all = self.reads();
        if let Some(reads) = all.get(&statement.text) {
            let types = reads.handler.types.iter().copied().map(Some);
            return Type::all(&statement.values).eq(types).then(|| Arc::clone(reads));
        }
        let types = Type::all(&statement.values).collect::<Option<Vec<_>>>()?;
        if all.len() >= TEXTS_KEPT {
            all.retain(|_, reads| Arc::strong_count(reads) > 1);
        }
        let (pool, text) = (Arc::clone(&self.pool), statement.text.clone());
        let reads = Groups::new(ReadsOfText::new(pool, text.clone(), types));
        all.insert(text, Arc::clone(&reads));
        Some(reads)
    }
}

impl<C: ReadsForMany> ReadsOfText<C> {
    fn new(pool: Arc<Pool<C>>, single: Cow<'static, str>, types: Vec<Type>) -> Self {
        Self { pool, single, types, texts: Mutex::default() }
    }

    /// The rows of each caller.
    async fn rows(&self, callers: &[Vec<Value>]) -> Result<Vec<Vec<C::Row>>, sqlx::Error> {
        let rows = self.rows_once(callers).await;
        if rows.as_ref().is_err_and(is_lost) { self.rows_once(callers).await } else { rows }
    }

    async fn rows_once(&self, callers: &[Vec<Value>]) -> Result<Vec<Vec<C::Row>>, sqlx::Error> {
        let mut connection = self.pool.get().await?;
        let rows = if let [values] = callers {
            let statement = Statement::new(self.single.clone(), values.clone());
            self.pool.answered(connection.rows(statement)).await.map(|rows| vec![rows])
        } else {
            let text = self.text(callers.len());
            self.pool.answered(connection.rows_for(text, &self.types, callers)).await
        };
        connection.finish(rows)
    }

    /// The text for so many callers.
    fn text(&self, callers: usize) -> Arc<str> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = || C::text_for(&self.single, &self.types, callers).into();
        Arc::clone(texts.entry(callers).or_insert_with(text))
    }
}

impl<C: ReadsForMany> Handler for ReadsOfText<C> {
    type Request = Vec<Value>;
    type Answer = Result<Vec<C::Row>, Arc<sqlx::Error>>;

    const GROUPS_MAX: usize = 1;

    fn group_size(waiting: usize) -> usize {
        C::callers(waiting)
    }

    async fn handle(&self, callers: Vec<Vec<Value>>) -> Vec<Self::Answer> {
        match self.rows(&callers).await {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => repeat_n(Arc::new(error), callers.len()).map(Err).collect(),
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
