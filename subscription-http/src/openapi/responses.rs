//! The responses of an operation in the document: the responses of its description, and the problems that can occur.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::codes;
use super::operations::{Operation, Response};
use crate::api::routes::{Needs, Route};

/// All responses of an operation, by their status.
pub(super) fn of(operation: &Operation, route: &Route) -> Value {
    let own = operation.responses.iter().map(|response| (response.status, own(response, route)));
    let mut by_status: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for code in codes_of(operation, route) {
        if let Some((status, code, meaning)) = codes::row(code) {
            by_status.entry(*status).or_default().push((*code, *meaning));
        }
    }
    let problems =
        by_status.into_iter().map(|(status, codes)| (status, problem(status, &codes, route)));
    own.chain(problems)
        .map(|(status, response)| (status.to_string(), response))
        .collect::<Map<_, _>>()
        .into()
}

/// The error codes of an operation: the codes that follow from the route, and those that `operations.json` lists.
fn codes_of<'a>(operation: &'a Operation, route: &Route) -> Vec<&'a str> {
    let mut all =
        vec!["host_invalid", "header_invalid", "invalid_query", "uri_too_long", "internal"];
    if route.pattern.contains('{') {
        all.push("path_invalid");
    }
    if route.needs != Needs::Loopback {
        all.push("rate_limited");
    }
    if !matches!(route.needs, Needs::Nothing | Needs::Loopback | Needs::Signature) {
        all.extend(["client_id_missing", "client_unknown"]);
    }
    if matches!(route.needs, Needs::Scope(_)) || route.takes_token() {
        all.push("scope_missing");
    }
    if !matches!(route.needs, Needs::Nothing | Needs::Loopback) {
        all.push("store_unavailable");
    }
    // The responses of the other routes are short or shared.
    if route.needs != Needs::Nothing {
        all.push("overloaded");
    }
    match route.needs {
        Needs::Bearer | Needs::Person => {
            all.extend(["token_missing", "token_invalid", "token_expired"]);
            all.extend(["session_revoked", "session_expired"]);
        }
        // There are no codes for an expired token or an ended session, because these routes accept both.
        Needs::BearerEvenExpired => all.extend(["token_missing", "token_invalid"]),
        Needs::Signature => all.push("signature_invalid"),
        Needs::Nothing | Needs::Loopback | Needs::Client | Needs::Scope(_) => {}
    }
    if route.body_bytes_max.is_some() {
        all.extend(["malformed_json", "request_timeout", "body_too_large"]);
    }
    if route.body_bytes_max.is_some() && route.needs != Needs::Signature {
        all.extend(["media_type_unsupported", "validation_failed"]);
    }
    all.extend(operation.codes.iter().map(String::as_str));
    all
}

fn own(response: &Response, route: &Route) -> Value {
    let mut headers = headers(route, &[]);
    for (name, component) in &response.headers {
        set(&mut headers, name, header(component));
    }
    let mut written = json!({ "description": response.description, "headers": headers });
    if let Some(schema) = &response.schema {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        set(&mut written, "content", json!({ "application/json": { "schema": schema } }));
    }
    if let Some(content_type) = &response.content_type {
        set(&mut written, "content", json!({ content_type: { "schema": { "type": "string" } } }));
    }
    if let Some(links) = &response.links {
        let parameters = json!({ &links.parameter: format!("$response.body#/{}", links.field) });
        let link =
            |id: &String| (id.clone(), json!({ "operationId": id, "parameters": parameters }));
        set(&mut written, "links", links.operations.iter().map(link).collect::<Map<_, _>>().into());
    }
    written
}

fn problem(status: u16, codes: &[(&str, &str)], route: &Route) -> Value {
    let more: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        415 => &["Accept-Encoding"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        503 => &["Retry-After"],
        _ => &[],
    };
    let meanings: Vec<_> =
        codes.iter().map(|(code, meaning)| format!("- `{code}`: {meaning}")).collect();
    let names: Vec<_> = codes.iter().map(|(code, _)| *code).collect();
    // The schema is only the reference to `Problem`. A narrower schema would make client generators fail.
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({
        "description": meanings.join("\n"),
        "headers": headers(route, more),
        "content": { "application/problem+json": { "schema": schema } },
        "x-codes": names,
    })
}

/// The headers of a response: those in `own`, and those that every response of the route has. The name of a header's
/// component is the name of the header in lower case.
fn headers(route: &Route, own: &[&str]) -> Value {
    let mut names = [own, &["x-request-id", "x-content-type-options", "cache-control"]].concat();
    if route.limit.is_some() || route.self_service.is_some() {
        names.extend(["RateLimit", "RateLimit-Policy"]);
    }
    let member = |name: &str| (name.to_owned(), header(&name.to_ascii_lowercase()));
    names.into_iter().map(member).collect::<Map<_, _>>().into()
}

fn header(component: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{component}") })
}

/// Adds a member to an object.
pub(super) fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}
