//! Reading a file.

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use super::super::error::failed;
use super::super::page::Statement;
use super::super::table::{Kept, Table, placeholders};
use super::super::value::Value;
use super::line::ReadLine;
use super::{Counts, FORMAT, Footer, Header, Kind, Link, MoveError, Progress, VERSION};
use crate::auth::{Client, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{IdempotencyRecord, Source};
use crate::subscriptions::Subscription;

/// Far beyond the longest record. Whatever is longer is not read to its end.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Values that are written at a time.
const VALUES_MAX: usize = 2_000;

/// What a whole file held.
pub(in crate::store::sql) struct Imported {
    pub(in crate::store::sql) counts: Counts,
    /// The number that the feed has come to.
    pub(in crate::store::sql) feed: i64,
}

/// Reads a file to its end and writes what it holds. If it is refused, a part may be written.
pub(in crate::store::sql) async fn import<L: Link>(
    to: &mut L,
    from: impl AsyncBufRead + Unpin + Send,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Imported, MoveError> {
    expect_empty(to).await?;
    let mut file = File::new(from);
    let feed = file.header().await?;
    let mut batch = Batch::default();
    let mut state = State { kind: Kind::Plan, counts: Counts::default(), feed: 0 };
    loop {
        if !file.next().await? {
            return Err(MoveError::CutShort(file.number));
        }
        if file.line.starts_with(br#"{"kind":"end""#) {
            break;
        }
        let number = file.number;
        let (table, values) =
            state.read(&file.line).map_err(|source| MoveError::Line { number, source })?;
        if !batch.has_room_for(table) {
            batch.write(to).await?;
            let (kind, records) = (state.kind, state.counts.total());
            progress(Progress { kind, records, of: None, bytes: file.bytes });
        }
        batch.add(table, values, number);
        file.hash.update(&file.line);
    }
    batch.write(to).await?;
    file.footer(state.counts).await?;
    let (kind, records) = (state.kind, state.counts.total());
    progress(Progress { kind, records, of: None, bytes: file.bytes });
    Ok(Imported { counts: state.counts, feed: feed.max(state.feed) })
}

async fn expect_empty(store: &mut impl Link) -> Result<(), MoveError> {
    for kind in Kind::ALL {
        let text = format!("SELECT 1 FROM {} LIMIT 1", kind.plural());
        let found = store.rows(Statement::new(text, Vec::new())).await.map_err(failed)?;
        if !found.is_empty() {
            return Err(MoveError::NotEmpty(kind));
        }
    }
    Ok(())
}

/// How far the lines have come.
struct State {
    kind: Kind,
    counts: Counts,
    /// The sequence of the last event.
    feed: i64,
}

impl State {
    fn read(&mut self, line: &[u8]) -> Result<(&'static Table, Vec<Value>), Source> {
        let line: ReadLine<'_> = serde_json::from_slice(line)?;
        if line.kind < self.kind {
            return Err(format!("{} come before {}", line.kind, self.kind).into());
        }
        self.kind = line.kind;
        *self.counts.of_mut(line.kind) += 1;
        match line.kind {
            Kind::Plan => values::<Plan>(&line),
            Kind::Subscription => values::<Subscription>(&line),
            Kind::Payment => values::<Payment>(&line),
            Kind::User => values::<User>(&line),
            Kind::Session => values::<Session>(&line),
            Kind::Client => values::<Client>(&line),
            Kind::Answer => values::<IdempotencyRecord>(&line),
            Kind::Event => {
                let event: RecordedEvent = line.record()?;
                let sequence = i64::try_from(event.sequence)?;
                if sequence <= self.feed {
                    return Err("the sequences of events must rise".into());
                }
                self.feed = sequence;
                Ok((RecordedEvent::TABLE, event.values()))
            }
        }
    }
}

fn values<T: Kept>(line: &ReadLine<'_>) -> Result<(&'static Table, Vec<Value>), Source> {
    let record: T = line.record()?;
    Ok((T::TABLE, record.values()))
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

    /// Goes to the next line; false if there is none. One without an end was cut off.
    async fn next(&mut self) -> Result<bool, MoveError> {
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
            _ => Err(MoveError::CutShort(self.number)),
        }
    }

    fn bad(&self, source: impl Into<Source>) -> MoveError {
        MoveError::Line { number: self.number, source: source.into() }
    }

    /// Reads the first line, and tells the number that the feed had come to.
    async fn header(&mut self) -> Result<i64, MoveError> {
        #[derive(serde::Deserialize)]
        struct Named {
            format: String,
            version: u64,
        }

        if !self.next().await? {
            return Err(MoveError::NoExport);
        }
        let named: Named = serde_json::from_slice(&self.line).map_err(|_| MoveError::NoExport)?;
        if named.format != FORMAT {
            return Err(MoveError::NoExport);
        }
        if named.version != VERSION {
            return Err(MoveError::Version(named.version));
        }
        let header: Header = serde_json::from_slice(&self.line).map_err(|error| self.bad(error))?;
        if header.feed < 0 {
            return Err(self.bad("feed must not be negative"));
        }
        self.hash.update(&self.line);
        Ok(header.feed)
    }

    /// Compares the last line, which has been read, with all that came before.
    async fn footer(&mut self, found: Counts) -> Result<(), MoveError> {
        let told: Footer = serde_json::from_slice(&self.line).map_err(|error| self.bad(error))?;
        for kind in Kind::ALL {
            let (told, found) = (told.counts.of(kind), found.of(kind));
            if told != found {
                return Err(MoveError::Miscounted { kind, told, found });
            }
        }
        // To the byte: nothing of the last line is beyond its own check.
        let mut expected = serde_json::to_vec(&Footer::new(found, self.hash.clone()))
            .map_err(|error| self.bad(error))?;
        expected.push(b'\n');
        if self.line != expected {
            return Err(MoveError::Altered);
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
            present.name == table.name && self.values.len() + table.columns.len() <= VALUES_MAX
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

    async fn write(&mut self, to: &mut impl Link) -> Result<(), MoveError> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let rows = std::mem::take(&mut self.rows);
        let known = self.text.take().filter(|(name, many, _)| (*name, *many) == (table.name, rows));
        let text = known.map_or_else(|| insert(table, rows), |(.., text)| text);
        let values = std::mem::take(&mut self.values);
        let statement = Statement::new(text.clone(), values);
        self.text = Some((table.name, rows, text));
        to.rows(statement).await.map_err(|error| self.refusal(error))?;
        Ok(())
    }

    /// What it means that the rows were not written.
    fn refusal(&self, error: sqlx::Error) -> MoveError {
        let by_its_values = error.as_database_error().is_some_and(|told| {
            // PostgreSQL's class of values that it cannot hold.
            let about_data =
                told.code().is_some_and(|code| code.len() == 5 && code.starts_with("22"));
            told.is_unique_violation() || told.is_check_violation() || about_data
        });
        if by_its_values {
            MoveError::Refused { first: self.first, last: self.last, source: error.into() }
        } else {
            failed(error).into()
        }
    }
}

/// `INSERT INTO plans (id, name, …) VALUES ($1, $2, …), ($18, …)`
fn insert(table: &Table, rows: usize) -> String {
    let columns = table.columns.len();
    let row = |number: usize| format!("({})", placeholders(1 + number * columns, columns));
    let rows: Vec<_> = (0..rows).map(row).collect();
    format!("INSERT INTO {} ({}) VALUES {}", table.name, table.columns.join(", "), rows.join(", "))
}
