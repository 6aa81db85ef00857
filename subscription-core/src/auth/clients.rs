//! Clients: creation, authentication, key rotation and revocation.

use crate::store::{ClientQuery, StoreExt as _};
use std::sync::Arc;

use secrecy::SecretString;

use super::Authentication;
use super::client_keys::ClientCredential;
use super::secret_cache::hash;
use crate::accounts::{Client, ClientKind, ClientSource, NewClient, Scope};
use crate::error::{Conflict, Error, Forbidden, Unauthenticated};
use crate::events::{Change, Subject};
use crate::service::found;
use crate::store::{ChangeSet, Key, StoreError};
use crate::values::{Slug, Version};

/// A client and its credential. A confidential client's key is shown here and never again.
#[derive(Debug, Clone)]
pub struct CreatedClient {
    /// The client.
    pub client: Arc<Client>,
    /// The credential: the value that the client sends in the header `client-id`.
    pub credential: SecretString,
}

/// Maximum number of verified credentials cached.
pub(super) const ACCEPTED_MAX: usize = 10_000;

/// # Clients
impl Authentication {
    /// Creates a client.
    pub async fn create_client(&self, new: NewClient) -> Result<CreatedClient, Error> {
        self.make_client(new, ClientSource::Command).await
    }

    async fn make_client(
        &self,
        new: NewClient,
        source: ClientSource,
    ) -> Result<CreatedClient, Error> {
        new.check()?;
        let now = self.service().now();
        let mut client = Client {
            id: new.id,
            name: new.name,
            kind: new.kind,
            scopes: new.scopes,
            keys: Vec::new(),
            revoked_at: None,
            origins: new.origins,
            source,
            left_at: None,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        };
        let credential = match client.kind {
            ClientKind::Public => client.id.as_str().into(),
            ClientKind::Confidential => {
                client.add_key(&self.0.server_keys, self.service().randomness(), now)?
            }
        };
        match self.write_client(client, Change::Created).await {
            Err(Error::Store(StoreError::Conflict(_))) => Err(Conflict::ClientExists.into()),
            done => Ok(CreatedClient { client: done?, credential }),
        }
    }

    /// Creates a public client as a settings file describes it, or updates the client that has this id. A client that
    /// was revoked stays revoked. A client that was missing from the file until now is accepted again.
    pub async fn configure_client(&self, new: NewClient) -> Result<Arc<Client>, Error> {
        new.check()?;
        self.service()
            .retrying(|| async {
                let found = self.store().get_as::<Client>(&new.id).await?;
                let Some(found) = found else {
                    return match self.make_client(new.clone(), ClientSource::File).await {
                        // Another writer created the client first: this error makes `retrying` read the client again.
                        Err(Error::Conflict(Conflict::ClientExists)) => {
                            Err(Error::Store(StoreError::Conflict(Key::Client(new.id.clone()))))
                        }
                        made => Ok(made?.client),
                    };
                };
                if found.kind != ClientKind::Public || new.kind != ClientKind::Public {
                    return Err(Conflict::ClientExists.into());
                }
                let wanted = Client {
                    name: new.name.clone(),
                    scopes: new.scopes.clone(),
                    origins: new.origins.clone(),
                    source: ClientSource::File,
                    left_at: None,
                    ..Client::clone(&found)
                };
                self.rewrite_client(found, wanted).await
            })
            .await
    }

    /// Refuses from now on the clients that came from a settings file but are not in `names`, the ids that the file has
    /// now. Returns the clients that this call has marked as missing from the file.
    pub async fn refuse_unconfigured(&self, names: &[Slug]) -> Result<Vec<Arc<Client>>, Error> {
        let mut refused = Vec::new();
        for client in self.clients().await? {
            let is_gone = client.source == ClientSource::File && !names.contains(&client.id);
            if !is_gone || client.left_at.is_some() {
                continue;
            }
            let left = self.service().retrying(|| async {
                let found = self.client(&client.id).await?;
                let left_at = found.left_at.or_else(|| Some(self.service().now()));
                let wanted = Client { left_at, ..Client::clone(&found) };
                self.rewrite_client(found, wanted).await
            });
            refused.push(left.await?);
        }
        Ok(refused)
    }

