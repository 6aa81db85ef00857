//! Descriptions of `/subscriptions`.

use super::operations::{Area, Operation, RECORD, created, done, ok, record, unchanged};

pub(super) static AREA: Area = Area {
    name: "Subscriptions",
    description: "Who has which plan, in which state, until when. Periods are counted from the start, the day \
        clamped to the month's last: 31 January renews on 28 February and 31 March.",
    operations: &[
        Operation {
            route: "GET /subscriptions",
            id: "listSubscriptions",
            summary: "List subscriptions",
            description: "A page of the subscriptions that match all filters, as they are now.",
            parameters: &[
                "limit",
                "cursor",
                "subscription-sort",
                "user-id",
                "subscription-plan-id",
                "status",
                "subscription-is-active",
                "external-subscription-id",
                "renews-before",
                "renews-after",
            ],
            body: None,
            answers: &[ok("A page of subscriptions.", "SubscriptionPage")],
            codes: &["invalid_cursor"],
        },
        Operation {
            route: "POST /subscriptions",
            id: "createSubscription",
            summary: "Create a subscription",
            description: "An unknown user or plan is 422 and names the field.",
            parameters: &["idempotency-key"],
            body: Some("NewSubscription"),
            answers: &[created(
                "The subscription was made.",
                "Subscription",
                ("id", "id", &["getSubscription", "updateSubscription", "deleteSubscription"]),
            )],
            codes: &[
                "plan_inactive",
                "account_closing",
                "external_id_taken",
                "idempotency_key_invalid",
                "idempotency_key_reused",
                "idempotency_in_progress",
            ],
        },
        Operation {
            route: "GET /subscriptions/{id}",
            id: "getSubscription",
            summary: "Read a subscription",
            description: "Access of a cancelled subscription ends by itself, without a new version: from then on it \
                is always sent in full.",
            parameters: &["id", "if-none-match"],
            body: None,
            answers: &[
                record("The subscription, as it is now.", "Subscription"),
                unchanged(RECORD),
            ],
            codes: &["not_found"],
        },
        Operation {
            route: "PUT /subscriptions/{id}",
            id: "updateSubscription",
            summary: "Change a subscription",
            description: "Changes the fields that the body carries; `{}` changes nothing and writes nothing. A \
                change of state brings its end: one that is cancelled or expires gets `ends_at`, one that comes \
                back before it loses it.",
            parameters: &["id", "if-match"],
            body: Some("SubscriptionChanges"),
            answers: &[record("The subscription as it is now.", "Subscription")],
            codes: &[
                "not_found",
                "invalid_transition",
                "plan_inactive",
                "account_closing",
                "external_id_taken",
                "precondition_failed",
            ],
        },
        Operation {
            route: "DELETE /subscriptions/{id}",
            id: "deleteSubscription",
            summary: "Delete a subscription",
            description: "Its payments stay readable by their ids.",
            parameters: &["id", "if-match"],
            body: None,
            answers: &[done("The subscription is gone.")],
            codes: &["not_found", "precondition_failed"],
        },
    ],
};
