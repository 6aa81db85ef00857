//! A disk without room.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subscription_core::plans::Plan;
use subscription_core::store::StoreExt as _;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Row as _, SqliteConnection};
use subscription_core::Store as _;
use subscription_core::store::{ChangeSet, SqliteOptions, StoreError};
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;
use crate::records::{plan, put};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_full_disk_is_told_to_who_asks_whether_the_store_takes_writes,
        a_full_disk_refuses_writes_loses_nothing_and_is_used_again_once_it_has_room,
        a_disk_that_can_only_be_read_refuses_writes_and_is_used_again_once_it_can_be_written,
    ]
}

/// How long a disk may be busy.
const REMOUNTED: Duration = Duration::from_secs(20);

/// A small disk, while it is there; mounting one takes root.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

/// True if disks can be mounted here.
pub(crate) fn can_mount() -> bool {
    SmallDisk::mount("4m").is_some()
}

impl SmallDisk {
    /// A disk of this size, which every user may write.
    fn mount(size: &str) -> Option<Self> {
        Self::mount_at(folder(), size)
    }

    /// A disk in this folder, which must be there.
    pub(crate) fn mount_at(folder: PathBuf, size: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        let options = format!("size={size},mode=0777");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder);
        mount.output().is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }

    /// Lets it be written, or only read.
    fn remount(&self, how: &str) {
        let (begun, options) = (Instant::now(), format!("remount,{how}"));
        loop {
            let done = Command::new("mount").args(["-o", &options]).arg(&self.0).output().unwrap();
            if done.status.success() {
                return;
            }
            // A process that another test starts has all files of this one open until its program runs.
            let error = String::from_utf8_lossy(&done.stderr);
            assert!(begun.elapsed() < REMOUNTED, "{how}: {error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

async fn a_full_disk_is_told_to_who_asks_whether_the_store_takes_writes() {
    let disk = SmallDisk::mount("4m").unwrap();
    let store = SqliteOptions::file(disk.0.join("store.db")).open().await.unwrap();
    store.commit(ChangeSet::default()).await.unwrap();
    let ballast = disk.0.join("ballast");

    // More than there is room for: as much as there is room for is written.
    fs::write(&ballast, vec![0; 8 << 20]).unwrap_err();
    let full = store.commit(ChangeSet::default()).await;
    fs::remove_file(&ballast).unwrap();

    assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    store.commit(ChangeSet::default()).await.unwrap();
}

async fn a_full_disk_refuses_writes_loses_nothing_and_is_used_again_once_it_has_room() {
    let disk = SmallDisk::mount("4m").unwrap();
    let file = disk.0.join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; 2 << 20]).unwrap();

    let mut kept = Vec::new();
    let full = loop {
        let next = plan(&format!("plan-{}", kept.len()));
        match put(&store, &next).await {
            Ok(()) => kept.push(next),
            Err(full) => break full,
        }
        assert!(kept.len() < 20_000, "the disk is never full");
    };

    println!("the disk was full after {} plans", kept.len());
    assert!(matches!(full, StoreError::Unavailable(_)), "{full:?}");
    // The log may be emptied into the file meanwhile, which makes room for a few more.
    let again = loop {
        let next = plan(&format!("again-{}", kept.len()));
        match put(&store, &next).await {
            Ok(()) => kept.push(next),
            Err(full) => break full,
        }
        assert!(kept.len() < 20_000, "the disk is never full again");
    };
    assert!(matches!(again, StoreError::Unavailable(_)), "{again:?}");
    for plan in &kept {
        assert_eq!(store.get_as::<Plan>(&plan.id).await.unwrap().as_deref(), Some(plan));
    }

    fs::remove_file(&ballast).unwrap();

    put(&store, &plan("in-time")).await.unwrap();
    for plan in &kept {
        assert_eq!(store.get_as::<Plan>(&plan.id).await.unwrap().as_deref(), Some(plan));
    }
    store.close().await;
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let sound = sqlx::query("PRAGMA integrity_check").fetch_one(&mut outsider).await.unwrap();
    assert_eq!(sound.get::<String, _>(0), "ok");
}

async fn a_disk_that_can_only_be_read_refuses_writes_and_is_used_again_once_it_can_be_written() {
    let disk = SmallDisk::mount("4m").unwrap();
    let store = Arc::new(SqliteOptions::file(disk.0.join("store.db")).open().await.unwrap());
    let before = plan("before");
    put(&store, &before).await.unwrap();

    // What is open for writing stays so, so the file is closed first.
    store.close().await;
    disk.remount("ro");
    let refused = SqliteOptions::file(disk.0.join("store.db")).open().await.unwrap_err();
    disk.remount("rw");
    let store = Arc::new(SqliteOptions::file(disk.0.join("store.db")).open().await.unwrap());

    println!("a disk that can only be read: {refused}");
    assert!(refused.to_string().contains("store.db"), "{refused}");
    assert_eq!(store.get_as::<Plan>(&before.id).await.unwrap().as_deref(), Some(&before));
    put(&store, &plan("after")).await.unwrap();
}
