//! Files for a test.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Emptied by the next run, so that what a failed test left behind can be looked at.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("databases");
    fs::remove_dir_all(&root).ok();
    fs::create_dir_all(&root).unwrap();
    root
});

/// A folder that no other test has.
pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = ROOT.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    fs::create_dir_all(&folder).unwrap();
    folder
}
