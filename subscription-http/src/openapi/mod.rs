//! The OpenAPI document, composed of three sources; tests check that they agree.
//!
//! The route table gives paths, security and most problems. Two files are written by hand: `operations.json` describes
//! each route in words, and `components.json` has the schemas. The document is composed once, at the first request for
//! it.

mod codes;
mod operations;
mod responses;
mod text;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use subscription_core::auth::Scope;

use self::codes::CODES;
use self::operations::{Area, Operation, areas};
use crate::api::Surface;
use crate::api::admission::self_service::SelfService;
use crate::api::input::bounds;
use crate::api::routes::{self, ApiPart, Needs, Route, Served};

pub(crate) use self::text::Prepared;

/// The documents that were composed so far. The key has one value for each route: true if the route is served.
static DOCUMENTS: Mutex<BTreeMap<Vec<bool>, &Prepared>> = Mutex::new(BTreeMap::new());

/// The OpenAPI 3.1 document of an [`Api`](crate::Api) with every route, as JSON.
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(subscription_http::openapi_json())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn openapi_json() -> &'static str {
    document(Served::ALL).text()
}

/// The OpenAPI 3.1 document of an [`Api`](crate::Api) with these `parts`. `self_service` lists the changes that people
/// may make to their own subscriptions.
pub fn openapi_json_for(self_service: &[SelfService], parts: &[ApiPart]) -> &'static str {
    document(Served { self_service, parts, surface: Surface::Whole }).text()
}

/// The document of a server with these settings, ready to be sent.
pub(crate) fn document(with: Served<'_>) -> &'static Prepared {
    let routes = routes::all().map(|route| route.is_served(with)).collect();
    let mut documents = DOCUMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    documents.entry(routes).or_insert_with(|| Box::leak(Box::new(Prepared::new(compose(with)))))
}

/// The document, with its members in a good order for readers.
#[derive(Serialize)]
struct Document<'a> {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Vec<Value>,
    paths: text::Ordered<text::Ordered<Value>>,
    components: &'a RawValue,
    #[serde(rename = "x-codes")]
    codes: Vec<Value>,
}

fn compose(with: Served<'_>) -> String {
    let components =
        serde_json::from_str(include_str!("components.json")).unwrap_or(RawValue::NULL);
    let areas = areas();
    let tag = |area: &Area| json!({ "name": area.name, "description": area.description });
    let code = |(status, code, meaning): &(u16, &str, &str)| json!({ "status": status, "code": code, "meaning": meaning });
    let document = Document {
        openapi: "3.1.0",
        info: json!({
            "title": "Subscriptions",
            "version": env!("CARGO_PKG_VERSION"),
            "description": include_str!("info.md").trim(),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        }),
        servers: json!([
            { "url": ".", "description": "The server that sent this document." },
            { "url": "http://127.0.0.1:8080", "description": "A server at the default address." },
        ]),
        tags: areas.iter().filter(|area| is_served(area, with)).map(tag).collect(),
        paths: paths(&areas, with),
        components,
        codes: CODES.iter().map(code).collect(),
    };
    let text = text::without_blanks(&serde_json::to_string(&document).unwrap_or_default());
    bounds::fill(&text).replace("{{codes}}", &CODES.map(|(_, code, _)| code).join("\",\""))
}

/// Every operation with its area and its route, in the order of the areas.
fn described(areas: &[Area]) -> impl Iterator<Item = (&Area, &Operation, &'static Route)> {
    let operations = areas.iter().flat_map(|area| area.operations.iter().map(move |op| (area, op)));
    operations.filter_map(|(area, operation)| {
        let route = routes::all().find(|route| format!("{route:?}") == operation.route)?;
        Some((area, operation, route))
    })
}

/// True if at least one operation of the area is served.
fn is_served(area: &Area, with: Served<'_>) -> bool {
    described(std::slice::from_ref(area)).any(|(_, _, route)| route.is_served(with))
}

fn paths(areas: &[Area], with: Served<'_>) -> text::Ordered<text::Ordered<Value>> {
    let mut paths = text::Ordered::<text::Ordered<Value>>::default();
    let served = described(areas).filter(|(_, _, route)| route.is_served(with));
    for (area, operation, route) in served {
        let methods = paths.entry(route.pattern);
        *methods.entry(&route.method.as_str().to_ascii_lowercase()) =
            operation_json(area, operation, route);
    }
    paths
}

/// The JSON of an operation.
fn operation_json(area: &Area, operation: &Operation, route: &Route) -> Value {
    let named = operation.parameters.iter().map(String::as_str).chain(["x-request-id"]);
    let parameters: Vec<_> =
        named.map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })).collect();
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [area.name],
        "security": security(route),
        "parameters": parameters,
        "responses": responses::of(operation, route),
    });
    if let Some(description) = &operation.description {
        responses::set(&mut described, "description", description.as_str().into());
    }
    if let Some(schema) = &operation.body {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        let content = json!({ "application/json": { "schema": schema } });
        let body = json!({ "required": !route.body_is_optional, "content": content });
        responses::set(&mut described, "requestBody", body);
    }
    described
}

/// The security requirement of a route. The scope of the client is listed as a role.
fn security(route: &Route) -> Value {
    let of_session = json!({ "client-id": [Scope::Auth.as_str()], "bearer": [] });
    match route.needs {
        Needs::Nothing | Needs::Loopback | Needs::Signature => json!([]),
        Needs::Client => json!([{ "client-id": [] }]),
        Needs::Scope(scope) => json!([{ "client-id": [scope.as_str()] }]),
        Needs::Bearer | Needs::BearerEvenExpired => json!([of_session]),
        Needs::Person => json!([of_session, { "portal": [] }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_but_the_consoles_is_described_once_and_nothing_else_is() {
        let of_api = routes::all().filter(|route| route.part != Some(ApiPart::Console));
        let mut routes: Vec<_> = of_api.map(|route| format!("{route:?}")).collect();
        let operations = areas().into_iter().flat_map(|area| area.operations);
        let mut described: Vec<_> = operations.map(|op| op.route).collect();
        routes.sort_unstable();
        described.sort_unstable();

        assert_eq!(described, routes);
    }

    #[test]
    fn a_route_takes_the_body_and_the_variables_that_it_is_said_to() {
        for (_, operation, route) in described(&areas()) {
            assert_eq!(operation.body.is_some(), route.body_bytes_max.is_some(), "{route:?}");
            for part in route.pattern.split('/').filter_map(|part| part.strip_prefix('{')) {
                let name = part.trim_end_matches('}');
                assert!(operation.parameters.iter().any(|other| other == name), "{route:?} {name}");
            }
        }
    }

    #[test]
    fn every_code_that_is_named_is_in_the_table_and_all_are_told() {
        for (_, operation, _) in described(&areas()) {
            for code in &operation.codes {
                assert!(codes::row(code).is_some(), "{} {code}", operation.route);
            }
        }
        let document = openapi_json();
        for (_, code, meaning) in CODES {
            assert!(document.contains(&format!("\"{code}\"")) && !meaning.is_empty(), "{code}");
        }
    }
}
