//! Subscriptions that a payment provider runs, followed here.
//!
//! A webhook is a hint: it names an object, and the object's state is fetched from the provider's API. So it does
//! not matter in which order webhooks arrive, how often, or how late.

mod allowance;
mod api;
mod bindings;
mod decide;
mod documents;
mod facade;
mod fetch;
mod finding;
mod http_api;
mod intake;
mod lemon_squeezy;
mod links;
mod mapping;
mod money;
mod now;
mod object;
mod observation;
mod observe;
mod outcome;
mod pace;
mod plans;
mod progress;
mod queries;
mod read;
mod records;
mod runner;
mod signature;
mod source;
mod standing;
mod stripe;
mod sync;
mod sync_report;
mod tally;
mod users;

pub use allowance::Allowance;
pub use api::{ApiFailed, ApiPage, ProviderApi};
pub use documents::ProviderEvent;
pub use facade::Providers;
pub use finding::{
    Finding, FoundInvoice, FoundItem, FoundObject, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, Hint, Sold, Unmapped, Webhook,
};
pub use http_api::HttpProviderApi;
pub use intake::TakenIn;
pub use links::{LinkFilter, ListedLink};
#[doc(hidden)]
pub use mapping::{email_of, intent_of, invoice_of, map, session, webhook};
pub use now::ObservedNow;
pub use object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
pub use queries::{EventFilter, ListedEvent, SourceOverview};
pub use runner::Applied;
pub use signature::signature_header;
#[doc(hidden)]
pub use signature::verify;
pub use source::{PauseMeans, Source};
pub use standing::{EventState, Reason, Standing};
pub use sync_report::{SyncCounts, SyncKind, SyncReport, SyncStep};
pub use tally::{FetchOutcome, Tally};
