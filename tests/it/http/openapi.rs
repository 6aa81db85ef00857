//! The OpenAPI document is complete and true. Beside these tests, every answer to every request of
//! the others is held against it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use subscription_core::auth::Scope;
use subscription_core::plans::Span;
use subscription_core::providers::{EventState, Reason};
use subscription_core::webhooks::{DisabledReason, ParkedState, StallReason};
use subscription_core::{
    BillingCycle, Effective, FaultCode, LineKind, ManagedBy, PaymentKind, PaymentStatus, Proration,
    Quantity, StepKind, SubscriptionStatus,
};

use super::documented::{DOCUMENT, is_valid, operations, resolve};
use super::errors;
use super::world::{Answer, HttpWorld, Person, WEB, add, text};

/// An id that no record has.
const UNKNOWN: &str = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";

fn schema(name: &str) -> &'static Value {
    let schema = &DOCUMENT["components"]["schemas"][name];
    assert!(schema.is_object(), "{name}");
    schema
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The operations that take a body: method, a path that could be one, the operation and the body's schema.
fn bodies() -> impl Iterator<Item = (String, String, &'static Value, &'static Value)> {
    // The body of a webhook is any bytes.
    let has_fields = |path: &str, operation: &Value| {
        operation["requestBody"].is_object() && !path.starts_with("/provider-webhooks")
    };
    operations().filter(move |(_, path, operation)| has_fields(path, operation)).map(
        |(method, path, operation)| {
            let path = with_variables(path, |name| if name == "slug" { "none" } else { UNKNOWN });
            let content = &operation["requestBody"]["content"]["application/json"];
            (method, path, operation, resolve(&content["schema"]))
        },
    )
}

