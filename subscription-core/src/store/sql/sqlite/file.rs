//! The files of a store: the lock that keeps other processes out, and the database itself.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::OpenError;

/// The largest number of attempts to lock the file, if the lock file is removed meanwhile.
const ATTEMPTS_MAX: usize = 16;

/// A database file that this process alone has, until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct HeldFile {
    path: PathBuf,
    identity: Identity,
    /// The files that this start made, and removes again if the database cannot be opened.
    made: Vec<PathBuf>,
    _lock: File,
}

impl HeldFile {
    /// Takes the file, which is made if it is not there.
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

    /// True while the path still leads to this file: one that was removed or replaced takes writes
    /// until it is closed, and all of them are lost then.
    pub(super) fn is_in_place(&self) -> bool {
        // The file is not opened for that: to close it would give up SQLite's own locks.
        std::fs::metadata(&self.path).is_ok_and(|found| Identity::of(&found) == self.identity)
    }

    /// Removes the files that were not there before.
    pub(super) fn discard(self) {
        // While the lock is held: nobody else can have begun to use them.
        remove(&self.made);
    }
}

fn remove(files: &[PathBuf]) {
    for file in files {
        // Some may not have been made yet.
        std::fs::remove_file(file).ok();
    }
}

/// Takes the lock, and says whether its file is new.
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
        // The process that had it before may have removed its file between our opening and locking it.
        if std::fs::metadata(lock_path)
            .is_ok_and(|found| Identity::of(&found) == Identity::of(&held))
        {
            return Ok((file, is_new));
        }
    }
    Err(OpenError::InUse(path.to_owned()))
}

/// Opens a file, or makes it for the eyes of its owner only: people are in it. True if it is new.
fn private(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // Made here still, if it is a link to a file that is not there.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// The path with `ending` appended to it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The identity of a file, which does not depend on its name.
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

    /// A system that removes no open file needs none.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}
