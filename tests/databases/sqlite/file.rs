//! The file, and who has it.

use std::path::Path;
use std::sync::Arc;
use subscription_core::plans::Plan;
use subscription_core::store::StoreExt as _;

use subscription_core::Store as _;
use subscription_core::store::{ChangeSet, OpenError, SqliteOptions, StoreError};
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;
use crate::records::{plan, put};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        what_was_committed_is_there_when_the_file_is_opened_again,
        a_file_in_use_is_refused_to_a_second,
        what_is_no_database_is_refused,
        a_file_that_was_removed_takes_no_writes_until_it_is_back,
        a_file_that_was_replaced_takes_no_writes,
        a_file_whose_log_was_removed_takes_no_writes_and_keeps_what_it_has,
        a_link_is_another_name_of_the_file_and_of_its_lock,
        a_file_with_two_names_is_refused,
        a_file_that_cannot_be_opened_leaves_none_behind,
    ]
}

/// The names of what is in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_unavailable(done: &Result<(), StoreError>) -> bool {
    matches!(done, Err(StoreError::Unavailable(_)))
}

async fn what_was_committed_is_there_when_the_file_is_opened_again() {
    let file = folder().join("store.db");
    let first = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let kept = plan("kept");
    put(&first, &kept).await.unwrap();
    first.close().await;

    let second = SqliteOptions::file(&file).open().await.unwrap();

    assert_eq!(second.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
    assert!(put(&first, &plan("late")).await.is_err());
}

async fn a_file_in_use_is_refused_to_a_second() {
    let file = folder().join("store.db");
    let first = Arc::new(SqliteOptions::file(&file).open().await.unwrap());

    let refused = SqliteOptions::file(&file).open().await.unwrap_err();

    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    assert!(refused.to_string().contains("store.db is in use by another process"), "{refused}");
    put(&first, &plan("undisturbed")).await.unwrap();
}

async fn what_is_no_database_is_refused() {
    let file = folder().join("store.db");
    std::fs::write(&file, "Dear diary, this is not a database, but it is long enough.").unwrap();

    let refused = SqliteOptions::file(&file).open().await.unwrap_err();

    assert!(matches!(refused, OpenError::Database(_)), "{refused:?}");
    assert_eq!(files(file.parent().unwrap()), ["store.db"]);
}

/// A file without a name is gone with the process.
async fn a_file_that_was_removed_takes_no_writes_until_it_is_back() {
    let file = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    store.commit(ChangeSet::default()).await.unwrap();
    let aside = file.with_extension("aside");

    std::fs::rename(&file, &aside).unwrap();

    let refused = put(&store, &plan("lost")).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    let refused = store.commit(ChangeSet::default()).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    assert!(!file.exists());

    std::fs::rename(&aside, &file).unwrap();

    store.commit(ChangeSet::default()).await.unwrap();
    put(&store, &plan("found")).await.unwrap();
    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
}

async fn a_file_that_was_replaced_takes_no_writes() {
    let file = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let copy = file.with_extension("copy");
    std::fs::copy(&file, &copy).unwrap();

    std::fs::rename(&copy, &file).unwrap();

    let refused = put(&store, &plan("lost")).await;
    assert!(is_unavailable(&refused), "{refused:?}");
}

/// What is written to a log without a name is lost if the process is killed.
async fn a_file_whose_log_was_removed_takes_no_writes_and_keeps_what_it_has() {
    let file = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();

    std::fs::remove_file(file.with_extension("db-wal")).unwrap();

    let refused = put(&store, &plan("lost")).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    let refused = store.commit(ChangeSet::default()).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    let told = refused.unwrap_err();
    let told = std::error::Error::source(&told).unwrap().to_string();
    assert!(told.contains("-wal"), "{told}");

    store.close().await;
    drop(store);
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
    put(&store, &plan("found")).await.unwrap();
}

async fn a_link_is_another_name_of_the_file_and_of_its_lock() {
    let folder = folder();
    let (file, link) = (folder.join("store.db"), folder.join("link.db"));
    // The link is older than the file to which it leads.
    std::os::unix::fs::symlink("store.db", &link).unwrap();
    let first = Arc::new(SqliteOptions::file(&link).open().await.unwrap());
    let kept = plan("kept");
    put(&first, &kept).await.unwrap();
    let held = ["link.db", "store.db", "store.db-shm", "store.db-wal", "store.db.lock"];
    assert_eq!(files(&folder), held);

    for name in [&file, &link] {
        let refused = SqliteOptions::file(name).open().await.unwrap_err();
        assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    }

    put(&first, &plan("undisturbed")).await.unwrap();
    first.close().await;
    let second = SqliteOptions::file(&file).open().await.unwrap();
    assert_eq!(second.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
}

/// Each name has a log of its own: what is written by one is lost for the other.
async fn a_file_with_two_names_is_refused() {
    let folder = folder();
    let (file, other) = (folder.join("store.db"), folder.join("other.db"));
    let first = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    std::fs::hard_link(&file, &other).unwrap();

    for name in [&file, &other] {
        let refused = SqliteOptions::file(name).open().await.unwrap_err();
        assert!(matches!(refused, OpenError::SeveralNames(_)), "{refused}");
    }

    put(&first, &plan("undisturbed")).await.unwrap();
    first.close().await;
    let refused = SqliteOptions::file(&file).open().await.unwrap_err();
    assert!(refused.to_string().contains("store.db has more than one name"), "{refused}");
    std::fs::remove_file(&other).unwrap();
    SqliteOptions::file(&file).open().await.unwrap();
}

async fn a_file_that_cannot_be_opened_leaves_none_behind() {
    let folder = folder();
    // There is a folder where SQLite wants to put its log.
    std::fs::create_dir(folder.join("store.db-wal")).unwrap();

    let refused = SqliteOptions::file(folder.join("store.db")).open().await.unwrap_err();

    assert!(matches!(refused, OpenError::Database(_) | OpenError::Migration(_)), "{refused:?}");
    assert_eq!(files(&folder), ["store.db-wal"]);
}
