//! The clients that are set up: by the file of settings, or by a command.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use secrecy::ExposeSecret as _;
use subscription_core::auth::{Authentication, Client, ClientKind, NewClient, Scope};
use subscription_core::{ErrorKind, Slug};

use super::settings::{ConfiguredClient, Settings};
use super::{Failure, say};

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Add a client. A confidential one gets a key, which is shown once.
    Add {
        /// Its name for people; its id is made from it unless one is given.
        #[arg(long)]
        name: String,
        /// What it calls itself: 1 to 64 of a-z, 0-9 and -.
        #[arg(long)]
        id: Option<Slug>,
        /// What it may do; may be given several times.
        #[arg(long = "scope", required = true, value_parser = scope_parser())]
        scopes: Vec<Scope>,
        /// A browser or a mobile app, which can keep no secret: only auth and plans:read.
        #[arg(long)]
        public: bool,
    },
    /// List the clients.
    List,
    /// Give a client a new key beside its last one, which goes with the next.
    RotateKey {
        /// The client.
        id: Slug,
    },
    /// Refuse a client from now on.
    Revoke {
        /// The client.
        id: Slug,
    },
}

/// Reads a scope, and lists them all in `--help`.
fn scope_parser() -> impl TypedValueParser<Value = Scope> {
    let help = |scope| match scope {
        Scope::Auth => "sign people up and in, and act on their sessions",
        Scope::PlansRead => "read plans",
        Scope::PlansWrite => "make, change and delete plans",
        Scope::SubscriptionsRead => "read subscriptions",
        Scope::SubscriptionsWrite => "make, change and delete subscriptions",
        Scope::PaymentsRead => "read payments",
        Scope::PaymentsWrite => "make, change and delete payments",
        Scope::AssertIp => "say from which address a person came",
    };
    let values = Scope::ALL.map(|scope| PossibleValue::new(scope.as_str()).help(help(scope)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Scope>())
}

pub(crate) async fn run(command: ClientCommand, settings: &Settings) -> Result<(), Failure> {
    let (opened, auth) = super::setup::authentication(settings).await?;
    let done = act(command, &auth).await;
    opened.close().await;
    done
}

async fn act(command: ClientCommand, auth: &Authentication) -> Result<(), Failure> {
    match command {
        ClientCommand::Add { name, id, scopes, public } => {
            let id = id.map_or_else(|| slug(&name), Ok)?;
            let kind = if public { ClientKind::Public } else { ClientKind::Confidential };
            let name = name.parse().map_err(|error| Failure::new(format!("the name {error}")))?;
            let scopes = scopes.into_iter().collect();
            let made = auth.create_client(NewClient { id, name, kind, scopes }).await?;
            if kind == ClientKind::Confidential {
                say("its client-id, shown only now:");
            }
            say(made.credential.expose_secret());
        }
        ClientCommand::List => {
            for client in auth.clients().await? {
                say(&told(&client));
            }
        }
        ClientCommand::RotateKey { id } => {
            let made = auth.rotate_client_key(&id).await?;
            say("its new client-id, shown only now:");
            say(made.credential.expose_secret());
        }
        ClientCommand::Revoke { id } => {
            auth.revoke_client(&id).await?;
            say(&format!("{id} is refused from now on"));
        }
    }
    Ok(())
}

fn told(client: &Client) -> String {
    let scopes: Vec<_> = client.scopes.iter().map(|scope| scope.as_str()).collect();
    let state = client.revoked_at.map(|at| format!(", revoked {at}")).unwrap_or_default();
    let Client { id, name, kind, .. } = client;
    format!("{id}  {}  {name}  {}{state}", kind.as_str(), scopes.join(" "))
}

/// `Web Shop` is `web-shop`.
fn slug(name: &str) -> Result<Slug, Failure> {
    let plain = name.to_ascii_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let id = words.collect::<Vec<_>>().join("-");
    id.parse().map_err(|_| Failure::new("no id can be made from the name: give one with --id"))
}

/// How long until clients are set up again that could not be.
const RETRY: Duration = Duration::from_millis(100);

/// The clients of the file of settings, if they can be ones.
pub(crate) fn configured(clients: &[ConfiguredClient]) -> Result<Vec<NewClient>, Failure> {
    let client = |client: &ConfiguredClient| {
        let told = |error: String| refused(&client.id, &error);
        let scopes = client.scopes.iter().map(|scope| scope.parse());
        let scopes: BTreeSet<Scope> =
            scopes.collect::<Result<_, _>>().map_err(|error| told(format!("a scope {error}")))?;
        let name = client.name.as_deref().unwrap_or(&client.id);
        let new = NewClient {
            id: client.id.parse().map_err(|error| told(format!("its id {error}")))?,
            name: name.parse().map_err(|error| told(format!("its name {error}")))?,
            kind: ClientKind::Public,
            scopes,
        };
        new.check().map_err(|faults| told(faults.to_string()))?;
        Ok(new)
    };
    clients.iter().map(client).collect()
}

fn refused(id: &str, error: &dyn Display) -> Failure {
    Failure::new(format!("client {id:?} in the file of settings: {error}"))
}

/// Sets up the clients of the file of settings: now, or where the store is out of reach as soon as it
/// can be asked.
pub(crate) async fn configure(
    clients: Vec<NewClient>,
    auth: &Authentication,
) -> Result<(), Failure> {
    match try_configure(&clients, auth).await? {
        Attempt::Done => {}
        Attempt::OutOfReach => {
            let auth = auth.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RETRY).await;
                    match try_configure(&clients, &auth).await {
                        Ok(Attempt::OutOfReach) => {}
                        Ok(Attempt::Done) => return,
                        Err(failure) => return tracing::error!("{failure}"),
                    }
                }
            });
        }
    }
    Ok(())
}

enum Attempt {
    Done,
    OutOfReach,
}

async fn try_configure(clients: &[NewClient], auth: &Authentication) -> Result<Attempt, Failure> {
    for client in clients {
        match auth.configure_client(client.clone()).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(Attempt::OutOfReach),
            Err(error) => return Err(refused(client.id.as_str(), &error)),
        }
    }
    Ok(Attempt::Done)
}
