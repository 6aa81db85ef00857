//! The descriptions of the routes in `operations.json`, beside the facts in the route table.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The areas in the order of the document. The file is built into the program, and a test checks that it can be parsed.
pub(super) fn areas() -> Vec<Area> {
    serde_json::from_str(include_str!("operations.json")).unwrap_or_default()
}

/// The operations of one area.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Area {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) operations: Vec<Operation>,
}

/// The description of a route.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation {
    /// Method and pattern, as in the route table.
    pub(super) route: String,
    /// The operation's name in generated clients.
    pub(super) id: String,
    pub(super) summary: String,
    pub(super) description: Option<String>,
    /// Names in `components.parameters`, without `x-request-id`, which every operation has.
    #[serde(default)]
    pub(super) parameters: Vec<String>,
    /// The name of the schema of the request's body. `None` if the request has no body.
    pub(super) body: Option<String>,
    /// The responses that are not errors.
    pub(super) responses: Vec<Response>,
    /// The error codes of the operation, in addition to the codes that follow from its route.
    #[serde(default)]
    pub(super) codes: Vec<String>,
}

/// A response that is not an error. Its body is JSON of a schema, a text, or empty.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) description: String,
    pub(super) schema: Option<String>,
    pub(super) content_type: Option<String>,
    /// Headers, each with its name in `components.headers`.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) links: Option<Links>,
}

/// Links to operations that accept a field of the response's body as a parameter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    pub(super) parameter: String,
    pub(super) field: String,
    pub(super) operations: Vec<String>,
}
