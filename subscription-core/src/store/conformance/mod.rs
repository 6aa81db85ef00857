//! The conformance suite: the cases that every store must pass.
//!
//! Each sentence of the contract at [`Store`] has cases here, and each case is a test of its own on a
//! fresh store. A store's whole test is
//!
//! ```
//! # use subscription_core::MemoryStore;
//! mod memory {
//!     # use subscription_core::MemoryStore;
//!     subscription_core::store_conformance!(async { MemoryStore::default() });
//! }
//! ```
//!
//! and a failure reads `memory::a_refused_change_set_leaves_nothing_behind`. The crate of the test needs
//! `tokio` as a dev-dependency, with its features `macros` and `rt-multi-thread`.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a case that fails panics")]

pub mod accounts;
pub mod atomicity;
pub mod documents;
pub mod due_lists;
pub mod each;
pub mod events;
pub mod guards;
pub mod idempotency;
pub mod limits;
pub mod paging;
pub mod payment_lists;
pub mod plan_lists;
pub mod races;
pub mod reading;
mod records;
mod steps;
pub mod subscription_lists;
pub mod uniqueness;
pub mod user_lists;
pub mod versions;
mod walk;

use std::pin::Pin;
use std::sync::Arc;

use super::Store;
pub use records::at_version;

/// One case of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The duty of a store, as a sentence.
    pub name: &'static str,
    /// Runs the case on a store, which must be fresh. Panics if the store does not do its duty.
    pub run: fn(Arc<dyn Store>) -> CaseRun,
}

/// The future of a running case.
pub type CaseRun = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Every case, to be run by other means than `#[test]`.
///
/// Some cases spawn tasks that run at the same time: they need tokio's multi-threaded runtime.
pub static CASES: &[Case] = crate::store_conformance!(@each list());

