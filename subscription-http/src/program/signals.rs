//! The signals that stop the server: SIGTERM, SIGINT, and SIGHUP of a terminal that is closed.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if whoever started us (`nohup`) wants SIGHUP to be ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    /// From now on none of them ends the process by itself.
    pub(crate) fn new() -> std::io::Result<Self> {
        let ignores_hang_up = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| ignores(&status, SignalKind::hangup()));
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if ignores_hang_up { None } else { Some(signal(SignalKind::hangup())?) },
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

/// True if a process with this `/proc/PID/status` ignores a signal.
fn ignores(status: &str, kind: SignalKind) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| (mask >> (kind.as_raw_value() - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits_from_the_first() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";

        assert!(ignores(status, SignalKind::hangup()));
        assert!(!ignores(status, SignalKind::interrupt()));
        assert!(!ignores("", SignalKind::hangup()));
    }
}
