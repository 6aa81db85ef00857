//! The description of a route, beside the facts in the route table.

/// The description of a route.
#[derive(Debug)]
pub(super) struct Operation {
    /// Method and pattern, as in the route table.
    pub(super) route: &'static str,
    /// The operation's name in generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// Names in `components.parameters`, without `x-request-id`, which every operation has.
    pub(super) parameters: &'static [&'static str],
    /// The schema of the body, if there is one.
    pub(super) body: Option<&'static str>,
    pub(super) answers: &'static [Answer],
    /// The problem codes beside those that follow from the route.
    pub(super) codes: &'static [&'static str],
}

/// A response that is not a problem.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) content: Content,
    /// Headers, each with its name in `components.headers`.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// A link: the parameter, the field of the body that is its value, and the operations that take it.
    pub(super) leads_to: Option<(&'static str, &'static str, &'static [&'static str])>,
}

/// The body of a response.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    /// JSON of a schema.
    Json(&'static str),
    /// Text of a content type.
    Text(&'static str),
}

/// The operations of one area.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) operations: &'static [Operation],
}

pub(super) const RECORD: &[(&str, &str)] = &[("ETag", "etag")];

const CREATED: &[(&str, &str)] =
    &[("ETag", "etag"), ("Location", "location"), ("idempotency-replayed", "idempotency-replayed")];

/// 200 with JSON.
pub(super) const fn ok(description: &'static str, schema: &'static str) -> Answer {
    let content = Content::Json(schema);
    Answer { status: 200, description, content, headers: &[], leads_to: None }
}

/// 200 with a record.
pub(super) const fn record(description: &'static str, schema: &'static str) -> Answer {
    Answer { headers: RECORD, ..ok(description, schema) }
}

/// 201 with a new record, and links to the operations on it.
pub(super) const fn created(
    description: &'static str,
    schema: &'static str,
    leads_to: (&'static str, &'static str, &'static [&'static str]),
) -> Answer {
    let record = ok(description, schema);
    Answer { status: 201, headers: CREATED, leads_to: Some(leads_to), ..record }
}

/// 204.
pub(super) const fn done(description: &'static str) -> Answer {
    let content = Content::Nothing;
    Answer { status: 204, description, content, headers: &[], leads_to: None }
}

/// 304.
pub(super) const fn unchanged(headers: &'static [(&'static str, &'static str)]) -> Answer {
    let description = "The caller has it already.";
    Answer { status: 304, description, content: Content::Nothing, headers, leads_to: None }
}
