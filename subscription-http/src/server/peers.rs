//! Counts the connections of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of connections of every address.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of an address, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    peers: Peers,
    ip: IpAddr,
}

impl Peers {
    /// Counts a connection; `None` if the address has `most` already.
    pub(super) fn enter(&self, ip: IpAddr, most: usize) -> Option<Place> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { peers: self.clone(), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.ip);
            }
        }
    }
}
