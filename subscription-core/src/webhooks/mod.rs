//! Webhooks: events of the feed, sent to the endpoints that ask for them, signed and in order for each record.
//!
//! Each endpoint has a cursor over the feed. An event that fails is set aside and tried again later, and the events
//! of its record wait behind it; an endpoint that fails is tried again from its cursor.

mod addresses;
mod documents;
mod facade;
mod outcome;
mod transport;
mod wake;

pub use addresses::AddressRules;
pub use documents::{
    Attempt, Delivery, Disabled, DisabledReason, Endpoint, EndpointId, Parked, ParkedState,
    PreviousSecret, SecretState, Stall, StallReason,
};
pub use facade::Webhooks;
pub use outcome::Outcome;
pub use transport::{Deliver, DeliveryRequest};
pub use wake::Wake;
