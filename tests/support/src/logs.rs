//! The log of a whole test suite at trace level, and the secrets that must not be in it.
//!
//! If `SUBSCRIPTION_TEST_LOG` is the path of a file, the tests write everything that the service logs to this file.
//! They write each secret that they use to a second file beside it.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use tracing::dispatcher::{DefaultGuard, Dispatch};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub const LOG: &str = "SUBSCRIPTION_TEST_LOG";

/// The file for the secrets. `None` if the tests do not log.
static SECRETS: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// The path of the file with the secrets that belongs to a log.
pub fn secrets_beside(log: &Path) -> PathBuf {
    log.with_extension("secrets")
}

/// Starts to log, if `SUBSCRIPTION_TEST_LOG` is set and the log was not started before.
pub fn listen() {
    secrets();
}

/// Sends what this thread logs to a subscriber until the guard is dropped.
///
/// While a process has one subscriber, `tracing` asks only the thread that first reaches a log statement whether it is
/// listened to, and keeps the answer for all threads. So a second one, which takes nothing, lives as long as the process.
pub fn of_this_thread(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    static NOBODY: LazyLock<Dispatch> =
        LazyLock::new(|| Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF)));
    LazyLock::force(&NOBODY);
    tracing::dispatcher::set_default(&subscriber.into())
}

/// Writes a secret, which must not be in the log, to the file of secrets.
pub fn note(secret: &str) {
    if let Some(file) = secrets() {
        writeln!(file.lock().unwrap(), "{secret}").unwrap();
    }
}

fn secrets() -> Option<&'static Mutex<File>> {
    SECRETS.get_or_init(|| std::env::var_os(LOG).map(|path| begin(Path::new(&path)))).as_ref()
}

fn begin(path: &Path) -> Mutex<File> {
    let log = Arc::new(File::create(path).unwrap());
    // These are the levels of the server too: at trace level, the HTTP libraries would log the content of requests.
    let targets = Targets::new()
        .with_target("subscription_core", LevelFilter::TRACE)
        .with_target("subscription_http", LevelFilter::TRACE)
        .with_default(LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(log);
    tracing_subscriber::registry().with(targets).with(lines).init();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(target: "panics", "{panic}");
        before(panic);
    }));
    Mutex::new(File::create(secrets_beside(path)).unwrap())
}
