//! Payments in memory: by id, by external id, by period, and listed by subscription, by due time or all together.

use std::collections::HashMap;
use std::sync::Arc;

use super::index::{ALL, IndexKey, Lists, after, due, first, walk};
use super::{ById, free};
use crate::payments::Payment;
use crate::store::due::DuePayments;
use crate::store::query::PaymentQuery;
use crate::values::{ExternalId, PaymentId, SubscriptionId, Timestamp};

#[derive(Debug, Default)]
pub(super) struct PaymentTable {
    records: ById<PaymentId, Arc<Payment>>,
    by_external_id: HashMap<ExternalId, PaymentId>,
    all: Lists<(), Payment>,
    by_subscription: Lists<(), Payment>,
    by_period: HashMap<(SubscriptionId, Timestamp), PaymentId>,
    /// The payments that have a next action. There is one list for each status.
    due: Lists<i64, Payment>,
}

/// The name of the list of due payments to which a payment belongs, and its place there; `None` if the payment has no
/// next action.
fn due_place(payment: &Payment) -> Option<(u128, IndexKey<i64>)> {
    let place = (payment.action_at()?.micros(), payment.id.uuid().as_u128());
    Some((payment.status as u128, place))
}

impl PaymentTable {
    pub(super) fn get(&self, id: PaymentId) -> Option<&Arc<Payment>> {
        self.records.get(&id)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Payment>> {
        self.get(*self.by_external_id.get(id)?)
    }

    pub(super) fn by_period(&self, of: SubscriptionId, start: Timestamp) -> Option<&Arc<Payment>> {
        self.get(*self.by_period.get(&(of, start))?)
    }

    pub(super) fn due(&self, query: &DuePayments) -> Vec<Arc<Payment>> {
        let list = query.status as u128;
        first(due(&self.due, list, query.until, query.after.as_ref()), query.limit)
    }

    pub(super) fn put(&mut self, payment: Arc<Payment>) {
        self.delete(payment.id);
        let place = ((), payment.id.uuid().as_u128());
        self.all.insert(ALL, place, &payment);
        self.by_subscription.insert(payment.subscription_id.uuid().as_u128(), place, &payment);
        if let Some((list, place)) = due_place(&payment) {
            self.due.insert(list, place, &payment);
        }
        if let Some(start) = payment.claimed_period() {
            self.by_period.insert((payment.subscription_id, start), payment.id);
        }
        let external_id = payment.external_payment_id.clone();
        self.by_external_id.extend(external_id.map(|id| (id, payment.id)));
        self.records.insert(payment.id, payment);
    }

    pub(super) fn delete(&mut self, id: PaymentId) {
        let Some(payment) = self.records.remove(&id) else { return };
        let place = ((), id.uuid().as_u128());
        self.all.remove(ALL, place);
        self.by_subscription.remove(payment.subscription_id.uuid().as_u128(), place);
        if let Some((list, place)) = due_place(&payment) {
            self.due.remove(list, place);
        }
        if let Some(start) = payment.claimed_period() {
            free(&mut self.by_period, &(payment.subscription_id, start), id);
        }
        if let Some(external_id) = &payment.external_payment_id {
            free(&mut self.by_external_id, external_id, id);
        }
    }

    /// The payments of a page. `of_user` has the ids of the user's subscriptions, if the query names a user.
    pub(super) fn page(
        &self,
        query: &PaymentQuery,
        of_user: Option<Vec<u128>>,
    ) -> Vec<Arc<Payment>> {
        let from = after(query.after.as_ref(), query.direction, |_| ());
        let of = query.subscription_id.map(|id| vec![id.uuid().as_u128()]).or(of_user);
        let list = match of {
            Some(ids) => (&self.by_subscription, ids),
            None => (&self.all, vec![ALL]),
        };
        let found = walk(&[list], query.direction, from);
        first(found.map(|((), payment)| payment), query.limit)
    }
}
