//! Counts the connections of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of connections of every address.
#[derive(Clone, Default)]
pub(super) struct Peers {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A connection of an address. The connection is counted until this value is dropped.
pub(super) struct PeerSlot {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    ip: IpAddr,
}

impl Peers {
    /// Counts a new connection; `None` if the address already has `most` connections.
    pub(super) fn enter(&self, ip: IpAddr, most: usize) -> Option<PeerSlot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(PeerSlot { counts: Arc::clone(&self.counts), ip })
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}
