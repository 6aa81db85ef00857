//! Reads an export into an empty store.

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use super::check::{Check, Users};
use super::line::ReadLine;
use super::{
    Content, Counts, FORMAT, FileFaults, Footer, Header, Kind, Progress, TransferError, VERSION,
};
use crate::store::sql::SqlConnection;
use crate::store::sql::error::failed;
use crate::store::sql::page::Statement;
use crate::store::sql::table::{Table, placeholders};
use crate::store::sql::value::Value;
use crate::store::{Record, Source};

/// Far beyond the longest record. A longer line is not read to its end.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Values that are written at a time.
const VALUES_MAX: usize = 2_000;

/// The outcome of an import.
pub(in crate::store) struct Imported {
    pub(in crate::store) counts: Counts,
    /// The sequence that the feed has reached.
    pub(in crate::store) feed: i64,
}

/// Reads a file to its end and writes what it holds. If it is refused, a part may be written.
///
/// After the first fault nothing more is written, but the rest is read, to report all faults at once.
pub(in crate::store) async fn import<L: SqlConnection>(
    to: &mut L,
    from: impl AsyncBufRead + Unpin + Send,
    users: Users,
    progress: impl FnMut(Progress) + Send,
) -> Result<Imported, TransferError> {
    expect_empty(to).await?;
    let mut file = File::new(from);
    let feed = file.header().await?;
    let mut records = Records::new(users, feed.unsigned_abs());
    let read = read(&mut file, &mut records, to, progress).await;
    let Records { counts, check: Check { mut faults, .. }, .. } = records;
    match read {
        Ok(()) if faults.is_empty() => Ok(Imported { counts, feed }),
        Ok(()) => Err(TransferError::Faulty(faults)),
        Err(error @ (TransferError::Io(_) | TransferError::Store(_))) => Err(error),
        Err(error) if faults.is_empty() => Err(error),
        Err(error) => {
            faults.push(file.number, file.number, error.to_string());
            Err(TransferError::Faulty(faults))
        }
    }
}

