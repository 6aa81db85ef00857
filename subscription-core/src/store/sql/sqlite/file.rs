//! The database file of a store, and the lock file that excludes other processes.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::OpenError;

/// The largest number of attempts to lock, if the lock file is removed during each attempt.
const ATTEMPTS_MAX: usize = 16;

/// A database file that only this process uses, until this value is dropped or the process ends.
#[derive(Debug)]
pub(super) struct HeldFile {
    path: PathBuf,
    identity: Identity,
    /// The files that were created here, to be removed if the database cannot be opened.
    made: Vec<PathBuf>,
    _lock: File,
}

impl HeldFile {
    /// Locks the file, which is created if it does not exist.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let lock_path = beside(path, ".lock");
        let mut made = Vec::new();
        let (lock, is_new) = lock(path, &lock_path)?;
        if is_new {
            made.push(lock_path);
        }
        let taken = private(path).and_then(|(file, is_new)| Ok((file.metadata()?, is_new)));
        let (metadata, is_new) = taken.map_err(|error| {
            remove(&made);
            io(error)
        })?;
        if is_new {
            made.extend([path.to_owned(), beside(path, "-wal"), beside(path, "-shm")]);
        }
        Ok(Self { path: path.to_owned(), identity: Identity::of(&metadata), made, _lock: lock })
    }

    /// True while the path still leads to this file. A file that was removed or replaced still accepts writes, but they
    /// are lost when it is closed.
    pub(super) fn is_in_place(&self) -> bool {
        // The file is not opened for this test: closing it would release SQLite's own locks.
        std::fs::metadata(&self.path).is_ok_and(|found| Identity::of(&found) == self.identity)
    }

    /// Removes the files in `made`: those that this attempt to open the database has created.
    pub(super) fn discard(self) {
        // The lock is still held, so no other process uses the files.
        remove(&self.made);
    }
}

fn remove(files: &[PathBuf]) {
    for file in files {
        // Some of the files may not exist yet.
        std::fs::remove_file(file).ok();
    }
}

/// Locks the lock file, and returns true if the file is new.
fn lock(path: &Path, lock_path: &Path) -> Result<(File, bool), OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    for _ in 0..ATTEMPTS_MAX {
        let (file, is_new) = private(lock_path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let held = file.metadata().map_err(io)?;
        // The process that had the lock may have removed the file after we opened and before we locked it.
        if std::fs::metadata(lock_path)
            .is_ok_and(|found| Identity::of(&found) == Identity::of(&held))
        {
            return Ok((file, is_new));
        }
    }
    Err(OpenError::InUse(path.to_owned()))
}

/// Opens a file, or creates it so that only its owner can read it, because it contains personal data. True if the file
/// is new.
fn private(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // If the path is a link to a file that does not exist, this call creates the file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// The path with a suffix appended.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The identity of a file, independent of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// The identity is not needed on a system that does not remove open files.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}
