//! Every store passes the same suite.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod faulty;
mod forwarding;
mod suite_finds_faults;

mod memory {
    use subscription_core::MemoryStore;

    subscription_core::store_conformance!(async { MemoryStore::default() });
}

mod cached {
    use std::sync::Arc;

    use subscription_core::MemoryStore;
    use subscription_core::store::{CacheInvalidator, CachedStore};

    subscription_core::store_conformance!(async {
        CachedStore::new(Arc::new(MemoryStore::default()), CacheInvalidator::LAG)
    });
}
