//! The program, run, and ended in one way or another.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use crate::http::{Connection, Request};

/// How long anything may take that is waited for.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Emptied by the next run, so that what a failed test left behind can be looked at.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("crashes");
    std::fs::remove_dir_all(&root).ok();
    root
});

/// A folder that no other test has.
pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = ROOT.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Looks until it is so: often at first, and less often later, because a look takes the time of the servers.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not in {DEADLINE:?}");
        std::thread::sleep((begun.elapsed() / 20).clamp(Duration::from_millis(1), PAUSE_MAX));
    }
}

/// A server that runs; dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl Running {
    /// Starts in a folder, where its keys are, and waits for its line.
    pub(crate) fn start(folder: &Path, database: &str, more: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_subscription-http"));
        Self::start_program(program, folder, database, more)
    }

    /// Starts the program of any release.
    pub(crate) fn start_program(
        program: &Path,
        folder: &Path,
        database: &str,
        more: &[&str],
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let log = folder.join(format!("log-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new(program);
        let ours = |name: &str| name.starts_with("SUBSCRIPTION_") || name == "DATABASE_URL";
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.args(["--listen", "127.0.0.1:0", "--log", "warn", "--database", database]);
        command.args(more).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, address: ([127, 0, 0, 1], 0).into(), log };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).ok();
            tell.send(line).ok();
        });
        let line = told.recv_timeout(DEADLINE).unwrap_or_default();
        let address = line.strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("it did not start: {}", running.log()));
        running.address = address.trim_end().parse().unwrap();
        running
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address)
    }

    /// The status of a path that needs nothing.
    pub(crate) fn status(&self, path: &str) -> u16 {
        self.connect().sure(&Request::get(path)).status
    }

    /// Ends it the hard way.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    pub(crate) fn signal(&self, name: &str) {
        // The shell's own `kill`: not every machine has the program.
        let script = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Waits for its end: the code, and what it had logged.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut status = None;
        until("its end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap().code(), self.log())
    }

    /// The lines that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Ends it in order, and returns its log, which is complete only then: lines are queued.
    pub(crate) fn stop(self) -> String {
        self.terminate();
        let (code, log) = self.end();
        assert_eq!(code, Some(0), "{log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
