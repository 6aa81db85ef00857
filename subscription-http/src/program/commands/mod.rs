//! The commands of the program that do not start the server.

pub(crate) mod api_client;
pub(crate) mod billing_pause;
pub(crate) mod clients;
pub(crate) mod demo;
pub(crate) mod events;
pub(crate) mod transfer;
