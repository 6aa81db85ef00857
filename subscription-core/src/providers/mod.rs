//! Subscriptions that a payment provider runs, followed here.
//!
//! A webhook is a hint: it names an object, and the object's state is fetched from the provider's API. So it does
//! not matter in which order webhooks arrive, how often, or how late.

mod api;
mod finding;
#[cfg(feature = "lemon-squeezy")]
mod lemon_squeezy;
mod object;
mod source;
#[cfg(feature = "stripe")]
mod stripe;

pub use api::{ApiFailed, ApiPage, ProviderApi};
pub use finding::{
    Finding, FoundInvoice, FoundItem, FoundObject, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, Hint, Sold, Unmapped, Webhook,
};
pub use object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
pub use source::{PauseMeans, Source};
