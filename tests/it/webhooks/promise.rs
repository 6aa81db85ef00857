//! The promise of the guide: each sentence, word for word, with the tests that hold it.

const GUIDE: &str = include_str!("../../../docs/webhooks.md");

/// The sources of the tests that are named below.
const TESTS: [&str; 6] = [
    include_str!("sending/failures.rs"),
    include_str!("sending/leaders.rs"),
    include_str!("sending/order.rs"),
    include_str!("sending/changes.rs"),
    include_str!("../simulation/webhooks.rs"),
    include_str!("../../../subscription-http/tests/crashes/webhooks.rs"),
];

const PROMISE: [(&str, &[&str]); 7] = [
    (
        "An endpoint gets every event of its `types` that is committed while it is enabled, at least once: the event is sent until the response is 2xx.",
        &[
            "many_events_are_sent_once_and_the_cursor_passes_them",
            "random_lives_are_sent_to_receivers_that_come_and_go",
        ],
    ),
    (
        "An event is given up only after ten tries over 75 hours, not counting tries while the endpoint is stalled because five events in a row failed; then it is listed and can be sent again.",
        &[
            "an_event_is_given_up_after_ten_tries_and_its_record_continues",
            "an_event_that_was_given_up_is_sent_again_with_ten_new_tries",
        ],
    ),
    (
        "An endpoint without a success for five days is disabled; once enabled, it continues where it stopped, as far as events are still kept.",
        &[
            "an_endpoint_without_a_success_for_five_days_is_disabled_and_continues_where_it_stopped",
            "an_endpoint_whose_events_were_deleted_continues_after_them_and_shows_it",
        ],
    ),
    (
        "Events of one record are sent in the order of their versions, each after the previous one was accepted or given up.",
        &[
            "of_each_record_one_event_is_in_flight_at_a_time",
            "a_later_event_of_a_parked_record_is_not_sent_before_it",
            "an_event_is_given_up_after_ten_tries_and_its_record_continues",
        ],
    ),
    (
        "Events of different records may overtake each other.",
        &["eight_tries_are_in_flight_to_an_endpoint_and_a_slow_one_delays_no_other"],
    ),
    (
        "A repetition has the same `webhook-id` and may arrive after later events.",
        &["a_kill_while_events_are_sent_loses_none_and_repeats_few"],
    ),
    (
        "After a crash or a change of leader, at most 200 events an endpoint may be repeated.",
        &[
            "after_a_crash_at_most_two_hundred_events_are_repeated_and_none_is_missing",
            "leaders_that_are_killed_while_they_send_lose_no_event_and_repeat_few",
        ],
    ),
];

#[test]
fn the_guide_has_the_promise_word_for_word() {
    let promise = PROMISE.map(|(sentence, _)| sentence).join(" ");

    assert!(GUIDE.contains(&format!("> {promise}\n")), "the guide lacks: {promise}");
}

#[test]
fn every_sentence_of_the_promise_is_held_by_tests_that_exist() {
    for (sentence, tests) in PROMISE {
        for test in tests {
            let exists = TESTS.iter().any(|source| source.contains(test));
            assert!(exists, "{sentence} is to be held by {test}");
        }
    }
}
