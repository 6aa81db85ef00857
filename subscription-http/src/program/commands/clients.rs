//! The `client` commands.

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use secrecy::ExposeSecret as _;
use subscription_core::Slug;
use subscription_core::auth::{
    Authentication, Client, ClientKind, ClientSource, NewClient, Scope, WebOrigin,
};

use crate::program::settings::Settings;
use crate::program::{Failure, print};

#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Add a client. A confidential client gets a key, which is printed once.
    Add {
        /// The client's name for people; unless --id is given, the id is derived from the name.
        #[arg(long)]
        name: String,
        /// The client's id: 1 to 64 characters of a-z, 0-9 and -.
        #[arg(long)]
        id: Option<Slug>,
        /// A scope: what the client may do; can be given several times.
        #[arg(long = "scope", required = true, value_parser = scope_parser())]
        scopes: Vec<Scope>,
        /// The client is a browser or a mobile app, which cannot keep a secret. It can have only the scopes auth and
        /// plans:read.
        #[arg(long)]
        public: bool,
        /// For a public client: an origin of its web pages, such as `https://shop.example`; can be
        /// given several times.
        #[arg(long = "origin", value_name = "ORIGIN")]
        origins: Vec<WebOrigin>,
    },
    /// List the clients.
    List,
    /// Give a client a new key. Its previous key works until the client gets another new key.
    RotateKey {
        /// The id of the client.
        id: Slug,
    },
    /// Revoke a client, even if the settings file names it.
    Revoke {
        /// The id of the client.
        id: Slug,
    },
    /// Undo the revocation of a client.
    Restore {
        /// The id of the client.
        id: Slug,
    },
}

/// Parses a scope. `--help` lists all scopes.
fn scope_parser() -> impl TypedValueParser<Value = Scope> {
    let help = |scope| match scope {
        Scope::Auth => "sign users up and in, and manage their sessions",
        Scope::PlansRead => "read plans",
        Scope::PlansWrite => "create, change and delete plans",
        Scope::SubscriptionsRead => "read subscriptions",
        Scope::SubscriptionsWrite => "create, change and delete subscriptions",
        Scope::PaymentsRead => "read payments",
        Scope::PaymentsWrite => "create, change and delete payments",
        Scope::UsersRead => "read users and their sessions",
        Scope::UsersWrite => "end the sessions of users",
        Scope::PortalWrite => "make links with which users manage their subscriptions",
        Scope::EventsRead => "read the feed of events",
        Scope::ProvidersRead => "read the events of payment providers",
        Scope::ProvidersWrite => "bind customers to users, and sync with payment providers",
        Scope::WebhooksRead => "read the endpoints of webhooks",
        Scope::WebhooksWrite => "create, change and delete endpoints of webhooks",
        Scope::AssertIp => "send the IP address of a user in x-forwarded-for",
    };
    let values = Scope::ALL.map(|scope| PossibleValue::new(scope.as_str()).help(help(scope)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Scope>())
}

pub(crate) async fn run(mut command: ClientCommand, settings: &Settings) -> Result<(), Failure> {
    if let ClientCommand::Add { name, id, .. } = &mut command {
        let new = id.take().map_or_else(|| slug(name), Ok)?;
        if settings.clients.iter().any(|client| client.id == new.as_str()) {
            return Err(Failure(format!(
                "the client {new} is defined in the settings file: choose another --id, or change that client"
            )));
        }
        *id = Some(new);
    }
    let (opened, auth) = crate::program::open::authentication(settings).await?;
    let done = act(command, &auth).await;
    opened.close().await;
    done
}

async fn act(command: ClientCommand, auth: &Authentication) -> Result<(), Failure> {
    match command {
        ClientCommand::Add { name, id, scopes, public, origins } => {
            let id = id.map_or_else(|| slug(&name), Ok)?;
            let kind = if public { ClientKind::Public } else { ClientKind::Confidential };
            let name = name.parse().map_err(|error| Failure(format!("the name {error}")))?;
            let scopes = scopes.into_iter().collect();
            let origins = origins.into_iter().collect();
            let new = auth.create_client(NewClient { id, name, kind, scopes, origins }).await?;
            if !public {
                print("the client-id of the new client (store it now: it is not shown again):");
            }
            print(new.credential.expose_secret());
        }
        ClientCommand::List => {
            for client in auth.clients().await? {
                print(&line(&client));
            }
        }
        ClientCommand::RotateKey { id } => {
            let client = auth.rotate_client_key(&id).await?;
            print("the new client-id (a secret, not shown again):");
            print(client.credential.expose_secret());
        }
        ClientCommand::Revoke { id } => {
            auth.revoke_client(&id).await?;
            print(&format!("{id} is revoked"));
        }
        ClientCommand::Restore { id } => {
            let client = auth.restore_client(&id).await?;
            print(&restored(&client));
        }
    }
    Ok(())
}

/// Formats a client as one line of `client list`.
fn line(client: &Client) -> String {
    let Client { id, name, kind, source, .. } = client;
    let scopes: Vec<_> = client.scopes.iter().map(|scope| scope.as_str()).collect();
    let mut line = format!("{id}  {}  {name}  {}", kind.as_str(), scopes.join(" "));
    for origin in &client.origins {
        line = format!("{line} {origin}");
    }
    if *source == ClientSource::File {
        line += ", from the settings file";
    }
    if let Some(at) = client.left_at {
        line = format!("{line}, removed from it {at}");
    }
    if let Some(at) = client.revoked_at {
        line = format!("{line}, revoked {at}");
    }
    line
}

/// The message for a client that was restored: it also says what the client still needs before it can call.
fn restored(client: &Client) -> String {
    let id = &client.id;
    if client.left_at.is_some() {
        format!("{id} is not revoked, but refused until the settings file names it again")
    } else if client.kind == ClientKind::Confidential && client.keys.is_empty() {
        format!("{id} needs a new key: subscription-http client rotate-key {id}")
    } else {
        format!("{id} is not revoked")
    }
}

/// Derives an id from a name: `Web Shop` is `web-shop`.
fn slug(name: &str) -> Result<Slug, Failure> {
    let plain = name.to_ascii_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let id = words.collect::<Vec<_>>().join("-");
    id.parse().map_err(|_| Failure::new("the name has no letters or digits: give an --id"))
}
