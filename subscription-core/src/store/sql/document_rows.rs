//! Documents as rows.

use super::table::{DOCUMENTS, Kept, Table};
use super::value::{Cells, Columns, Value};
use crate::store::{Document, DocumentKey, StoreError};

impl Kept for Document {
    const TABLE: &'static Table = &DOCUMENTS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::text(self.key.collection.as_str()),
            Value::text(&self.key.id),
            Value::version(self.version),
            Value::IdOrNull(self.owner),
            Value::text_or_null(self.label.as_ref()),
            Value::Time(self.due_at),
            Value::text(&self.body),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            key: DocumentKey { collection: cells.parsed()?, id: cells.parsed()? },
            version: cells.version()?,
            owner: cells.id_or_null()?,
            label: cells.parsed_or_null()?,
            due_at: cells.time_or_null()?,
            body: cells.text()?.into(),
        })
    }
}
