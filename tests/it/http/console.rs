//! The console without a browser: its files, their headers, and the two answers that only it has.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::json;
use sha2::Digest as _;
use subscription_core::auth::{ClientKind, Scope};
use subscription_http::{Api, RateLimits};

use super::rates::limited;
use super::world::{Answer, CURSOR_KEY, HttpWorld, WEB, problem};
use crate::auth::world::secret;

const KILOBYTE: usize = 1_024;

/// The headers of every answer of the console.
const GUARDS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri \
         'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types \
         'none'",
    ),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=()"),
    ("x-content-type-options", "nosniff"),
];

/// The files of the console by their names, as they lie in the folder.
fn files() -> BTreeMap<String, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/subscription-http/src/console/assets");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// A file without indentation, comments and empty lines.
fn sent(text: &str) -> String {
    let mut sent = String::new();
    for line in text.lines().map(str::trim) {
        if !line.is_empty() && !line.starts_with("//") && !line.starts_with("/*") {
            sent += line;
            sent.push('\n');
        }
    }
    sent
}

async fn get(world: &HttpWorld, path: &str) -> Answer {
    world.call("GET", path, &[], "").await
}

fn assert_guarded(headers: &HeaderMap, what: &str) {
    for (name, value) in GUARDS {
        let sent: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(sent, [value], "{what}: {name}");
    }
    assert!(!headers.contains_key("set-cookie"), "{what}");
}

/// The world's parts behind an API with no console, or with a console and nothing else.
fn bare(world: &HttpWorld, has_console: bool) -> Api {
    let (service, auth) = (world.auth.service.clone(), world.auth.auth.clone());
    let api = Api::builder(service, auth, secret(CURSOR_KEY));
    if has_console { api.console().build() } else { api.build() }
}

#[tokio::test]
async fn every_file_is_served_to_everybody_with_its_type_its_tag_and_its_headers() {
    let world = HttpWorld::new().await;

    for (name, text) in files() {
        let text = sent(&text);
        let file = get(&world, &format!("/console/{name}")).await;

        assert_eq!((file.status, file.text()), (200, text.as_str()), "{name}");
        let of_kind = match name.rsplit_once('.').unwrap().1 {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            "json" => "application/json",
            other => panic!("{other} has no type"),
        };
        assert_eq!(file.header("content-type"), Some(of_kind), "{name}");
        assert_guarded(&file.headers, &name);
        let caching = if name == "index.html" { "no-store" } else { "no-cache" };
        assert_eq!(file.header("cache-control"), Some(caching), "{name}");
        let tag = file.header("etag").unwrap();
        assert_eq!(tag.trim_matches('"'), hash(&text), "{name}");
        let path = format!("/console/{name}");
        for known in [tag, &format!("W/{tag}"), &format!("\"1\", {tag}"), "*"] {
            let again = world.call("GET", &path, &[("if-none-match", known)], "").await;
            assert_eq!((again.status, again.text()), (304, ""), "{name} {known}");
            assert_guarded(&again.headers, &name);
        }
        let changed = world.call("GET", &path, &[("if-none-match", "\"1\"")], "").await;
        assert_eq!(changed.status, 200, "{name}");
    }
    let (index, page) = (get(&world, "/console/index.html").await, get(&world, "/console/").await);
    assert_eq!(page.text(), index.text());
    assert_eq!(page.header("cache-control"), Some("no-store"));
}

/// The hash in the tag of a text.
fn hash(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(text))
}

#[tokio::test]
async fn the_address_without_a_slash_leads_to_the_one_with_it_wherever_it_is_mounted() {
    let world = HttpWorld::new().await;

    let moved = get(&world, "/console").await;

    assert_eq!((moved.status, moved.text()), (308, ""));
    assert_eq!(moved.header("location"), Some("console/"));
    assert_guarded(&moved.headers, "GET /console");
    let here = url::Url::parse("https://shop.example/billing/console").unwrap();
    let there = here.join(moved.header("location").unwrap()).unwrap();
    assert_eq!(there.as_str(), "https://shop.example/billing/console/");
}

