//! Plans, subscriptions and payments as a library.

mod clock;
mod decimal;
mod error;
pub mod events;
mod faults;
mod id;
mod input;
pub mod payments;
pub mod plans;
mod record;
mod service;
mod states;
pub mod store;
pub mod subscriptions;
mod text;
mod version;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use decimal::{Amount, Bounded};
pub use error::{Conflict, Error, ErrorKind};
pub use faults::{Fault, FaultCode, Faults, InvalidValue};
pub use id::{
    EventId, IdSource, PaymentId, PlanId, RandomIds, RandomnessUnavailable, SeededIds,
    SubscriptionId, UserId,
};
pub use input::{Field, InputError, MalformedJson};
pub use payments::{Currency, NewPayment, Payment, PaymentChanges, PaymentStatus};
pub use plans::{BillingCycle, Features, NewPlan, Plan, PlanChanges};
pub use service::{Created, ServiceBuilder, SubscriptionService};
pub use states::InvalidTransition;
pub use store::{MemoryStore, Store};
pub use subscriptions::entitlement::{Entitlement, Grant};
pub use subscriptions::{
    NewSubscription, Schedule, Subscription, SubscriptionChanges, SubscriptionStatus,
};
pub use text::{Description, Email, ExternalId, Href, Name, Slug, Text};
pub use version::Version;
