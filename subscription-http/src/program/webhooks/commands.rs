//! The command `webhook`: manages the endpoints of a running server, and checks a signature without a server.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};
use subscription_core::webhooks::{Secret, SignatureHeaders, TOLERANCE, verify};
use subscription_core::{Clock as _, SystemClock};

use crate::program::commands::api_client::{ApiArgs, ApiClient, text};
use crate::program::{Failure, print, read_text};

/// The environment variable that contains the secrets of an endpoint.
const SECRET: &str = "WEBHOOK_SECRET";

#[derive(Subcommand)]
pub(crate) enum WebhookCommand {
    /// Create an endpoint, and print it with its secret, which is not shown again.
    Add {
        /// The URL that events are sent to.
        #[arg(long)]
        url: String,
        /// Send only events of this type, such as `subscription.*`; can be given several times. [default: all events of
        /// plans, subscriptions and payments]
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// A description of the endpoint, for people.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Print every endpoint and the state of its deliveries, one JSON object a line.
    List {
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Send a ping to an endpoint, and print the outcome. Fails if the endpoint does not accept the ping.
    Ping(Named),
    /// Replace the secret of an endpoint, and print the endpoint with its new secret, which is not shown again. Events
    /// are also signed with the previous secret for another 24 hours, or for --overlap-hours.
    Rotate {
        #[command(flatten)]
        named: Named,
        /// The number of hours for which events are also signed with the previous secret: 0 to 72. [default: 24]
        #[arg(long, value_name = "HOURS")]
        overlap_hours: Option<u64>,
    },
    /// Delete an endpoint with its parked events: those that it did not accept, and those that wait behind them.
    Remove(Named),
    /// Check the signature of a delivery whose body is on standard input, without a server.
    Verify(Delivery),
}

/// The endpoint of a command.
#[derive(Args)]
pub(crate) struct Named {
    /// The id of the endpoint.
    id: String,
    #[command(flatten)]
    api: ApiArgs,
}

/// A delivery, as it was received.
#[derive(Args)]
pub(crate) struct Delivery {
    /// The header webhook-id.
    #[arg(long)]
    id: String,
    /// The header webhook-timestamp.
    #[arg(long)]
    timestamp: String,
    /// The header webhook-signature.
    #[arg(long)]
    signature: String,
    /// A file with the secret of the endpoint, or with several secrets, separated by blanks. [default: the environment
    /// variable `WEBHOOK_SECRET`]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

pub(crate) async fn run(command: WebhookCommand) -> Result<(), Failure> {
    match command {
        WebhookCommand::Add { url, types, description, api } => {
            let mut body = json!({ "url": url, "description": description });
            if let (Some(members), false) = (body.as_object_mut(), types.is_empty()) {
                members.insert("types".to_owned(), json!(types));
            }
            print(&Endpoints::of(&api)?.call(Method::POST, &[], Some(&body)).await?);
        }
        WebhookCommand::List { api } => Endpoints::of(&api)?.print_all().await?,
        WebhookCommand::Ping(Named { id, api }) => {
            let pinged = Endpoints::of(&api)?.call(Method::POST, &[&id, "ping"], None).await?;
            print(&pinged);
            let outcome: Value = serde_json::from_str(&pinged)?;
            if outcome.get("outcome").and_then(Value::as_str) != Some("delivered") {
                return Err(Failure::new("the endpoint did not accept the ping"));
            }
        }
        WebhookCommand::Rotate { named: Named { id, api }, overlap_hours } => {
            let body = overlap_hours.map_or(json!({}), |hours| json!({ "overlap_hours": hours }));
            let path = [id.as_str(), "rotate-secret"];
            print(&Endpoints::of(&api)?.call(Method::POST, &path, Some(&body)).await?);
        }
        WebhookCommand::Remove(Named { id, api }) => {
            Endpoints::of(&api)?.call(Method::DELETE, &[&id], None).await?;
            print(&format!("deleted {id}"));
        }
        WebhookCommand::Verify(delivery) => delivery.check()?,
    }
    Ok(())
}

/// The endpoints of one server.
struct Endpoints(ApiClient);

impl Endpoints {
    fn of(api: &ApiArgs) -> Result<Self, Failure> {
        ApiClient::new(api, "webhook-command").map(Self)
    }

    /// Calls the server and returns the body of the response. A response that is not successful is an error.
    async fn call(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<String, Failure> {
        let url = self.0.url(&[&["webhook-endpoints"], path].concat());
        text(self.0.call(method, &url, body).await?)
    }

    async fn print_all(&self) -> Result<(), Failure> {
        let mut url = self.0.url(&["webhook-endpoints"]);
        loop {
            let page = text(self.0.call(Method::GET, &url, None).await?)?;
            let page: Value = serde_json::from_str(&page)?;
            let endpoints = page.get("data").and_then(Value::as_array);
            endpoints.into_iter().flatten().for_each(|endpoint| print(&endpoint.to_string()));
            let Some(next) = page.get("next_cursor").and_then(Value::as_str) else { return Ok(()) };
            url.query_pairs_mut().clear().append_pair("cursor", next);
        }
    }
}

impl Delivery {
    fn check(&self) -> Result<(), Failure> {
        let secrets = match &self.secret_file {
            Some(path) => read_text("--secret-file", path)?,
            None => std::env::var(SECRET)
                .map_err(|_| Failure(format!("give --secret-file or set {SECRET}")))?,
        };
        let secrets: Result<Vec<Secret>, _> =
            secrets.split_ascii_whitespace().map(str::parse).collect();
        let secrets = secrets.map_err(|error| Failure(format!("the secret {error}")))?;
        let mut body = Vec::new();
        std::io::stdin().lock().read_to_end(&mut body)?;
        let Self { id, timestamp, signature, .. } = self;
        let headers = SignatureHeaders { id, timestamp, signature };
        verify(&secrets, &headers, &body, SystemClock.now(), TOLERANCE)?;
        print("the signature is right");
        Ok(())
    }
}
