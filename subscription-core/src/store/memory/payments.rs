//! The payments in memory: by id, by external id, and by subscription.

use std::sync::Arc;

use uuid::Uuid;

use super::index::{Index, ReadOff};
use super::records::{Record, Records};
use super::scan::{self, Bucket, Found, Place, Stop};
use crate::payments::Payment;
use crate::store::query::{Page, PaymentQuery};
use crate::values::id::{PaymentId, SubscriptionId};
use crate::values::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct PaymentTable {
    records: Records<Arc<Payment>>,
    by_subscription: Index<SubscriptionId, ()>,
}

impl Record for Arc<Payment> {
    fn id(&self) -> Uuid {
        self.id.uuid()
    }

    fn name(&self) -> Option<&str> {
        self.external_payment_id.as_ref().map(ExternalId::as_str)
    }
}

impl ReadOff<Arc<Payment>> for SubscriptionId {
    fn read_off(record: &Arc<Payment>) -> Self {
        record.subscription_id
    }
}

impl PaymentTable {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get(&self, id: PaymentId) -> Option<&Arc<Payment>> {
        self.records.by_id(id.uuid()).map(|(_, found)| found)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Payment>> {
        self.records.by_name(id.as_str()).map(|(_, found)| found)
    }

    pub(super) fn put(&mut self, payment: Arc<Payment>) {
        let (slot, old) = self.records.put(payment);
        self.by_subscription.relist(&self.records, slot, old.as_ref());
    }

    pub(super) fn delete(&mut self, id: PaymentId) {
        let Some((slot, old)) = self.records.remove(id.uuid()) else { return };
        self.by_subscription.relist(&self.records, slot, Some(&old));
    }

    pub(super) fn page(&self, query: &PaymentQuery) -> Page<Arc<Payment>> {
        let direction = query.direction;
        let Some(from) = scan::after(query.after.as_ref(), direction) else {
            return Page { items: Vec::new(), next: None };
        };
        let mut walk = Bucket::new(direction, &from, |from: &Place<()>| {
            self.by_subscription.along(&self.records, query.subscription_id, direction, from)
        });
        let record = |stop: &Stop<()>| match self.records.at(stop.slot) {
            Some(payment) => Found::Item(Arc::clone(payment)),
            None => Found::Other,
        };
        let position = |payment: &Arc<Payment>| PaymentQuery::position(payment);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }
}
