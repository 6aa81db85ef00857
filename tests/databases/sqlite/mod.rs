//! The store in a file.

mod erased;
mod explained;
mod file;
mod full;
mod writer;

use subscription_core::store::{SqliteOptions, SqliteStore};

use crate::folder::folder;
use crate::lives;
use crate::stories::Story;

pub(crate) use self::full::{can_mount, stories as stories_with_a_disk};

pub(crate) async fn fresh() -> SqliteStore {
    // Nobody pulls the plug in these tests, and the disk has other work.
    SqliteOptions::file(folder().join("store.db")).relaxed().open().await.unwrap()
}

pub(crate) fn stories() -> Vec<Story> {
    let mut all = Story::suite("sqlite", fresh);
    all.extend(lives::stories("sqlite", fresh));
    all.extend(erased::stories());
    all.extend(explained::stories());
    all.extend(file::stories());
    all.extend(writer::stories());
    all
}
