//! The store in a file.

mod erased;
mod explained;
mod file;
mod full;
mod million;
mod writer;

use std::path::PathBuf;

use subscription_core::store::{SqliteOptions, SqliteStore};
use test_support::trials::{Trial, conformance};
use tokio::sync::OnceCell;

use crate::folder::folder;
use crate::lives;

pub(crate) use self::full::{SmallDisk, can_mount, trials as trials_with_a_disk};

/// A store over a new file, which is a copy of one that was migrated before.
pub(crate) async fn fresh() -> SqliteStore {
    static MIGRATED: OnceCell<PathBuf> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(|| async {
        let file = folder().join("migrated.db");
        SqliteOptions::file(&file).relaxed().open().await.unwrap().close().await;
        file
    });
    let file = folder().join("store.db");
    std::fs::copy(migrated.await, &file).unwrap();
    // Nobody pulls the plug in these tests, and the disk has other work.
    SqliteOptions::file(file).relaxed().open().await.unwrap()
}

pub(crate) fn trials() -> Vec<Trial> {
    // The longest first.
    let mut all = million::trials();
    all.extend(conformance("sqlite", fresh));
    all.extend(lives::trials("sqlite", fresh));
    all.extend(erased::trials());
    all.extend(explained::trials());
    all.extend(file::trials());
    all.extend(writer::trials());
    all
}
