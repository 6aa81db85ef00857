//! Random lives of records, whose events are sent while receivers fail, slow down, vanish and return, and while
//! workers are killed between any two awaits.

use std::collections::BTreeSet;

use test_support::seed::{meet_all_states, seeds, steps};
use test_support::simulation::webhooks::broken::Fault;
use test_support::simulation::webhooks::invariants::{
    FIRST_TRIES_ARE_IN_ORDER, LIMITS_HOLD, NAMES, NOTHING_IS_LOST,
    NOTHING_IS_SENT_AFTER_A_DELETION, PAYLOADS_HAVE_NO_PERSONAL_DATA,
    RECEIVERS_END_WITH_THE_STORES_STATE,
};
use test_support::simulation::webhooks::world::WebhookSimulation;

/// How many runs look for a fault. The first that finds it is the last.
const RUNS_MAX: u64 = 60;

/// The states that random lives come to.
const STATES: [&str; 8] = [
    "behind",
    "disabled: by_caller",
    "disabled: failing",
    "disabled: gone",
    "given_up",
    "stalled: failing",
    "stalled: parked_full",
    "waiting",
];

#[tokio::test]
async fn random_lives_are_sent_to_receivers_that_come_and_go() {
    let mut met = BTreeSet::new();
    let seeds = seeds(5);
    let is_whole = meet_all_states(&seeds) && steps(0) == 0;
    for seed in seeds {
        match WebhookSimulation::new(seed).run(steps(400)).await {
            Ok(states) => met.extend(states),
            Err(failure) => panic!("{failure}"),
        }
    }
    let missing: Vec<_> = STATES.iter().filter(|state| !met.contains(**state)).collect();
    assert!(!is_whole || missing.is_empty(), "never met: {missing:?}");
}

/// Each invariant is checked alone: the others may find the same fault.
#[tokio::test]
async fn a_planted_fault_is_found_by_each_invariant() {
    let cases = [
        (Fault::DropsParked, NOTHING_IS_LOST),
        (Fault::HidesParked, FIRST_TRIES_ARE_IN_ORDER),
        (Fault::ShowsOldRecords, RECEIVERS_END_WITH_THE_STORES_STATE),
        (Fault::LosesCursors, LIMITS_HOLD),
        (Fault::TellsActors, PAYLOADS_HAVE_NO_PERSONAL_DATA),
        (Fault::RemembersEndpoints, NOTHING_IS_SENT_AFTER_A_DELETION),
    ];
    for (fault, invariant) in cases {
        let mut is_found = false;
        for seed in 1..=RUNS_MAX {
            let run = WebhookSimulation::broken(fault, invariant, seed).run(600).await;
            is_found |= run.is_err();
            if is_found {
                break;
            }
        }
        assert!(is_found, "{fault:?}: not by {invariant}");
    }
    let found: BTreeSet<_> = cases.into_iter().map(|(_, invariant)| invariant).collect();
    assert_eq!(found, NAMES.into(), "every invariant has a fault that it finds");
}
