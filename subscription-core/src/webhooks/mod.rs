//! Webhooks: the events of the feed (all recorded events, in order) are sent to the endpoints that subscribe to them.
//! Each delivery is signed. The events of one record are delivered in their order.
//!
//! Each endpoint has a cursor over the feed. An event that fails is parked and tried again later, and the later events
//! of its record wait behind it. If several events fail one after the other, the endpoint is stalled, and is tried
//! again later from its cursor.

mod counters;
mod delivery;
mod documents;
mod endpoints;
mod facade;
mod sending;

pub use counters::{AllCounters, Counters, SendingState};
pub use delivery::addresses::{AddressRules, BadUrl};
pub use delivery::signals::SenderSignals;
pub use delivery::signature::{
    Refused, Secret, SignatureHeaders, TOLERANCE, check, secret, sign, verify,
};
pub use delivery::transport::{Deliver, DeliveryRequest};
pub use documents::{
    Attempt, Delivery, Disabled, DisabledReason, Endpoint, EndpointId, Parked, ParkedState,
    PreviousSecret, SecretState, Stall, StallReason,
};
pub use endpoints::EndpointWithSecret;
pub use endpoints::input::{EndpointChanges, FirstEvent, NewEndpoint, Resend, Rewind, Rotation};
pub use endpoints::ping::Ping;
pub use endpoints::shown::{ListedParked, ShownAttempt, ShownEndpoint};
pub use endpoints::upkeep::{check_imported, disable_imported, server_keys_named};
pub use facade::Webhooks;
pub use ipnet::IpNet;
pub use sending::breaker::{Breaker, BreakerDecision, PARKED_MAX};
pub use sending::outcome::DeliveryResult;
pub use sending::retry_schedule::{PerMille, TRIES_MAX, next_probe, next_try};
pub use sending::sender::Sender;
pub use sending::window::{End, Offered, Window};
