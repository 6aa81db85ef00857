//! Plans, subscriptions and payments as a library: one service over a store of your choice.
//!
//! ```
//! use subscription_core::{
//!     BillingCycle, ManualClock, MemoryStore, NewPlan, NewSubscription, SystemRandomness,
//!     SubscriptionChanges, SubscriptionService, SubscriptionStatus, UserId,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::at("2025-01-31T00:00:00Z".parse()?);
//! let service = SubscriptionService::builder(MemoryStore::default())
//!     .clock(clock.clone())
//!     .build();
//!
//! let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
//! let pro = service.create_plan(pro).await?;
//!
//! let ada = UserId::new(service.now(), &SystemRandomness)?;
//! let new = NewSubscription::new(ada, pro.id);
//! let subscription = service.create_subscription(new).await?;
//! assert_eq!(subscription.renews_at, Some("2025-02-28T00:00:00Z".parse()?));
//!
//! let cancel = SubscriptionChanges::status(SubscriptionStatus::Cancelled);
//! let cancelled = service.update_subscription(subscription.id, cancel).await?;
//! assert!(service.entitlement(ada).await?.has_access());
//!
//! clock.set(cancelled.ends_at.ok_or("a cancelled subscription has an end")?);
//! assert!(!service.entitlement(ada).await?.has_access());
//! # Ok(())
//! # }
//! ```
//!
//! # The service
//!
//! [`SubscriptionService`] is the entry point. It is cheap to clone, holds no state of its own, and
//! needs no particular runtime or framework: its methods are plain `async fn`s. Put one into your
//! server's state and call it from your handlers.
//!
//! - **Records** are plain data: [`Plan`], [`Subscription`], [`Payment`]. Inputs are made of types that
//!   validate themselves ([`Slug`], [`Amount`], [`Currency`], [`Timestamp`] …), so a [`NewPlan`] cannot
//!   hold a bad slug. `NewPlan::from_json` and its siblings parse a request's body and return all its
//!   [`Faults`] at once.
//! - **The rules** are pure functions that take the time as an argument: [`Plan::change`],
//!   [`Subscription::change`], [`Payment::change`], [`SubscriptionStatus::step`], [`Schedule`].
//! - **Retries are safe.** `create_plan_once` and its siblings create one record for each
//!   [`Idempotency`](store::Idempotency) key; one commit writes both the key and the record. `update_plan_if` and
//!   its siblings refuse a record that has changed since the caller read it.
//! - **Races have one winner.** Each method loads, decides and commits. If another writer was faster, the method
//!   decides again on the new state, a bounded number of times.
//! - **Every change has an [`Event`](events::Event)**, written in the same commit:
//!   [`SubscriptionService::events`] is an audit trail and a feed for webhooks.
//! - **[`SubscriptionService::entitlement`]** returns whether a user has access now, with which features
//!   and which quota.
//!
//! # Billing
//!
//! [`billing::Billing`] runs subscriptions by the clock: a subscription to a plan with a currency starts, renews,
//! becomes past due, recovers, pauses and ends by itself. Billing charges nobody: for each period it creates a
//! pending payment. A program of yours collects the payment and reports the result. Call
//! [`advance`](billing::Billing::advance) from a loop, and write through
//! [`Billing::service`](billing::Billing::service). The example `renewals` shows a year of billing, and the
//! example `collector` shows a program that collects payments.
//!
//! [`change_plan`](billing::Billing::change_plan) moves a subscription to another plan, cycle or quantity, and settles
//! the rest of its period by a payment or by credit, as the [`Quote`] of
//! [`preview_plan_change`](billing::Billing::preview_plan_change) says. The example `upgrade` shows it.
//!
//! # Authentication
//!
//! `Authentication` (feature `auth`) stores accounts, sessions and clients in the same store. It is optional: without
//! it, the user of a subscription may be any UUID.
//!
//! - A person signs in with a token of an identity provider, which an `auth::IdentityVerifier` checks:
//!   OIDC by published keys (`OidcIdentities`), introspection (`IntrospectedIdentities`), a shared secret
//!   (`SharedSecretIdentities`), or none at all, for development. The library has no HTTP client: bring
//!   one that implements `auth::Fetch`.
//! - A session has an access token that expires after ten minutes (Ed25519, ES256 or HS256) and a refresh token that
//!   changes with each use. Nobody is logged out if two tabs refresh at the same time, or if a response is lost. A
//!   refresh token that is used again later ends its session. Tokens are not stored.
//! - `Authentication::authenticate` reads the session each time, so a revocation takes effect at once on
//!   every instance.
//! - A [`Client`](accounts::Client) is a program that calls the service. A public client is identified by its id, and
//!   a confidential client by a key, of which only a keyed hash is stored. Each client has its
//!   [`Scope`](accounts::Scope)s.
//!
//! The example `embed_auth` shows a host service that does all of this.
//!
//! # Webhooks
//!
//! `webhooks::Webhooks` (feature `webhooks`) sends events to the endpoints of receivers, signed and in order for each
//! record. It has no HTTP client and no timer: bring a `webhooks::Deliver` and a `webhooks::SenderSignals`, or run
//! `subscription-http`, which has both. A receiver in Rust calls `webhooks::verify`; the example `webhook_receiver`
//! shows one.
//!
//! # Figures
//!
//! [`figures::Figures`] adds up recurring revenue and paying users, now and by month, and forecasts payments, from the
//! records alone. The documentation of [`figures`] has an example.
//!
//! # Time
//!
//! The service takes the time from a [`Clock`] and random bytes from a [`Randomness`]. With a
//! [`ManualClock`] and [`SeededRandomness`] a test runs through a year in a millisecond and repeats
//! exactly. Periods are counted from an anchor, so month ends do not drift: see [`Schedule`].
//!
//! # Money
//!
//! An [`Amount`] is read from JSON text and written to it digit for digit, never through a float. It does not need
//! the feature `arbitrary_precision` of `serde_json`, which would change how every other number of your program is
//! read. A [`serde_json::Value`] stores numbers as floats: an amount that goes through one comes back as `0.1` for
//! `0.10`. Behind `#[serde(flatten)]` or an untagged enum, an amount cannot be read at all.
//!
//! # Errors
//!
//! [`Error::kind`] says what the caller can do about an error. [`ErrorKind`] is exhaustive: map its ten kinds to your
//! protocol once, and the compiler reports an eleventh kind. [`Error::code`] is a stable name for machines.
//!
//! # Stores
//!
//! A [`Store`] stores records. [`MemoryStore`] is always there; features add SQLite and PostgreSQL. To
//! write your own, implement the trait: four reads and one write, [`Store::commit`], which applies all of
//! a [`ChangeSet`](store::ChangeSet) or none of it. The contract is documented at the trait, and with the
//! feature `conformance` the macro `store_conformance!` tests your store against it. The example
//! `custom_store` shows a store and its test.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `auth` (default) | `Authentication`: accounts, sessions, tokens, clients; compiles aws-lc |
//! | `providers` | `providers::Providers`: copies of the subscriptions that a payment provider bills |
//! | `webhooks` | `webhooks::Webhooks`: events sent to receivers; `verify` for receivers |
//! | `sqlite` | `store::SqliteStore`: one file, one process; needs tokio, compiles SQLite |
//! | `postgres` | `store::PostgresStore`: a database server, many processes; needs tokio |
//! | `conformance` | `store_conformance!`, the suite that every store must pass; needs tokio |