#[tokio::test]
async fn other_paths_below_it_lead_nowhere() {
    let world = HttpWorld::new().await;

    for path in [
        "/console/none.js",
        "/console/INDEX.HTML",
        "/console/index.html/",
        "/console/settings/",
        "/console/client/",
        "/console//",
        "/console//index.html",
        "/console/assets/index.html",
        "/console/mod.rs",
        "/consoles",
        "/Console/",
        "/console/%20index.html",
        "/console/index.html%00",
    ] {
        let refused = get(&world, path).await;
        let expected = if path.contains("%00") {
            problem(400, "path_invalid")
        } else {
            problem(404, "route_not_found")
        };
        assert_eq!(refused.problem(), expected, "{path}");
    }
    for path in [
        "/console/../docs",
        "/console/..",
        "/console/%2e%2e/docs",
        "/console/%2E%2e%2fdocs",
        "/console/..%2f..%2fCargo.toml",
        "/console/..%5c..%5cCargo.toml",
        "/console/./index.html",
    ] {
        let refused = get(&world, path).await;
        assert_eq!(refused.problem(), problem(400, "path_invalid"), "{path}");
    }
    // The same name, spelled with escapes, is the same file.
    assert_eq!(get(&world, "/console/%69ndex.html").await.status, 200);
    for path in ["/console/?a=1", "/console/index.html?v=2", "/console/settings?a=1"] {
        assert_eq!(get(&world, path).await.problem(), problem(400, "invalid_query"), "{path}");
    }
}

