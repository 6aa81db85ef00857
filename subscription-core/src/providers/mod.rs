//! Subscriptions that a payment provider runs, followed here.
//!
//! A webhook is a hint: it names an object, and the object's state is fetched from the provider's API. So it does
//! not matter in which order webhooks arrive, how often, or how late.

mod allowance;
mod api;
mod finding;
mod http_api;
#[cfg(feature = "lemon-squeezy")]
mod lemon_squeezy;
#[cfg(not(feature = "lemon-squeezy"))]
#[path = "absent.rs"]
mod lemon_squeezy;
mod mapping;
mod money;
mod object;
mod read;
mod signature;
mod source;
#[cfg(feature = "stripe")]
mod stripe;
#[cfg(not(feature = "stripe"))]
#[path = "absent.rs"]
mod stripe;

pub use allowance::Allowance;
pub use api::{ApiFailed, ApiPage, ProviderApi};
pub use finding::{
    Finding, FoundInvoice, FoundItem, FoundObject, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, Hint, Sold, Unmapped, Webhook,
};
pub use http_api::HttpProviderApi;
#[doc(hidden)]
pub use mapping::{email_of, intent_of, invoice_of, map, session, webhook};
pub use object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
pub use signature::signature_header;
#[doc(hidden)]
pub use signature::verify;
pub use source::{PauseMeans, Source};
