//! Counts the bytes of responses that clients have not read yet, and limits them.
//!
//! HTTP/2 lets a client ask for many responses at once and read none of them. HTTP/1 has one response at a time on a
//! connection, so its bytes are not counted.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of unread bytes of one connection: a long page for each of its streams. So a client that reads is
/// not refused, even if all of its pages are ready before its small window lets it read the first.
const CONNECTION_MAX: usize = 8 << 20;

/// The maximum number of unread bytes of all connections together.
const ALL_MAX: usize = 256 << 20;

/// A response of at most this number of bytes is always sent. The number of streams limits how many a connection has.
const SMALL: usize = 4_096;

/// Marks a response whose bytes are shared by all responses, so that they are not counted.
#[derive(Clone)]
pub(crate) struct SharedBytes;

/// The number of unread bytes of one connection, which are also counted in the sum of all connections.
#[derive(Default)]
pub(crate) struct UnreadBytes {
    connection: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl UnreadBytes {
    /// The count of a new connection. `all` is the sum of all connections.
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Self {
        Self { connection: AtomicUsize::new(0), all: Arc::clone(all) }
    }

    /// True if a response with this number of bytes may be sent. A client that has read everything always gets the next
    /// response, so that clients who do not read shut out nobody else.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let unread = self.connection.load(Relaxed);
        let fits = |unread: usize, most| unread.saturating_add(bytes) <= most;
        unread == 0
            || bytes <= SMALL
            || fits(unread, CONNECTION_MAX) && fits(self.all.load(Relaxed), ALL_MAX)
    }

    /// Counts the bytes of a response.
    pub(crate) fn add(&self, bytes: usize) {
        self.connection.fetch_add(bytes, Relaxed);
        self.all.fetch_add(bytes, Relaxed);
    }

    /// Ends the count of bytes that were sent or dropped.
    pub(crate) fn remove(&self, bytes: usize) {
        self.connection.fetch_sub(bytes, Relaxed);
        self.all.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_eight_mebibytes_and_all_together_256() {
        let all = Arc::default();
        let connection = UnreadBytes::new(&all);
        assert!(connection.has_room(10 * CONNECTION_MAX), "everything was read");
        connection.add(CONNECTION_MAX - 5_000);
        assert!(connection.has_room(5_000) && !connection.has_room(5_001));
        assert!(connection.has_room(SMALL));

        let others: Vec<_> = (0..32).map(|_| UnreadBytes::new(&all)).collect();
        for other in &others {
            other.add(CONNECTION_MAX);
        }
        connection.remove(CONNECTION_MAX - 5_000 - 1);
        assert!(!connection.has_room(SMALL + 1), "all together have too many");
        assert!(UnreadBytes::new(&all).has_room(CONNECTION_MAX), "this client has read everything");

        for other in &others {
            other.remove(CONNECTION_MAX);
        }
        assert!(connection.has_room(SMALL + 1));
        connection.remove(1);
        assert_eq!(all.load(Relaxed), 0);
    }
}
