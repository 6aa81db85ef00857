//! The simulation over each kind of store: shorter than in memory, where the same seeds go further.

use std::sync::Arc;

use subscription_core::Store;
use subscription_core::store::{CacheInvalidator, CachedStore};
use test_support::simulation::accounts::random_accounts;
use test_support::simulation::{actors_at_once, random_lives};
use test_support::trials::{Trial, trial};

/// The simulations over one kind of store, and over the same with memory in front.
pub(crate) fn trials<F: Future<Output = S> + 'static, S: Store + 'static>(
    kind: &'static str,
    open: fn() -> F,
) -> Vec<Trial> {
    let plain = move || async move { Arc::new(open().await) as Arc<dyn Store> };
    let cached = move || async move {
        let lag = CacheInvalidator::LAG;
        Arc::new(CachedStore::new(Arc::new(open().await), lag)) as Arc<dyn Store>
    };
    let name = |name: &str| format!("{kind}::lives::{name}");
    vec![
        trial(name("random_lives"), move || random_lives(plain, 1, 150)),
        trial(name("random_lives_with_memory"), move || random_lives(cached, 1, 150)),
        trial(name("actors_at_once"), move || actors_at_once(plain, 2, 40)),
        trial(name("actors_at_once_with_memory"), move || actors_at_once(cached, 2, 40)),
        trial(name("random_accounts"), move || random_accounts(plain, 1, 100)),
        trial(name("random_accounts_with_memory"), move || random_accounts(cached, 1, 100)),
    ]
}
