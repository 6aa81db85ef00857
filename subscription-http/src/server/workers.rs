//! Threads that serve connections, each with its own single-threaded runtime.
//!
//! A connection stays on its thread. So no request wakes another thread or is moved to another thread.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// The workers of a server.
#[derive(Debug)]
pub(super) struct Workers {
    handles: Vec<Handle>,
    next: usize,
    pub(super) threads: WorkerThreads,
}

/// The threads of [`Server::workers`](super::Server::workers). They run as long as the server, and until the last clone
/// of this value is dropped.
#[derive(Debug, Clone, Default)]
pub struct WorkerThreads(
    #[expect(dead_code, reason = "the threads run as long as somebody has it")] Arc<Threads>,
);

#[derive(Debug, Default)]
struct Threads {
    threads: Vec<JoinHandle<()>>,
    ended: Option<watch::Sender<()>>,
}

impl Workers {
    /// No threads: connections are served on the runtime that accepts them.
    pub(super) fn none() -> Self {
        Self { handles: Vec::new(), next: 0, threads: WorkerThreads::default() }
    }

    /// Starts `count` threads.
    pub(super) fn start(count: NonZeroUsize) -> io::Result<Self> {
        let (ended, end) = watch::channel(());
        let mut handles = Vec::new();
        let mut started = Threads { threads: Vec::new(), ended: Some(ended) };
        for nth in 0..count.get() {
            let mut end = end.clone();
            let (tell, told) = mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("connections-{nth}"));
            started.threads.push(thread.spawn(move || {
                let runtime = match Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(tell.send(Err(error))),
                };
                tell.send(Ok(runtime.handle().clone())).ok();
                // The channel never carries a value: `changed` returns when the sender is dropped.
                runtime.block_on(end.changed()).ok();
                // This call does not wait for blocking tasks, such as the look-up of a name.
                runtime.shutdown_background();
            })?);
            let handle =
                told.recv().map_err(|_| io::Error::other("a worker thread ended at startup"))??;
            handles.push(handle);
        }
        Ok(Self { handles, next: 0, threads: WorkerThreads(Arc::new(started)) })
    }

    /// The runtime for the next connection. The threads take turns.
    pub(super) fn next(&mut self) -> Handle {
        let handle = self.handles.get(self.next).or_else(|| self.handles.first());
        self.next = (self.next + 1) % self.handles.len().max(1);
        handle.cloned().unwrap_or_else(Handle::current)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.ended.take());
        for thread in self.threads.drain(..) {
            // The result is ignored: if the thread panicked, the panic hook has already logged it.
            thread.join().ok();
        }
    }
}
