//! Descriptions of `/subscription-payments`.

use super::operations::{Area, Operation, RECORD, created, done, record, unchanged};

pub(super) static AREA: Area = Area {
    name: "Payments",
    description: "What was asked for a subscription, and what became of it. There is no list.",
    operations: &[
        Operation {
            route: "POST /subscription-payments",
            id: "createPayment",
            summary: "Create a payment",
            description: "An unknown subscription is 422 and names the field.",
            parameters: &["idempotency-key"],
            body: Some("NewPayment"),
            answers: &[created(
                "The payment was made.",
                "Payment",
                ("payment_id", "id", &["getPayment", "updatePayment", "deletePayment"]),
            )],
            codes: &[
                "external_id_taken",
                "idempotency_key_invalid",
                "idempotency_key_reused",
                "idempotency_in_progress",
            ],
        },
        Operation {
            route: "GET /subscription-payments/{payment_id}",
            id: "getPayment",
            summary: "Read a payment",
            description: "",
            parameters: &["payment_id", "if-none-match"],
            body: None,
            answers: &[record("The payment.", "Payment"), unchanged(RECORD)],
            codes: &["not_found"],
        },
        Operation {
            route: "PUT /subscription-payments/{payment_id}",
            id: "updatePayment",
            summary: "Change a payment",
            description: "Changes the fields that the body carries; `{}` changes nothing and writes nothing.",
            parameters: &["payment_id", "if-match"],
            body: Some("PaymentChanges"),
            answers: &[record("The payment as it is now.", "Payment")],
            codes: &[
                "not_found",
                "invalid_transition",
                "payment_settled",
                "external_id_taken",
                "precondition_failed",
            ],
        },
        Operation {
            route: "DELETE /subscription-payments/{payment_id}",
            id: "deletePayment",
            summary: "Delete a payment",
            description: "",
            parameters: &["payment_id", "if-match"],
            body: None,
            answers: &[done("The payment is gone.")],
            codes: &["not_found", "precondition_failed"],
        },
    ],
};
