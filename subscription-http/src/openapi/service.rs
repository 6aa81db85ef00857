//! Descriptions of `/.well-known`, `/health`, `/metrics`, `/openapi.json` and `/docs`.

use super::operations::{Answer, Area, Content, Operation, ok, unchanged};

const DOCUMENT: &[(&str, &str)] =
    &[("ETag", "document-etag"), ("cache-control", "document-cache-control")];

const PAGE: &[(&str, &str)] = &[
    ("ETag", "document-etag"),
    ("cache-control", "document-cache-control"),
    ("content-security-policy", "content-security-policy"),
];

const fn text(description: &'static str, content_type: &'static str) -> Answer {
    Answer { content: Content::Text(content_type), ..ok(description, "") }
}

pub(super) static AREA: Area = Area {
    name: "Service",
    description: "Keys, health, metrics and this document. None of these needs a client-id.",
    operations: &[
        Operation {
            route: "GET /.well-known/jwks.json",
            id: "getKeys",
            summary: "The public keys of access tokens",
            description: "For services that check access tokens themselves. Keys rotate: look up a token's `kid`, \
                and fetch again if it is not there.",
            parameters: &[],
            body: None,
            answers: &[ok("A JWK set.", "KeySet")],
            codes: &[],
        },
        Operation {
            route: "GET /health/live",
            id: "getLive",
            summary: "The process answers",
            description: "",
            parameters: &[],
            body: None,
            answers: &[ok("It does.", "Live")],
            codes: &[],
        },
        Operation {
            route: "GET /health/ready",
            id: "getReady",
            summary: "The store takes writes",
            description: "Not while its disk is full, its file was removed, or it can only be read. The store is \
                asked once a second at the most.",
            parameters: &[],
            body: None,
            answers: &[ok("It does.", "Ready")],
            codes: &["store_unavailable", "overloaded"],
        },
        Operation {
            route: "GET /metrics",
            id: "getMetrics",
            summary: "Metrics",
            description: "Requests and their durations by route. Only to callers on the server's own machine; to \
                others there is no such path.",
            parameters: &["x-forwarded-for"],
            body: None,
            answers: &[text("Counters and histograms.", "application/openmetrics-text")],
            codes: &["route_not_found"],
        },
        Operation {
            route: "GET /openapi.json",
            id: "getOpenApi",
            summary: "This document",
            description: "",
            parameters: &["if-none-match"],
            body: None,
            answers: &[
                Answer { headers: DOCUMENT, ..ok("An OpenAPI 3.1 document.", "OpenApi") },
                unchanged(DOCUMENT),
            ],
            codes: &[],
        },
        Operation {
            route: "GET /docs",
            id: "getDocs",
            summary: "This document as a page",
            description: "It loads nothing from elsewhere.",
            parameters: &["if-none-match"],
            body: None,
            answers: &[
                Answer { headers: PAGE, ..text("A page for people.", "text/html") },
                unchanged(PAGE),
            ],
            codes: &[],
        },
    ],
};
