//! Writes an export.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::line::Line;
use super::{
    Content, Counts, FORMAT, Footer, Header, Kind, Progress, Snapshot, TransferError, VERSION,
};
use crate::store::sql::error::failed;
use crate::store::sql::page::Statement;
use crate::store::sql::table::placeholders;
use crate::store::sql::value::{Columns, Value};

/// Records that are read at a time.
const PAGE: usize = 500;

/// Writes every record of a snapshot.
pub(in crate::store) async fn export<S: Snapshot>(
    from: &mut S,
    to: impl AsyncWrite + Unpin + Send,
    progress: impl FnMut(Progress) + Send,
) -> Result<Counts, TransferError> {
    let mut file = File::new(to, progress, count(from).await?);
    let feed = from.feed().await.map_err(failed)?;
    file.line(&Header { format: FORMAT.to_owned(), version: VERSION, feed })?;
    for kind in Kind::ALL {
        file.records(from, kind).await?;
    }
    let late = from.late_events().await.map_err(failed)?;
    file.rows(&late, Kind::Event)?;
    file.finish().await
}

/// How many lines to expect.
async fn count(from: &mut impl Snapshot) -> Result<u64, TransferError> {
    let mut total = 0;
    for kind in Kind::ALL {
        let text = format!("SELECT count(*) FROM {}", kind.plural());
        let rows = from.rows(Statement::new(text, Vec::new())).await.map_err(failed)?;
        let count = rows.first().map_or(Ok(0), |row| row.int(0)).map_err(failed)?;
        total += count.unsigned_abs();
    }
    Ok(total)
}

struct File<W, P> {
    to: W,
    progress: P,
    /// Lines that are not written yet.
    waiting: Vec<u8>,
    hash: Sha256,
    counts: Counts,
    bytes: u64,
    expected: u64,
}

impl<W: AsyncWrite + Unpin + Send, P: FnMut(Progress) + Send> File<W, P> {
    fn new(to: W, progress: P, expected: u64) -> Self {
        let (hash, counts) = (Sha256::new(), Counts::default());
        Self { to, progress, waiting: Vec::new(), hash, counts, bytes: 0, expected }
    }

    async fn records<S: Snapshot>(
        &mut self,
        from: &mut S,
        kind: Kind,
    ) -> Result<(), TransferError> {
        // Events without a sequence are not read here.
        let mut after = if kind == Kind::Event { vec![Value::Int(0)] } else { Vec::new() };
        loop {
            let rows = from.rows(page(kind, after)).await.map_err(failed)?;
            after = self.rows(&rows, kind)?;
            self.write().await?;
            let (records, bytes) = (self.counts.total(), self.bytes);
            (self.progress)(Progress { kind, records, of: Some(self.expected), bytes });
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Adds a line for each row. Returns the key of the last.
    fn rows(&mut self, rows: &[impl Columns], kind: Kind) -> Result<Vec<Value>, TransferError> {
        let mut values = Vec::new();
        for row in rows {
            values = Content::read(kind, row)?.values();
            self.line(&Line::new(kind, &values))?;
            *self.counts.of_mut(kind) += 1;
        }
        values.truncate(kind.table().key);
        Ok(values)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), TransferError> {
        let start = self.waiting.len();
        serde_json::to_writer(&mut self.waiting, line).map_err(std::io::Error::from)?;
        self.waiting.push(b'\n');
        self.hash.update(self.waiting.get(start..).unwrap_or_default());
        Ok(())
    }

    async fn write(&mut self) -> Result<(), TransferError> {
        self.to.write_all(&self.waiting).await?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    async fn finish(mut self) -> Result<Counts, TransferError> {
        let footer = Footer::new(self.counts, self.hash.clone());
        self.line(&footer)?;
        self.write().await?;
        self.to.flush().await?;
        Ok(self.counts)
    }
}

impl Footer {
    pub(super) fn new(counts: Counts, hash: Sha256) -> Self {
        let halves = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let sha256 = halves.filter_map(|half| char::from_digit(half.into(), 16)).collect();
        Self { counts, sha256 }
    }
}

/// Selects records by their keys, from after this one on.
fn page(kind: Kind, after: Vec<Value>) -> Statement {
    let table = kind.table();
    let (select, key) = (&table.texts.select, table.key_columns().join(", "));
    let begin = match after.len() {
        0 => String::new(),
        values => format!("WHERE ({key}) > ({}) ", placeholders(1, values)),
    };
    Statement::new(format!("{select} {begin}ORDER BY {key} LIMIT {PAGE}"), after)
}
