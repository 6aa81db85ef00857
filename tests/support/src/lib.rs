//! Code that the tests, benches and examples of the workspace share. It is not published.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    reason = "a test that fails panics, and prints its seed"
)]
#![expect(missing_docs, missing_debug_implementations, reason = "used by tests alone")]

pub mod billing;
pub mod cluster;
pub mod fake_provider;
pub mod http2_frames;
pub mod logs;
pub mod million;
pub mod million_records;
pub mod needs;
pub mod receiver;
pub mod rng;
pub mod seed;
pub mod service_world;
pub mod simulation;
pub mod spy_store;
pub mod trials;
