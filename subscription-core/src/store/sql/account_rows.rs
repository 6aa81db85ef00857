//! Users, sessions and clients as rows.

use super::table::{CLIENTS, SESSIONS, SqlRecord, Table, USERS};
use super::value::{Cells, Columns, Value, damaged};
use crate::accounts::{Client, ClientKey, IdentityKey, Origin, Revocation, Session, User};
use crate::store::StoreError;
use crate::values::clock::Timestamp;

impl SqlRecord for User {
    const TABLE: &'static Table = &USERS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::Id(self.id.uuid()),
            Value::text(&self.identity.issuer),
            Value::text(&self.identity.subject),
            Value::text(self.email.as_str()),
            Value::text(self.email.key()),
            Value::Bool(self.closing),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.id()?,
            identity: IdentityKey { issuer: cells.parsed()?, subject: cells.parsed()? },
            email: {
                let email = cells.parsed()?;
                // Follows from the address.
                cells.text()?;
                email
            },
            closing: cells.bool()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
        })
    }
}

impl SqlRecord for Session {
    const TABLE: &'static Table = &SESSIONS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::Id(self.id.uuid()),
            Value::Id(self.user_id.uuid()),
            Value::text(&self.client_id),
            Value::text(&self.issuer),
            Value::Bytes(self.opened_with.to_vec()),
            Value::Int(self.key_id.into()),
            Value::Bytes(self.salt.to_vec()),
            Value::Int(self.generation.into()),
            Value::time(self.rotated_at),
            Value::Bool(self.successor_used),
            Value::time(self.auth_time),
            Value::time(self.last_seen_at),
            Value::time(self.expires_at),
            Value::time(self.idle_expires_at),
            Value::Time(self.revoked.map(|revocation| revocation.at)),
            Value::Text(self.revoked.map(|revocation| revocation.reason.as_str().to_owned())),
            Value::Text(self.origin.ip.map(|ip| ip.to_string())),
            Value::text_or_null(self.origin.user_agent.as_ref()),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
            Value::time(self.ended_at()),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.id()?,
            user_id: cells.id()?,
            client_id: cells.parsed()?,
            issuer: cells.parsed()?,
            opened_with: cells.bytes()?,
            key_id: cells.number()?,
            salt: cells.bytes()?,
            generation: cells.number()?,
            rotated_at: cells.time()?,
            successor_used: cells.bool()?,
            auth_time: cells.time()?,
            last_seen_at: cells.time()?,
            expires_at: cells.time()?,
            idle_expires_at: cells.time()?,
            revoked: revocation(cells)?,
            origin: Origin { ip: cells.parsed_or_null()?, user_agent: cells.parsed_or_null()? },
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
        })
    }
}

fn revocation<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Option<Revocation>, StoreError> {
    match (cells.time_or_null()?, cells.parsed_or_null()?) {
        (Some(at), Some(reason)) => Ok(Some(Revocation { at, reason })),
        (None, None) => Ok(None),
        _ => Err(damaged("a session is half revoked")),
    }
}

/// A client's key as it is kept.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredKey {
    key_id: u8,
    hash: [u8; 32],
    created_at: Timestamp,
}

impl SqlRecord for Client {
    const TABLE: &'static Table = &CLIENTS;

    fn values(&self) -> Vec<Value> {
        let scopes: Vec<_> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let keys = self.keys.iter().map(|key| StoredKey {
            key_id: key.key_id,
            hash: key.hash,
            created_at: key.created_at,
        });
        vec![
            Value::text(&self.id),
            Value::text(&self.name),
            Value::text(self.kind.as_str()),
            Value::json(&scopes),
            Value::json(&keys.collect::<Vec<_>>()),
            Value::Time(self.revoked_at),
            Value::json(&self.origins),
            Value::text(self.source.as_str()),
            Value::Time(self.left_at),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.parsed()?,
            name: cells.parsed()?,
            kind: cells.parsed()?,
            scopes: {
                let scopes: Vec<String> = cells.json()?;
                // There was a scope that no endpoint asked for; clients that have it lack nothing.
                let real = scopes.iter().filter(|scope| *scope != "admin");
                real.map(|scope| scope.parse()).collect::<Result<_, _>>().map_err(damaged)?
            },
            keys: {
                let keys: Vec<StoredKey> = cells.json()?;
                let key =
                    |StoredKey { key_id, hash, created_at }| ClientKey { key_id, hash, created_at };
                keys.into_iter().map(key).collect()
            },
            revoked_at: cells.time_or_null()?,
            origins: cells.json()?,
            source: cells.parsed()?,
            left_at: cells.time_or_null()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
        })
    }
}