/// Reads all lines after the first, and writes their records as long as none has a fault.
async fn read<L: SqlConnection, R: AsyncBufRead + Unpin + Send>(
    file: &mut File<R>,
    records: &mut Records,
    to: &mut L,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<(), TransferError> {
    let mut batch = Batch::default();
    let mut tell = |records: &Records, bytes: u64| {
        progress(Progress { kind: records.kind, records: records.counts.total(), of: None, bytes });
    };
    loop {
        if !file.next().await? {
            return Err(TransferError::CutShort(file.number));
        }
        if file.line.starts_with(br#"{"kind":"end""#) {
            break;
        }
        let read = records.read(&file.line, file.number);
        file.hash.update(&file.line);
        let Some((table, values)) = read else { continue };
        if !batch.has_room_for(table) {
            batch.write(to, &mut records.check).await?;
            tell(records, file.bytes);
        }
        batch.add(table, values, file.number);
    }
    batch.write(to, &mut records.check).await?;
    records.check.finish();
    let is_sound = records.check.faults.is_empty();
    file.footer(is_sound.then_some(records.counts)).await?;
    tell(records, file.bytes);
    Ok(())
}

async fn expect_empty(store: &mut impl SqlConnection) -> Result<(), TransferError> {
    for kind in Kind::ALL {
        let text = format!("SELECT 1 FROM {} LIMIT 1", kind.plural());
        let found = store.rows(Statement::new(text, Vec::new())).await.map_err(failed)?;
        if !found.is_empty() {
            return Err(TransferError::NotEmpty(kind));
        }
    }
    Ok(())
}

/// The state of reading: the current kind and key, the counts and the checks.
struct Records {
    kind: Kind,
    counts: Counts,
    check: Check,
    /// The key of the last record of this kind.
    key: Vec<Vec<u8>>,
}

type Row = (&'static Table, Vec<Value>);

impl Records {
    fn new(users: Users, feed: u64) -> Self {
        let (kind, counts) = (Kind::Plan, Counts::default());
        Self { kind, counts, check: Check::new(users, feed), key: Vec::new() }
    }

    /// Reads a line and notes what is wrong with it. `None` once anything is wrong.
    fn read(&mut self, line: &[u8], number: u64) -> Option<Row> {
        match self.record(line, number) {
            Ok(row) => Some(row).filter(|_| self.check.faults.is_empty()),
            Err(unread) => {
                self.check.unread(number, unread.to_string());
                None
            }
        }
    }

    fn record(&mut self, line: &[u8], number: u64) -> Result<Row, Source> {
        let line: ReadLine<'_> = serde_json::from_slice(line)?;
        if line.kind < self.kind {
            return Err(format!("{} come before {}", line.kind, self.kind).into());
        }
        if line.kind > self.kind {
            self.key.clear();
        }
        self.kind = line.kind;
        *self.counts.of_mut(line.kind) += 1;
        let content = line.content()?;
        match &content {
            Content::Record(record) => {
                self.check.record(number, record);
                if let Record::User(user) = record
                    && line.text("email_key").as_deref() != Some(user.email.key())
                {
                    self.check.note(number, "email_key must be that of email");
                }
            }
            Content::Event(event) => self.check.event(number, event),
        }
        let (table, values) = (line.kind.table(), content.values());
        self.expect_order(&values, table, number);
        Ok((table, values))
    }

    /// Records of a kind come in the order of their keys, so that one that comes twice is noticed.
    fn expect_order(&mut self, values: &[Value], table: &Table, number: u64) {
        // Those of events are checked with the feed.
        if self.kind == Kind::Event {
            return;
        }
        let key: Vec<_> = values.iter().take(table.key).map(key_bytes).collect();
        if key <= self.key {
            let of = table.key_columns().join(", ");
            self.check.note(number, format!("{of} must be greater than that of the line before"));
        }
        self.key = key;
    }
}

/// A part of a key, as it is compared.
fn key_bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Id(id) => id.as_bytes().to_vec(),
        Value::Text(text) => text.clone().unwrap_or_default().into_bytes(),
        // No key has one of these.
        Value::Int(_)
        | Value::IdOrNull(_)
        | Value::Bool(_)
        | Value::Time(_)
        | Value::Amount(_)
        | Value::Bytes(_)
        | Value::Json(_)
        | Value::PriceOrder(_)
        | Value::TimeOrder(_) => Vec::new(),
    }
}

struct File<R> {
    from: R,
    line: Vec<u8>,
    /// The line's, from 1.
    number: u64,
    bytes: u64,
    /// Of the lines before.
    hash: Sha256,
}

impl<R: AsyncBufRead + Unpin + Send> File<R> {
    fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0, bytes: 0, hash: Sha256::new() }
    }

    /// Reads the next line; false if there is none. A line without a line feed was cut short.
    async fn next(&mut self) -> Result<bool, TransferError> {
        self.line.clear();
        let mut limited = (&mut self.from).take(LINE_BYTES_MAX);
        let length = limited.read_until(b'\n', &mut self.line).await? as u64;
        self.bytes += length;
        if length == 0 {
            return Ok(false);
        }
        self.number += 1;
        match self.line.last() {
            Some(b'\n') => Ok(true),
            _ if length == LINE_BYTES_MAX => Err(self.bad("the line is too long")),
            _ => Err(TransferError::CutShort(self.number)),
        }
    }

    /// The error for a line after which no other can be read.
    fn bad(&self, message: impl Into<String>) -> TransferError {
        let mut faults = FileFaults::default();
        faults.push(self.number, self.number, message);
        TransferError::Faulty(faults)
    }

    /// Reads the first line, and returns the sequence that the feed had reached.
    async fn header(&mut self) -> Result<i64, TransferError> {
        #[derive(serde::Deserialize)]
        struct Named {
            format: String,
            version: u64,
        }

        if !self.next().await? {
            return Err(TransferError::NoExport);
        }
        let named: Named =
            serde_json::from_slice(&self.line).map_err(|_| TransferError::NoExport)?;
        if named.format != FORMAT {
            return Err(TransferError::NoExport);
        }
        if named.version != VERSION {
            return Err(TransferError::Version(named.version));
        }
        let header: Header =
            serde_json::from_slice(&self.line).map_err(|error| self.bad(error.to_string()))?;
        if header.feed < 0 {
            return Err(self.bad("feed must not be negative"));
        }
        self.hash.update(&self.line);
        Ok(header.feed)
    }

    /// Compares the last line, which has been read, with the lines before it; `found` is `None` if some of
    /// them could not be counted.
    async fn footer(&mut self, found: Option<Counts>) -> Result<(), TransferError> {
        let told: Footer =
            serde_json::from_slice(&self.line).map_err(|error| self.bad(error.to_string()))?;
        let found = found.unwrap_or(told.counts);
        for kind in Kind::ALL {
            let (told, found) = (told.counts.of(kind), found.of(kind));
            if told != found {
                return Err(TransferError::Miscounted { kind, told, found });
            }
        }
        // To the byte: nothing of the last line is beyond its own check.
        let mut expected = serde_json::to_vec(&Footer::new(found, self.hash.clone()))
            .map_err(|error| self.bad(error.to_string()))?;
        expected.push(b'\n');
        if self.line != expected {
            return Err(TransferError::Altered);
        }
        if self.next().await? {
            return Err(self.bad("more follows after the last line"));
        }
        Ok(())
    }
}

