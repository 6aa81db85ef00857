//! Random lives of subscriptions that the clock manages, seeded, over a store that fails.

use std::collections::BTreeSet;

use test_support::seed::{seeds, steps};
use test_support::simulation::billing::broken::Fault;
use test_support::simulation::billing::invariants::{self, NOTHING_DUE_RESTS};
use test_support::simulation::billing::twins;
use test_support::simulation::billing::world::BillingSimulation;

use super::in_memory;

/// How many runs look for a fault. The first that finds it is the last.
const RUNS_MAX: u64 = 30;

#[tokio::test]
async fn random_lives_by_the_clock_keep_every_invariant() {
    for seed in seeds(10) {
        let steps = u32::try_from(steps(400)).unwrap_or(u32::MAX);
        if let Err(failure) =
            BillingSimulation::over(in_memory().await, seed).await.run(steps).await
        {
            panic!("{failure}");
        }
    }
}

#[tokio::test]
async fn a_life_that_is_advanced_late_is_billed_as_one_that_is_advanced_in_time() {
    for seed in seeds(10) {
        let compared = twins::late_is_punctual(seed, None).await;
        assert!(compared.is_ok(), "{}", compared.unwrap_err());
    }
}

#[tokio::test]
async fn a_price_times_a_quantity_asks_for_what_their_product_asks_for() {
    for seed in seeds(10) {
        let compared = twins::quantity_multiplies(seed, None).await;
        assert!(compared.is_ok(), "{}", compared.unwrap_err());
    }
}

/// Each invariant is checked alone: the others may find the same fault.
#[tokio::test]
async fn a_planted_fault_is_found_by_each_invariant() {
    let cases = [
        (Fault::SkipsInSilence, "periods_tile"),
        (Fault::AsksForThePeriodBefore, "no_period_asked_twice"),
        (Fault::ForgetsToAsk, "every_period_is_asked_for"),
        (Fault::IgnoresQuantity, "every_period_is_asked_for"),
        (Fault::LosesCredit, "money_adds_up"),
        (Fault::EndsOffTheGrid, "on_the_grid"),
        (Fault::SkipsNothing, "skips_are_bounded"),
        (Fault::NeverReminds, NOTHING_DUE_RESTS),
        (Fault::LooksLate, "next_action_is_true"),
        (Fault::KeepsAccess, "access_is_history"),
        (Fault::IgnoresFailures, "behind_means_past_due"),
        (Fault::RenewsWhilePastDue, "no_asking_while_off"),
        (Fault::RetriesLate, "retries_keep_the_schedule"),
        (Fault::FallsBehindInSilence, "silence_changes_nothing"),
        (Fault::ActsAfterTheEnd, "ended_means_ended"),
        (Fault::IgnoresVersions, "ended_means_ended"),
        (Fault::LeavesPaymentsOpen, "cancel_wins"),
        (Fault::StepsForCallers, "callers_are_left_alone"),
        (Fault::RepeatsEvents, "a_step_is_one_event"),
        (Fault::RemindsTwice, "reminders_once"),
        (Fault::ChangesInSilence, "periods_tile"),
        (Fault::DoublesProrations, "money_adds_up"),
        (Fault::LosesNets, "money_adds_up"),
        (Fault::DoublesProrations, "preview_is_execution"),
        (Fault::KeepsThePrice, "preview_is_execution"),
        (Fault::KeysByPayment, "no_key_twice"),
        (Fault::ForgetsSettlements, "credit_is_paid_for"),
        (Fault::LiftsEnds, "fixed_ends_stay"),
        (Fault::WaitsForEver, "nothing_waits_for_ever"),
    ];
    for (fault, invariant) in cases {
        let mut found = false;
        for seed in 1..=RUNS_MAX {
            let run = BillingSimulation::broken(fault, invariant, seed).await.run(400).await;
            found = run.is_err();
            if found {
                break;
            }
        }

        assert!(found, "{fault:?} is not found by {invariant}");
    }
    let broken: BTreeSet<_> = cases.into_iter().map(|(_, invariant)| invariant).collect();
    let named = invariants::ALL.iter().map(|(name, _)| *name).chain([NOTHING_DUE_RESTS]);
    assert_eq!(broken, named.collect(), "every invariant has a fault that it finds");
}

#[tokio::test]
async fn a_planted_fault_is_found_where_lives_are_compared() {
    let (mut late, mut priced) = (false, false);
    for seed in 1..=RUNS_MAX {
        late |= twins::late_is_punctual(seed, Some(Fault::SkipsEverything)).await.is_err();
        priced |= twins::quantity_multiplies(seed, Some(Fault::IgnoresQuantity)).await.is_err();
        if late && priced {
            break;
        }
    }

    assert!(late, "skipped periods are not found");
    assert!(priced, "a quantity that is ignored is not found");
}

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_lives_by_the_clock_meet_every_refusal_and_kind_of_plan_change() {
    let (mut met, mut changes) = (BTreeSet::new(), BTreeSet::new());
    for seed in 1..=24 {
        let run = BillingSimulation::over(in_memory().await, seed).await.run(800).await;
        let ran = run.expect("a sound run");
        met.extend(ran.met);
        changes.extend(ran.changes);
    }

    let expected = [
        "change_scheduled",
        "currency_mismatch",
        "invalid_transition",
        "managed_by_caller",
        "managed_by_clock",
        "not_found",
        "payment_of_period",
        "payment_open",
        "plan_inactive",
        "quote_changed",
        "store_unavailable",
        "validation_failed",
    ];
    assert_eq!(met, expected.into());
    let expected = [
        "as agreed",
        "as agreed before",
        "asked for",
        "before the start",
        "credit is given",
        "credit is used",
        "from free to paid",
        "from one_time",
        "from paid to free",
        "nothing to change",
        "of a trial",
        "of the quantity",
        "refused as another quote",
        "schedule applied",
        "schedule changes the currency",
        "schedule dropped",
        "schedule ends with a cancel",
        "schedule moves the cycle",
        "scheduled",
        "to another cycle",
        "to one_time",
        "within the period",
        "without proration",
    ];
    assert_eq!(changes, expected.into());
}
