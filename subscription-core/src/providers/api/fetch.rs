//! Reads from a provider's API within the limits of its source, and finds the subscription or invoice that another
//! object leads to.

use serde_json::Value;

use super::api_limits::ReadOrder;
use super::{ApiFailed, ApiPage};
use crate::providers::facade::Account;
use crate::providers::follow::outcome::Interrupted;
use crate::providers::{
    EventStatus, FetchOutcome, Finding, ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind,
    Reason, Unmapped, mapping,
};
use crate::values::{Email, Timestamp, UserId};

impl Account {
    async fn read<T>(
        &self,
        now: Timestamp,
        read_order: ReadOrder,
        read: impl Future<Output = Result<T, ApiFailed>> + Send,
        is_there: fn(&T) -> bool,
    ) -> Result<T, Interrupted> {
        self.api_limits.begin(now, read_order)?;
        let read = read.await;
        if let Err(error) = &read
            && self.api_limits.is_to_log(now)
        {
            tracing::warn!(source = %self.source.name, ?error, "reading from the payment provider fails");
        }
        let (outcome, result) = match read {
            Ok(answer) => {
                self.api_limits.succeeded();
                let is_there = is_there(&answer);
                (if is_there { FetchOutcome::Ok } else { FetchOutcome::NotFound }, Ok(answer))
            }
            Err(ApiFailed::Unavailable { retry_after, .. }) => {
                (FetchOutcome::Unavailable, Err(self.api_limits.failed(retry_after, now).into()))
            }
            Err(ApiFailed::KeyRefused) => {
                (FetchOutcome::KeyRefused, Err(self.api_limits.failed(None, now).into()))
            }
            Err(ApiFailed::Unreadable(_)) => {
                let path = "".into();
                (FetchOutcome::Unreadable, Err(Unmapped::Unreadable { path }.into()))
            }
        };
        self.count(|counters| *counters.fetches.entry(outcome).or_default() += 1);
        result
    }

    /// The present state of an object.
    pub(crate) async fn fetch(
        &self,
        object: &ObjectRef,
        now: Timestamp,
        read_order: ReadOrder,
    ) -> Result<Value, Interrupted> {
        self.api_limits.fetching(object, now);
        let object = self.source.api.object(object.kind, &object.id);
        let found = self.read(now, read_order, object, Option::is_some).await?;
        found.ok_or_else(|| EventStatus::waiting(Reason::NotFound).into())
    }

    pub(crate) async fn page(
        &self,
        list: &ObjectList,
        after: Option<&str>,
        now: Timestamp,
        read_order: ReadOrder,
    ) -> Result<ApiPage, Interrupted> {
        self.read(now, read_order, self.source.api.page(list, after), |_| true).await
    }

    /// Maps an object. It must be the object that was requested, and its mode (live or test) must be the mode that the
    /// source follows.
    pub(crate) fn map(&self, object: &ObjectRef, value: &Value) -> Result<Finding, Interrupted> {
        let finding = mapping::map(self.source.kind, object.kind, value, self.source.pause)?;
        let found = finding.object();
        if found.id != object.id {
            return Err(Unmapped::Unreadable { path: "/id".into() }.into());
        }
        if found.live != self.source.live {
            return Err(EventStatus::ignored(Reason::OtherMode).into());
        }
        Ok(finding)
    }

    /// The subscription, invoice or order that an object leads to. If the object is a checkout session, also the user
    /// whom the session names.
    pub(crate) async fn resolve(
        &self,
        object: &ObjectRef,
        now: Timestamp,
    ) -> Result<(ObjectRef, Option<UserId>), Interrupted> {
        match object.kind {
            ObjectKind::CheckoutSession => {
                let session = self.fetch(object, now, ReadOrder::First).await?;
                let (id, user) = mapping::session(&session)?;
                Ok((ObjectRef { kind: ObjectKind::Subscription, id }, user))
            }
            ObjectKind::PaymentIntent => {
                let list = ObjectList::InvoicePaymentsOf(object.id.clone());
                let page = self.page(&list, None, now, ReadOrder::First).await?;
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
    pub(crate) async fn session_users(
        &self,
        subscription: &ObjectId,
        now: Timestamp,
    ) -> Result<Vec<UserId>, Interrupted> {
        if self.source.kind != ProviderKind::Stripe {
            return Ok(Vec::new());
        }
        let list = ObjectList::SessionsOf(subscription.clone());
        let page = self.page(&list, None, now, ReadOrder::Later).await?;
        let sessions = page.items.iter();
        Ok(sessions.filter_map(|session| mapping::session(session).ok()?.1).collect())
    }

    /// The e-mail address of a customer (Stripe). `None` at other providers: their objects have the address themselves.
    pub(crate) async fn email(
        &self,
        customer: Option<&ObjectId>,
        now: Timestamp,
    ) -> Result<Option<Email>, Interrupted> {
        let Some(id) = customer.filter(|_| self.source.kind == ProviderKind::Stripe) else {
            return Ok(None);
        };
        let customer = ObjectRef { kind: ObjectKind::Customer, id: id.clone() };
        Ok(mapping::email_of(&self.fetch(&customer, now, ReadOrder::Later).await?))
    }
}
