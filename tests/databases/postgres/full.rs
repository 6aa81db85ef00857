//! A database whose disk has no room.

use std::fs;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::Store as _;
use subscription_core::store::{ChangeSet, PostgresOptions, StoreError};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use crate::records::{plan, put};
use crate::sqlite::SmallDisk;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_full_disk_is_told_to_who_asks_whether_the_store_takes_writes]
}

/// The disk has the tables and the temporary files, as most databases have them, but not the log.
async fn a_full_disk_is_told_to_who_asks_whether_the_store_takes_writes() {
    let cluster = Cluster::start(false).unwrap();
    // The user of the server reaches this folder, and need not reach those of the other tests.
    let folder = cluster.folder().join("small");
    fs::create_dir(&folder).unwrap();
    let disk = SmallDisk::mount_at(folder, "16m").unwrap();
    let mut operator = PgConnection::connect(&cluster.url()).await.unwrap();
    let space = disk.0.join("space").display().to_string();
    for step in [
        // By the user of the server, who must own the folder.
        format!("COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {space}'"),
        format!("CREATE TABLESPACE small LOCATION '{space}'"),
        "ALTER DATABASE postgres SET default_tablespace = small".to_owned(),
        "ALTER DATABASE postgres SET temp_tablespaces = small".to_owned(),
    ] {
        sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut operator).await.unwrap();
    }
    let store = Arc::new(PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap());
    store.commit(ChangeSet::default()).await.unwrap();
    let ballast = disk.0.join("ballast");

    // More than there is room for: as much as there is room for is written.
    fs::write(&ballast, vec![0; 32 << 20]).unwrap_err();
    let full = store.commit(ChangeSet::default()).await;
    fs::remove_file(&ballast).unwrap();

    assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    store.commit(ChangeSet::default()).await.unwrap();
    put(&store, &plan("pro")).await.unwrap();
}
