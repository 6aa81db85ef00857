//! Counts the connections of each address. The IPv6 addresses of one /64 network count as one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::admission::rate::network;

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
        let ip = network(ip);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(peers: &Peers, ip: &str) -> Option<PeerSlot> {
        peers.enter(ip.parse().unwrap(), 2)
    }

    #[test]
    fn one_network_has_as_many_connections_as_one_address() {
        let peers = Peers::default();
        let first = enter(&peers, "2001:db8:0:1::1");
        let second = enter(&peers, "2001:db8:0:1:ffff::2");
        assert!(first.is_some() && second.is_some());

        assert!(enter(&peers, "2001:db8:0:1::3").is_none(), "another address of the /64");
        let others = ["2001:db8:0:2::1", "203.0.113.7", "203.0.113.8"];
        let others: Vec<_> = others.iter().map(|ip| enter(&peers, ip)).collect();
        assert!(others.iter().all(Option::is_some), "other networks");
        let mapped = enter(&peers, "::ffff:203.0.113.7");
        assert!(mapped.is_some() && enter(&peers, "203.0.113.7").is_none(), "one address");

        drop(first);
        assert!(enter(&peers, "2001:db8:0:1::3").is_some());
        drop((second, others, mapped));
        assert!(peers.counts.lock().unwrap().is_empty());
    }
}
