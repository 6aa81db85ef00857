//! Every code of a problem, with its status and its meaning to a caller.

/// A row of the table.
type Code = (u16, &'static str, &'static str);

/// The codes by status, as in the contract.
pub(super) static CODES: [Code; 63] = [
    (400, "malformed_json", "The body is no JSON, is cut off, or has a field twice."),
    (400, "header_invalid", "A header was sent twice, is no ASCII, or is too long."),
    (
        400,
        "host_invalid",
        "There is no sound Host header, or the server does not answer to its name.",
    ),
    (400, "path_invalid", "The path has an encoded slash, a dot segment or a control character."),
    (400, "invalid_query", "A query parameter is unknown, repeated, or of the wrong form."),
    (400, "invalid_cursor", "The cursor is not one of this list with these filters."),
    (
        400,
        "idempotency_key_invalid",
        "The key is not 1 to {{idempotency_key_chars}} visible ASCII characters.",
    ),
    (400, "signature_invalid", "The webhook is not signed by its payment provider."),
    (401, "client_id_missing", "Send a client-id."),
    (401, "client_unknown", "The client-id is unknown, wrong, revoked, or left the settings file."),
    (401, "token_missing", "Send an access token."),
    (401, "token_invalid", "The access token is not one of ours, or another client's."),
    (401, "token_expired", "The access token has expired: refresh it."),
    (401, "session_revoked", "The session was ended: sign in again."),
    (401, "session_expired", "The session has expired: sign in again."),
    (401, "identity_rejected", "The identity provider's token was not accepted."),
    (401, "refresh_token_invalid", "The refresh token is not one of ours, or another client's."),
    (401, "refresh_token_reused", "The refresh token was used before: the session was ended."),
    (403, "scope_missing", "The client lacks the scope of this operation."),
    (403, "email_mismatch", "The address is not the one of the identity."),
    (403, "email_not_verified", "The identity provider has not verified the address."),
    (403, "auth_id_mismatch", "The account is not the caller's."),
    (404, "route_not_found", "There is no such path."),
    (404, "not_found", "There is no such record."),
    (404, "account_not_found", "The identity has no account: sign up."),
    (405, "method_not_allowed", "The path does not take this method; Allow tells which it does."),
    (408, "request_timeout", "The body took too long to arrive."),
    (409, "account_exists", "The identity has an account: sign in."),
    (409, "email_in_use", "Another account has this address."),
    (409, "account_closing", "The account is being deleted: try again once it is gone."),
    (409, "slug_taken", "Another plan has this slug."),
    (409, "external_id_taken", "Another record has this id from outside."),
    (409, "plan_in_use", "Subscriptions refer to the plan: set is_active to false instead."),
    (409, "plan_inactive", "The plan takes no new subscriptions."),
    (409, "invalid_transition", "The lifecycle does not allow the step."),
    (409, "payment_settled", "Money has changed hands: the fields are fixed."),
    (
        409,
        "managed_by_clock",
        "The clock sets these fields: use cancel, pause, resume or change-plan, or set managed_by to caller.",
    ),
    (409, "managed_by_provider", "A payment provider manages the subscription and its payments."),
    (409, "managed_by_caller", "Callers manage the subscription: set managed_by to clock first."),
    (409, "already_subscribed", "The user has a live subscription already; holder is its id."),
    (409, "payment_open", "A payment of the subscription is not paid yet."),
    (
        409,
        "payment_of_period",
        "The payment is for a period: its fields are fixed, and no other is made for the period.",
    ),
    (409, "change_scheduled", "Another change of the subscription is scheduled."),
    (
        409,
        "currency_mismatch",
        "The plan has another currency, or there is none: it changes at the end of a period, without credit.",
    ),
    (409, "quote_changed", "The change costs something else by now; quote is the new quote."),
    (409, "customer_conflict", "The customer of the payment provider is bound to another user."),
    (409, "endpoint_limit", "There are as many endpoints of webhooks as there may be."),
    (
        409,
        "rotation_in_progress",
        "The secret before the last rotation still signs: wait, or rotate with 0 hours.",
    ),
    (409, "key_missing", "The server key of the endpoint's secret is missing: rotate the secret."),
    (409, "parked_full", "As many events of the endpoint are set aside as there may be."),
    (409, "idempotency_in_progress", "A request with this key is under way: try again."),
    (410, "events_forgotten", "Events that were not read are deleted: read the records anew."),
    (412, "precondition_failed", "The record is no longer at the version of If-Match."),
    (
        413,
        "body_too_large",
        "A body has at most {{body_bytes}} bytes, a webhook {{webhook_bytes}}.",
    ),
    (414, "uri_too_long", "A URI has at most {{uri_bytes}} bytes."),
    (
        415,
        "media_type_unsupported",
        "The body must be sent as application/json, and without a Content-Encoding.",
    ),
    (422, "validation_failed", "The body is JSON, but not what was asked for; see errors."),
    (422, "idempotency_key_reused", "The key was used for another body before."),
    (429, "rate_limited", "Too many requests: wait as long as Retry-After says."),
    (500, "internal", "Something unforeseen; tell the request_id to those who run the service."),
    (503, "store_unavailable", "The store is out of reach: try again."),
    (503, "identity_provider_unavailable", "The identity provider is out of reach: try again."),
    (503, "overloaded", "The server took too long, or others were faster: try again."),
];

/// The row of a code.
pub(super) fn row(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|(_, other, _)| *other == code)
}
