//! A statement with its values.

use std::borrow::Cow;

use super::table::{SqlRecord, Table, key_values};
use super::value::Value;
use crate::store::Key;

/// A statement and the values that are bound to it.
///
/// A value that a caller sent is always bound, and never a part of the text.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Statement {
    pub(in crate::store) text: Cow<'static, str>,
    pub(in crate::store) values: Vec<Value>,
    /// True if a connection should not keep the statement prepared, because its text is one of very many: a plan in the
    /// memory of PostgreSQL takes up to a megabyte.
    pub(in crate::store) is_one_of_many: bool,
}

impl Statement {
    pub(in crate::store) fn new(text: impl Into<Cow<'static, str>>, values: Vec<Value>) -> Self {
        Self { text: text.into(), values, is_one_of_many: false }
    }

    /// A statement without values.
    pub(in crate::store) fn plain(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(text, Vec::new())
    }

    /// Selects the record of a key.
    pub(in crate::store) fn one(key: &Key) -> Self {
        Self::new(Table::of(key).texts.select_one.as_str(), key_values(key))
    }

    /// Selects records of a kind. `rest` is the SQL after the name of the table.
    pub(in crate::store) fn select<T: SqlRecord>(rest: &str, values: Vec<Value>) -> Self {
        Self::new(format!("{} {rest}", T::TABLE.texts.select), values)
    }

    /// Adds a value, and returns its placeholder.
    pub(in crate::store) fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
}
