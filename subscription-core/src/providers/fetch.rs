//! Reads from a provider's API at the pace of its source, and the objects that others lead to.

use serde_json::Value;

use super::api::{ApiFailed, ApiPage};
use super::facade::Account;
use super::finding::{Finding, FoundObject, Unmapped};
use super::mapping;
use super::object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
use super::pace::{Held, Turn};
use super::standing::{Reason, Standing};
use super::tally::FetchOutcome;
use crate::error::Error;
use crate::store::StoreError;
use crate::values::clock::Timestamp;
use crate::values::id::UserId;
use crate::values::text::Email;

/// The reason why an observation ends before its records are decided.
#[derive(Debug)]
pub(super) enum Stop {
    /// The object leads to no change.
    Stands { standing: Standing, path: Option<Box<str>>, customer: Option<ObjectId> },
    /// The object cannot be read now.
    Held(Held),
    /// This subscription must be observed first.
    Needs(ObjectRef),
    /// The store failed.
    Failed(Error),
}

impl Stop {
    /// The same for an object of a customer, so that a binding of the customer finds its events.
    pub(super) fn of_customer(mut self, object: &FoundObject) -> Self {
        if let Self::Stands { customer, .. } = &mut self {
            customer.clone_from(&object.customer);
        }
        self
    }
}

impl From<Standing> for Stop {
    fn from(standing: Standing) -> Self {
        Self::Stands { standing, path: None, customer: None }
    }
}

impl From<Held> for Stop {
    fn from(held: Held) -> Self {
        Self::Held(held)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Unmapped> for Stop {
    fn from(unmapped: Unmapped) -> Self {
        let standing = Standing::from(&unmapped);
        let path = if let Unmapped::Unreadable { path } = unmapped { Some(path) } else { None };
        Self::Stands { standing, path, customer: None }
    }
}

impl Account {
    async fn read<T>(
        &self,
        now: Timestamp,
        turn: Turn,
        read: impl Future<Output = Result<T, ApiFailed>> + Send,
        is_there: fn(&T) -> bool,
    ) -> Result<T, Stop> {
        self.pace.begin(now, turn)?;
        let read = read.await;
        if let Err(error @ (ApiFailed::Unavailable { .. } | ApiFailed::KeyRefused)) = &read
            && self.pace.is_to_log(now)
        {
            tracing::warn!(source = %self.source.name, ?error, "reads from the payment provider fail");
        }
        let (outcome, result) = match read {
            Ok(answer) => {
                self.pace.succeeded();
                let is_there = is_there(&answer);
                (if is_there { FetchOutcome::Ok } else { FetchOutcome::NotFound }, Ok(answer))
            }
            Err(ApiFailed::Unavailable { retry_after, .. }) => {
                (FetchOutcome::Unavailable, Err(self.pace.failed(retry_after, now).into()))
            }
            Err(ApiFailed::KeyRefused) => {
                (FetchOutcome::KeyRefused, Err(self.pace.failed(None, now).into()))
            }
            Err(ApiFailed::Unreadable(_)) => {
                let path = "".into();
                (FetchOutcome::Unreadable, Err(Unmapped::Unreadable { path }.into()))
            }
        };
        self.count(|tally| *tally.fetches.entry(outcome).or_default() += 1);
        result
    }

    /// The present state of an object.
    pub(super) async fn fetch(
        &self,
        object: &ObjectRef,
        now: Timestamp,
        turn: Turn,
    ) -> Result<Value, Stop> {
        self.pace.fetching(object, now);
        let object = self.source.api.object(object.kind, &object.id);
        let found = self.read(now, turn, object, Option::is_some).await?;
        found.ok_or_else(|| Standing::waiting(Reason::NotFound).into())
    }

    pub(super) async fn page(
        &self,
        list: &ObjectList,
        after: Option<&str>,
        now: Timestamp,
        turn: Turn,
    ) -> Result<ApiPage, Stop> {
        self.read(now, turn, self.source.api.page(list, after), |_| true).await
    }

    /// Maps an object, which must be the one that was asked for, in the mode that is followed.
    pub(super) fn map(&self, object: &ObjectRef, value: &Value) -> Result<Finding, Stop> {
        let finding = mapping::map(self.source.kind, object.kind, value, self.source.pause)?;
        let found = finding.object();
        if found.id != object.id {
            return Err(Unmapped::Unreadable { path: "/id".into() }.into());
        }
        if found.live != self.source.live {
            return Err(Standing::ignored(Reason::OtherMode).into());
        }
        Ok(finding)
    }

    /// The subscription, invoice or order that an object leads to, and the user whom the object names.
    pub(super) async fn resolve(
        &self,
        object: &ObjectRef,
        now: Timestamp,
    ) -> Result<(ObjectRef, Option<UserId>), Stop> {
        match object.kind {
            ObjectKind::CheckoutSession => {
                let session = self.fetch(object, now, Turn::First).await?;
                let (id, user) = mapping::session(&session)?;
                Ok((ObjectRef { kind: ObjectKind::Subscription, id }, user))
            }
            ObjectKind::PaymentIntent => {
                let list = ObjectList::InvoicePaymentsOf(object.id.clone());
                let page = self.page(&list, None, now, Turn::First).await?;
                let payment = page.items.first().ok_or(Unmapped::NotASubscription)?;
                let id = mapping::invoice_of(payment)?;
                Ok((ObjectRef { kind: ObjectKind::Invoice, id }, None))
            }
            ObjectKind::Customer
            | ObjectKind::Subscription
            | ObjectKind::Invoice
            | ObjectKind::Order => Ok((object.clone(), None)),
        }
    }

    /// The users whom the checkout sessions of a subscription name (Stripe).
    pub(super) async fn session_users(
        &self,
        subscription: &ObjectId,
        now: Timestamp,
    ) -> Result<Vec<UserId>, Stop> {
        if self.source.kind != ProviderKind::Stripe {
            return Ok(Vec::new());
        }
        let list = ObjectList::SessionsOf(subscription.clone());
        let page = self.page(&list, None, now, Turn::Later).await?;
        let sessions = page.items.iter();
        Ok(sessions.filter_map(|session| mapping::session(session).ok()?.1).collect())
    }

    /// The e-mail address of a customer, if the object itself does not have it.
    pub(super) async fn email(
        &self,
        customer: Option<&ObjectId>,
        now: Timestamp,
    ) -> Result<Option<Email>, Stop> {
        let Some(id) = customer.filter(|_| self.source.kind == ProviderKind::Stripe) else {
            return Ok(None);
        };
        let customer = ObjectRef { kind: ObjectKind::Customer, id: id.clone() };
        Ok(mapping::email_of(&self.fetch(&customer, now, Turn::Later).await?))
    }
}
