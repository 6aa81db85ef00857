//! Subscriptions that a payment provider manages, and that this service follows.
//!
//! A webhook is a hint: it names an object, and the object's state is fetched from the provider's API. So it does
//! not matter in which order webhooks arrive, how often, or how late.

mod api;
mod counters;
mod facade;
mod follow;
mod imported;
mod inbox;
mod mapping;
mod source;
mod sync;

pub use api::allowance::Allowance;
pub use api::http_api::HttpProviderApi;
pub use api::{ApiFailed, ApiPage, ProviderApi};
pub use counters::{Counters, FetchOutcome};
pub use facade::{OBSERVATIONS_PER_SECOND, Providers};
pub use follow::observe_now::ObservedNow;
pub use follow::runner::Applied;
pub use imported::check_imported;
pub use inbox::documents::ProviderEvent;
pub use inbox::intake::Received;
pub use inbox::links::{LinkFilter, ListedLink};
pub use inbox::queries::{EventFilter, ListedEvent, SourceOverview};
pub use inbox::signature::signature_header;
#[doc(hidden)]
pub use inbox::signature::verify;
pub use inbox::status::{EventState, EventStatus, Reason};
pub use mapping::finding::{
    Finding, FoundInvoice, FoundItem, FoundObject, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, Hint, Sold, Unmapped, Webhook,
};
pub use mapping::object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
#[doc(hidden)]
pub use mapping::{email_of, intent_of, invoice_of, map, session, webhook};
pub use source::{PauseMeans, ProviderAccount};
pub use sync::report::{SyncCounts, SyncKind, SyncReport, SyncStep};
