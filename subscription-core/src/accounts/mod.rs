//! The records of authentication: users, their sessions, and clients.
//!
//! The module has types and pure functions. The module `auth` uses them to sign people in and to verify tokens.

mod client;
mod session;
mod web_origin;

pub use client::{Client, ClientKey, ClientKind, ClientSource, NewClient, Scope};
pub use session::{IdentityKey, Origin, Revocation, RevocationReason, Session, User};
pub use web_origin::WebOrigin;
