//! Identities, accounts, sessions, tokens and clients through the public face.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

mod access_claims;
mod access_tokens;
mod accounts;
mod clients;
mod constant_time;
pub(crate) mod deletions;
pub(crate) mod forge;
mod identities;
mod introspection;
mod jws_vectors;
mod key_rotation;
mod key_sets;
mod oidc;
mod portal_tokens;
pub(crate) mod provider;
mod refresh;
mod refresh_model;
mod refresh_races;
mod refresh_tokens;
pub(crate) mod secrets;
mod session_bounds;
mod session_ends;
mod sessions;
mod timing;
mod users_of_subscriptions;
pub(crate) mod world;
