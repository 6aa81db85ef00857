//! `/console`: the files of the console, and the facts about this server that the page needs before it calls the API.

use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use subscription_core::Timestamp;

use super::documents::{OPENER_POLICY, SAME_ORIGIN, prepared};
use crate::api::admission::clients::Clients;
use crate::api::routes::{ApiPart, Area, Needs, get, of_part};
use crate::api::{ApiError, Call, Refusal, Reply};
use crate::console::{File, INDEX};

pub(crate) static AREA: Area = Area::new(
    "/console",
    &of_part(
        ApiPart::Console,
        [
            get("/console", Needs::Nothing, &to_folder),
            get("/console/", Needs::Nothing, &index),
            get("/console/settings", Needs::Nothing, &settings),
            get("/console/client", Needs::Client, &client),
            get("/console/{file}", Needs::Nothing, &file),
        ],
    ),
);

/// The headers of every response. They allow the page to load only its own files. They forbid showing the page in a
/// frame, and creating markup from strings.
#[rustfmt::skip] // Keeps each row on one line.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    )),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (OPENER_POLICY, SAME_ORIGIN),
    (HeaderName::from_static("cross-origin-resource-policy"), SAME_ORIGIN),
    (HeaderName::from_static("permissions-policy"), HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=()")),
];

fn guarded(mut reply: Reply) -> Reply {
    for (name, value) in HEADERS {
        reply.set(name, value);
    }
    reply
}

/// Redirects to the address with a slash at its end, because the links of the page to its files are relative.
async fn to_folder(_: Box<Call>) -> Result<Reply, ApiError> {
    Ok(guarded(Reply::empty(StatusCode::PERMANENT_REDIRECT).location("console/")))
}

async fn index(call: Box<Call>) -> Result<Reply, ApiError> {
    show(&call, INDEX)
}

async fn file(call: Box<Call>) -> Result<Reply, ApiError> {
    show(&call, &call.path::<String>("file")?)
}

fn show(call: &Call, name: &str) -> Result<Reply, ApiError> {
    let file = File::find(name).ok_or(Refusal::RouteUnknown)?;
    let mut reply = guarded(prepared(call, file.content_type(), &file.text)?);
    if name == INDEX {
        // Without this header, the page is not stored.
        reply.headers.remove(header::CACHE_CONTROL);
    }
    Ok(reply)
}

#[derive(Serialize)]
struct Settings {
    mode: &'static str,
    users: &'static str,
    clock: &'static str,
    now: Timestamp,
    capabilities: Vec<&'static str>,
}

/// The settings of this server that change how the page looks.
async fn settings(call: Box<Call>) -> Result<Reply, ApiError> {
    let parts = [
        (ApiPart::Billing, "billing"),
        (ApiPart::Providers, "providers"),
        (ApiPart::Webhooks, "webhooks"),
    ];
    let served = parts.into_iter().filter(|(part, _)| call.served().has(*part));
    let settings = Settings {
        mode: match call.state.clients {
            Clients::Anybody => "development",
            Clients::Known => "production",
        },
        users: if call.service.checks_users() { "accounts" } else { "any" },
        clock: if call.served().has(ApiPart::Clock) { "manual" } else { "system" },
        now: call.service.now(),
        capabilities: served.map(|(_, name)| name).collect(),
    };
    Ok(guarded(Reply::ok(&settings)?))
}

#[derive(Serialize)]
struct Caller<'c> {
    id: &'c str,
    name: &'c str,
    scopes: Vec<&'static str>,
    /// The version of this server.
    version: &'static str,
}

/// The client that the key of the caller belongs to. The page calls this route to sign in.
async fn client(call: Box<Call>) -> Result<Reply, ApiError> {
    let client = call.client()?;
    let caller = Caller {
        id: client.id.as_str(),
        name: client.name.as_str(),
        scopes: client.scopes.iter().map(|scope| scope.as_str()).collect(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(guarded(Reply::ok(&caller)?))
}
