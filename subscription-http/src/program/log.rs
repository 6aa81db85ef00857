//! The log on standard error: readable lines on a terminal, JSON lines elsewhere.
//!
//! A thread writes the lines from a bounded queue. If standard error blocks (a pipe that nobody reads, a stopped
//! terminal), lines are dropped and counted, and requests do not wait.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use subscription_http::log_format::JsonLines;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Maximum size of the queue in bytes: about 16,000 lines.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Capacity in bytes that the queue retains after a write. Memory above it is freed.
const QUEUE_BYTES_KEPT: usize = 64 << 10;

/// How long the thread waits for more lines before it writes. Without this pause, each line of a busy server would wake
/// the thread and need its own system call.
const GATHER: Duration = Duration::from_millis(1);

/// The longest time that the program waits at its end for the queue to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after which a write that would have blocked is retried.
const RETRY: Duration = Duration::from_millis(5);

/// The log of the program. Dropping this value waits until the queue is written, but at most one second.
pub(crate) struct Log(Arc<Queue>);

impl Log {
    /// Starts to log to standard error.
    pub(crate) fn start(level: LevelFilter) -> io::Result<Self> {
        // The thread has its own file handle: a blocked write through std's handle would hold the lock of that handle,
        // and block all other writes to standard error.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let queue = Arc::new(Queue::default());
        let writing = Arc::clone(&queue);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writing.run(stderr))?;
        // By default, tracing reports a failed write with `eprintln!`, which panics if standard error cannot be
        // written.
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Arc::clone(&queue))
            .log_internal_errors(false);
        // Other crates log only warnings and errors: at debug and trace level, hyper would log the content of requests.
        let targets = Targets::new()
            .with_target("subscription_http", level)
            .with_target("subscription_core", level)
            .with_default(level.min(LevelFilter::WARN));
        let registry = tracing_subscriber::registry().with(targets);
        if io::stderr().is_terminal() {
            registry.with(lines).init();
        } else {
            registry.with(lines.event_format(JsonLines)).init();
        }
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        Ok(Self(queue))
    }

    /// The number of lost lines, for `/metrics`.
    pub(crate) fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.lost)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let busy = |waiting: &mut Waiting| !waiting.idle;
        drop(self.0.emptied.wait_timeout_while(self.0.lock(), FLUSH_TIMEOUT, busy));
    }
}

/// The lines that the log thread has not written yet.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the log thread when there are lines.
    filled: Condvar,
    /// Signals that the log thread has written all lines.
    emptied: Condvar,
    lost: Arc<AtomicU64>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// True while the log thread waits for new lines. Then all earlier lines are written.
    idle: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines until the process ends.
    fn run(&self, mut to: impl Write) {
        let mut lines = Vec::new();
        let mut reported = 0;
        let mut works = true;
        loop {
            self.take(&mut lines);
            let lost = self.lost.load(Ordering::Relaxed);
            // `take` has just emptied the queue, so the queue has room for this warning. If the last write failed, no
            // warning is logged: the warning would be lost too, and so cause another warning.
            if works && lost > reported {
                tracing::warn!(lost = lost - reported, "log lines were lost");
                reported = lost;
            }
            works = write(&mut to, &lines).is_ok();
            if !works {
                let lines = memchr::memchr_iter(b'\n', &lines).count();
                self.lost.fetch_add(lines as u64, Ordering::Relaxed);
            }
        }
    }

    /// Waits for lines and moves them into `lines`.
    fn take(&self, lines: &mut Vec<u8>) {
        lines.clear();
        lines.shrink_to(QUEUE_BYTES_KEPT);
        let mut waiting = self.lock();
        if waiting.lines.is_empty() {
            waiting.idle = true;
            self.emptied.notify_all();
            while waiting.lines.is_empty() {
                waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
        waiting.idle = false;
        drop(waiting);
        std::thread::sleep(GATHER);
        std::mem::swap(&mut self.lock().lines, lines);
    }
}

impl Write for &Queue {
    /// Adds a line, or counts it as lost if the queue is full. Does not wait for the thread that writes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lock();
        if waiting.lines.len() + line.len() > QUEUE_BYTES_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(line.len());
        }
        waiting.lines.extend_from_slice(line);
        if std::mem::take(&mut waiting.idle) {
            drop(waiting);
            self.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all lines. A write that would block is retried, because another program that shares standard error may have
/// made it non-blocking.
fn write(to: &mut impl Write, mut lines: &[u8]) -> io::Result<()> {
    while !lines.is_empty() {
        match to.write(lines) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => lines = lines.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
