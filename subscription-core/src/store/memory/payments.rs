//! The payments in memory: by id, by external id, and by subscription.

use std::collections::HashMap;
use std::sync::Arc;

use super::ById;
use super::scan::{self, Bucket, Found, Index};
use crate::id::{PaymentId, SubscriptionId};
use crate::payments::Payment;
use crate::store::query::{Page, PaymentQuery};
use crate::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct PaymentTable {
    records: ById<PaymentId, Arc<Payment>>,
    by_external_id: HashMap<ExternalId, PaymentId>,
    by_subscription: Index<SubscriptionId, ()>,
}

impl PaymentTable {
    pub(super) fn get(&self, id: PaymentId) -> Option<&Arc<Payment>> {
        self.records.get(&id)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Payment>> {
        self.by_external_id.get(id).and_then(|id| self.records.get(id))
    }

    pub(super) fn put(&mut self, payment: Payment) {
        self.delete(payment.id);
        if let Some(external_id) = &payment.external_payment_id {
            self.by_external_id.insert(external_id.clone(), payment.id);
        }
        self.by_subscription.insert((payment.subscription_id, (), payment.id.uuid()));
        self.records.insert(payment.id, Arc::new(payment));
    }

    pub(super) fn delete(&mut self, id: PaymentId) {
        let Some(payment) = self.records.remove(&id) else { return };
        if let Some(external_id) = &payment.external_payment_id {
            self.by_external_id.remove(external_id);
        }
        self.by_subscription.remove(&(payment.subscription_id, (), id.uuid()));
    }

    pub(super) fn page(&self, query: &PaymentQuery) -> Page<Arc<Payment>> {
        let direction = query.direction;
        let Some(from) = scan::after(query.after.as_ref(), direction) else {
            return Page { items: Vec::new(), next: None };
        };
        let bucket = query.subscription_id;
        let mut walk = Bucket::new(&self.by_subscription, bucket, direction, &from);
        let record = |((), id): &((), _)| match self.records.get(&PaymentId::from(*id)) {
            Some(payment) => Found::Item(Arc::clone(payment)),
            None => Found::Other,
        };
        let position = |payment: &Arc<Payment>| PaymentQuery::position(payment);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }
}
