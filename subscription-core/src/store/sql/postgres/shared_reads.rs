//! Reads of callers who wait at the same time, as one statement.
//!
//! Callers whose statements have the same text form a group ([`super::groups`]). While a statement is running, new
//! callers wait, and the next statement reads for all of them. No caller gets rows of a statement that was sent before
//! its call, so each sees everything that was committed before the call. `wait_max` limits how long a caller waits.
//!
//! ```text
//! SELECT found.*, caller.nth
//! FROM unnest($1::uuid[]) WITH ORDINALITY AS caller (v1, nth),
//!      LATERAL (SELECT … FROM subscriptions WHERE id = caller.v1 OFFSET 0) AS found
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter::repeat_n;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};
use tokio::time::timeout;

use super::super::error::{failed, unavailable};
use super::super::pool::{Pool, is_lost};
use super::super::statement::Statement;
use super::super::value::Value;
use super::groups::{Groups, Handler};
use super::row::rows_by_arrays;
use crate::store::StoreError;
use crate::values::locked;

/// When this number of texts is cached, the texts that no caller is using are removed.
const TEXTS_KEPT: usize = 64;

/// Runs reads, several of them by one statement.
#[derive(Debug)]
pub(super) struct SharedReads {
    pool: Arc<Pool<PgConnection>>,
    /// A caller that has waited for this time sends a statement of its own. Later callers do not wait for the
    /// running statement either: its connection may be dead.
    wait_max: Duration,
    reads: Mutex<Reads>,
}

/// The reads that can be shared. The key is the text of the statement that reads for one caller.
type Reads = HashMap<Cow<'static, str>, Arc<Groups<ReadsOfText>>>;

/// The reads whose statements have the same text.
#[derive(Debug)]
struct ReadsOfText {
    pool: Arc<Pool<PgConnection>>,
    single: Cow<'static, str>,
    types: Vec<&'static str>,
    /// The text of the statement that reads for several callers.
    several: Arc<str>,
}

impl SharedReads {
    pub(super) fn new(pool: Arc<Pool<PgConnection>>, wait_max: Duration) -> Self {
        Self { pool, wait_max, reads: Mutex::default() }
    }

    /// The rows of a statement, which may be read together with those of other callers.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        let Some(reads) = self.of_text(&statement) else { return self.pool.rows(statement).await };
        match timeout(self.wait_max, reads.answer(statement.values.clone())).await {
            Ok(Some(rows)) => rows.map_err(failed),
            Ok(None) => Err(unavailable("the database was closed")),
            Err(_) => {
                locked(&self.reads).retain(|_, kept| !Arc::ptr_eq(kept, &reads));
                self.pool.rows(statement).await
            }
        }
    }

    /// The reads that have the same text; `None` if the statement cannot be shared.
    fn of_text(&self, statement: &Statement) -> Option<Arc<Groups<ReadsOfText>>> {
        let mut all = locked(&self.reads);
        if let Some(reads) = all.get(&statement.text) {
            let types = reads.handler.types.iter().copied().map(Some);
            return types_of(&statement.values).eq(types).then(|| Arc::clone(reads));
        }
        if statement.is_one_of_many {
            return None;
        }
        let types = types_of(&statement.values).collect::<Option<Vec<_>>>()?;
        if all.len() >= TEXTS_KEPT {
            all.retain(|_, reads| Arc::strong_count(reads) > 1);
        }
        let single = statement.text.clone();
        let several = text_for_several(&single, &types).into();
        let reads = ReadsOfText { pool: Arc::clone(&self.pool), single, types, several };
        let reads = Groups::new(reads);
        all.insert(statement.text.clone(), Arc::clone(&reads));
        Some(reads)
    }
}

impl ReadsOfText {
    /// The rows of each caller.
    async fn rows(&self, callers: &[Vec<Value>]) -> Result<Vec<Vec<PgRow>>, sqlx::Error> {
        let rows = self.rows_once(callers).await;
        let is_lost = rows.as_ref().is_err_and(is_lost::<PgConnection>);
        if is_lost { self.rows_once(callers).await } else { rows }
    }

    async fn rows_once(&self, callers: &[Vec<Value>]) -> Result<Vec<Vec<PgRow>>, sqlx::Error> {
        if let [values] = callers {
            let statement = Statement::new(self.single.clone(), values.clone());
            return Ok(vec![self.pool.rows_once(statement).await?]);
        }
        let of_all = |at| callers.iter().filter_map(|values| values.get(at).cloned()).collect();
        let arrays = (0..self.types.len()).map(of_all).collect();
        let text = AssertSqlSafe(Arc::clone(&self.several));
        let rows = self.pool.lend(async |to| rows_by_arrays(to, text, arrays).await).await?;
        by_caller(rows, callers.len())
    }
}

impl Handler for ReadsOfText {
    type Request = Vec<Value>;
    type Answer = Result<Vec<PgRow>, Arc<sqlx::Error>>;

    const GROUPS_MAX: usize = 1;

    async fn handle(&self, callers: Vec<Vec<Value>>) -> Vec<Self::Answer> {
        match self.rows(&callers).await {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => repeat_n(Arc::new(error), callers.len()).map(Err).collect(),
        }
    }
}

/// The text of a statement that does the same read for any number of callers as the statement `single` for one caller.
fn text_for_several(single: &str, types: &[&str]) -> String {
    let mut each = single.to_owned();
    let mut arrays = String::new();
    let mut names = String::new();
    // The last placeholder is replaced first, because `$1` is the beginning of `$10`.
    for at in (1..=types.len()).rev() {
        each = each.replace(&format!("${at}"), &format!("caller.v{at}"));
    }
    for (at, kind) in (1..).zip(types) {
        let comma = if at == 1 { "" } else { ", " };
        // Writing to a string does not fail.
        write!(arrays, "{comma}${at}::{kind}[]").ok();
        write!(names, "v{at}, ").ok();
    }
    // OFFSET 0 makes the planner plan the read of each caller like a single read, without a join with the whole table.
    format!(
        "SELECT found.*, caller.nth \
         FROM unnest({arrays}) WITH ORDINALITY AS caller ({names}nth), LATERAL ({each} OFFSET 0) AS found"
    )
}

/// Divides the rows by caller. The last column has the number of the caller, counted from 1.
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

/// The SQL type of each value; `None` if a read with this value is not shared. A read with a text is not shared: a text
/// that PostgreSQL refuses would make the reads of other callers fail.
fn types_of(values: &[Value]) -> impl Iterator<Item = Option<&'static str>> {
    values.iter().map(|value| match value {
        Value::Id(_) => Some("uuid"),
        Value::Time(Some(_)) => Some("timestamptz"),
        Value::Int(_) => Some("int8"),
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
