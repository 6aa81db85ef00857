//! Descriptions of `/subscription-plans`.

use super::operations::{Area, Operation, RECORD, created, done, ok, record, unchanged};

pub(super) static AREA: Area = Area {
    name: "Plans",
    description: "What can be subscribed to, and at what price. A plan is named by its slug.",
    operations: &[
        Operation {
            route: "GET /subscription-plans",
            id: "listPlans",
            summary: "List plans",
            description: "A page of the plans that match all filters.",
            parameters: &[
                "limit",
                "cursor",
                "plan-sort",
                "plan-is-active",
                "billing-cycle",
                "product-id",
                "tier",
                "most-popular",
            ],
            body: None,
            answers: &[ok("A page of plans.", "PlanPage")],
            codes: &["invalid_cursor"],
        },
        Operation {
            route: "POST /subscription-plans",
            id: "createPlan",
            summary: "Create a plan",
            description: "",
            parameters: &["idempotency-key"],
            body: Some("NewPlan"),
            answers: &[created(
                "The plan was made.",
                "Plan",
                ("slug", "slug", &["getPlan", "updatePlan", "deletePlan"]),
            )],
            codes: &[
                "slug_taken",
                "idempotency_key_invalid",
                "idempotency_key_reused",
                "idempotency_in_progress",
            ],
        },
        Operation {
            route: "GET /subscription-plans/{slug}",
            id: "getPlan",
            summary: "Read a plan",
            description: "",
            parameters: &["slug", "if-none-match"],
            body: None,
            answers: &[record("The plan.", "Plan"), unchanged(RECORD)],
            codes: &["not_found"],
        },
        Operation {
            route: "PUT /subscription-plans/{slug}",
            id: "updatePlan",
            summary: "Change a plan",
            description: "Changes the fields that the body carries; `{}` changes nothing and writes nothing.",
            parameters: &["slug", "if-match"],
            body: Some("PlanChanges"),
            answers: &[record("The plan as it is now.", "Plan")],
            codes: &["not_found", "precondition_failed"],
        },
        Operation {
            route: "DELETE /subscription-plans/{slug}",
            id: "deletePlan",
            summary: "Delete a plan",
            description: "A plan that subscriptions refer to is not deleted. The slug is free again afterwards.",
            parameters: &["slug", "if-match"],
            body: None,
            answers: &[done("The plan is gone.")],
            codes: &["not_found", "plan_in_use", "precondition_failed"],
        },
    ],
};
