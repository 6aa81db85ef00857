//! Payments in memory: by id, by external id, and listed by subscription.

use std::collections::HashMap;
use std::sync::Arc;

use super::ById;
use super::index::{Lists, after, page, walk};
use crate::payments::Payment;
use crate::store::query::{Page, PaymentQuery};
use crate::values::id::PaymentId;
use crate::values::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct PaymentTable {
    records: ById<PaymentId, Arc<Payment>>,
    by_external_id: HashMap<ExternalId, PaymentId>,
    by_subscription: Lists<(), Payment>,
}

impl PaymentTable {
    pub(super) fn get(&self, id: PaymentId) -> Option<&Arc<Payment>> {
        self.records.get(&id)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Payment>> {
        self.get(*self.by_external_id.get(id)?)
    }

    pub(super) fn put(&mut self, payment: Arc<Payment>) {
        self.delete(payment.id);
        let place = ((), payment.id.uuid().as_u128());
        self.by_subscription.insert(payment.subscription_id.uuid().as_u128(), place, &payment);
        let external_id = payment.external_payment_id.clone();
        self.by_external_id.extend(external_id.map(|id| (id, payment.id)));
        self.records.insert(payment.id, payment);
    }

    pub(super) fn delete(&mut self, id: PaymentId) {
        let Some(payment) = self.records.remove(&id) else { return };
        self.by_subscription
            .remove(payment.subscription_id.uuid().as_u128(), ((), id.uuid().as_u128()));
        if let Some(id) = &payment.external_payment_id {
            self.by_external_id.remove(id);
        }
    }

    pub(super) fn page(&self, query: &PaymentQuery) -> Page<Arc<Payment>> {
        let from = after(query.after.as_ref(), query.direction, |_| ());
        let list = query.subscription_id.uuid().as_u128();
        let found = walk(&[(&self.by_subscription, vec![list])], query.direction, from);
        page(found.map(|((), payment)| payment), query.limit, PaymentQuery::position)
    }
}
