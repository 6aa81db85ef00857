//! Statements that return all their rows as one text. For ordinary rows, the thread in which sqlx runs SQLite sends
//! each row by itself and allocates memory for each value, which takes longer than to read the values. JSON would work
//! too, but SQLite takes longer to write it, and serde takes longer to read it.

use std::borrow::Cow;

use uuid::Uuid;

use super::super::statement::Statement;
use super::super::table::Table;
use super::super::value::Columns;
use crate::store::Cause;

/// Changes a statement that selects the columns of a table into a statement that returns all its rows as one text.
/// `group_concat` joins the rows in the order of the subquery.
pub(super) fn in_one_text(table: &Table, statement: Statement) -> Statement {
    let name = table.name;
    let row = &table.texts.row_text;
    // The text is built inside the given statement if possible: then no values need to be copied to an outer statement.
    let text = match statement.text.strip_prefix(&table.texts.select) {
        Some(rest) => {
            format!("SELECT group_concat(row, '') FROM (SELECT {row} AS row FROM {name}{rest})")
        }
        None => format!("SELECT group_concat({row}, '') FROM ({})", statement.text),
    };
    Statement::new(text, statement.values)
}

/// Calls `read` with each row of a text that a statement from [`in_one_text`] returned, until it fails.
pub(super) fn each_row(
    mut text: &str,
    mut read: impl FnMut(&dyn Columns) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let mut row = Vec::new();
    while !text.is_empty() {
        let (value, is_last) =
            next(&mut text).ok_or("the text of the rows is cut short or damaged")?;
        row.push(value);
        if is_last {
            read(&row)?;
            row.clear();
        }
    }
    Ok(())
}

/// Removes the next value from the text and returns it, or `None` for NULL, and true if it is the last value of its
/// row.
fn next<'t>(text: &mut &'t str) -> Option<(Option<&'t str>, bool)> {
    let end = text.bytes().position(|byte| matches!(byte, b',' | b':' | b';'))?;
    let (mut value, mut rest) = text.split_at_checked(end)?;
    let is_set = !value.is_empty();
    if let Some(after) = rest.strip_prefix(':') {
        let length = if is_set { value.parse().ok()? } else { 0 };
        (value, rest) = after.split_at_checked(length)?;
    }
    let is_last = rest.starts_with(';');
    *text = rest.strip_prefix([',', ';'])?;
    Some((is_set.then_some(value), is_last))
}

impl Columns for Vec<Option<&str>> {
    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
        self.text(at)?.map(|hex| Uuid::try_parse(&hex)).transpose().map_err(unreadable)
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, sqlx::Error> {
        let value = self.get(at).ok_or_else(|| unreadable("a value is missing"))?;
        Ok(value.map(Cow::Borrowed))
    }

    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        self.text(at)?.map(|number| number.parse()).transpose().map_err(unreadable)
    }

    fn bytes(&self, at: usize) -> Result<Cow<'_, [u8]>, sqlx::Error> {
        let text = self.text(at)?.unwrap_or_default();
        let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).unwrap_or_default(), 16);
        text.as_bytes().chunks(2).map(byte).collect::<Result<_, _>>().map_err(unreadable)
    }
}

fn unreadable(source: impl Into<Cause>) -> sqlx::Error {
    sqlx::Error::Decode(source.into())
}
