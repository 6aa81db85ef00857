//! The import of a file into an empty store.

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};

use super::check::Check;
use super::line::{Content, Fields, Line};
use super::{
    Counts, FORMAT, Footer, Header, ImportOptions, KINDS, Progress, Reader, Report, TransferError,
    VERSION,
};
use crate::plans::Plan;
use crate::store::sql::SqlConnection;
use crate::store::sql::error::failed;
use crate::store::sql::statement::Statement;
use crate::store::sql::table::{SqlRecord as _, Table, placeholders};
use crate::store::sql::value::Value;
use crate::store::{Cause, Document, Record};

/// Maximum length of a line in bytes, far more than the longest record has. A longer line is not read to its end.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of values that one statement writes.
const VALUES_MAX: usize = 2_000;

/// Reads a file to its end and writes its records. Returns the number of records of each kind, and the last sequence of
/// the feed. If the file is refused, some records may be written, and the caller rolls them back.
///
/// After the first fault nothing more is written, but the rest of the file is read, so that all faults are reported at
/// once.
pub(in crate::store) async fn import<C: SqlConnection>(
    to: &mut C,
    from: Reader<'_>,
    options: ImportOptions<'_>,
    report: Report<'_>,
) -> Result<(Counts, u64), TransferError> {
    for (_, table) in KINDS {
        let text = format!("SELECT 1 FROM {} LIMIT 1", table.name);
        if !to.rows(Statement::plain(text)).await.map_err(failed)?.is_empty() {
            return Err(TransferError::NotEmpty(table.name));
        }
    }
    let mut import = Import {
        from,
        line: Vec::new(),
        number: 0,
        bytes: 0,
        hash: Sha256::new(),
        check: Check::new(options.any_user),
        options,
        counts: Counts::default(),
        kind: 0,
        key: Vec::new(),
        values: Vec::new(),
        table: Plan::TABLE,
        first: 2,
    };
    import.read(to, report).await?;
    let Import { counts, check, options, .. } = import;
    if check.is_sound() {
        for document in &options.added {
            let values = document.values();
            let statement = Statement::new(insert(Document::TABLE, values.len()), values);
            to.rows(statement).await.map_err(failed)?;
        }
        Ok((counts, check.feed))
    } else {
        Err(TransferError::Faulty(check.faults))
    }
}

/// The state of an import.
struct Import<'a> {
    from: Reader<'a>,
    /// The current line, and its number from 1.
    line: Vec<u8>,
    number: u64,
    /// Bytes read so far.
    bytes: u64,
    /// The hash of the lines before the current one.
    hash: Sha256,
    check: Check,
    options: ImportOptions<'a>,
    counts: Counts,
    /// The index of the last record's kind in [`KINDS`], and the key of that record.
    kind: usize,
    key: Vec<Vec<u8>>,
    /// The values of records that are not written yet, their table, and the line of the first of them.
    values: Vec<Value>,
    table: &'static Table,
    first: u64,
}

