//! The store in a file.

mod erased;
mod explained;
mod file;
mod full;
mod million;
mod writer;

use subscription_core::store::{SqliteOptions, SqliteStore};
use test_support::trials::{Trial, conformance};

use crate::folder::folder;
use crate::lives;

pub(crate) use self::full::{can_mount, trials as trials_with_a_disk};

pub(crate) async fn fresh() -> SqliteStore {
    // Nobody pulls the plug in these tests, and the disk has other work.
    SqliteOptions::file(folder().join("store.db")).relaxed().open().await.unwrap()
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
