//! Clients: the programs that call the service, and their scopes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::web_origin::WebOrigin;
use crate::values::clock::Timestamp;
use crate::values::faults::{FaultCode, Faults, InvalidValue, named};
use crate::values::text::{Name, Slug};
use crate::values::version::Version;

/// A permission of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Sign users up and in, and act on their sessions.
    Auth,
    /// Read plans.
    PlansRead,
    /// Make, change and delete plans.
    PlansWrite,
    /// Read subscriptions.
    SubscriptionsRead,
    /// Make, change and delete subscriptions.
    SubscriptionsWrite,
    /// Read payments.
    PaymentsRead,
    /// Make, change and delete payments.
    PaymentsWrite,
    /// Read users and their sessions.
    UsersRead,
    /// End the sessions of users.
    UsersWrite,
    /// Read the feed of events.
    EventsRead,
    /// Send the address of the user that the client acts for.
    AssertIp,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 11] = [
        Self::Auth,
        Self::PlansRead,
        Self::PlansWrite,
        Self::SubscriptionsRead,
        Self::SubscriptionsWrite,
        Self::PaymentsRead,
        Self::PaymentsWrite,
        Self::UsersRead,
        Self::UsersWrite,
        Self::EventsRead,
        Self::AssertIp,
    ];

    /// The scope's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::PlansRead => "plans:read",
            Self::PlansWrite => "plans:write",
            Self::SubscriptionsRead => "subscriptions:read",
            Self::SubscriptionsWrite => "subscriptions:write",
            Self::PaymentsRead => "payments:read",
            Self::PaymentsWrite => "payments:write",
            Self::UsersRead => "users:read",
            Self::UsersWrite => "users:write",
            Self::EventsRead => "events:read",
            Self::AssertIp => "assert-ip",
        }
    }

    /// True if a client whose id is no secret may have it.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Auth | Self::PlansRead)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        named(Self::ALL, Self::as_str, text)
    }
}

/// Whether a client can keep a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// A browser or an app: it has an id and no secret.
    Public,
    /// A server: it calls with a key.
    Confidential,
}

impl ClientKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Public, Self::Confidential];

    /// The kind's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Confidential => "confidential",
        }
    }
}

impl FromStr for ClientKind {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        named(Self::ALL, Self::as_str, text)
    }
}

/// The source of a client's registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientSource {
    /// By a command or a call.
    Command,
    /// In the settings file of a server: it is good for as long as the file names it.
    File,
}

impl ClientSource {
    /// Both sources.
    pub const ALL: [Self; 2] = [Self::Command, Self::File];

    /// The source's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::File => "file",
        }
    }
}

impl FromStr for ClientSource {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        named(Self::ALL, Self::as_str, text)
    }
}

/// A program that calls the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Names the client for ever; a public client calls with it.
    pub id: Slug,
    /// The name shown to people.
    pub name: Name,
    /// Whether it can keep a secret.
    pub kind: ClientKind,
    /// The scopes that it has.
    pub scopes: BTreeSet<Scope>,
    /// The keys that work, newest first; none for a public client.
    pub keys: Vec<ClientKey>,
    /// When it was revoked, until `Authentication::restore_client`.
    pub revoked_at: Option<Timestamp>,
    /// The web origins whose pages may call as this client; none for a confidential one.
    pub origins: BTreeSet<WebOrigin>,
    /// Where it was set up.
    pub source: ClientSource,
    /// When a server started whose settings file no longer had it; it is refused until one has it again.
    pub left_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// How often it has been written.
    pub version: Version,
}

/// The stored hash of a client's key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKey {
    /// The server key that the hash is made with.
    pub key_id: u8,
    /// A keyed hash of the secret.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey({})", self.created_at)
    }
}

/// A client to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClient {
    /// See [`Client::id`].
    pub id: Slug,
    /// See [`Client::name`].
    pub name: Name,
    /// See [`Client::kind`].
    pub kind: ClientKind,
    /// See [`Client::scopes`].
    pub scopes: BTreeSet<Scope>,
    /// See [`Client::origins`].
    pub origins: BTreeSet<WebOrigin>,
}

impl NewClient {
    /// Checks that a client whose id is no secret gets no scope that needs one, and that pages call as
    /// such a client alone: whatever a page holds is no secret.
    pub fn check(&self) -> Result<(), Faults> {
        check_calls(self.kind, &self.scopes, &self.origins).into_result()
    }
}

/// Checks who may call as a client: a public one has no scope that needs a secret, a confidential one is
/// called from no page.
fn check_calls(
    kind: ClientKind,
    scopes: &BTreeSet<Scope>,
    origins: &BTreeSet<WebOrigin>,
) -> Faults {
    let mut faults = Faults::default();
    for scope in scopes.iter().filter(|scope| kind == ClientKind::Public && !scope.is_public()) {
        let message = format!("must not have {scope} for a public client");
        faults.push(InvalidValue::new(FaultCode::NotAllowedValue, message).at("scopes"));
    }
    if kind == ClientKind::Confidential && !origins.is_empty() {
        let message = "must be empty for a confidential client: a page cannot keep its key";
        faults.push(InvalidValue::new(FaultCode::NotAllowedValue, message).at("origins"));
    }
    faults
}

impl Client {
    /// Checks the rules between its fields, which hold for every record that was written by way of
    /// `Authentication`. For records that come from elsewhere.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = check_calls(self.kind, &self.scopes, &self.origins);
        if self.kind == ClientKind::Public && !self.keys.is_empty() {
            let message = "must be none for a public client";
            faults.push(InvalidValue::new(FaultCode::NotAllowedValue, message).at("keys"));
        }
        faults.into_result()
    }

    /// True unless it was revoked, or left the settings file that it came from.
    pub const fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.left_at.is_none()
    }
}
