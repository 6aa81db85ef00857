//! The largest sizes of a request, from which error texts and the OpenAPI document are made.

use subscription_core::Quantity;

/// The largest body in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 65_536;

/// The largest body of a webhook in bytes.
pub(crate) const WEBHOOK_BYTES_MAX: usize = 1_048_576;

/// The longest path and query in bytes.
pub(crate) const URI_BYTES_MAX: usize = 8_192;

/// The largest head in bytes, by default.
pub(crate) const HEAD_BYTES_MAX: usize = 16_384;

/// The longest `client-id` in characters, which are ASCII.
pub(crate) const CLIENT_ID_CHARS_MAX: usize = 200;

/// The longest `idempotency-key` in characters; the core refuses longer ones.
pub(crate) const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// The characters of a `user-agent` that are stored with a session.
pub(crate) const USER_AGENT_CHARS_MAX: usize = 512;

/// The years of the future that a timeline shows at most.
pub(crate) const TIMELINE_YEARS_MAX: u32 = 10;

/// The most patterns of a request for events.
pub(crate) const EVENT_TYPES_MAX: usize = 50;

/// The longest wait for an event, in seconds.
pub(crate) const EVENT_WAIT_SECONDS_MAX: u64 = 25;

/// The most ids of a list of users.
pub(crate) const USER_IDS_MAX: usize = 50;

/// Replaces the names of bounds in double braces by their numbers, and a string that is such a name and no
/// more by the number itself.
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

/// A number with a comma before every three digits.
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
