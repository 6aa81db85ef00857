//! Reads for several callers by one message to SQLite's thread: the statement once for each caller.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Either};

use super::super::shared_reads::{ReadsForMany, Type};
use super::super::value::Value;
use super::row::bind;

/// The callers that one message reads for.
const CALLERS_MAX: usize = 16;

impl ReadsForMany for SqliteConnection {
    /// A power of two, so that few texts are prepared.
    fn callers(waiting: usize) -> usize {
        waiting.min(CALLERS_MAX).checked_ilog2().map_or(1, |power| 1 << power)
    }

    fn text_for(single: &str, types: &[Type], callers: usize) -> String {
        let texts = (0..callers).map(|caller| renumbered(single, caller * types.len()));
        texts.collect::<Vec<_>>().join("; ")
    }

    async fn rows_for(
        &mut self,
        text: Arc<str>,
        _: &[Type],
        callers: &[Vec<Value>],
    ) -> Result<Vec<Vec<SqliteRow>>, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(text));
        let values = callers.iter().flat_map(|values| values.iter().cloned());
        #[expect(
            deprecated,
            reason = "there is no other way to read the rows of several statements"
        )]
        let mut found = values.fold(query, bind).fetch_many(self);
        let mut all = vec![Vec::new()];
        while let Some(next) = found.try_next().await? {
            match (next, all.last_mut()) {
                (Either::Right(row), Some(rows)) => rows.push(row),
                // The end of a statement.
                _ => all.push(Vec::new()),
            }
        }
        all.truncate(callers.len());
        Ok(all)
    }
}

/// The text with a number added to that of each placeholder. They stay named (`$7`): SQLite counts `?7` as seven
/// placeholders.
fn renumbered(text: &str, added: usize) -> String {
    let mut parts = text.split('$');
    let mut renumbered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at_checked(digits).unwrap_or_default();
        let number = number.parse::<usize>().unwrap_or_default() + added;
        // Writing to a string does not fail.
        write!(renumbered, "${number}{rest}").ok();
    }
    renumbered
}
