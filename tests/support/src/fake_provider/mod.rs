//! A payment provider for tests: an account at Stripe or Lemon Squeezy that lives a random life, answers its API
//! and signs its webhooks as the real one does.
//!
//! Nothing here calls the mapping of the core: [`oracle`] says by hand which records an account should have here.

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
