//! A payment provider for tests: an account at Stripe or Lemon Squeezy that changes at random. It responds to API
//! requests and signs its webhooks as the real provider does.
//!
//! Nothing here calls the mapping of the core. [`oracle`] computes independently which records an account must have in
//! our service.

#![expect(
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails panics, and a provider has few kinds of objects"
)]

mod answers;
mod catalogue;
mod history;
mod in_process;
mod lemon_squeezy;
mod life;
mod model;
pub mod oracle;
mod server;
mod stripe;
mod webhooks;

pub use catalogue::{ONE_TIME, PRICES, Price, UNKNOWN};
pub use history::History;
pub use in_process::InProcess;
pub(crate) use in_process::yield_once;
pub use model::{
    Account, Dispute, Invoice, Moment, Order, Pause, Payment, Places, Shared, Subscription, shared,
    written,
};
pub use server::{FakeProvider, Fault, KEY};
pub use webhooks::{Courier, Event, SECRET, Webhook, hex, mac};