    /// Adds a new key to a confidential client, and returns the client and the new key. The previous key stays valid,
    /// and an older key stops working.
    pub async fn rotate_client_key(&self, id: &Slug) -> Result<CreatedClient, Error> {
        self.service()
            .retrying(|| async {
                let found = self.client(id).await?;
                let mut client = Client::clone(&found);
                if client.kind == ClientKind::Public {
                    return Err(Conflict::ClientHasNoKey.into());
                }
                if client.revoked_at.is_some() {
                    return Err(Conflict::ClientRevoked.into());
                }
                let now = self.service().now();
                let credential =
                    client.add_key(&self.0.server_keys, self.service().randomness(), now)?;
                let client = self.rewrite_client(found, client).await?;
                Ok(CreatedClient { client, credential })
            })
            .await
    }

    /// Revokes a client and deletes its keys. The client is refused until [`restore_client`](Self::restore_client).
    pub async fn revoke_client(&self, id: &Slug) -> Result<Arc<Client>, Error> {
        self.service()
            .retrying(|| async {
                let client = self.client(id).await?;
                if client.revoked_at.is_some() {
                    return Ok(client);
                }
                let revoked_at = Some(self.service().now());
                let wanted = Client { revoked_at, keys: Vec::new(), ..Client::clone(&client) };
                self.rewrite_client(client, wanted).await
            })
            .await
    }

    /// Lifts the revocation of a client. A confidential client then needs a new key, because the revocation has deleted
    /// its keys.
    pub async fn restore_client(&self, id: &Slug) -> Result<Arc<Client>, Error> {
        self.service()
            .retrying(|| async {
                let client = self.client(id).await?;
                let wanted = Client { revoked_at: None, ..Client::clone(&client) };
                self.rewrite_client(client, wanted).await
            })
            .await
    }

    /// The client with this id.
    pub async fn client(&self, id: &Slug) -> Result<Arc<Client>, Error> {
        found(self.store().get_as::<Client>(id).await, "client", id)
    }

    /// All clients, in the order of their ids.
    pub async fn clients(&self) -> Result<Vec<Arc<Client>>, Error> {
        Ok(self.store().list_as::<Client>(ClientQuery::All).await?.items)
    }

    /// The client that this credential belongs to. Unknown, wrong and revoked credentials get the same error.
    pub async fn authenticate_client(
        &self,
        credential: &SecretString,
    ) -> Result<Arc<Client>, Error> {
        let unknown = || Error::from(Unauthenticated::ClientUnknown);
        let hash = hash(credential);
        if let Some(accepting) = self.0.accepted.get(&hash) {
            let client = self.store().get_as::<Client>(&accepting.id).await?;
            // The cached client counts only if it equals the stored one: since it was cached, the client may have been
            // revoked or got another key.
            let same = |client: &Arc<Client>| {
                Arc::ptr_eq(client, &accepting) || client.as_ref() == accepting.as_ref()
            };
            if let Some(client) = client.filter(same) {
                return Ok(client);
            }
        }
        let credential = ClientCredential::parse(credential).ok_or_else(unknown)?;
        match self.store().get_as::<Client>(&credential.id).await? {
            Some(client) if client.accepts(&credential, &self.0.server_keys) => {
                self.0.accepted.put(hash, Arc::clone(&client));
                Ok(client)
            }
            Some(_) => Err(unknown()),
            None => {
                credential.compare_in_vain(&self.0.server_keys);
                Err(unknown())
            }
        }
    }

    /// Writes `wanted` as the next version of a client, unless it equals `found`.
    async fn rewrite_client(
        &self,
        found: Arc<Client>,
        wanted: Client,
    ) -> Result<Arc<Client>, Error> {
        if wanted == *found {
            return Ok(found);
        }
        let change = Change::Updated { fields: found.changed_fields(&wanted) };
        let updated_at = self.service().now();
        self.write_client(Client { updated_at, version: found.version.next(), ..wanted }, change)
            .await
    }

    async fn write_client(&self, client: Client, change: Change) -> Result<Arc<Client>, Error> {
        let subject = Subject::Client(client.id.clone());
        let event = self.service().event(subject, client.version, change, client.updated_at)?;
        let changes = ChangeSet { events: vec![event], ..ChangeSet::writing(client.clone()) };
        self.store().commit(changes).await?;
        Ok(Arc::new(client))
    }
}

impl Client {
    /// Fails with [`Forbidden::ScopeMissing`] if the client does not have `scope`.
    pub fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.scopes.contains(&scope) {
            Ok(())
        } else {
            Err(Forbidden::ScopeMissing(scope).into())
        }
    }
}
