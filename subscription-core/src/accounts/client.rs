//! Clients: the programs that call the service, and their scopes.

use std::collections::BTreeSet;
use std::fmt;

use super::web_origin::WebOrigin;
use crate::values::as_text::named_enum;
use crate::values::{Faults, InvalidValue, Name, Slug, Timestamp, Version};

named_enum! {
    /// A permission of a client.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scope {
        /// Sign users up and in, and manage their sessions.
        Auth = "auth",
        /// Read plans.
        PlansRead = "plans:read",
        /// Create, change and delete plans.
        PlansWrite = "plans:write",
        /// Read subscriptions.
        SubscriptionsRead = "subscriptions:read",
        /// Create, change and delete subscriptions.
        SubscriptionsWrite = "subscriptions:write",
        /// Read payments.
        PaymentsRead = "payments:read",
        /// Create, change and delete payments.
        PaymentsWrite = "payments:write",
        /// Read users and their sessions.
        UsersRead = "users:read",
        /// Revoke the sessions of users.
        UsersWrite = "users:write",
        /// Make links with which users manage their subscriptions.
        PortalWrite = "portal:write",
        /// Read the feed of events.
        EventsRead = "events:read",
        /// Read the events of payment providers.
        ProvidersRead = "providers:read",
        /// Bind customers of payment providers to users, process events of providers again, and synchronize with
        /// providers.
        ProvidersWrite = "providers:write",
        /// Read the endpoints of webhooks, and their parked events: events that could not be sent yet.
        WebhooksRead = "webhooks:read",
        /// Create, change and delete endpoints of webhooks, and send events to them again.
        WebhooksWrite = "webhooks:write",
        /// Send the IP address of the user for whom the client acts.
        AssertIp = "assert-ip",
    }
}

impl Scope {
    /// True if a public client may have the scope. Such a client has no secret: anybody who knows its id can call as
    /// this client.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Auth | Self::PlansRead)
    }
}

named_enum! {
    /// The kind of a client: whether it can keep a secret.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ClientKind {
        /// A browser or an app: it has an id and no secret.
        Public = "public",
        /// A server: it calls with a key.
        Confidential = "confidential",
    }
}

named_enum! {
    /// The source of a client's registration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ClientSource {
        /// A command, or a call of `Authentication::create_client`, registered the client.
        Command = "command",
        /// The settings file of a server lists the client. The client is accepted as long as the file lists it.
        File = "file",
    }
}

/// A program that calls the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The client's id, which never changes. A public client authenticates with it alone.
    pub id: Slug,
    /// The name shown to people.
    pub name: Name,
    /// The kind: public or confidential.
    pub kind: ClientKind,
    /// The scopes that the client has.
    pub scopes: BTreeSet<Scope>,
    /// The valid keys, newest first; empty for a public client.
    pub keys: Vec<ClientKey>,
    /// When the client was revoked; `None` if it is not revoked. `Authentication::restore_client` ends a revocation.
    pub revoked_at: Option<Timestamp>,
    /// The web origins whose pages may call as this client; empty for a confidential client.
    pub origins: BTreeSet<WebOrigin>,
    /// The source of the client's registration.
    pub source: ClientSource,
    /// When a server first started with a settings file that did not list the client any more; `None` if the file lists
    /// the client, or the client never came from a file. The client is refused until a settings file lists it again.
    pub left_at: Option<Timestamp>,
    /// When the client was created.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
}

/// The stored hash of a client's key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKey {
    /// The number of the server key that the hash was made with.
    pub key_id: u8,
    /// The hash of the secret in the client's key, made with that server key.
    pub hash: [u8; 32],
    /// When the key was created.
    pub created_at: Timestamp,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey({})", self.created_at)
    }
}

/// The input that creates a client. Its fields are those of [`Client`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the client")]
pub struct NewClient {
    pub id: Slug,
    pub name: Name,
    pub kind: ClientKind,
    pub scopes: BTreeSet<Scope>,
    pub origins: BTreeSet<WebOrigin>,
}

impl NewClient {
    /// Checks that a public client has no scope that needs a secret, and that a confidential client has no
    /// web origins: a web page cannot keep a secret.
    pub fn check(&self) -> Result<(), Faults> {
        check_calls(self.kind, &self.scopes, &self.origins).into_result()
    }
}

/// The faults of a client's scopes and web origins: see [`NewClient::check`].
fn check_calls(
    kind: ClientKind,
    scopes: &BTreeSet<Scope>,
    origins: &BTreeSet<WebOrigin>,
) -> Faults {
    let mut faults = Faults::default();
    for scope in scopes.iter().filter(|scope| kind == ClientKind::Public && !scope.is_public()) {
        let message = format!("must not have {scope}: the client is public");
        faults.push(InvalidValue::not_allowed(message).at("scopes"));
    }
    if kind == ClientKind::Confidential && !origins.is_empty() {
        let message =
            "must be empty: the client is confidential, and a web page cannot keep a key secret";
        faults.push(InvalidValue::not_allowed(message).at("origins"));
    }
    faults
}

impl Client {
    /// Checks the rules between the fields of a client that comes from an import. `Authentication` writes
    /// no client that breaks them.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = check_calls(self.kind, &self.scopes, &self.origins);
        if self.kind == ClientKind::Public && !self.keys.is_empty() {
            let message = "must be empty: a public client has no keys";
            faults.push(InvalidValue::not_allowed(message).at("keys"));
        }
        faults.into_result()
    }

    /// True if the client is neither revoked nor missing from the settings file that it came from.
    pub const fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.left_at.is_none()
    }
}
