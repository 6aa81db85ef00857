//! The export of all records to a file.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::line::{Content, Line, Named};
use super::{
    Counts, FORMAT, Footer, Header, KINDS, Progress, Report, TransferError, VERSION, Writer,
};
use crate::store::StoreError;
use crate::store::sql::SqlConnection;
use crate::store::sql::error::failed;
use crate::store::sql::statement::Statement;
use crate::store::sql::table::{Table, placeholders};
use crate::store::sql::value::{Columns, Value};

/// The number of records that one query reads.
const PAGE: usize = 500;

/// Writes every record that the transaction of `from` sees, and then `late_events`: the events that have no sequence
/// yet in this transaction. `feed` is the last sequence that the feed has assigned.
pub(in crate::store) async fn export<C: SqlConnection>(
    from: &mut C,
    feed: u64,
    late_events: &[C::Row],
    to: Writer<'_>,
    report: Report<'_>,
) -> Result<Counts, TransferError> {
    let mut file = File { to, lines: Vec::new(), hash: Sha256::new(), counts: Counts::default() };
    let of = Some(count(from).await?);
    let mut bytes = 0;
    file.line(&Header { format: FORMAT.to_owned(), version: VERSION, feed })?;
    for (kind, (name, table)) in KINDS.into_iter().enumerate() {
        // The first page of events begins after sequence 0: so events without a sequence are not read here.
        let mut after = if name == "event" { vec![Value::Int(0)] } else { Vec::new() };
        loop {
            let rows = from.rows(page(table, after)).await.map_err(failed)?;
            after = file.rows(kind, &rows)?;
            bytes += file.write().await?;
            report(Progress { kind: table.name, records: file.counts.total(), of, bytes });
            if rows.len() < PAGE {
                break;
            }
        }
    }
    file.rows(KINDS.len() - 1, late_events)?;
    file.line(&Footer::new(file.counts, file.hash.clone()))?;
    file.write().await?;
    file.to.flush().await?;
    Ok(file.counts)
}

/// The number of records that will be written.
async fn count(from: &mut impl SqlConnection) -> Result<u64, TransferError> {
    let mut total = 0;
    for (_, table) in KINDS {
        let text = format!("SELECT count(*) FROM {}", table.name);
        let rows = from.rows(Statement::plain(text)).await.map_err(failed)?;
        let count = rows.first().map_or(Ok(0), |row| row.int(0)).map_err(failed)?;
        total += count.unsigned_abs();
    }
    Ok(total)
}

/// Selects records in the order of their keys, after the key `after` if it has values.
fn page(table: &Table, after: Vec<Value>) -> Statement {
    let select = &table.texts.select;
    let key = table.key_columns().join(", ");
    let begin = match after.len() {
        0 => String::new(),
        values => format!("WHERE ({key}) > ({}) ", placeholders(1, values)),
    };
    Statement::new(format!("{select} {begin}ORDER BY {key} LIMIT {PAGE}"), after)
}

struct File<'a> {
    to: Writer<'a>,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// The hash of all lines so far.
    hash: Sha256,
    counts: Counts,
}

impl File<'_> {
    /// Adds a line for each row, and returns the key of the last one.
    fn rows(&mut self, kind: usize, rows: &[impl Columns]) -> Result<Vec<Value>, TransferError> {
        let mut values = Vec::new();
        let Some((kind_name, table)) = KINDS.get(kind) else { return Ok(values) };
        for row in rows {
            values = Content::read(table, row).map_err(StoreError::Damaged)?.values();
            self.line(&Line { kind: kind_name, record: Named(table.columns(), &values) })?;
            self.counts.add(kind);
        }
        values.truncate(table.key);
        Ok(values)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), TransferError> {
        let start = self.lines.len();
        serde_json::to_writer(&mut self.lines, line).map_err(std::io::Error::from)?;
        self.lines.push(b'\n');
        self.hash.update(self.lines.get(start..).unwrap_or_default());
        Ok(())
    }

    /// Writes the buffered lines, and returns their number of bytes.
    async fn write(&mut self) -> Result<u64, TransferError> {
        self.to.write_all(&self.lines).await?;
        let bytes = self.lines.len() as u64;
        self.lines.clear();
        Ok(bytes)
    }
}
