//! The maximum sizes of the parts of a request. Error texts and the OpenAPI document use them.

use subscription_core::Quantity;

/// The largest JSON body in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 65_536;

/// The largest body of a payment provider's webhook in bytes.
pub(crate) const WEBHOOK_BYTES_MAX: usize = 1_048_576;

/// The longest path with its query, in bytes.
pub(crate) const URI_BYTES_MAX: usize = 8_192;

/// The default maximum of a request head in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16_384;

/// The longest `client-id` in characters, which are ASCII.
pub(crate) const CLIENT_ID_CHARS_MAX: usize = 200;

/// The longest `idempotency-key` in characters; the core refuses longer ones.
pub(crate) const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// The number of characters of a `user-agent` that are stored with a session.
pub(crate) const USER_AGENT_CHARS_MAX: usize = 512;

/// The maximum number of future years in a timeline.
pub(crate) const TIMELINE_YEARS_MAX: u32 = 10;

/// The maximum number of event type patterns in one request for events.
pub(crate) const EVENT_TYPES_MAX: usize = 50;

/// The longest time that a request can wait for an event, in seconds.
pub(crate) const EVENT_WAIT_SECONDS_MAX: u64 = 25;

/// The maximum number of user ids in one request for a list of users.
pub(crate) const USER_IDS_MAX: usize = 50;

/// Replaces the name of a bound in double braces by its number. If a quoted string is only such a name, the number
/// replaces the quotes too.
pub(crate) fn fill(text: &str) -> String {
    let numbers = [
        ("{{body_bytes}}", grouped(BODY_BYTES_MAX)),
        ("{{webhook_bytes}}", grouped(WEBHOOK_BYTES_MAX)),
        ("{{uri_bytes}}", grouped(URI_BYTES_MAX)),
        ("{{head_kib}}", grouped(HEAD_BYTES_MAX / 1_024)),
        ("{{client_id_chars}}", grouped(CLIENT_ID_CHARS_MAX)),
        ("{{idempotency_key_chars}}", grouped(IDEMPOTENCY_KEY_CHARS_MAX)),
        ("{{user_agent_chars}}", grouped(USER_AGENT_CHARS_MAX)),
        ("{{quantity_max}}", grouped(Quantity::MAX)),
        ("{{timeline_years}}", grouped(TIMELINE_YEARS_MAX)),
        ("{{event_types}}", grouped(EVENT_TYPES_MAX)),
        ("{{event_wait_seconds}}", EVENT_WAIT_SECONDS_MAX.to_string()),
        ("{{user_ids}}", grouped(USER_IDS_MAX)),
    ];
    numbers.into_iter().fold(text.to_owned(), |text, (name, number)| {
        text.replace(&format!("\"{name}\""), &number).replace(name, &number)
    })
}

/// Formats a number with a comma as thousands separator.
pub(crate) fn grouped(number: impl TryInto<u64>) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let thousands = number / 1_000;
    let rest = number % 1_000;
    if thousands == 0 { rest.to_string() } else { format!("{},{rest:03}", grouped(thousands)) }
}

#[cfg(test)]
mod tests {
    use subscription_core::store::Idempotency;

    use super::*;

    #[test]
    fn numbers_are_filled_in_with_commas() {
        assert_eq!(fill("{{body_bytes}} and {{head_kib}} of {id}"), "65,536 and 16 of {id}");
        assert_eq!(fill(r#"{"maxItems": "{{user_ids}}"}"#), r#"{"maxItems": 50}"#);
        assert_eq!(grouped(1_002_003_u32), "1,002,003");
    }

    #[test]
    fn the_core_takes_an_idempotency_key_of_the_longest_length() {
        let takes = |length| {
            let key = "k".repeat(length).parse();
            key.map(|key| Idempotency { client: String::new(), key }).is_ok()
        };

        assert!(takes(IDEMPOTENCY_KEY_CHARS_MAX) && !takes(IDEMPOTENCY_KEY_CHARS_MAX + 1));
    }
}
