//! The clients that are set up: by the file of settings, or by a command.

use std::collections::BTreeSet;

use clap::Subcommand;
use secrecy::ExposeSecret as _;
use subscription_core::Slug;
use subscription_core::auth::{Authentication, Client, ClientKind, NewClient, Scope};

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
        #[arg(long = "scope", required = true)]
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

pub(crate) async fn run(command: ClientCommand, settings: &Settings) -> Result<(), Failure> {
    let (opened, auth) = super::serve::authentication(settings).await?;
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

/// Sets up the clients of the file of settings.
pub(crate) async fn configure(
    clients: &[ConfiguredClient],
    auth: &Authentication,
) -> Result<(), Failure> {
    for client in clients {
        let told = |error: &dyn std::fmt::Display| {
            Failure::new(format!("client {:?} in the file of settings: {error}", client.id))
        };
        let scopes = client.scopes.iter().map(|scope| scope.parse());
        let scopes: BTreeSet<Scope> =
            scopes.collect::<Result<_, _>>().map_err(|error| told(&format!("a scope {error}")))?;
        let new = NewClient {
            id: client.id.parse().map_err(|error| told(&format!("its id {error}")))?,
            name: client
                .name
                .as_deref()
                .unwrap_or(&client.id)
                .parse()
                .map_err(|error| told(&format!("its name {error}")))?,
            kind: ClientKind::Public,
            scopes,
        };
        auth.configure_client(new).await.map_err(|error| told(&error))?;
    }
    Ok(())
}
