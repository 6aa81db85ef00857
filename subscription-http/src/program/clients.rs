//! The clients that are set up: by the file of settings, or by a command.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use secrecy::ExposeSecret as _;
use subscription_core::auth::{
    Authentication, Client, ClientKind, ClientSource, NewClient, Scope, WebOrigin,
};
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
        /// Of a public client: where its pages come from, such as `https://shop.example`; may be
        /// given several times.
        #[arg(long = "origin", value_name = "ORIGIN")]
        origins: Vec<WebOrigin>,
    },
    /// List the clients.
    List,
    /// Give a client a new key beside its last one, which goes with the next.
    RotateKey {
        /// The client.
        id: Slug,
    },
    /// Refuse a client from now on, also if the settings file names it.
    Revoke {
        /// The client.
        id: Slug,
    },
    /// Lift the revocation of a client.
    Restore {
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
    if let ClientCommand::Add { name, id, .. } = &command {
        let id = id.clone().map_or_else(|| slug(name), Ok)?;
        if settings.clients.iter().any(|client| client.id == id.as_str()) {
            return Err(Failure::new(format!("{id} is a client of the settings file")));
        }
    }
    let (opened, auth) = super::open::authentication(settings).await?;
    let done = act(command, &auth).await;
    opened.close().await;
    done
}

async fn act(command: ClientCommand, auth: &Authentication) -> Result<(), Failure> {
    match command {
        ClientCommand::Add { name, id, scopes, public, origins } => {
            let id = id.map_or_else(|| slug(&name), Ok)?;
            let kind = if public { ClientKind::Public } else { ClientKind::Confidential };
            let name = name.parse().map_err(|error| Failure::new(format!("the name {error}")))?;
            let (scopes, origins) = (scopes.into_iter().collect(), origins.into_iter().collect());
            let made = auth.create_client(NewClient { id, name, kind, scopes, origins }).await?;
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
        ClientCommand::Restore { id } => {
            let client = auth.restore_client(&id).await?;
            say(&restored(&client));
        }
    }
    Ok(())
}

/// A client in a line, with all that it is refused for.
fn told(client: &Client) -> String {
    let scopes: Vec<_> = client.scopes.iter().map(|scope| scope.as_str()).collect();
    let Client { id, name, kind, source, .. } = client;
    let mut told = format!("{id}  {}  {name}  {}", kind.as_str(), scopes.join(" "));
    for origin in &client.origins {
        told = format!("{told} {origin}");
    }
    if *source == ClientSource::File {
        told.push_str(", of the settings file");
    }
    if let Some(at) = client.left_at {
        told = format!("{told}, left it {at}");
    }
    if let Some(at) = client.revoked_at {
        told = format!("{told}, revoked {at}");
    }
    told
}

/// A client whose revocation was lifted, and what else it needs.
fn restored(client: &Client) -> String {
    let id = &client.id;
    if client.left_at.is_some() {
        return format!("{id} is not revoked, but refused until the settings file names it again");
    }
    if client.kind == ClientKind::Confidential && client.keys.is_empty() {
        return format!("{id} needs a new key: subscription-http client rotate-key {id}");
    }
    format!("{id} is not revoked")
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
        let origin = |text: &String| {
            text.parse::<WebOrigin>().map_err(|error| told(format!("the origin {text:?} {error}")))
        };
        let name = client.name.as_deref().unwrap_or(&client.id);
        let new = NewClient {
            id: client.id.parse().map_err(|error| told(format!("its id {error}")))?,
            name: name.parse().map_err(|error| told(format!("its name {error}")))?,
            kind: ClientKind::Public,
            scopes,
            origins: client.origins.iter().map(origin).collect::<Result<_, _>>()?,
        };
        new.check().map_err(|faults| told(faults.to_string()))?;
        Ok::<_, Failure>(new)
    };
    let clients: Vec<_> = clients.iter().map(client).collect::<Result<_, Failure>>()?;
    let mut ids = BTreeSet::new();
    match clients.iter().find(|client| !ids.insert(&client.id)) {
        Some(twice) => Err(refused(twice.id.as_str(), &"it is there twice")),
        None => Ok(clients),
    }
}

fn refused(id: &str, error: &dyn Display) -> Failure {
    Failure::new(format!("client {id:?} in the file of settings: {error}"))
}

/// The clients of the settings file, and whether others that came from it are refused from now on.
#[derive(Debug, Clone)]
pub(crate) struct Configured {
    pub(crate) clients: Vec<NewClient>,
    /// Not in development, where nobody is refused, and which must not spoil the records of production.
    pub(crate) refuses_others: bool,
}

/// Sets up the clients of the settings file: now, or where the store is out of reach as soon as it can
/// be asked.
pub(crate) async fn configure(
    configured: Configured,
    auth: &Authentication,
) -> Result<(), Failure> {
    match configured.attempt(auth).await? {
        Attempt::Done => {}
        Attempt::OutOfReach => {
            let auth = auth.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RETRY).await;
                    match configured.attempt(&auth).await {
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

impl Configured {
    async fn attempt(&self, auth: &Authentication) -> Result<Attempt, Failure> {
        for client in &self.clients {
            let id = client.id.as_str();
            match auth.configure_client(client.clone()).await {
                Ok(client) if client.revoked_at.is_some() => {
                    tracing::warn!(client = id, "a client of the settings file is revoked");
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    return Ok(Attempt::OutOfReach);
                }
                Err(error) => return Err(refused(id, &error)),
            }
        }
        if self.refuses_others {
            let named: Vec<_> = self.clients.iter().map(|client| client.id.clone()).collect();
            match auth.refuse_unconfigured(&named).await {
                Ok(gone) => gone.iter().for_each(|client| {
                    let id = client.id.as_str();
                    tracing::warn!(client = id, "a client left the settings file and is refused");
                }),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    return Ok(Attempt::OutOfReach);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Attempt::Done)
    }
}
