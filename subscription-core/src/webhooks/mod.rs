//! Webhooks: events of the feed, sent to the endpoints that ask for them, signed and in order for each record.
//!
//! Each endpoint has a cursor over the feed. An event that fails is set aside and tried again later, and the events
//! of its record wait behind it; an endpoint that fails is tried again from its cursor.

mod addresses;
mod attempt;
mod breaker;
mod documents;
mod endpoints;
mod facade;
mod input;
mod lane;
mod load;
mod outcome;
mod parked;
mod payload;
mod ping;
mod resending;
mod schedule;
mod sender;
mod shown;
mod signature;
mod signing;
mod tally;
mod transport;
mod upkeep;
mod wake;
mod window;

pub use addresses::{AddressRules, BadUrl};
pub use breaker::{Breaker, PARKED_MAX, Verdict};
pub use documents::{
    Attempt, Delivery, Disabled, DisabledReason, Endpoint, EndpointId, Parked, ParkedState,
    PreviousSecret, SecretState, Stall, StallReason,
};
pub use endpoints::EndpointWithSecret;
pub use facade::Webhooks;
pub use input::{EndpointChanges, FirstEvent, NewEndpoint, Resend, Rewind, Rotation};
pub use ipnet::IpNet;
pub use outcome::Outcome;
pub use ping::Ping;
pub use schedule::{PerMille, TRIES_MAX, next_probe, next_try};
pub use sender::Sender;
pub use shown::{ListedParked, ShownAttempt, ShownEndpoint};
pub use signature::{Refused, Secret, SignatureHeaders, TOLERANCE, check, secret, sign, verify};
pub use tally::{SendingState, Tallies, Tally};
pub use transport::{Deliver, DeliveryRequest};
pub use upkeep::{disable_imported, server_keys_named};
pub use wake::Wake;
pub use window::{End, Offered, Window};
