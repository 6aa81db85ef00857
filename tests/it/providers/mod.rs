//! Payment providers: their webhooks, the mapping of their objects, and reading them over real sockets.

mod signatures;
mod stripe;