#[tokio::test]
async fn its_answers_have_no_body_for_head_and_no_other_methods() {
    let world = HttpWorld::new().await;
    let id = ("x-request-id", "same");

    for path in ["/console", "/console/", "/console/index.html", "/console/settings"] {
        let get = world.call("GET", path, &[id], "").await;
        let mut head = world.call("HEAD", path, &[id], "").await;

        assert_eq!((head.status, head.text()), (get.status, ""), "{path}");
        let length = head.headers.remove("content-length").unwrap();
        assert_eq!(length, get.body.len().to_string(), "{path}");
        assert_eq!(head.headers, get.headers, "{path}");
        let options = world.call("OPTIONS", path, &[], "").await;
        assert_eq!(options.header("allow"), Some("GET, HEAD, OPTIONS"), "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            let refused = world.call(method, path, &[], "").await;
            assert_eq!(refused.problem(), problem(405, "method_not_allowed"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn its_settings_are_those_of_the_server() {
    let world = HttpWorld::new().await;
    let settings = get(&world, "/console/settings").await;

    let expected = json!({
        "mode": "production",
        "users": "accounts",
        "clock": "manual",
        "now": "2025-01-31T00:00:00.000000Z",
        "capabilities": ["billing", "providers", "webhooks"],
    });
    assert_eq!(settings.json(), expected);
    assert_eq!(settings.header("cache-control"), Some("no-store"));
    assert_guarded(&settings.headers, "settings");

    let plain = HttpWorld { api: bare(&world, true), ..world };
    let settings = get(&plain, "/console/settings").await.json();
    assert_eq!((&settings["capabilities"], &settings["clock"]), (&json!([]), &json!("system")));

    let (service, auth) = (plain.auth.service.clone(), plain.auth.auth.clone());
    let api = Api::builder(service, auth, secret(CURSOR_KEY)).believe_every_client().console();
    let development = HttpWorld { api: api.build(), ..plain };
    assert_eq!(get(&development, "/console/settings").await.json()["mode"], "development");

    let elsewhere = subscription_core::SubscriptionService::builder(std::sync::Arc::clone(
        &development.auth.store,
    ));
    let auth = development.auth.auth.clone();
    let api = Api::builder(elsewhere.build(), auth, secret(CURSOR_KEY)).console();
    let any = HttpWorld { api: api.build(), ..development };
    assert_eq!(get(&any, "/console/settings").await.json()["users"], "any");
}

#[tokio::test]
async fn a_client_learns_its_own_name_and_scopes_and_nobody_elses() {
    let world = HttpWorld::new().await;
    let reads = |scope| matches!(scope, Scope::SubscriptionsRead | Scope::PaymentsRead);
    let reader = world.client("reader", ClientKind::Confidential, reads).await;

    let shown = world.call("GET", "/console/client", &[("client-id", &reader)], "").await;

    let expected = json!({
        "id": "reader",
        "name": "reader",
        "scopes": ["subscriptions:read", "payments:read"],
        "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(shown.json(), expected);
    assert_eq!(shown.header("cache-control"), Some("no-store"));
    assert_guarded(&shown.headers, "client");
    let web = world.call("GET", "/console/client", &[("client-id", WEB)], "").await.json();
    assert_eq!(web["scopes"], json!(["auth", "plans:read"]));
    let world = HttpWorld { api: bare(&world, true), ..world };
    let missing = get(&world, "/console/client").await;
    assert_eq!(missing.problem(), problem(401, "client_id_missing"));
}

/// Attack C7: the console gives no rights. What its calls may do are the scopes of the key.
#[tokio::test]
async fn a_key_that_signs_in_may_not_do_more_than_its_scopes() {
    let world = HttpWorld::new().await;
    let reads = |scope| scope == Scope::SubscriptionsRead;
    let reader = world.client("reader", ClientKind::Confidential, reads).await;
    let headers = [("client-id", &*reader), ("referer", "http://localhost/console/")];
    assert_eq!(world.call("GET", "/console/client", &headers, "").await.status, 200);

    for (method, path) in [
        ("GET", "/users"),
        ("GET", "/events"),
        ("POST", "/subscription-plans"),
        ("POST", "/subscriptions/01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77/cancel"),
    ] {
        let refused = world.call(method, path, &headers, "").await;
        assert_eq!(refused.problem(), problem(403, "scope_missing"), "{method} {path}");
    }
}

/// Attack C5: a web page whose name is made to resolve to this machine.
#[tokio::test]
async fn in_development_a_page_that_rebinds_its_name_gets_no_console() {
    let world = HttpWorld::new().await;
    let (service, auth) = (world.auth.service.clone(), world.auth.auth.clone());
    let api = Api::builder(service, auth, secret(CURSOR_KEY)).believe_every_client().console();
    let world = HttpWorld { api: api.build(), ..world };

    for path in
        ["/console", "/console/", "/console/index.html", "/console/settings", "/console/client"]
    {
        let headers = [("host", "evil.example"), ("client-id", "console")];
        let refused = world.call("GET", path, &headers, "").await;
        assert_eq!(refused.problem(), problem(400, "host_invalid"), "{path}");
        let headers = [("host", "localhost:8080"), ("client-id", "console")];
        assert!(world.call("GET", path, &headers, "").await.status < 400, "{path}");
    }
}

/// Attack C9: where the console is not asked for, there is none.
#[tokio::test]
async fn without_it_no_path_of_it_exists() {
    let world = HttpWorld::new().await;
    let without = [bare(&world, false), world.api.without_console(), world.api.operations()];

    for api in without {
        let world = HttpWorld { api, ..HttpWorld::new().await };
        for path in ["/console", "/console/", "/console/index.html", "/console/settings"] {
            for method in ["GET", "OPTIONS", "POST"] {
                let refused = world.call(method, path, &[], "").await;
                assert_eq!(refused.problem(), problem(404, "route_not_found"), "{method} {path}");
            }
        }
        let client = world.server("GET", "/console/client", &[], "").await;
        assert_eq!(client.problem(), problem(404, "route_not_found"));
    }
}

#[tokio::test]
async fn the_public_listener_has_the_rest_of_the_api_when_the_console_has_its_own() {
    let world = HttpWorld::new().await;
    let console = HttpWorld::new().await;
    let public = HttpWorld { api: world.api.without_console(), ..world };

    for path in ["/subscription-plans", "/subscriptions", "/users", "/webhook-endpoints", "/clock"]
    {
        assert_eq!(public.server("GET", path, &[], "").await.status, 200, "{path}");
        assert_eq!(console.server("GET", path, &[], "").await.status, 200, "{path}");
    }
    for path in ["/health/live", "/metrics", "/docs", "/openapi.json"] {
        assert_eq!(get(&public, path).await.status, 200, "{path}");
    }
    let from_afar = public.call_from("203.0.113.7", "GET", "/metrics", &[], "").await;
    assert_eq!(from_afar.problem(), problem(404, "route_not_found"));
    assert!(!get(&public, "/openapi.json").await.text().contains("\"/console"));
    assert!(!get(&console, "/openapi.json").await.text().contains("\"/console"));
}

/// Attack C12: somebody who tries keys.
#[tokio::test]
async fn the_21st_wrong_key_from_one_address_is_refused_and_a_right_one_is_not() {
    let world = limited(&RateLimits::production()).await;
    let try_key = async |key: String| {
        world.call_from("203.0.113.7", "GET", "/console/client", &[("client-id", &key)], "").await
    };

    for attempt in 0..20 {
        let refused = try_key(format!("wrong-{attempt}")).await;
        assert_eq!(refused.problem(), problem(401, "client_unknown"), "{attempt}");
    }

    assert_eq!(try_key("wrong-20".into()).await.problem(), problem(429, "rate_limited"));
    assert_eq!(try_key(world.server.clone()).await.status, 200);
    let page = world.call_from("203.0.113.7", "GET", "/console/", &[], "").await;
    assert_eq!(page.status, 200, "the page can say so");
}

#[test]
fn its_files_are_small() {
    let files = files();
    let bytes: usize = files.values().map(|text| sent(text).len()).sum();
    let lines: usize = files.values().map(|text| text.lines().count()).sum();

    assert!(bytes <= 125 * KILOBYTE, "{bytes} bytes");
    assert!(lines <= 2_600, "{lines} lines");
}

/// Indentation and comments are not sent, so a line must not be in the middle of a text or of a comment.
#[test]
fn no_text_and_no_comment_of_its_files_goes_over_several_lines() {
    for (name, text) in files() {
        for (nth, line) in text.lines().enumerate() {
            let place = format!("{name}:{}: {line}", nth + 1);
            assert_eq!(line.matches('`').count() % 2, 0, "{place}");
            assert!(!line.ends_with('\\'), "{place}");
            assert_eq!(line.contains("/*"), line.ends_with("*/"), "{place}");
        }
    }
}

/// Attack C1: nothing makes markup or code of a text, and nothing is loaded from elsewhere.
#[test]
fn its_files_make_no_markup_from_strings_and_name_no_other_host() {
    let svg = "http://www.w3.org/2000/svg";
    for (name, text) in files() {
        assert_eq!(faults(&text.replace(svg, "")), Vec::<String>::new(), "{name}");
        if name == "index.html" {
            assert!(!text.contains("<style"), "the policy allows no style in the page");
            let scripts = text.matches("<script").count();
            assert_eq!(text.matches("<script type=\"module\" src=\"").count(), scripts);
            let named = ["src=\"", "href=\""].map(|attribute| text.split(attribute).skip(1));
            for named in named.into_iter().flatten().map(|rest| rest.split('"').next().unwrap()) {
                assert!(files().contains_key(named.trim_start_matches("./")), "{named}");
            }
        }
    }
}

#[test]
fn the_check_of_its_files_finds_each_fault() {
    for text in [
        "a.innerHTML = b",
        "a[\"outerHTML\"] = b",
        "a.insertAdjacentHTML('beforeend', b)",
        "document.write(b)",
        "new DOMParser()",
        "range.createContextualFragment(b)",
        "eval(b)",
        "new Function(b)",
        "setTimeout(\"b()\", 1)",
        "<p style=\"color: red\">",
        "<p STYLE = 'color: red'>",
        "a.setAttribute(\"style\", b)",
        "<button onclick=\"b()\">",
        "<img src=x onerror = b>",
        "\"https://evil.example\"",
        "\"HTTP://evil.example\"",
        "\"//evil.example/x.js\"",
        "fetch(`https://${host}/`)",
        "@import \"x.css\"",
        "localStorage.key = b",
        "document.cookie = b",
        "location = \"javascript:b()\"",
    ] {
        assert_eq!(faults(text).len(), 1, "{text}");
    }
    for text in [
        "el(\"p\", { onclick: act })",
        "const online = 1; // a comment",
        "a.textContent = b",
        "url.startsWith(\"https://\")",
        "if (a < b) once = c;",
    ] {
        assert_eq!(faults(text), Vec::<String>::new(), "{text}");
    }
}

/// The lines of a file that do something the console must not do.
fn faults(text: &str) -> Vec<String> {
    const WORDS: [&str; 14] = [
        "innerhtml",
        "outerhtml",
        "insertadjacenthtml",
        "document.write",
        "domparser",
        "createcontextualfragment",
        "eval(",
        "new function",
        "settimeout(\"",
        "setattribute(\"style\"",
        "@import",
        "localstorage",
        "document.cookie",
        "javascript:",
    ];
    // The beginning of an address, without a host, only tells addresses apart.
    let names_a_host = |line: &str| {
        let mut after = ["http://", "https://", "\"//", "'//", "`//"]
            .into_iter()
            .flat_map(|scheme| line.split(scheme).skip(1));
        after.any(|host| host.starts_with(|c: char| c.is_alphanumeric() || c == '[' || c == '$'))
    };
    // In a tag: style, and handlers of events.
    let is_attribute = |line: &str| {
        line.match_indices('=').any(|(at, _)| {
            let before = line[..at].trim_end();
            let name = before.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap();
            let is_refused = name == "style" || (name.len() > 4 && name.starts_with("on"));
            is_refused && before.contains('<') && before[..before.len() - name.len()].ends_with(' ')
        })
    };
    let is_bad = |line: &str| {
        WORDS.iter().any(|word| line.contains(word)) || names_a_host(line) || is_attribute(line)
    };
    text.lines().filter(|line| is_bad(&line.to_ascii_lowercase())).map(str::to_owned).collect()
}
