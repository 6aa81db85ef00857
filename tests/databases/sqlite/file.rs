//! The file, and who has it.

use std::sync::Arc;

use subscription_core::Store as _;
use subscription_core::store::{OpenError, Sqlite};

use crate::folder::folder;
use crate::records::{plan, put};
use crate::stories::{Story, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories![
        what_was_committed_is_there_when_the_file_is_opened_again,
        a_file_in_use_is_refused_to_a_second,
        what_is_no_database_is_refused,
    ]
}

async fn what_was_committed_is_there_when_the_file_is_opened_again() {
    let file = folder().join("store.db");
    let first = Arc::new(Sqlite::file(&file).open().await.unwrap());
    let kept = plan("kept");
    put(&first, &kept).await.unwrap();
    first.close().await;

    let second = Sqlite::file(&file).open().await.unwrap();

    assert_eq!(second.plan(kept.id).await.unwrap().as_deref(), Some(&kept));
    assert!(put(&first, &plan("late")).await.is_err());
}

async fn a_file_in_use_is_refused_to_a_second() {
    let file = folder().join("store.db");
    let first = Arc::new(Sqlite::file(&file).open().await.unwrap());

    let refused = Sqlite::file(&file).open().await.unwrap_err();

    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    assert!(refused.to_string().contains("store.db is in use by another process"), "{refused}");
    put(&first, &plan("undisturbed")).await.unwrap();
}

async fn what_is_no_database_is_refused() {
    let file = folder().join("store.db");
    std::fs::write(&file, "Dear diary, this is not a database, but it is long enough.").unwrap();

    let refused = Sqlite::file(&file).open().await.unwrap_err();

    assert!(matches!(refused, OpenError::Database(_)), "{refused:?}");
}
