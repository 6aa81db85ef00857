//! The suite finds the faults that stores have.

use std::sync::{Arc, Once};

use subscription_core::store::Unique;
use subscription_core::store::conformance::CASES;

use super::faulty::Fault::{self, *};
use super::faulty::FaultyStore;

const WORKER: &str = "faulty store";

/// How often a fault may pass a case that is about it.
const CHANCES: usize = 5;

/// Faults, and the cases that are there to find them.
const TABLE: &[(Fault, &[&str])] = &[
    (
        IgnoresVersionsOfWrites,
        &[
            "a_write_at_another_version_is_refused_and_names_the_record",
            "of_racing_writes_of_one_version_exactly_one_wins",
        ],
    ),
    (
        TakesFirstVersionsAsUpserts,
        &[
            "a_write_at_another_version_is_refused_and_names_the_record",
            "of_racing_requests_with_one_key_exactly_one_is_answered",
        ],
    ),
    (
        IgnoresVersionsOfDeletes,
        &[
            "a_delete_at_another_version_is_refused_and_names_the_record",
            "a_refused_change_set_leaves_nothing_behind",
        ],
    ),
    (
        IgnoresGuards,
        &[
            "a_guard_at_another_version_is_refused_and_names_the_record",
            "a_guard_that_there_is_no_record_holds_while_there_is_none",
            "every_guard_of_a_set_must_hold",
            "a_refused_change_set_leaves_nothing_behind",
        ],
    ),
    (
        IgnoresPlanUse,
        &["a_plan_that_somebody_has_is_in_use", "a_refused_change_set_leaves_nothing_behind"],
    ),
    (OverlooksScheduledPlans, &["a_plan_that_a_change_is_scheduled_to_is_in_use"]),
    (RemembersDroppedSchedules, &["a_plan_is_unused_once_no_change_to_it_is_scheduled"]),
    (
        IgnoresLiveSubscriptions,
        &[
            "a_user_with_another_live_subscription_is_refused",
            "no_subscription_is_left_to_a_deleted_user",
        ],
    ),
    (IgnoresExpiry, &["an_idempotency_record_that_has_not_expired_is_not_taken_for_one_that_has"]),
    (CountsDeletedSubscriptions, &["a_plan_is_unused_if_the_set_deletes_what_refers_to_it"]),
    (
        SwallowsTaken(Unique::PlanSlug),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "a_value_given_twice_in_one_set_is_refused",
            "of_racing_records_with_one_value_exactly_one_is_made",
            "of_racing_sets_with_crossed_values_exactly_one_is_taken",
        ],
    ),
    (
        SwallowsTaken(Unique::ExternalSubscription),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "a_value_that_another_record_has_is_refused_to_a_change",
        ],
    ),
    (
        SwallowsTaken(Unique::ExternalPayment),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "a_value_given_twice_in_one_set_is_refused",
        ],
    ),
    (
        SwallowsTaken(Unique::PaymentPeriod),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "a_period_is_free_once_its_payment_is_cancelled",
            "of_racing_records_with_one_value_exactly_one_is_made",
        ],
    ),
    (
        SwallowsTaken(Unique::LiveSubscription),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "of_racing_records_with_one_value_exactly_one_is_made",
        ],
    ),
    (KeepsPeriodsOfCancelledPayments, &["a_period_is_free_once_its_payment_is_cancelled"]),
    (
        TakesMirroredPaymentsForItsOwn,
        &[
            "a_mirrored_payment_is_never_due_and_claims_no_period",
            "every_field_of_a_payment_reads_back",
        ],
    ),
    (
        ListsTheDueTooLate,
        &[
            "subscriptions_that_are_due_are_listed_the_longest_due_first",
            "payments_that_are_due_are_listed_by_status_the_longest_due_first",
        ],
    ),
    (
        ListsDuePaymentsOfEveryStatus,
        &[
            "payments_that_are_due_are_listed_by_status_the_longest_due_first",
            "a_changed_record_is_due_when_it_is_now",
        ],
    ),
    (
        SwallowsTaken(Unique::UserIdentity),
        &["a_value_that_another_record_has_is_refused_to_a_new_one"],
    ),
    (
        SwallowsTaken(Unique::UserEmail),
        &[
            "a_value_that_another_record_has_is_refused_to_a_new_one",
            "an_address_is_taken_in_every_spelling",
        ],
    ),
    (FindsUsersBySubjectAlone, &["a_user_is_found_by_the_whole_identity_alone"]),
    (ListsSessionsOldestFirst, &["the_live_sessions_of_a_user_are_listed_newest_first"]),
    (ListsEndedSessionsAsLive, &["the_live_sessions_of_a_user_are_listed_newest_first"]),
    (SkipsNoEndedSessions, &["the_ended_sessions_of_a_user_are_listed_latest_first"]),
    (HidesClosingUsers, &["users_whose_account_is_closing_are_listed"]),
    (
        ListsClosingUsersAsOpen,
        &[
            "users_are_listed_by_every_filter_in_its_order",
            "a_changed_user_is_listed_by_what_it_is_now",
        ],
    ),
    (ListsUsersBackwards, &["users_are_listed_by_every_filter_in_its_order"]),
    (NeedsTheUserOfThePosition, &["a_place_among_users_need_not_be_that_of_a_user"]),
    (TakesEmailPrefixesAsPatterns, &["the_beginning_of_an_address_is_compared_byte_by_byte"]),
    (ListsEndedSessionsTooLate, &["ended_sessions_are_listed_by_their_end"]),
    (LosesRevocations, &["every_field_of_a_session_reads_back"]),
    (LosesOwners, &["every_field_of_a_document_reads_back"]),
    (
        ListsDocumentsBackwards,
        &[
            "documents_are_listed_by_collection_owner_and_label",
            "documents_that_are_due_are_listed",
        ],
    ),
    (HidesShutOutClients, &["clients_are_listed_by_id"]),
    (NamesAnotherUnique, &["a_set_of_many_kinds_is_told_which_value_is_taken"]),
    (
        NamesTheFirstRecordInConflicts,
        &["a_conflict_names_the_record_among_many", "every_guard_of_a_set_must_hold"],
    ),
    (
        KeepsValuesOfDeletedRecords,
        &[
            "a_value_is_free_once_its_record_is_deleted",
            "a_deleted_record_may_be_made_again_at_version_one",
        ],
    ),
    (RefusesRecordsTheirOwnValue, &["a_record_keeps_its_value_when_it_is_changed"]),
    (TakesNoneForAValue, &["having_no_external_id_is_not_unique"]),
    (ComparesValuesWithoutCase, &["external_ids_that_differ_in_a_byte_are_different"]),
    (
        ChecksValuesBeforeVersions,
        &[
            "versions_are_checked_before_values",
            "of_racing_requests_with_one_key_exactly_one_is_answered",
        ],
    ),
    (SplitsLargeSets, &["a_set_of_more_than_a_thousand_records_is_refused"]),
    (
        RefusesTheSetsAfterARefusedOne,
        &["a_stale_set_does_not_affect_the_others", "a_refused_set_does_not_affect_the_others"],
    ),
    (JudgesAllSetsByTheFirstState, &["a_set_is_judged_after_the_sets_before_it"]),
    (
        LeaksRefusedSetsIntoOthers,
        &["a_stale_set_does_not_affect_the_others", "a_refused_set_does_not_affect_the_others"],
    ),
    (
        CommitsTheLastSetFirst,
        &["every_set_of_a_call_is_taken_in_its_order", "sets_of_any_form_are_taken_in_one_call"],
    ),
    (
        TakesTheLastOfTwoWrites,
        &[
            "a_set_that_names_a_record_twice_is_refused",
            "a_refused_change_set_leaves_nothing_behind",
        ],
    ),
    (AppliesTheFirstHalfOfRefusedSets, &["a_refused_change_set_leaves_nothing_behind"]),
    (KeepsAnswersOfRefusedSets, &["a_refused_change_set_leaves_nothing_behind"]),
    (
        DropsEvents,
        &[
            "events_come_with_their_change",
            "all_parts_of_a_change_set_are_taken_together",
            "a_reader_that_follows_the_feed_misses_no_event",
        ],
    ),
    (
        KeepsEventsOfRefusedSets,
        &["a_refused_change_set_leaves_nothing_behind", "a_plan_that_somebody_has_is_in_use"],
    ),
    (ForgetsThoughRefused, &["a_refused_change_set_leaves_nothing_behind"]),
    (
        ForgetsAllEvents,
        &["events_are_forgotten_up_to_a_sequence", "a_set_may_forget_old_events_and_tell_new_ones"],
    ),
    (
        ForgetsOneEventTooFew,
        &[
            "events_are_forgotten_up_to_a_sequence",
            "sequences_go_on_rising_after_events_are_forgotten",
        ],
    ),
    (LosesBlocked, &["every_field_of_a_subscription_reads_back"]),
    (LosesSettled, &["every_field_of_a_payment_reads_back"]),
    (LosesBilling, &["every_field_of_a_subscription_reads_back"]),
    (LosesWhatIsAsked, &["every_field_of_a_payment_reads_back"]),
    (
        SortsTheKeysOfMetadata,
        &["every_field_of_a_subscription_reads_back", "metadata_is_replaced_whole_and_cleared"],
    ),
    (NormalizesPrices, &["amounts_read_back_digit_for_digit"]),
    (CutsTimesToMilliseconds, &["times_read_back_to_the_microsecond"]),
    (
        ServesPlansFromAStaleCache,
        &[
            "a_write_of_the_next_version_replaces_the_record",
            "a_deleted_record_is_gone",
            "what_was_committed_together_is_seen_together",
        ],
    ),
    (FindsDeletedPlansBySlug, &["a_deleted_record_is_gone"]),
    (ReversesTheFeed, &["events_are_read_in_the_order_in_which_they_were_written"]),
    (NumbersTheFeedAnew, &["sequences_go_on_rising_after_events_are_forgotten"]),
    (
        RepeatsTheLastEventSeen,
        &["the_feed_is_read_on_from_a_sequence", "nothing_follows_the_end_of_the_feed"],
    ),
    (IgnoresTheLimitOfEvents, &["a_page_of_events_keeps_to_its_limit"]),
    (IgnoresTheSubjectOfEvents, &["events_are_read_by_their_subject"]),
    (
        IgnoresTheTypesOfEvents,
        &["events_are_read_by_their_types", "a_page_without_wanted_events_moves_on"],
    ),
    (StaysBeforeUnwantedEvents, &["a_page_without_wanted_events_moves_on"]),
    (LosesTheEndOfTheFeed, &["a_page_of_events_tells_the_bounds_of_the_feed"]),
    (ListsUnexpiredAnswers, &["answers_that_have_expired_are_listed_and_no_other"]),
    (ListsAnswersTooLate, &["answers_that_have_expired_are_listed_and_no_other"]),
    (ListsExpiredAnswersBackwards, &["the_longest_expired_answers_come_first"]),
    (
        IgnoresTheProductFilter,
        &[
            "plans_are_listed_by_every_filter_in_every_order",
            "a_changed_plan_is_listed_by_what_it_is_now",
        ],
    ),
    (
        IgnoresTheSecondOfTwoFilters,
        &[
            "plans_are_listed_by_several_filters_at_once",
            "subscriptions_are_listed_by_several_filters_at_once",
        ],
    ),
    (
        IgnoresTheTimeOfTheQuestion,
        &[
            "access_is_judged_by_the_time_of_the_question",
            "subscriptions_are_listed_by_every_filter_in_every_order",
        ],
    ),
    (TakesRenewsBeforeAsInclusive, &["renewal_windows_that_share_a_border_share_no_record"]),
    (TakesRenewsAfterAsExclusive, &["renewal_windows_that_share_a_border_share_no_record"]),
    (
        FindsNeverRenewingInWindows,
        &[
            "renewal_windows_that_share_a_border_share_no_record",
            "subscriptions_are_listed_by_every_filter_in_every_order",
        ],
    ),
    (
        SortsNeverRenewingFirst,
        &[
            "subscriptions_that_never_renew_come_last",
            "subscriptions_are_listed_by_every_filter_in_every_order",
        ],
    ),
    (
        SortsPricesAsText,
        &["prices_sort_by_value", "plans_are_listed_by_every_filter_in_every_order"],
    ),
    (
        SortsNamesWithoutCase,
        &["names_sort_byte_by_byte", "plans_are_listed_by_every_filter_in_every_order"],
    ),
    (
        SortsBackwards,
        &[
            "every_list_is_walked_in_order_by_pages_of_any_size",
            "payments_are_listed_by_their_subscription",
        ],
    ),
    (
        BreaksTiesUpwardsAlways,
        &[
            "every_list_is_walked_in_order_by_pages_of_any_size",
            "plans_are_listed_by_every_filter_in_every_order",
            "prices_sort_by_value",
        ],
    ),
    (SortsByTheFirstVersion, &["a_changed_record_is_listed_at_its_new_place"]),
    (
        SkipsOneAfterThePosition,
        &[
            "a_page_starts_right_after_its_position",
            "every_list_is_walked_in_order_by_pages_of_any_size",
        ],
    ),
    (
        RepeatsThePosition,
        &[
            "a_page_starts_right_after_its_position",
            "every_list_is_walked_in_order_by_pages_of_any_size",
        ],
    ),
    (
        NeedsTheRecordOfThePosition,
        &["a_position_need_not_be_that_of_a_record", "a_record_that_stays_is_seen_exactly_once"],
    ),
    (CountsInsteadOfSeeking, &["a_record_that_stays_is_seen_exactly_once"]),
    (NamesThePositionAtTheEnd, &["a_page_holds_as_many_records_as_its_limit"]),
    (HidesThatMoreFollow, &["every_list_is_walked_in_order_by_pages_of_any_size"]),
    (GivesOneTooMany, &["a_page_holds_as_many_records_as_its_limit"]),
    (
        MixesPaymentsOfAllSubscriptions,
        &[
            "payments_are_listed_by_their_subscription",
            "a_changed_payment_is_listed_by_what_it_is_now",
        ],
    ),
    (HidesPaymentsOfDeletedSubscriptions, &["payments_of_all_subscriptions_are_listed_by_id"]),
    (
        ChecksVersionsBeforeLocking,
        &[
            "of_racing_writes_of_one_version_exactly_one_wins",
            "no_increment_is_lost_if_the_refused_try_again",
            "of_racing_calls_one_writes_each_record",
        ],
    ),
    (ChecksGuardsBeforeLocking, &["of_two_sets_that_guard_each_others_record_one_wins"]),
    (ChecksPlanUseBeforeLocking, &["no_subscription_is_left_without_its_plan"]),
    (
        ShowsHalfOfACommit,
        &["no_page_shows_a_part_of_a_commit", "what_was_committed_together_is_seen_together"],
    ),
    (NumbersEventsBeforeLocking, &["a_reader_that_follows_the_feed_misses_no_event"]),
];

