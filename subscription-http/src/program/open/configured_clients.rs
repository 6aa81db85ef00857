//! The public clients that the settings file configures.

use std::path::Path;
use std::time::Duration;

use subscription_core::auth::{Authentication, ClientKind, NewClient};
use subscription_core::{Error, ErrorKind};

use crate::program::Failure;
use crate::program::settings::{ConfiguredClient, Mode, Settings};

/// Pause between two attempts to store the clients while the database cannot be reached.
const RETRY: Duration = Duration::from_millis(100);

/// The clients of the settings file, checked but not stored yet.
pub(crate) struct Configured {
    clients: Vec<NewClient>,
    /// True if clients that were removed from the settings file are refused. False in development mode: that mode
    /// refuses nobody, and it may be started with the production database by mistake.
    refuses_others: bool,
}

impl Configured {
    /// Checks the clients of the settings file.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let mut clients: Vec<NewClient> = Vec::new();
        for client in &settings.clients {
            let new = new_client(client).and_then(|new| {
                let is_new = clients.iter().all(|other| other.id != new.id);
                if is_new { Ok(new) } else { Err("it is defined twice".to_owned()) }
            });
            clients.push(new.map_err(|error| {
                let file = settings.config.as_deref().unwrap_or(Path::new("settings")).display();
                Failure(format!("{file}: client {:?}: {error}", client.id))
            })?);
        }
        Ok(Self { clients, refuses_others: settings.mode == Mode::Production })
    }

    /// Stores the clients. If the database cannot be reached, a task retries in the background until it can.
    pub(crate) async fn store(self, auth: &Authentication) -> Result<(), Failure> {
        match self.attempt(auth).await {
            Err(None) => {}
            Err(Some(failure)) => return Err(failure),
            Ok(()) => return Ok(()),
        }
        let auth = auth.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RETRY).await;
                match self.attempt(&auth).await {
                    Err(None) => {}
                    Err(Some(failure)) => return tracing::error!("{failure}"),
                    Ok(()) => return,
                }
            }
        });
        Ok(())
    }

    /// Tries once to store the clients. If the database cannot be reached, the error is `None`.
    async fn attempt(&self, auth: &Authentication) -> Result<(), Option<Failure>> {
        let failed = |id: &str, error: Error| {
            (error.kind() != ErrorKind::Unavailable)
                .then(|| Failure(format!("client {id:?} in the settings file: {error}")))
        };
        for client in &self.clients {
            let stored = auth.configure_client(client.clone()).await;
            let client = stored.map_err(|error| failed(client.id.as_str(), error))?;
            if client.revoked_at.is_some() {
                tracing::warn!(
                    client = %client.id,
                    "a client in the settings file was revoked earlier and stays refused: run subscription-http client restore"
                );
            }
        }
        if self.refuses_others {
            let named: Vec<_> = self.clients.iter().map(|client| client.id.clone()).collect();
            let gone = auth.refuse_unconfigured(&named).await;
            for client in gone.map_err(|error| failed("*", error))? {
                let id = &client.id;
                tracing::warn!(client = %id, "a client is no longer in the settings file and is refused");
            }
        }
        Ok(())
    }
}

fn new_client(client: &ConfiguredClient) -> Result<NewClient, String> {
    let name = client.name.as_deref().unwrap_or(&client.id);
    let scopes = client.scopes.iter().map(|scope| scope.parse());
    let origins = client
        .origins
        .iter()
        .map(|text| text.parse().map_err(|error| format!("the origin {text:?} {error}")));
    let new = NewClient {
        id: client.id.parse().map_err(|error| format!("its id {error}"))?,
        name: name.parse().map_err(|error| format!("its name {error}"))?,
        kind: ClientKind::Public,
        scopes: scopes.collect::<Result<_, _>>().map_err(|error| format!("a scope {error}"))?,
        origins: origins.collect::<Result<_, _>>()?,
    };
    new.check().map_err(|faults| faults.to_string())?;
    Ok(new)
}
