//! The log of a whole suite at its finest, and the secrets that must not be in it.
//!
//! With `SUBSCRIPTION_TEST_LOG` set to the path of a file, the worlds of the tests write all that the
//! service logs to it, and the secrets that they hand out to another file beside it.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub const LOG: &str = "SUBSCRIPTION_TEST_LOG";

/// Where the secrets are noted, if anybody listens.
static SECRETS: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// The file beside a log that the secrets are in.
pub fn secrets_beside(log: &Path) -> PathBuf {
    log.with_extension("secrets")
}

/// Begins to log, if it is asked for and has not begun.
pub fn listen() {
    secrets();
}

/// Notes something that must not be in the log.
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
    // As the server does: what carries the requests would tell, at its finest, what is in them.
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