/// Records of one kind that are written by one statement.
#[derive(Default)]
struct Batch {
    table: Option<&'static Table>,
    values: Vec<Value>,
    rows: usize,
    first: u64,
    last: u64,
    /// The statement for so many rows of a table: most are alike.
    text: Option<(&'static str, usize, String)>,
}

impl Batch {
    fn has_room_for(&self, table: &'static Table) -> bool {
        self.table.is_none_or(|present| {
            present.name == table.name && self.values.len() + table.columns().len() <= VALUES_MAX
        })
    }

    fn add(&mut self, table: &'static Table, values: Vec<Value>, number: u64) {
        if self.table.is_none() {
            self.first = number;
        }
        self.table = Some(table);
        self.values.extend(values);
        self.rows += 1;
        self.last = number;
    }

    /// Writes the batch. Values that the database refuses are a fault of the file.
    async fn write(
        &mut self,
        to: &mut impl SqlConnection,
        check: &mut Check,
    ) -> Result<(), TransferError> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let rows = std::mem::take(&mut self.rows);
        if !check.faults.is_empty() {
            return Ok(());
        }
        let known = self.text.take().filter(|(name, many, _)| (*name, *many) == (table.name, rows));
        let text = known.map_or_else(|| insert(table, rows), |(.., text)| text);
        let values = std::mem::take(&mut self.values);
        let statement = Statement::new(text.clone(), values);
        self.text = Some((table.name, rows, text));
        match to.rows(statement).await {
            Ok(_) => Ok(()),
            Err(error) => self.refused(error, check),
        }
    }

    /// Notes a fault of the file if the database refused values, and fails otherwise.
    fn refused(&self, error: sqlx::Error, check: &mut Check) -> Result<(), TransferError> {
        let by_its_values = error.as_database_error().is_some_and(|told| {
            // PostgreSQL's class of values that it cannot hold.
            let about_data =
                told.code().is_some_and(|code| code.len() == 5 && code.starts_with("22"));
            told.is_unique_violation() || told.is_check_violation() || about_data
        });
        if by_its_values {
            check.faults.push(self.first, self.last, error.to_string());
            Ok(())
        } else {
            Err(failed(error).into())
        }
    }
}

/// The statement that inserts `rows` rows into a table, such as
/// `INSERT INTO plans (id, name, …) VALUES ($1, $2, …), ($18, …)`.
fn insert(table: &Table, rows: usize) -> String {
    let columns = table.columns().len();
    let row = |number: usize| format!("({})", placeholders(1 + number * columns, columns));
    let rows: Vec<_> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO {} ({}) VALUES {}",
        table.name,
        table.columns().join(", "),
        rows.join(", ")
    )
}
