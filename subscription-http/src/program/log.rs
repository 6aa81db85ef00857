//! The log, on standard error: lines for people on a terminal, JSON for machines.
//!
//! A thread of its own writes it, from a queue of bounded size. Standard error may be a pipe that nobody
//! reads, or a terminal that is stopped: then lines are lost and counted, and requests go on.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::log_format::JsonLines;

/// Bytes that wait to be written, at the most: some 16,000 lines.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Room that the queue keeps between writes; more is given back.
const QUEUE_BYTES_KEPT: usize = 64 << 10;

/// How long the writer lets lines gather before it writes them together. Without a pause, each line of a
/// busy server would wake the thread and be a system call of its own.
const GATHER: Duration = Duration::from_millis(1);

/// How long the end of the program waits for the rest of the log to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait before lines are written again that could not be without blocking.
const RETRY: Duration = Duration::from_millis(5);

/// The log of the program; dropped, it writes the lines that wait, for a second at the most.
#[derive(Debug)]
pub(crate) struct Log(Arc<Queue>);

impl Log {
    /// Logs to standard error from now on.
    pub(crate) fn start(level: LevelFilter) -> io::Result<Self> {
        // Not through std's handle, whose lock a blocked write would hold.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let queue = Arc::new(Queue::new(QUEUE_BYTES_MAX));
        let writing = Arc::clone(&queue);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writing.run(stderr))?;
        // Else it reports a failed write on standard error, and panics.
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Arc::clone(&queue))
            .log_internal_errors(false);
        // At its finest, hyper's own log would show what is in requests.
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

    /// How many lines were lost, for `/metrics`.
    pub(crate) fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.lost)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush(FLUSH_TIMEOUT);
    }
}

/// Lines on their way to the thread that writes them.
#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// The writer may go on: there are lines.
    filled: Condvar,
    /// The writer has written all that there was.
    emptied: Condvar,
    bytes_max: usize,
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    count: u64,
    /// True while the writer waits for lines, and so has written all others.
    idle: bool,
}

impl Queue {
    fn new(bytes_max: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            bytes_max,
            lost: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, or counts it as lost where there is no room. Never waits for the writer.
    fn push(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.lines.len() + line.len() > self.bytes_max {
            drop(waiting);
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        waiting.count += 1;
        if std::mem::take(&mut waiting.idle) {
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// Writes what comes, for as long as the process lives.
    fn run(&self, mut to: impl Write) {
        let (mut lines, mut told, mut works) = (Vec::new(), 0, true);
        loop {
            let count = self.take(&mut lines);
            let lost = self.lost.load(Ordering::Relaxed);
            // Now, as there is room, and the lines that were lost came after those that were taken. Not
            // while nothing can be written: that line would be lost itself, and make another.
            if works && lost > told {
                tracing::warn!(lost = lost - told, "log lines were lost");
                told = lost;
            }
            works = write(&mut to, &lines).is_ok();
            if !works {
                self.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Waits for lines, and takes all that there are; how many.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        lines.clear();
        lines.shrink_to(QUEUE_BYTES_KEPT);
        let mut waiting = self.lock();
        if waiting.count == 0 {
            waiting.idle = true;
            self.emptied.notify_all();
            while waiting.count == 0 {
                waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
        waiting.idle = false;
        drop(waiting);
        std::thread::sleep(GATHER);
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.lines, lines);
        std::mem::take(&mut waiting.count)
    }

    /// Waits until all lines are written, or the time is over.
    fn flush(&self, time: Duration) {
        let waiting = self.lock();
        let busy = |waiting: &mut Waiting| !waiting.idle;
        drop(self.emptied.wait_timeout_while(waiting, time, busy));
    }
}

impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all lines. A standard error that is shared with another program may be set not to block.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that can be stopped: each write waits until it is let through.
    struct Stalled {
        permits: mpsc::Receiver<io::Result<()>>,
        written: mpsc::Sender<String>,
    }

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permits.recv().unwrap()?;
            self.written.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn stalled() -> (Arc<Queue>, mpsc::Sender<io::Result<()>>, mpsc::Receiver<String>) {
        let (permit, permits) = mpsc::channel();
        let (written, read) = mpsc::channel();
        let queue = Arc::new(Queue::new(100));
        let writing = Arc::clone(&queue);
        std::thread::spawn(move || writing.run(Stalled { permits, written }));
        (queue, permit, read)
    }

    /// All that is read until it ends so.
    fn read_until(read: &mpsc::Receiver<String>, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            text += &read.recv().unwrap();
        }
        text
    }

    #[test]
    fn lines_come_in_order_and_those_without_room_are_lost_and_counted() {
        let (queue, permit, read) = stalled();
        for n in 0..1_000 {
            queue.push(format!("line {n:03}\n").as_bytes());
        }

        // At least those that fit, at most those and what the writer had taken before.
        let lost = queue.lost.load(Ordering::Relaxed);
        assert!((1_000 - 22..=1_000 - 11).contains(&lost), "{lost}");
        for _ in 0..10 {
            permit.send(Ok(())).unwrap();
        }
        queue.flush(Duration::from_mins(1));
        queue.push(b"the last\n");
        let text = read_until(&read, "the last\n");

        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len() as u64, 1_000 - lost + 1, "{text}");
        assert!(lines.starts_with(&["line 000", "line 001"]), "{text}");
        assert!(lines.is_sorted(), "{text}");
    }

    #[test]
    fn lines_that_cannot_be_written_are_lost_too_and_later_ones_are_not() {
        let (queue, permit, read) = stalled();
        permit.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        queue.push(b"one\n");
        queue.flush(Duration::from_mins(1));
        assert_eq!(queue.lost.load(Ordering::Relaxed), 1);

        permit.send(Ok(())).unwrap();
        queue.push(b"two\n");

        assert_eq!(read.recv().unwrap(), "two\n");
    }

    #[test]
    fn the_end_waits_for_what_is_written_but_not_for_ever() {
        let (queue, permit, read) = stalled();
        permit.send(Ok(())).unwrap();
        queue.push(b"one\n");

        queue.flush(Duration::from_mins(1));
        assert_eq!(read.try_recv().unwrap(), "one\n");

        queue.push(b"two\n");
        queue.flush(Duration::from_millis(1));
        assert!(read.try_recv().is_err());
    }
}
