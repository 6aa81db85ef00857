//! The client with which commands call a running server.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::Method;
use secrecy::SecretString;
use serde_json::Value;
use subscription_http::{FetchSettings, HttpFetch};
use url::Url;

use crate::program::settings::Listen;
use crate::program::{Failure, read_text};

/// The time-out of a request. It is longer than the time for which a request waits for events.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The server that a command calls.
#[derive(Args)]
pub(crate) struct ApiArgs {
    /// The URL of the server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    api: Url,
    /// A file with the client-id of a client that has the scope that the command needs; a server in development mode
    /// needs no client-id.
    #[arg(long, value_name = "FILE")]
    client_id_file: Option<PathBuf>,
}

/// Calls one server as a client.
pub(crate) struct ApiClient {
    http: HttpFetch,
    api: Url,
    client_id: SecretString,
}

impl ApiClient {
    /// Creates a client. If the arguments name no file with a client-id, the client-id is `name`.
    pub(crate) fn new(args: &ApiArgs, name: &str) -> Result<Self, Failure> {
        let api = args.api.clone();
        HttpFetch::check(&api)
            .map_err(|error| Failure(format!("--api {api}: {}", Failure::from(error))))?;
        let file = args.client_id_file.as_deref().map(read_client_id).transpose()?;
        let http = HttpFetch::new(&FetchSettings::default().with_timeout(TIMEOUT))?;
        Ok(Self { http, api, client_id: file.unwrap_or_else(|| name.into()) })
    }

    /// The URL of a path of the server.
    pub(crate) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.api.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Sends a request, and returns the status and the body of its response.
    pub(crate) async fn call(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
    ) -> Result<(u16, Vec<u8>), Failure> {
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = self.http.call(method, url, &self.client_id, body).await;
        let mut shown = url.clone();
        shown.set_query(None);
        answer.map_err(|error| Failure(format!("{shown}: {}", Failure::from(error))))
    }
}

/// The body of a successful response as text; any other response is an error.
pub(crate) fn text((status, body): (u16, Vec<u8>)) -> Result<String, Failure> {
    if (200..300).contains(&status) {
        Ok(String::from_utf8(body)?)
    } else {
        Err(Failure(refusal(status, &body)))
    }
}

/// Checks that the server on this machine, at the address of --listen, is ready.
pub(crate) async fn health(Listen(mut address): Listen) -> Result<(), Failure> {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    if !address.ip().is_loopback() {
        return Err(Failure(format!(
            "health calls the loopback address, but the server listens on {address} only: send GET /health/ready \
             to that address"
        )));
    }
    let api = format!("http://{address}").parse()?;
    let server = ApiClient::new(&ApiArgs { api, client_id_file: None }, "health-command")?;
    text(server.call(Method::GET, &server.url(&["health", "ready"]), None).await?).map(drop)
}

/// The text of a response that reports an error.
pub(crate) fn refusal(status: u16, body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    match (text("code"), text("detail")) {
        (Some(code), Some(detail)) => format!("the server returned {status} {code}: {detail}"),
        _ => format!("the server returned {status}"),
    }
}

fn read_client_id(path: &Path) -> Result<SecretString, Failure> {
    match read_text("--client-id-file", path)?.trim() {
        "" => Err(Failure(format!("--client-id-file {} is empty", path.display()))),
        client_id => Ok(client_id.into()),
    }
}
