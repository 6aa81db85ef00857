//! Reads for several callers as one statement.
//!
//! ```text
//! SELECT found.*, caller.nth
//! FROM unnest($1::uuid[]) WITH ORDINALITY AS caller (v1, nth),
//!      LATERAL (SELECT … FROM subscriptions WHERE id = caller.v1 OFFSET 0) AS found
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use super::super::shared_reads::{ReadsForMany, Type};
use super::super::value::Value;
use super::row::rows_by_arrays;

/// The callers that one statement reads for.
const CALLERS_MAX: usize = 64;

impl ReadsForMany for PgConnection {
    fn callers(waiting: usize) -> usize {
        waiting.min(CALLERS_MAX)
    }

    /// The text is the same for any number of callers.
    fn text_for(single: &str, types: &[Type], _: usize) -> String {
        let (mut each, mut arrays, mut names) = (single.to_owned(), String::new(), String::new());
        // From the last on, because `$1` is the beginning of `$10`.
        for at in (1..=types.len()).rev() {
            each = each.replace(&format!("${at}"), &format!("caller.v{at}"));
        }
        for (at, kind) in (1..).zip(types) {
            let comma = if at == 1 { "" } else { ", " };
            // Writing to a string does not fail.
            write!(arrays, "{comma}${at}::{}[]", name(*kind)).ok();
            write!(names, "v{at}, ").ok();
        }
        // With OFFSET 0 the planner plans for each caller as for one, and does not join with the whole table.
        format!(
            "SELECT found.*, caller.nth \
             FROM unnest({arrays}) WITH ORDINALITY AS caller ({names}nth), LATERAL ({each} OFFSET 0) AS found"
        )
    }

    async fn rows_for(
        &mut self,
        text: Arc<str>,
        types: &[Type],
        callers: &[Vec<Value>],
    ) -> Result<Vec<Vec<PgRow>>, sqlx::Error> {
        let of_all = |at| callers.iter().filter_map(|values| values.get(at).cloned()).collect();
        let arrays = (0..types.len()).map(of_all).collect();
        by_caller(rows_by_arrays(self, AssertSqlSafe(text), arrays).await?, callers.len())
    }
}

/// The rows of each caller, whose number is in the last column, from 1.
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

const fn name(kind: Type) -> &'static str {
    match kind {
        Type::Id => "uuid",
        Type::Time => "timestamptz",
        Type::Int => "int8",
    }
}
