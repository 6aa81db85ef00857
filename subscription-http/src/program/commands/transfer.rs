//! The commands `export` and `import`: they write all records of a store to a file, and read such a file into another
//! store.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use subscription_core::store::transfer::{ImportOptions, Progress};
use subscription_core::store::{Document, StoreError};
use subscription_core::webhooks::{self, disable_imported};
use subscription_core::{Error, Timestamp, providers};
use tokio::io::{AsyncWriteExt as _, BufReader, BufWriter};

use super::billing_pause;
use crate::program::background::process_clock;
use crate::program::keys::random;
use crate::program::open::Opened;
use crate::program::settings::{Database, Settings, Users};
use crate::program::{Failure, print};

/// Writes all records to a file that does not exist yet.
pub(crate) async fn export(settings: &Settings, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let failure = |error: io::Error| not_written(path, &error);
    if path.exists() {
        return Err(Failure(format!("{shown} exists already")));
    }
    let opened = open(settings).await?;
    let (part, file) = match Part::create(path) {
        Ok(created) => created,
        Err(failure) => {
            opened.close().await;
            return Err(failure);
        }
    };
    let mut file = BufWriter::new(tokio::fs::File::from_std(file));
    let bar = bar(None);
    let exported = opened
        .export(&mut file, |progress: Progress| {
            progress.of.into_iter().for_each(|all| bar.set_length(all));
            bar.set_position(progress.records);
            bar.set_message(progress.kind);
        })
        .await;
    bar.finish_and_clear();
    opened.close().await;
    let counts = exported?;
    file.flush().await.map_err(failure)?;
    file.into_inner().sync_all().await.map_err(failure)?;
    part.publish(path).map_err(failure)?;
    print(&format!("wrote {} records to {shown}", counts.total()));
    Ok(())
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("cannot write {}: {error}", path.display()))
}

/// The file that an export writes. It gets its name when it is complete, and is removed otherwise.
struct Part(PathBuf);

impl Part {
    /// Creates the file beside the path of the export. Only its owner may read it, because it contains personal data.
    fn create(path: &Path) -> Result<(Self, File), Failure> {
        let mut part = path.as_os_str().to_owned();
        // In a folder that others can write to, a name that they know could be a file or a link of theirs.
        part.push(format!(".{}.part", random()?));
        let part = PathBuf::from(part);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&part);
        Ok((Self(part), file.map_err(|error| not_written(path, &error))?))
    }

    /// Gives the file its name, unless that exists by now.
    fn publish(self, path: &Path) -> io::Result<()> {
        match std::fs::hard_link(&self.0, path) {
            // Not every file system has hard links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                std::fs::rename(&self.0, path)
            }
            linked => linked,
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename it is gone.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Reads an exported file into an empty database. Unless `as_is` is set, the import also pauses billing and disables
/// webhook endpoints, and does not import the offset of a manual clock.
pub(crate) async fn import(settings: &Settings, path: &Path, as_is: bool) -> Result<(), Failure> {
    let failure = |error: io::Error| Failure(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(failure)?;
    let bytes = file.metadata().map_err(failure)?.len();
    let file = BufReader::with_capacity(1 << 16, tokio::fs::File::from_std(file));
    let opened = open(settings).await?;
    let bar = bar(Some(bytes));
    let now = opened.clock().now();
    let pause = billing_pause::document("import", now)?;
    let addresses = settings.webhook_settings()?.map(|webhooks| webhooks.addresses);
    let mut changed = Changed::default();
    let mut options = ImportOptions::default();
    if settings.users == Users::Any {
        options = options.for_any_user();
    }
    if !as_is {
        options = options.add_document(pause.clone());
    }
    options = options.edit_documents(|document| {
        // A document that this server could not read would stop the work of its part on all others.
        webhooks::check_imported(&document, addresses.as_ref()).map_err(fault)?;
        providers::check_imported(&document).map_err(fault)?;
        if as_is {
            return Ok(Some(document));
        }
        changed.edit(document, &pause, now).map_err(fault)
    });
    let progress = |progress: Progress| {
        bar.set_position(progress.bytes);
        bar.set_message(progress.kind);
    };
    let imported = opened.import(file, options, progress).await;
    bar.finish_and_clear();
    opened.close().await;
    let records = imported?.total();
    print(&format!("read {records} records into {:?}", settings.database()?));
    if as_is {
        return Ok(());
    }
    if changed.clock {
        print(
            "the exported database had a manual clock: the new database uses the machine's clock",
        );
    }
    if changed.endpoints > 0 {
        let count = changed.endpoints;
        print(&format!(
            "{count} webhook endpoints are disabled: enable those that this server shall send to"
        ));
    }
    print("billing is paused: check the records, then run subscription-http billing resume");
    Ok(())
}

/// The fault of a document that cannot be imported.
fn fault(error: Error) -> String {
    if let Error::Store(StoreError::Damaged(cause)) = error {
        return format!("body cannot be read: {cause}");
    }
    Failure::from(error).to_string()
}

/// The changes that an import made to documents.
#[derive(Default)]
struct Changed {
    /// True if the file has the offset of a manual clock. It was not imported, so the database uses the machine's
    /// clock.
    clock: bool,
    /// The number of endpoints that were disabled.
    endpoints: usize,
}

impl Changed {
    /// Edits one document of the import: a webhook endpoint is disabled, and other documents stay as they are. Returns
    /// `None` for a document that is not imported: the offset of a manual clock, or an old pause of billing, because
    /// the import adds a pause of its own.
    fn edit(
        &mut self,
        document: Document,
        pause: &Document,
        now: Timestamp,
    ) -> Result<Option<Document>, Error> {
        let is_clock = document.key == process_clock::key()?;
        self.clock |= is_clock;
        if is_clock || document.key == pause.key {
            return Ok(None);
        }
        let disabled = disable_imported(&document, now)?;
        self.endpoints += usize::from(disabled.is_some());
        Ok(Some(disabled.unwrap_or(document)))
    }
}

async fn open(settings: &Settings) -> Result<Opened, Failure> {
    if settings.database()? == Database::Memory {
        return Err(Failure::new(
            "a database in memory cannot be exported or imported: choose another with --database, such as sqlite://FILE",
        ));
    }
    Opened::new(settings, false).await
}

/// A progress bar on standard error. indicatif hides it if standard error is not a terminal.
pub(crate) fn bar(bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::new(bytes.unwrap_or_default());
    let counts = if bytes.is_some() { "{bytes}/{total_bytes}" } else { "{human_pos}/{human_len}" };
    let style = format!("{{msg:14}} {{wide_bar}} {counts} {{eta}}");
    if let Ok(style) = ProgressStyle::with_template(&style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
