//! The database file of a store with its log, and the locks that exclude other processes.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::OpenError;

/// The largest number of attempts to lock, if the lock file is removed during each attempt.
const ATTEMPTS_MAX: usize = 16;

/// A database file that only this process uses, until this value is dropped or the process ends.
#[derive(Debug)]
pub(super) struct HeldFile {
    /// The path without links.
    path: PathBuf,
    identity: Identity,
    log_path: PathBuf,
    /// The identity of the log; `None` until a connection has made it.
    log: Option<Identity>,
    /// The files that were created here, to be removed if the database cannot be opened.
    made: Vec<PathBuf>,
    /// The database file, locked: the lock file does not exclude a process that reaches the database by another path,
    /// such as a mount of the file into a container. It stays open for as long as this value lives: closing any
    /// descriptor of the file releases SQLite's own locks.
    _file: File,
    _lock: File,
}

impl HeldFile {
    /// Locks the file, which is created if it does not exist.
    pub(super) fn take(given: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: given.to_owned(), source };
        let path = without_links(given).map_err(io)?;
        // Tested before the file is opened: see `_file`.
        if std::fs::metadata(&path).is_ok_and(|found| links(&found) > 1) {
            return Err(OpenError::SeveralNames(path));
        }
        let lock_path = beside(&path, ".lock");
        let mut made = Vec::new();
        let (lock, is_new) = lock(&path, &lock_path)?;
        if is_new {
            made.push(lock_path);
        }
        let taken = private(&path).map_err(io).and_then(|(file, is_new)| {
            if is_new {
                made.extend([path.clone(), beside(&path, "-wal"), beside(&path, "-shm")]);
            }
            if LOCKS_ARE_APART {
                try_lock(&file, &path)?;
            }
            let identity = Identity::of(&file.metadata().map_err(io)?);
            Ok((file, identity))
        });
        let (file, identity) = taken.inspect_err(|_| remove(&made))?;
        let log_path = beside(&path, "-wal");
        Ok(Self { path, identity, log_path, log: None, made, _file: file, _lock: lock })
    }

    /// The path of the file, without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Remembers the log that a new connection uses. SQLite removes the log when the last connection is closed, and the
    /// next connection makes a new one.
    pub(super) fn note_log(&mut self) {
        self.log = Identity::at(&self.log_path);
    }

    /// An error if the path no longer leads to this file, or the log is not the one in use. A file that was removed or
    /// replaced still accepts writes, but they are lost when it is closed, or for the log when the process is killed.
    pub(super) fn expect_in_place(&self) -> Result<(), &'static str> {
        // The files are not opened for these tests: closing the database file would release SQLite's own locks.
        if Identity::at(&self.path) != Some(self.identity) {
            return Err("the database file was removed or replaced while it was open");
        }
        if self.log.is_some() && Identity::at(&self.log_path) != self.log {
            return Err(
                "the log of the database file (-wal) was removed or replaced while it was open: restart \
                        this process",
            );
        }
        Ok(())
    }

    /// Removes the files in `made`: those that this attempt to open the database has created.
    pub(super) fn discard(self) {
        // The locks are still held, so no other process uses the files.
        remove(&self.made);
    }
}

/// True where a lock of a whole file does not affect the locks with which SQLite marks parts of it: on Linux, but not
/// on the BSDs and macOS.
const LOCKS_ARE_APART: bool = cfg!(target_os = "linux");

/// The path of the file to which a path leads, also if links lead to a file that does not exist yet.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match (std::fs::read_link(path), path.file_name()) {
        // A circle of links is another error than `NotFound`, so this ends.
        (Ok(target), _) => without_links(&folder.join(target)),
        (Err(_), Some(name)) => Ok(folder.canonicalize()?.join(name)),
        (Err(_), None) => Err(io::ErrorKind::NotFound.into()),
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
        try_lock(&file, path)?;
        let held = file.metadata().map_err(io)?;
        // The process that had the lock may have removed the file after we opened and before we locked it.
        if Identity::at(lock_path) == Some(Identity::of(&held)) {
            return Ok((file, is_new));
        }
    }
    Err(OpenError::InUse(path.to_owned()))
}

/// Locks a file for this process; `path` is the database that errors name.
fn try_lock(file: &File, path: &Path) -> Result<(), OpenError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::InUse(path.to_owned()),
        TryLockError::Error(source) => OpenError::Io { path: path.to_owned(), source },
    })
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

/// The number of names that a file has.
fn links(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::nlink(metadata);
    #[cfg(not(unix))]
    return u64::from(metadata.is_file());
}

/// The identity of a file, independent of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file at a path; `None` if there is none.
    fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|found| Self::of(&found))
    }

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