impl Import<'_> {
    async fn read(
        &mut self,
        to: &mut impl SqlConnection,
        report: Report<'_>,
    ) -> Result<(), TransferError> {
        if !self.next().await? || !self.header() {
            return Ok(());
        }
        loop {
            self.hash.update(&self.line);
            if !self.next().await? {
                return Ok(());
            }
            if self.line.starts_with(br#"{"kind":"end""#) {
                break;
            }
            match self.record() {
                Ok((table, values)) => {
                    let is_full = self.values.len() + values.len() > VALUES_MAX;
                    if is_full || self.table.name != table.name {
                        self.write(to).await?;
                        report(self.progress());
                        self.table = table;
                        self.first = self.number;
                    }
                    self.values.extend(values);
                }
                Err(unread) => self.check.unread(self.number, unread),
            }
        }
        self.write(to).await?;
        self.check.finish();
        self.footer();
        if !self.from.fill_buf().await?.is_empty() {
            self.check.faults.push(self.number + 1, "more lines follow the end of the export");
        }
        report(self.progress());
        Ok(())
    }

    fn progress(&self) -> Progress {
        let kind = KINDS.get(self.kind).map_or("", |(_, table)| table.name);
        Progress { kind, records: self.counts.total(), of: None, bytes: self.bytes }
    }

    /// Reads the next line. Returns false if no complete line is left, which is a fault of the file.
    async fn next(&mut self) -> Result<bool, TransferError> {
        self.line.clear();
        let mut limited = (&mut *self.from).take(LINE_BYTES_MAX);
        let length = limited.read_until(b'\n', &mut self.line).await? as u64;
        self.bytes += length;
        self.number += 1;
        let is_complete = self.line.ends_with(b"\n");
        if !is_complete {
            let is_long = length == LINE_BYTES_MAX;
            let fault = if is_long { "the line is too long" } else { "the file is cut short here" };
            self.check.faults.push(self.number, fault);
        }
        Ok(is_complete)
    }

    /// Reads the first line. Returns false if the file is not an export of this version, so that its other lines are
    /// not read.
    fn header(&mut self) -> bool {
        let found: serde_json::Value = serde_json::from_slice(&self.line).unwrap_or_default();
        let fault = if found.get("format").is_none_or(|format| format != FORMAT) {
            format!("this is not an export: the line does not name the format {FORMAT}")
        } else if let Some(version) = found.get("version").filter(|version| **version != VERSION) {
            format!("the format has version {version}, and only version {VERSION} can be read")
        } else {
            match serde_json::from_value::<Header>(found) {
                Ok(header) => {
                    self.check.feed(header.feed);
                    return true;
                }
                Err(error) => error.to_string(),
            }
        };
        self.check.faults.push(self.number, fault);
        false
    }

    /// Reads the record of the current line, checks it, and returns its table and its values. There are no values for a
    /// document that the options leave out.
    fn record(&mut self) -> Result<(&'static Table, Vec<Value>), Cause> {
        let line: Line<'_, &RawValue> = serde_json::from_slice(&self.line)?;
        let mut kinds = KINDS.into_iter().enumerate();
        let Some((kind, (_, table))) = kinds.find(|(_, (name, _))| *name == line.kind) else {
            return Err(format!("the kind {} is unknown", line.kind).into());
        };
        if kind < self.kind {
            let later = KINDS.get(self.kind).map_or("", |(_, table)| table.name);
            return Err(format!("{} come before {later}", table.name).into());
        }
        if kind > self.kind {
            self.key.clear();
        }
        self.kind = kind;
        self.counts.add(kind);
        let fields = Fields::read(table, line.record)?;
        let content = Content::read(table, &fields)?;
        let values = content.values();
        match &content {
            Content::Event(event) => self.check.event(self.number, event),
            Content::Record(record) => {
                self.check.record(self.number, record);
                if let Record::User(user) = record
                    && fields.text_of("email_key").as_deref() != Some(user.email.key())
                {
                    self.check
                        .faults
                        .push(self.number, "email_key does not match email: was this line edited?");
                }
                self.expect_order(&values, table);
                if let Record::Document(document) = record {
                    let edited = self.options.edited(document)?;
                    return Ok((table, edited.map_or_else(Vec::new, |edited| edited.values())));
                }
            }
        }
        Ok((table, values))
    }

    /// Checks that the records of a kind come in the order of their keys. So a record that comes twice is found.
    fn expect_order(&mut self, values: &[Value], table: &Table) {
        let bytes = |value: &Value| {
            if let Value::Id(id) = value {
                id.as_bytes().to_vec()
            } else if let Value::Text(Some(text)) = value {
                text.as_bytes().to_vec()
            } else {
                Vec::new()
            }
        };
        let key: Vec<_> = values.iter().take(table.key).map(bytes).collect();
        if key <= self.key {
            let fault = "must be greater than in the previous line";
            self.check
                .faults
                .push(self.number, format!("{} {fault}", table.key_columns().join(", ")));
        }
        self.key = key;
    }

    /// Writes the records that were read before the current line and are not written yet. Values that the database
    /// refuses are a fault of the file.
    async fn write(&mut self, to: &mut impl SqlConnection) -> Result<(), TransferError> {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() || !self.check.is_sound() {
            return Ok(());
        }
        match to.rows(Statement::new(insert(self.table, values.len()), values)).await {
            Err(error) if is_about_values(&error) => {
                self.check.faults.push_one_of(self.first, self.number - 1, error);
                Ok(())
            }
            written => Ok(written.map(drop).map_err(failed)?),
        }
    }

    /// Compares the counts and the hash in the last line with the lines before it.
    fn footer(&mut self) {
        let footer = match serde_json::from_slice::<Footer>(&self.line) {
            Ok(footer) => footer,
            Err(error) => return self.check.faults.push(self.number, error),
        };
        // Lines that cannot be read are not counted. So the counts are compared only if the file has no faults.
        let mut written = footer.counts;
        let mut found = self.counts;
        if !self.check.is_sound() {
            found = written;
        }
        let expected = serde_json::to_vec(&Footer::new(found, self.hash.clone()));
        let counts = written.by_kind().into_iter().zip(found.by_kind());
        for ((_, table), (written, found)) in KINDS.into_iter().zip(counts) {
            if written != found {
                let name = table.name;
                let fault =
                    format!("the file has {found} {name}, but its last line counts {written}");
                return self.check.faults.push(self.number, fault);
            }
        }
        // All bytes of the last line are compared, so that every change of this line is found.
        if expected.ok().as_deref() != self.line.strip_suffix(b"\n") {
            let fault = "the file was changed: its SHA-256 differs";
            self.check.faults.push(self.number, fault);
        }
    }
}

/// The statement that inserts a number of values into a table, such as
/// `INSERT INTO plans (id, name, …) VALUES ($1, $2, …), ($18, …)`.
fn insert(table: &Table, values: usize) -> String {
    let name = table.name;
    let columns = table.columns();
    let row = |first| format!("({})", placeholders(first, columns.len()));
    let rows: Vec<_> = (1..=values).step_by(columns.len()).map(row).collect();
    format!("INSERT INTO {name} ({}) VALUES {}", columns.join(", "), rows.join(", "))
}

/// True if the database refused the values themselves.
fn is_about_values(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        // Class 22 of PostgreSQL's error codes: values that a column cannot store.
        let is_bad = error.code().is_some_and(|code| code.len() == 5 && code.starts_with("22"));
        error.is_unique_violation() || error.is_check_violation() || is_bad
    })
}
