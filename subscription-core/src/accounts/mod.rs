//! Accounts as they are stored: users, their sessions, and the clients that call.
//!
//! Types and pure functions. `auth` signs people in and verifies tokens with them.

mod client;
mod session;
mod web_origin;

pub use client::{Client, ClientKey, ClientKind, ClientSource, NewClient, Scope};
pub use session::{IdentityKey, Origin, Revocation, RevocationReason, Session, User};
pub use web_origin::WebOrigin;
