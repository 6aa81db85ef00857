//! The guides list the endpoints, codes and bounds of the server, and the README links them.

use serde_json::Value;
use subscription_core::FaultCode;
use subscription_core::store::PageLimit;

use super::documented::{DOCUMENT, operations, resolve};
use super::world::text;

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The cells of each row of a table that names something in code.
fn rows(section: &str) -> Vec<Vec<&str>> {
    let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    rows.map(|row| row.split('|').skip(1).map(str::trim).collect()).collect()
}

/// The credential that an operation needs, as the guide names it.
fn needs(operation: &Value) -> String {
    let answers = |status: &str, code: &str| {
        let codes = operation["responses"][status]["x-codes"].as_array();
        codes.is_some_and(|codes| codes.iter().any(|other| other == code))
    };
    let security = &operation["security"][0];
    if answers("400", "signature_invalid") {
        return "the provider's signature".to_owned();
    }
    if security.is_null() {
        let is_loopback = answers("404", "route_not_found");
        return if is_loopback { "this machine, or `metrics_listen`" } else { "nothing" }
            .to_owned();
    }
    if operation["security"][1]["portal"].is_array() {
        return "*person*".to_owned();
    }
    let client = format!("client `{}`", text(&security["client-id"][0]));
    match (security["bearer"].is_array(), answers("401", "token_expired")) {
        (false, _) => client,
        (true, true) => client + ", token",
        (true, false) => client + ", token, also expired",
    }
}

#[test]
fn the_table_of_endpoints_has_every_route_and_what_it_needs() {
    let page = page("docs/endpoints.md");
    // Other tables of the page have no paths.
    let rows = rows(&page).into_iter().filter(|cells| cells[0].contains(" /"));
    let mut listed: Vec<_> =
        rows.map(|cells| format!("{}: {}", cells[0].trim_matches('`'), cells[1])).collect();

    let operations = operations();
    let mut known: Vec<_> =
        operations.map(|(method, path, op)| format!("{method} {path}: {}", needs(op))).collect();
    listed.sort();
    known.sort();
    assert_eq!(listed, known);
}

#[test]
fn the_readme_links_the_table_of_endpoints_and_is_short() {
    let readme = page("README.md");
    assert!(readme.contains("](docs/endpoints.md)"), "README.md does not link docs/endpoints.md");
    assert!(readme.lines().count() <= 150, "README.md is too long to be read");
}

#[test]
fn the_guide_to_errors_has_every_code_and_no_other() {
    let guide = page("docs/errors.md");
    let (codes, fields) = guide.split_once("\n## ").unwrap();

    let listed = rows(codes).into_iter().map(|cells| format!("{} {}", cells[0], cells[1]));
    let known = DOCUMENT["x-codes"].as_array().unwrap();
    let codes = known.iter().map(|row| format!("{} `{}`", row["status"], text(&row["code"])));
    assert_eq!(listed.collect::<Vec<_>>(), codes.collect::<Vec<_>>());

    let listed = rows(fields).into_iter().map(|cells| cells[0].to_owned());
    assert_eq!(listed.collect::<Vec<_>>(), FaultCode::ALL.map(|code| format!("`{code}`")));
}

#[test]
fn the_bounds_of_a_request_are_the_same_in_the_guide_and_in_the_document() {
    let guide = page("docs/errors.md");
    let meaning = |code: &str| {
        let rows = DOCUMENT["x-codes"].as_array().unwrap();
        text(&rows.iter().find(|row| row["code"] == code).unwrap()["meaning"])
    };
    for code in ["body_too_large", "uri_too_long"] {
        assert!(guide.contains(&format!("`{code}` | {} |", meaning(code))), "{code}");
    }
    let description = text(&DOCUMENT["info"]["description"]);
    let (_, head) = description.split_once("with headers above ").unwrap();
    let head = head.split(" is 431").next().unwrap();
    assert!(guide.contains(&format!("more than {head} of headers gets 431")), "{head}");

    let limit = resolve(&DOCUMENT["components"]["parameters"]["limit"]);
    assert_eq!(limit["schema"]["maximum"], PageLimit::MAX.get());
    let default = format!("Default: `{}`.", PageLimit::default().get());
    assert!(text(&limit["description"]).ends_with(&default), "{limit}");
    for schema in [
        "PlanPage",
        "SubscriptionPage",
        "PaymentPage",
        "UserPage",
        "ProviderEventPage",
        "WebhookEndpointPage",
        "ParkedEventPage",
    ] {
        let data = &DOCUMENT["components"]["schemas"][schema]["properties"]["data"];
        assert_eq!(data["maxItems"], PageLimit::MAX.get(), "{schema}");
    }
}