/// A path with values for the variables of its pattern.
fn with_variables(pattern: &str, value: impl Fn(&str) -> &'static str) -> String {
    let parts = pattern.split('/').map(|part| {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        name.map_or(part, |name| value(name))
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Sends a request of somebody who may: a server, or a person where an access token is needed.
async fn call(
    (world, ann): (&HttpWorld, &Person),
    operation: &Value,
    method: &str,
    path: &str,
    body: &str,
) -> Answer {
    if operation["security"][0]["bearer"].is_array() {
        let headers = [("client-id", WEB), ("authorization", &*ann.bearer)];
        return world.call(method, path, &headers, body).await;
    }
    world.server(method, path, &[], body).await
}

fn allows_null(schema: &'static Value) -> bool {
    let types = resolve(schema)["type"].as_array();
    types.is_some_and(|types| types.iter().any(|name| name == "null"))
}

#[tokio::test]
async fn the_document_has_the_paths_and_methods_that_there_are() {
    let world = HttpWorld::new().await;
    let documented: Vec<_> =
        operations().map(|(method, path, _)| (method, with_variables(path, |_| "x"))).collect();

    for (_, path) in &documented {
        let options = world.call("OPTIONS", path, &[], "").await;
        let allowed: BTreeSet<_> = options.header("allow").unwrap().split(", ").collect();
        let mut methods: BTreeSet<_> =
            documented.iter().filter(|(_, p)| p == path).map(|(m, _)| m.as_str()).collect();
        methods.insert("OPTIONS");
        if methods.contains("GET") {
            methods.insert("HEAD");
        }
        assert_eq!(methods, allowed, "{path}");
    }
}

#[test]
fn the_document_has_the_codes_that_there_are() {
    let table: Vec<_> = errors::CODES.to_vec();
    let told = DOCUMENT["x-codes"].as_array().unwrap().iter();
    let told: BTreeSet<_> =
        told.map(|row| (row["status"].as_u64().unwrap(), text(&row["code"]))).collect();
    let expected = table.iter().map(|(status, code)| (u64::from(*status), (*code).to_owned()));
    assert_eq!(told, expected.collect());
    let named: BTreeSet<_> =
        texts(&schema("Problem")["properties"]["code"]["enum"]).into_iter().collect();
    assert_eq!(named, told.iter().map(|(_, code)| code.as_str()).collect());

    let mut used = BTreeSet::new();
    for (method, path, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            for code in response["x-codes"].as_array().into_iter().flatten() {
                let row = (status.parse().unwrap(), text(code));
                assert!(told.contains(&row), "{method} {path} {row:?}");
                used.insert(row);
            }
        }
    }
    let unused: Vec<_> = told.difference(&used).map(|(_, code)| code.as_str()).collect();
    assert_eq!(unused, ["method_not_allowed"], "this one comes with no operation");
}

#[test]
fn names_and_scopes_are_those_of_the_core() {
    let statuses: Vec<_> = SubscriptionStatus::all().map(SubscriptionStatus::as_str).collect();
    assert_eq!(texts(&schema("SubscriptionStatus")["enum"]), statuses);
    let statuses: Vec<_> = PaymentStatus::all().map(PaymentStatus::as_str).collect();
    assert_eq!(texts(&schema("PaymentStatus")["enum"]), statuses);
    assert_eq!(texts(&schema("FaultCode")["enum"]), FaultCode::ALL.map(FaultCode::as_str));

    let inputs = texts(&schema("SubscriptionStatusInput")["enum"]);
    assert!(SubscriptionStatus::all().all(|status| inputs.contains(&status.as_str())));
    for input in inputs {
        assert!(input.parse::<SubscriptionStatus>().is_ok(), "{input}");
    }
    let inputs = texts(&schema("PaymentStatusInput")["enum"]);
    assert!(PaymentStatus::all().all(|status| inputs.contains(&status.as_str())));
    for input in inputs {
        assert!(input.parse::<PaymentStatus>().is_ok(), "{input}");
    }
    for cycle in BillingCycle::names() {
        is_valid(schema("BillingCycle"), &cycle.into(), cycle);
    }
    let pattern = schema("BillingCycleInput")["pattern"].as_str().unwrap();
    let inputs =
        pattern.trim_start_matches("^(?:").split('|').take_while(|input| !input.contains('['));
    let inputs: Vec<_> = inputs.collect();
    assert!(BillingCycle::names().all(|cycle| inputs.contains(&cycle)));
    for input in inputs {
        assert!(input.parse::<BillingCycle>().is_ok(), "{input}");
    }
    assert_eq!(texts(&schema("ManagedBy")["enum"]), ManagedBy::ALL.map(ManagedBy::as_str));
    assert_eq!(texts(&schema("Effective")["enum"]), Effective::ALL.map(Effective::as_str));
    assert_eq!(texts(&schema("Proration")["enum"]), Proration::ALL.map(Proration::as_str));
    let line = &schema("Line")["properties"]["kind"];
    assert_eq!(texts(&line["enum"]), LineKind::ALL.map(LineKind::as_str));
    let step = &schema("UpcomingStep")["properties"]["step"];
    assert_eq!(texts(&step["enum"]), StepKind::ALL.map(StepKind::as_str));
    let kinds = PaymentKind::ALL.map(|kind| json!(kind)).into_iter().chain([Value::Null]);
    assert_eq!(schema("NullablePaymentKind")["enum"], kinds.collect::<Value>());
    assert_eq!(schema("Quantity")["maximum"], Quantity::MAX);
    assert_eq!(
        texts(&schema("ProviderEventState")["enum"]),
        EventState::ALL.map(EventState::as_str)
    );
    assert_eq!(texts(&schema("ProviderReason")["enum"]), Reason::ALL.map(Reason::as_str));
    let or_null = |names: &[&str]| -> Value {
        names.iter().map(|name| json!(name)).chain([Value::Null]).collect()
    };
    let reasons = DisabledReason::ALL.map(DisabledReason::as_str);
    assert_eq!(schema("NullableDisabledReason")["enum"], or_null(&reasons));
    let reasons = StallReason::ALL.map(StallReason::as_str);
    assert_eq!(schema("NullableStallReason")["enum"], or_null(&reasons));
    let states = ParkedState::ALL.map(ParkedState::as_str);
    assert_eq!(texts(&schema("ParkedEventState")["enum"]), states);
    for span in ["P1D", "p0014d", "P36500D", "P5200W", "P1200M", "P100Y"] {
        is_valid(schema("NullableSpanInput"), &span.into(), span);
        let written = span.parse::<Span>().unwrap().to_string();
        is_valid(schema("NullableSpan"), &written.into(), span);
    }
    for (method, path, operation) in operations() {
        for scope in operation["security"][0]["client-id"].as_array().into_iter().flatten() {
            assert!(text(scope).parse::<Scope>().is_ok(), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_body_takes_the_fields_that_are_documented_and_no_others() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap().values();
    let names = schemas.filter_map(|schema| schema["properties"].as_object()).flat_map(Map::keys);
    let names: BTreeSet<_> = names.collect();

    for (method, path, operation, schema) in bodies() {
        let properties = schema["properties"].as_object().unwrap();
        for name in &names {
            let body = json!({ name.as_str(): null }).to_string();
            let answer = call((&world, &ann), operation, &method, &path, &body).await;
            let faults = if answer.status == 422 { answer.faults() } else { Vec::new() };
            let has = |code: &str| faults.contains(&format!("{name} {code}"));
            let documented = properties.get(*name);
            assert_eq!(has("unknown_field"), documented.is_none(), "{method} {path} {name}");
            if let Some(property) = documented {
                assert_eq!(has("null_not_allowed"), !allows_null(property), "{path} {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_must_have_the_fields_that_are_documented_as_required() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;

    for (method, path, operation, schema) in bodies() {
        let answer = call((&world, &ann), operation, &method, &path, "{}").await;
        let faults = if answer.status == 422 { answer.faults() } else { Vec::new() };
        let required = schema["required"].as_array().into_iter().flatten();
        let mut required: Vec<_> =
            required.map(|name| format!("{} required", text(name))).collect();
        if path == "/clock/advance" {
            required.push("to required".into()); // Or `by`, which generators have no keyword for.
        }
        if path.ends_with("/rewind") {
            required.push("to required".into()); // Or `since`.
        }
        if path.ends_with("/resend") {
            required.push("sequence required".into()); // Or `all`.
        }
        if path.contains("/change-plan") {
            // Or `billing_cycle` or `quantity`.
            required.push("subscription_plan_id required".into());
        }
        if path.ends_with("/discount") {
            required.insert(0, "percent required".into()); // Or `amount`.
        }
        if path == "/provider-links" {
            // Or `subscription_id` alone.
            required.extend(["customer required".into(), "user_id required".into()]);
        }
        assert_eq!(faults, required, "{method} {path}");
    }
}

#[tokio::test]
async fn fields_that_are_left_out_get_their_documented_defaults() {
    let world = HttpWorld::new().await;
    let plan = world.plan("pro").await;
    let subscription = world.subscription("ann", &json!({})).await;
    let payment = world.payment("ben", &json!({})).await;

    let mut documented = 0;
    for (name, made) in
        [("NewPlan", plan), ("NewSubscription", subscription), ("NewPayment", payment)]
    {
        for (field, property) in schema(name)["properties"].as_object().unwrap() {
            let described = property["description"].as_str().and_then(default_in);
            if let Some(default) = described {
                assert_eq!(made[field], default, "{name} {field}");
                documented += 1;
            }
        }
    }
    assert!(documented >= 12, "{documented} defaults are documented");
}

/// The default that a description ends with: JSON, or a name.
fn default_in(description: &str) -> Option<Value> {
    let (_, default) = description.split_once(" Default: `")?;
    let default = default.strip_suffix("`.").unwrap_or_else(|| panic!("{description}"));
    Some(serde_json::from_str(default).unwrap_or_else(|_| default.into()))
}

#[test]
fn the_document_has_only_what_client_generators_understand() {
    let text = subscription_http::openapi_json();

    for keyword in ["anyOf", "oneOf", "allOf", "not", "default", "if", "nullable"] {
        assert!(!text.contains(&format!("\"{keyword}\":")), "{keyword}");
    }
    for (method, path, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if let Some(problem) = response["content"].get("application/problem+json") {
                let reference = json!({ "$ref": "#/components/schemas/Problem" });
                assert_eq!(problem["schema"], reference, "{method} {path} {status}");
                assert!(!texts(&response["x-codes"]).is_empty(), "{method} {path} {status}");
            }
        }
    }
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        let whole_number = schema["type"] == "integer";
        assert!(!whole_number || schema["format"].is_string(), "{name} has no format");
    }
}

#[tokio::test]
async fn the_query_of_a_list_takes_the_documented_parameters_and_no_others() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;
    let ann = world.sign_up("ann").await;

    for (method, pattern, operation) in operations() {
        let parameters = operation["parameters"].as_array().unwrap().iter().map(resolve);
        let query: Vec<_> = parameters.filter(|parameter| parameter["in"] == "query").collect();
        if method != "GET" {
            assert!(query.is_empty(), "{method} {pattern}");
            continue;
        }
        let path = with_variables(pattern, |name| if name == "slug" { "pro" } else { UNKNOWN });
        let caller = (&world, &ann);
        let refused = call(caller, operation, "GET", &format!("{path}?none=1"), "").await;
        let detail = text(&refused.json()["detail"]);
        let (_, known) = detail.split_once("the known parameters are: ").unwrap();
        let mut named: Vec<_> = query.iter().map(|parameter| text(&parameter["name"])).collect();
        if named.is_empty() {
            named.push("none".into());
        }
        assert_eq!(known, named.join(", "), "{path}");
        for parameter in query.iter().filter(|parameter| parameter["name"] != "cursor") {
            let example = example(&parameter["schema"]);
            let uri = format!("{path}?{}={example}", text(&parameter["name"]));
            let status = call(caller, operation, "GET", &uri, "").await.status;
            let is_found = status == 200 || (status == 404 && uri.contains(UNKNOWN));
            assert!(is_found, "{uri} {status}");
        }
    }
}

/// An example of a parameter, as it stands in a query.
fn example(schema: &'static Value) -> String {
    let schema = resolve(schema);
    let example = &schema["examples"][0];
    let example = example.get(0).unwrap_or(example);
    example.as_str().map_or_else(|| example.to_string(), str::to_owned)
}

#[tokio::test]
async fn examples_are_as_their_schemas_have_them_and_are_taken() {
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().into_iter().flatten() {
            is_valid(&json!({ "$ref": format!("#/components/schemas/{name}") }), example, name);
        }
    }
    let world = HttpWorld::new().await;
    let body = |name: &str| schema(name)["examples"][0].clone();
    let plan = world.made("/subscription-plans", &body("NewPlan")).await;
    let mut subscription = body("NewSubscription");
    let user = world.sign_up("ann").await.id;
    add(&mut subscription, &json!({ "user_id": user, "subscription_plan_id": plan["id"] }));
    let subscription = world.made("/subscriptions", &subscription).await;
    let mut payment = body("NewPayment");
    add(&mut payment, &json!({ "subscription_id": subscription["id"] }));
    let payment = world.made("/subscription-payments", &payment).await;
    for (path, changes) in [
        ("/subscription-plans/pro".to_owned(), "PlanChanges"),
        (format!("/subscriptions/{}", text(&subscription["id"])), "SubscriptionChanges"),
        (format!("/subscription-payments/{}", text(&payment["id"])), "PaymentChanges"),
    ] {
        let changed = world.server("PUT", &path, &[], body(changes).to_string()).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
}

#[tokio::test]
async fn the_document_is_served_to_everybody_and_only_once() {
    let world = HttpWorld::new().await;

    let served = world.call("GET", "/openapi.json", &[], "").await;

    assert_eq!(served.text(), subscription_http::openapi_json());
    assert_eq!(served.json()["info"]["version"], env!("CARGO_PKG_VERSION"));
    for path in ["/openapi.json", "/docs"] {
        let tag = world.call("GET", path, &[], "").await.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".into()] {
            let again = world.call("GET", path, &[("if-none-match", &known)], "").await;
            assert_eq!((again.status, again.text()), (304, ""), "{path} {known}");
        }
        let other = world.call("GET", path, &[("if-none-match", "\"1\"")], "").await;
        assert_eq!(other.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_runs_only_what_it_came_with() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let world = HttpWorld::new().await;

    let page = world.call("GET", "/docs", &[], "").await;

    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for element in ["style", "script"] {
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let (_, after) = page.text().split_once(&open).unwrap();
        let (inner, rest) = after.split_once(&close).unwrap();
        assert!(!rest.contains(&format!("<{element}")), "only one is allowed to run");
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(inner));
        assert!(policy.contains(&format!("{element}-src 'sha256-{hash}'")), "{policy}");
    }
    for elsewhere in ["http://", "https://", "src=", "@import", " url(", " style=", " onclick="] {
        assert!(!page.text().contains(elsewhere), "{elsewhere}");
    }
}
