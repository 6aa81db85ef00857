//! The look-up of the client that sent a request: in the store, or in development a client of any name.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subscription_core::auth::{Authentication, Client, ClientKind, ClientSource, Scope};
use subscription_core::{Slug, Timestamp, Version};

use crate::api::{ApiError, Refusal};

/// The clients that are accepted.
pub(crate) enum Clients {
    /// The clients in the store.
    Known,
    /// Every `client-id`, with every scope: for development.
    Anybody,
}

impl Clients {
    /// The client that has this credential.
    pub(crate) async fn find(
        &self,
        credential: &SecretString,
        auth: &Authentication,
    ) -> Result<Arc<Client>, ApiError> {
        match self {
            Self::Known => Ok(auth.authenticate_client(credential).await?),
            Self::Anybody => anybody(credential.expose_secret()),
        }
    }
}

/// Makes a client from any name, for development. The same name always gives the same client.
fn anybody(name: &str) -> Result<Arc<Client>, ApiError> {
    let hashed = || {
        let hash = Sha256::digest(name);
        let digits: String = hash.iter().take(8).map(|byte| char::from(b'a' + byte % 26)).collect();
        format!("client-{digits}").parse::<Slug>()
    };
    let id = name.parse().or_else(|_| hashed()).map_err(|_| Refusal::HeaderInvalid("client-id"))?;
    let display = "development".parse().map_err(|_| Refusal::HeaderInvalid("client-id"))?;
    Ok(Arc::new(Client {
        id,
        name: display,
        kind: ClientKind::Public,
        scopes: Scope::ALL.into(),
        keys: Vec::new(),
        revoked_at: None,
        origins: [].into(),
        source: ClientSource::Command,
        left_at: None,
        created_at: Timestamp::MIN,
        updated_at: Timestamp::MIN,
        version: Version::FIRST,
    }))
}
