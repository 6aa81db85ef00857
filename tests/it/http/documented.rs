//! Holds answers against the OpenAPI document: status, headers, content type and body.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::world::Answer;

/// The document.
pub(crate) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(subscription_http::openapi_json()).unwrap());

/// Headers that belong to the content, or to no answer in particular.
const OF_HTTP: [&str; 5] = ["content-type", "content-length", "allow", "connection", "vary"];

/// The node that a reference of the document points to.
pub(crate) fn resolve(node: &'static Value) -> &'static Value {
    let Some(reference) = node["$ref"].as_str() else { return node };
    DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference}"))
}

/// Every operation: method, path and what the document says of it.
pub(crate) fn operations() -> impl Iterator<Item = (String, &'static str, &'static Value)> {
    DOCUMENT["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    })
}

/// Refuses a value that is not as a schema of the document has it.
pub(crate) fn is_valid(schema: &Value, value: &Value, what: &str) {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let known = KNOWN.lock().unwrap().get(&schema.to_string()).cloned();
    let validator = known.unwrap_or_else(|| {
        let whole = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [schema],
            "components": { "schemas": DOCUMENT["components"]["schemas"] },
        });
        let options = jsonschema::options().should_validate_formats(true);
        let made = Arc::new(options.build(&whole).unwrap_or_else(|e| panic!("{schema}: {e}")));
        KNOWN.lock().unwrap().insert(schema.to_string(), Arc::clone(&made));
        made
    });
    let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{what}: {faults:#?}\n{value:#}");
}

/// The operation of a request, if the document has one.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let wanted = if method == "HEAD" { "GET" } else { method };
    operations().find(|(other, pattern, _)| other == wanted && fits(pattern, path)).map(|o| o.2)
}

/// True if a path is one of a pattern.
fn fits(pattern: &str, path: &str) -> bool {
    let (mut parts, mut segments) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), segments.next()) {
            (None, None) => return true,
            (Some(part), Some(segment)) if part.starts_with('{') && !segment.is_empty() => {}
            (Some(part), Some(segment)) if part == decoded(segment) => {}
            _ => return false,
        }
    }
}

/// A segment as the server reads it; what cannot be decoded leads to no path of the document.
fn decoded(segment: &str) -> String {
    let mut parts = segment.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        text + &byte
            .map_or_else(|| format!("%{part}"), |byte| char::from(byte).to_string() + &part[2..])
    })
}

/// Refuses an answer that the document does not have.
pub(crate) fn is_documented(method: &str, path: &str, answer: &Answer) {
    let what = format!("{} to {method} {path}", answer.status);
    // The files of the console are no part of the API.
    let is_of_console = path.split('/').nth(1).is_some_and(|first| decoded(first) == "console");
    if is_of_console && answer.status < 400 {
        return;
    }
    // An API does not serve every route of the document: some are there by a setting only.
    let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let has_no_route = answer.status == 404 && body["code"] == "route_not_found";
    let Some(operation) = operation(method, path).filter(|_| !has_no_route) else {
        return is_documented_beside(method, answer, &what);
    };
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{what} is not documented: {answer:?}");
    headers_are_documented(response, answer, &what);
    let content = response["content"].as_object().and_then(|content| content.iter().next());
    let told = answer.header("content-type").map(|told| told.split(';').next().unwrap());
    assert_eq!(told, content.map(|(name, _)| name.as_str()), "{what}");
    let Some((name, content)) = content else {
        assert!(answer.body.is_empty(), "{what}");
        return;
    };
    if method != "HEAD" && name.ends_with("json") {
        let body = answer.json();
        is_valid(&content["schema"], &body, &what);
        if let Some(codes) = response["x-codes"].as_array() {
            assert!(
                codes.contains(&body["code"]) && body["status"] == answer.status,
                "{what}: {body}"
            );
        }
    }
}

/// Checks the answer to a request that is no operation: a problem, or an answer to `OPTIONS`.
fn is_documented_beside(method: &str, answer: &Answer, what: &str) {
    if method == "OPTIONS" && answer.status == 204 {
        let response = &DOCUMENT["components"]["responses"]["Options"];
        headers_are_documented(response, answer, what);
        return;
    }
    assert!(answer.status >= 400, "{what} is not documented");
    let codes = DOCUMENT["x-codes"].as_array().unwrap();
    if method != "HEAD" {
        let body = answer.json();
        is_valid(&json!({ "$ref": "#/components/schemas/Problem" }), &body, what);
        let known = |code: &Value| code["status"] == answer.status && code["code"] == body["code"];
        assert!(codes.iter().any(known), "{what}: {body}");
    }
}

fn headers_are_documented(response: &'static Value, answer: &Answer, what: &str) {
    let documented = response["headers"].as_object().unwrap();
    for (name, header) in documented {
        let header = resolve(header);
        match answer.header(&name.to_lowercase()) {
            Some(told) => is_valid(&header["schema"], &json!(told), &format!("{what}: {name}")),
            None => assert!(header["required"] != true, "{what}: {name} is missing"),
        }
    }
    let beside = ["x-content-type-options", "cache-control"];
    for name in answer.headers.keys().map(http::HeaderName::as_str) {
        let is_known = documented.keys().any(|other| other.eq_ignore_ascii_case(name))
            || OF_HTTP.contains(&name)
            || name.starts_with("access-control-")
            || (response["content"].is_null() && beside.contains(&name));
        assert!(is_known, "{what}: {name} is not documented");
    }
}
