//! Values that are bound to statements and read from rows, in both databases.

use std::borrow::Cow;

use rust_decimal::Decimal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::store::{Cause, PageLimit};
use crate::values::{Amount, Timestamp, Version};

/// A value to be bound to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Value {
    Id(Uuid),
    IdOrNull(Option<Uuid>),
    Text(Option<String>),
    Int(i64),
    Bool(bool),
    Time(Option<Timestamp>),
    Amount(Decimal),
    Bytes(Vec<u8>),
    Json(String),
    /// A price in the form in which lists by price compare it.
    PriceOrder(Decimal),
    /// A time in the form in which lists compare it; `None` is sorted after all times.
    TimeOrder(Option<Timestamp>),
}

impl Value {
    pub(in crate::store) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Some(text.as_ref().to_owned()))
    }

    pub(in crate::store) const fn time(time: Timestamp) -> Self {
        Self::Time(Some(time))
    }

    /// A number that is always far below the largest `i64`, by its type or by the rules of the domain.
    pub(in crate::store) fn count(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(super) fn limit(limit: PageLimit) -> Self {
        Self::count(limit.get() as u64)
    }

    pub(in crate::store) fn version(version: Version) -> Self {
        Self::count(version.get())
    }

    pub(in crate::store) fn json(value: &impl Serialize) -> Self {
        // Serialization does not fail: the values are our own types, and the keys of their maps are texts.
        Self::Json(serde_json::to_string(value).unwrap_or_default())
    }
}

/// A time after every [`Timestamp`], by which subscriptions that never renew or never end are sorted.
pub(in crate::store) const NEVER_MICROS: i64 = Timestamp::MAX.micros() + 1;

/// A row, whose values are read by the index of their columns.
pub(in crate::store) trait Columns: Send + Sync {
    fn id(&self, at: usize) -> Result<Uuid, sqlx::Error> {
        self.id_or_null(at)?.ok_or_else(|| sqlx::Error::Decode("an id is NULL".into()))
    }

    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error>;
    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, sqlx::Error>;
    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error>;
    fn bytes(&self, at: usize) -> Result<Cow<'_, [u8]>, sqlx::Error>;

    // The defaults of the methods below are for a database without these types, which is SQLite. A database that has
    // the types overrides these methods.
    fn int(&self, at: usize) -> Result<i64, sqlx::Error> {
        self.micros(at)?.ok_or_else(|| sqlx::Error::Decode("a number is NULL".into()))
    }

    fn bool(&self, at: usize) -> Result<bool, sqlx::Error> {
        self.int(at).map(|number| number != 0)
    }

    fn decimal(&self, at: usize) -> Result<Decimal, sqlx::Error> {
        let text = self.text(at)?.unwrap_or_default();
        Decimal::from_str_exact(&text).map_err(|error| sqlx::Error::Decode(error.into()))
    }

    fn json(&self, at: usize) -> Result<String, sqlx::Error> {
        Ok(self.text(at)?.unwrap_or_default().into_owned())
    }
}

/// Reads the columns of a row, one after the other. An error becomes the cause of a
/// [`StoreError::Damaged`](crate::store::StoreError::Damaged).
pub(in crate::store) struct Cells<'r> {
    row: &'r dyn Columns,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(in crate::store) const fn new(row: &'r dyn Columns) -> Self {
        Self { row, next: 0 }
    }

    const fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(in crate::store) fn id<T: From<Uuid>>(&mut self) -> Result<T, Cause> {
        Ok(self.row.id(self.step())?.into())
    }

    pub(super) fn id_or_null(&mut self) -> Result<Option<Uuid>, Cause> {
        Ok(self.row.id_or_null(self.step())?)
    }

    pub(in crate::store) fn text(&mut self) -> Result<Cow<'r, str>, Cause> {
        let at = self.step();
        self.row.text(at)?.ok_or_else(|| format!("column {at} is null").into())
    }

    pub(super) fn text_or_null(&mut self) -> Result<Option<Cow<'r, str>>, Cause> {
        Ok(self.row.text(self.step())?)
    }

    pub(in crate::store) fn count(&mut self) -> Result<u64, Cause> {
        Ok(self.row.int(self.step())?.try_into()?)
    }

    /// A whole number, as a type that may be smaller than `u64`.
    pub(in crate::store) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Cause>
    where
        T::Error: Into<Cause>,
    {
        T::try_from(self.count()?).map_err(Into::into)
    }

    pub(in crate::store) fn bool(&mut self) -> Result<bool, Cause> {
        Ok(self.row.bool(self.step())?)
    }

    pub(in crate::store) fn time(&mut self) -> Result<Timestamp, Cause> {
        self.time_or_null()?.ok_or_else(|| "a time is null".into())
    }

    pub(in crate::store) fn time_or_null(&mut self) -> Result<Option<Timestamp>, Cause> {
        Ok(self.row.micros(self.step())?.map(Timestamp::from_micros).transpose()?)
    }

    pub(in crate::store) fn amount(&mut self) -> Result<Amount, Cause> {
        Ok(self.row.decimal(self.step())?.try_into()?)
    }

    pub(in crate::store) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Cause> {
        Ok(self.row.bytes(self.step())?.as_ref().try_into()?)
    }

    pub(in crate::store) fn json<T: DeserializeOwned>(&mut self) -> Result<T, Cause> {
        Ok(serde_json::from_str(&self.row.json(self.step())?)?)
    }
}