pub mod accounts;
#[cfg(feature = "auth")]
pub mod auth;
pub mod billing;
mod error;
pub mod events;
pub mod figures;
#[cfg(any(feature = "auth", feature = "providers", feature = "webhooks"))]
pub mod http_client;
pub mod payments;
pub mod plans;
#[cfg(feature = "providers")]
pub mod providers;
#[cfg(any(feature = "auth", feature = "webhooks"))]
mod server_keys;
mod service;
pub mod store;
pub mod subscriptions;
mod values;
#[cfg(feature = "webhooks")]
pub mod webhooks;

#[cfg(feature = "auth")]
pub use auth::Authentication;
pub use error::{Conflict, DependencyFailed, Error, ErrorKind, Forbidden, Unauthenticated};
pub use payments::{
    Basis, Currency, Line, LineKind, NewPayment, ObservedPayment, ObservedPeriod, Payment,
    PaymentChanges, PaymentKind, PaymentStatus, RequestedPayment, SettledDiffers,
};
pub use plans::{
    BillingCycle, CheckoutHosts, CheckoutProvider, Features, NewPlan, Plan, PlanChanges,
};
#[cfg(any(feature = "auth", feature = "webhooks"))]
pub use server_keys::{BadKey, ServerKeys};
pub use service::{
    Acted, CallerRules, CheckoutLink, Created, Entitlement, Grant, OneLivePer, OtherPayments,
    Pause, PaymentReport, PaymentRequest, ReportOutcome, RuleDecision, Rules, ServiceBuilder, Step,
    StepKind, SubscriptionService,
};
#[doc(hidden)]
pub use service::{Followed, ObservedChanges};
pub use store::{MemoryStore, Store};
pub use subscriptions::{
    Action, AgreedQuote, BillingState, CancelInput, Discount, Effective, Managed, ManagedBy,
    NewDiscount, NewSubscription, NoInput, ObservedSubscription, PauseInput, Phase, PlanChange,
    Proration, Quantity, Quote, Renewal, Schedule, Subscription, SubscriptionChanges,
    SubscriptionStatus,
};
pub use values::clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use values::decimal::{Amount, Bounded};
pub use values::faults::{Fault, FaultCode, Faults, InvalidValue};
pub use values::id::{EventId, PaymentId, PlanId, SessionId, SubscriptionId, TokenId, UserId};
pub use values::input::{Field, InputError, MalformedJson};
pub use values::metadata::Metadata;
pub use values::randomness::{
    Randomness, RandomnessUnavailable, SeededRandomness, SystemRandomness,
};
pub use values::states::InvalidTransition;
pub use values::text::{Description, Email, ExternalId, Href, HttpsUrl, Name, Slug, Text};
pub use values::version::Version;

// `subscription-http` parses its own inputs with these items. They are not part of the public API.
#[doc(hidden)]
pub mod input {
    pub use crate::values::input::{Fields, string};
}

/// The documentation tests compile and run the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