/// Makes a test of each case that a store must pass.
///
/// Takes an expression that gives a future of a fresh store. The expression is evaluated once for each case. See
/// [`conformance`](crate::store::conformance).
#[macro_export]
macro_rules! store_conformance {
    (@each $what:ident($($with:tt)*)) => {
        $crate::store_conformance! { @$what ($($with)*)
            reading on "current_thread" {
                what_was_never_written_reads_as_nothing,
                a_record_is_found_by_what_names_it_outside,
                every_field_of_a_plan_reads_back,
                every_field_of_a_subscription_reads_back,
                every_field_of_a_payment_reads_back,
                every_field_of_a_kept_answer_reads_back,
                metadata_is_replaced_whole_and_cleared,
                times_read_back_to_the_microsecond,
                amounts_read_back_digit_for_digit,
                text_reads_back_character_for_character,
            }
            versions on "current_thread" {
                a_write_of_the_next_version_replaces_the_record,
                a_write_at_another_version_is_refused_and_names_the_record,
                a_delete_at_another_version_is_refused_and_names_the_record,
                a_conflict_names_the_record_among_many,
                a_deleted_record_is_gone,
                a_deleted_record_may_be_made_again_at_version_one,
                an_empty_change_set_is_taken_and_changes_nothing,
                versions_are_checked_before_values,
            }
            guards on "current_thread" {
                a_guard_that_holds_changes_nothing,
                a_guard_at_another_version_is_refused_and_names_the_record,
                a_guard_that_there_is_no_record_holds_while_there_is_none,
                every_guard_of_a_set_must_hold,
                a_plan_that_somebody_has_is_in_use,
                a_plan_is_unused_if_the_set_deletes_what_refers_to_it,
                a_plan_is_unused_once_nobody_has_it_any_more,
                a_plan_that_a_change_is_scheduled_to_is_in_use,
                a_plan_is_unused_once_no_change_to_it_is_scheduled,
                a_user_with_another_live_subscription_is_refused,
                an_idempotency_record_that_has_not_expired_is_not_taken_for_one_that_has,
            }
            atomicity on "current_thread" {
                all_parts_of_a_change_set_are_taken_together,
                a_refused_change_set_leaves_nothing_behind,
            }
            each on "current_thread" {
                every_set_of_a_call_is_taken_in_its_order,
                sets_of_any_form_are_taken_in_one_call,
                a_stale_set_does_not_affect_the_others,
                a_refused_set_does_not_affect_the_others,
                a_set_is_judged_after_the_sets_before_it,
                empty_and_bad_sets_of_a_call_are_judged_alone,
            }
            uniqueness on "current_thread" {
                a_value_that_another_record_has_is_refused_to_a_new_one,
                a_value_that_another_record_has_is_refused_to_a_change,
                a_value_given_twice_in_one_set_is_refused,
                a_set_of_many_kinds_is_told_which_value_is_taken,
                a_value_is_free_once_its_record_is_deleted,
                a_set_may_delete_a_record_and_give_its_value_to_a_new_one,
                a_value_is_free_once_its_record_has_another,
                a_record_keeps_its_value_when_it_is_changed,
                having_no_external_id_is_not_unique,
                external_ids_that_differ_in_a_byte_are_different,
                a_period_is_free_once_its_payment_is_cancelled,
                a_period_is_that_of_its_subscription,
                a_proration_has_no_period_of_its_own,
                a_set_may_pass_a_live_key_or_a_period_on,
            }
            limits on "current_thread" {
                a_set_of_a_thousand_records_is_taken,
                a_set_of_more_than_a_thousand_records_is_refused,
                a_set_that_names_a_record_twice_is_refused,
                a_set_without_a_version_is_refused,
            }
            plan_lists on "current_thread" {
                plans_are_listed_by_every_filter_in_every_order,
                plans_are_listed_by_several_filters_at_once,
                prices_sort_by_value,
                names_sort_byte_by_byte,
                a_changed_plan_is_listed_by_what_it_is_now,
            }
            subscription_lists on "current_thread" {
                subscriptions_are_listed_by_every_filter_in_every_order,
                subscriptions_are_listed_by_several_filters_at_once,
                access_is_judged_by_the_time_of_the_question,
                access_is_judged_by_what_the_record_is_now,
                renewal_windows_that_share_a_border_share_no_record,
                a_place_and_a_window_of_renewals_both_hold,
                subscriptions_that_never_renew_come_last,
                a_changed_subscription_is_listed_by_what_it_is_now,
            }
            payment_lists on "current_thread" {
                payments_are_listed_by_their_subscription,
                payments_are_listed_by_their_user,
                payments_of_all_subscriptions_are_listed_by_id,
                payments_outlive_their_subscription,
                a_changed_payment_is_listed_by_what_it_is_now,
            }
            due_lists on "current_thread" {
                subscriptions_that_are_due_are_listed_the_longest_due_first,
                payments_that_are_due_are_listed_by_status_the_longest_due_first,
                a_changed_record_is_due_when_it_is_now,
                a_mirrored_payment_is_never_due_and_claims_no_period,
                a_walk_along_what_is_due_misses_nothing_that_waits,
            }
            user_lists on "current_thread" {
                users_are_listed_by_every_filter_in_its_order,
                the_beginning_of_an_address_is_compared_byte_by_byte,
                a_changed_user_is_listed_by_what_it_is_now,
                a_place_among_users_need_not_be_that_of_a_user,
            }
            paging on "current_thread" {
                an_empty_list_is_one_empty_page,
                every_list_is_walked_in_order_by_pages_of_any_size,
                a_page_holds_as_many_records_as_its_limit,
                a_page_starts_right_after_its_position,
                a_position_need_not_be_that_of_a_record,
                a_record_that_stays_is_seen_exactly_once,
                a_changed_record_is_listed_at_its_new_place,
                a_record_made_again_is_listed_once,
            }
            events on "current_thread" {
                events_are_read_in_the_order_in_which_they_were_written,
                events_come_with_their_change,
                every_field_of_an_event_reads_back,
                the_feed_is_read_on_from_a_sequence,
                nothing_follows_the_end_of_the_feed,
                a_page_of_events_keeps_to_its_limit,
                events_are_forgotten_up_to_a_sequence,
                sequences_go_on_rising_after_events_are_forgotten,
                a_set_may_forget_old_events_and_tell_new_ones,
                events_are_read_by_their_subject,
                events_are_read_by_their_types,
                a_page_without_wanted_events_moves_on,
                a_page_of_events_tells_the_bounds_of_the_feed,
                events_outlive_the_record_that_they_tell_of,
            }
            accounts on "current_thread" {
                every_field_of_a_session_reads_back,
                every_field_of_a_client_reads_back,
                an_address_reads_back_as_it_was_written,
                an_address_is_taken_in_every_spelling,
                a_user_is_found_by_the_whole_identity_alone,
                users_whose_account_is_closing_are_listed,
                the_live_sessions_of_a_user_are_listed_newest_first,
                the_ended_sessions_of_a_user_are_listed_latest_first,
                ended_sessions_are_listed_by_their_end,
                a_session_that_goes_on_ends_later,
                clients_are_listed_by_id,
            }
            idempotency on "current_thread" {
                an_answer_belongs_to_its_operation_client_and_key,
                an_expired_answer_still_reads_back,
                answers_that_have_expired_are_listed_and_no_other,
                the_longest_expired_answers_come_first,
                a_renewed_answer_expires_anew,
            }
            documents on "current_thread" {
                every_field_of_a_document_reads_back,
                documents_of_two_collections_do_not_clash,
                documents_are_listed_by_collection_owner_and_label,
                documents_that_are_due_are_listed,
                a_changed_document_is_listed_by_what_it_is_now,
                a_body_beyond_its_bound_is_refused,
            }
            races on "multi_thread" {
                of_racing_writes_of_one_version_exactly_one_wins,
                of_many_creates_at_once_each_is_judged_alone,
                of_racing_records_with_one_value_exactly_one_is_made,
                of_racing_requests_with_one_key_exactly_one_is_answered,
                of_racing_sets_with_crossed_values_exactly_one_is_taken,
                no_increment_is_lost_if_the_refused_try_again,
                of_two_sets_that_guard_each_others_record_one_wins,
                no_subscription_is_left_without_its_plan,
                no_subscription_is_left_to_a_deleted_user,
                of_racing_calls_one_writes_each_record,
                no_page_shows_a_part_of_a_commit,
                what_was_committed_together_is_seen_together,
                a_reader_that_follows_the_feed_misses_no_event,
            }
        }
    };
    (@tests ($open:expr) $($topic:ident on $flavor:tt { $($case:ident,)+ })+) => {$($(
        #[tokio::test(flavor = $flavor)]
        async fn $case() {
            let store = $open.await;
            $crate::store::conformance::$topic::$case(::std::sync::Arc::new(store)).await;
        }
    )+)+};
    (@list () $($topic:ident on $flavor:tt { $($case:ident,)+ })+) => {
        &[$($(
            $crate::store::conformance::Case {
                name: stringify!($case),
                run: |store| ::std::boxed::Box::pin($crate::store::conformance::$topic::$case(store)),
            },
        )+)+]
    };
    ($open:expr) => {
        $crate::store_conformance!(@each tests($open));
    };
}