/// The names of those of the cases that a store with this fault fails.
fn failed_cases(fault: Option<Fault>, is_asked_for: impl Fn(&str) -> bool) -> Vec<&'static str> {
    // Hundreds of cases panic here as they should, and each would print its backtrace.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(WORKER) {
                loud(panic);
            }
        }));
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name(WORKER).build().unwrap();
    runtime.block_on(async {
        let mut failed = Vec::new();
        for case in CASES.iter().filter(|case| is_asked_for(case.name)) {
            let store = Arc::new(FaultyStore::new(fault));
            if tokio::spawn((case.run)(store)).await.is_err() {
                failed.push(case.name);
            }
        }
        failed
    })
}

#[test]
fn a_store_without_a_fault_fails_no_case() {
    assert_eq!(failed_cases(None, |_| true), [] as [&str; 0]);
}

#[test]
fn every_fault_fails_the_cases_that_are_about_it() {
    for (fault, about_it) in TABLE {
        let mut passed = about_it.to_vec();
        // Whether a race comes about is a matter of chance.
        for _ in 0..CHANCES {
            let failed = failed_cases(Some(*fault), |case| passed.contains(&case));
            passed.retain(|case| !failed.contains(case));
            if passed.is_empty() {
                break;
            }
        }

        assert!(!about_it.is_empty() && passed.is_empty(), "{fault:?} passes {passed:?}");
    }
}
