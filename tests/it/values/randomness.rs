//! Random bytes of the machine and of a seed, and the parts that a service is built with.

use std::sync::Arc;

use subscription_core::{
    Clock, EventId, ManualClock, MemoryStore, Randomness, SeededRandomness, SubscriptionService,
    SystemRandomness, Timestamp,
};

#[test]
fn random_bytes_are_given_away_once_and_all_of_them_are_random() {
    let mut seen = std::collections::HashSet::new();
    let mut bits = 0;
    for length in (8..=600).step_by(7).cycle().take(10_000) {
        let mut bytes = vec![0; length];

        SystemRandomness.fill_id(&mut bytes).unwrap();

        bits += bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert!(seen.insert(bytes[..8].to_vec()), "eight bytes came twice");
    }
    // Half of some 24 million, give or take eight times what chance does.
    let all = (8..=600).step_by(7).cycle().take(10_000).sum::<usize>() * 8;
    let half = u32::try_from(all / 2).unwrap();
    assert!(bits.abs_diff(half) < 20_000, "{bits} of {all} bits are set");
}

#[test]
fn the_parts_of_a_service_may_be_shared_and_chosen_at_run_time() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::MAX));
    let ids: Arc<dyn Randomness> = Arc::new(SeededRandomness::new(1));

    let service = SubscriptionService::builder(MemoryStore::default())
        .clock(Arc::clone(&clock))
        .randomness(Arc::clone(&ids))
        .build();

    assert_eq!(service.now(), clock.now());
    let made = EventId::new(service.now(), service.randomness()).unwrap();
    assert_ne!(EventId::new(clock.now(), &ids).unwrap(), made);
}
