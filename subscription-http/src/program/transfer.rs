//! Moving house: everything out of one store into a file, and from the file into another.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use subscription_core::store::moving::{Counts, MoveError, Progress};
use tokio::io::{AsyncWriteExt as _, BufReader, BufWriter};

use super::open::{Kept, Opened};
use super::settings::Database;
use super::settings::Settings;
use super::settings::Users;
use super::{Failure, say};

/// Writes all that is in the database to a file that is not there yet.
pub(crate) async fn export(settings: &Settings, path: &Path) -> Result<(), Failure> {
    let told =
        |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    if path.exists() {
        return Err(Failure::new(format!("{} is there already", path.display())));
    }
    let opened = opened(settings).await?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    // People are in it.
    let mut options = File::options();
    let file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&beside).map_err(told)?;
    let mut file = BufWriter::new(tokio::fs::File::from_std(file));
    let bar = bar(None);
    let progress = |progress: Progress| {
        progress.of.into_iter().for_each(|all| bar.set_length(all));
        bar.set_position(progress.records);
        bar.set_message(progress.kind.to_string());
    };
    let moved = match opened.kept() {
        Kept::Nowhere => Err(nowhere()),
        Kept::Sqlite(store) => store.export(&mut file, progress).await.map_err(failure),
        Kept::Postgres(store) => store.export(&mut file, progress).await.map_err(failure),
    };
    bar.finish_and_clear();
    opened.close().await;
    let counts = moved?;
    file.flush().await.map_err(told)?;
    file.into_inner().sync_all().await.map_err(told)?;
    std::fs::rename(&beside, path).map_err(told)?;
    say(&format!("wrote {} to {}", sum(&counts), path.display()));
    Ok(())
}

/// Reads a file into a database that is empty.
pub(crate) async fn import(settings: &Settings, path: &Path) -> Result<(), Failure> {
    let told =
        |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(told)?;
    let length = file.metadata().map_err(told)?.len();
    let file = BufReader::with_capacity(1 << 16, tokio::fs::File::from_std(file));
    let opened = opened(settings).await?;
    let bar = bar(Some(length));
    let progress = |progress: Progress| {
        bar.set_position(progress.bytes);
        bar.set_message(progress.kind.to_string());
    };
    let moved = match (opened.kept(), settings.users) {
        (Kept::Nowhere, _) => return Err(nowhere()),
        (Kept::Sqlite(store), Users::Accounts) => store.import(file, progress).await,
        (Kept::Sqlite(store), Users::Any) => store.import_for_any_user(file, progress).await,
        (Kept::Postgres(store), Users::Accounts) => store.import(file, progress).await,
        (Kept::Postgres(store), Users::Any) => store.import_for_any_user(file, progress).await,
    };
    let moved = moved.map_err(failure);
    bar.finish_and_clear();
    opened.close().await;
    let counts = moved?;
    say(&format!("read {} into {:?}", sum(&counts), settings.database()?));
    Ok(())
}

async fn opened(settings: &Settings) -> Result<Opened, Failure> {
    if *settings.database()? == Database::Memory {
        return Err(nowhere());
    }
    Opened::new(settings, false).await
}

fn nowhere() -> Failure {
    Failure::new("memory: holds nothing to move: name a --database")
}

fn failure(error: MoveError) -> Failure {
    Failure::from(error)
}

fn sum(counts: &Counts) -> String {
    format!("{} records", counts.total())
}

/// A bar for people; machines see none.
pub(crate) fn bar(bytes: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes.unwrap_or_default());
    let counts = if bytes.is_some() { "{bytes}/{total_bytes}" } else { "{human_pos}/{human_len}" };
    let style = format!("{{msg:14}} {{wide_bar}} {counts} {{eta}}");
    if let Ok(style) = ProgressStyle::with_template(&style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
