//! The signals that stop the server: SIGTERM, SIGINT, and SIGHUP from a closed terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal that stops the process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started to ignore SIGHUP, as `nohup` does.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Catches the signals. From now on, a signal no longer ends the process by itself.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    pub(crate) async fn recv(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// Reads from `/proc` whether the process ignores SIGHUP. SIGHUP is signal 1, so it is the lowest bit of the mask.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
