//! Records and pages as one text of JSON: SQLite's thread hands rows over one by one, and each value in memory of its
//! own, which takes longer than to read them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use uuid::Uuid;

use super::super::page::Statement;
use super::super::table::{Reader, Table};
use super::super::value::{Columns, damaged};
use crate::store::{Source, StoreError};

/// A statement that returns the rows of another one, which selects the columns of a table, as one text. SQLite keeps
/// the order of a subquery in such an aggregate.
pub(super) fn in_one_text(table: &Table, statement: Statement) -> Statement {
    let text = format!("SELECT json_group_array({}) FROM ({})", table.texts.json, statement.text);
    Statement::new(text, statement.values)
}

/// Reads each row of such a text.
pub(super) fn read<T>(text: &str, read: Reader<T>) -> Result<Vec<T>, StoreError> {
    let rows: Vec<Vec<Cell<'_>>> = serde_json::from_str(text).map_err(damaged)?;
    rows.iter().map(|row| read(row)).collect()
}

/// A value of a row.
enum Cell<'t> {
    Null,
    Number(i64),
    Text(Cow<'t, str>),
}

impl<'de> Deserialize<'de> for Cell<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyCell)
    }
}

struct AnyCell;

impl<'de> Visitor<'de> for AnyCell {
    type Value = Cell<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a text, a whole number or null")
    }

    fn visit_unit<E>(self) -> Result<Cell<'de>, E> {
        Ok(Cell::Null)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Cell<'de>, E> {
        Ok(Cell::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Cell<'de>, E> {
        i64::try_from(number).map(Cell::Number).map_err(E::custom)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Owned(text.to_owned())))
    }
}

impl Columns for Vec<Cell<'_>> {
    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
        self.text(at)?.map(|hex| Uuid::try_parse(&hex)).transpose().map_err(unreadable)
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, sqlx::Error> {
        match self.get(at) {
            Some(Cell::Text(text)) => Ok(Some(Cow::Borrowed(text))),
            Some(Cell::Null) => Ok(None),
            _ => Err(unreadable("no text")),
        }
    }

    fn int(&self, at: usize) -> Result<i64, sqlx::Error> {
        self.micros(at)?.ok_or_else(|| unreadable("a number is null"))
    }

    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        match self.get(at) {
            Some(Cell::Number(number)) => Ok(Some(*number)),
            Some(Cell::Null) => Ok(None),
            _ => Err(unreadable("no number")),
        }
    }

    fn bytes(&self, at: usize) -> Result<Cow<'_, [u8]>, sqlx::Error> {
        let text = self.text(at)?.unwrap_or_default();
        let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).unwrap_or_default(), 16);
        text.as_bytes().chunks(2).map(byte).collect::<Result<_, _>>().map_err(unreadable)
    }
}

fn unreadable(source: impl Into<Source>) -> sqlx::Error {
    sqlx::Error::Decode(source.into())
}
