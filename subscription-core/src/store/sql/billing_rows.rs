//! Plans, subscriptions and payments as rows.

use super::table::{PAYMENTS, PLANS, SUBSCRIPTIONS, SqlRecord, Table};
use super::value::{Cells, Columns, Value};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::StoreError;
use crate::subscriptions::Subscription;

impl SqlRecord for Plan {
    const TABLE: &'static Table = &PLANS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::Id(self.id.uuid()),
            Value::text(&self.name),
            Value::text_or_null(self.product_id.as_ref()),
            Value::json(&self.variants),
            Value::text(&self.slug),
            Value::Amount(self.price.value()),
            Value::text_or_null(self.href.as_ref()),
            Value::text(self.billing_cycle.to_string()),
            Value::text(&self.description),
            Value::count(self.node_quota.get()),
            Value::text(&self.features),
            Value::Bool(self.most_popular),
            Value::count(self.tier.get()),
            Value::Bool(self.is_active),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.id()?,
            name: cells.parsed()?,
            product_id: cells.parsed_or_null()?,
            variants: cells.json()?,
            slug: cells.parsed()?,
            price: cells.amount()?,
            href: cells.parsed_or_null()?,
            billing_cycle: cells.parsed()?,
            description: cells.parsed()?,
            node_quota: cells.number()?,
            features: cells.parsed()?,
            most_popular: cells.bool()?,
            tier: cells.number()?,
            is_active: cells.bool()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
        })
    }
}

impl SqlRecord for Subscription {
    const TABLE: &'static Table = &SUBSCRIPTIONS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::Id(self.id.uuid()),
            Value::Id(self.user_id.uuid()),
            Value::Id(self.subscription_plan_id.uuid()),
            Value::text_or_null(self.external_subscription_id.as_ref()),
            Value::text(self.billing_cycle.to_string()),
            Value::text(self.status.as_str()),
            Value::Bool(self.is_active),
            Value::Time(self.renews_at),
            Value::time(self.starts_at),
            Value::Time(self.ends_at),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
            Value::Bool(self.blocked),
            Value::Time(self.anchor_at),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.id()?,
            user_id: cells.id()?,
            subscription_plan_id: cells.id()?,
            external_subscription_id: cells.parsed_or_null()?,
            billing_cycle: cells.parsed()?,
            status: cells.parsed()?,
            is_active: cells.bool()?,
            renews_at: cells.time_or_null()?,
            starts_at: cells.time()?,
            ends_at: cells.time_or_null()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
            blocked: cells.bool()?,
            anchor_at: cells.time_or_null()?,
        })
    }
}

impl SqlRecord for Payment {
    const TABLE: &'static Table = &PAYMENTS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::Id(self.id.uuid()),
            Value::Id(self.subscription_id.uuid()),
            Value::Amount(self.amount.value()),
            Value::text(self.currency.code()),
            Value::text_or_null(self.external_payment_id.as_ref()),
            Value::text(self.status.as_str()),
            Value::time(self.created_at),
            Value::time(self.updated_at),
            Value::version(self.version),
            Value::Bool(self.settled),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            id: cells.id()?,
            subscription_id: cells.id()?,
            amount: cells.amount()?,
            currency: cells.parsed()?,
            external_payment_id: cells.parsed_or_null()?,
            status: cells.parsed()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            version: cells.version()?,
            settled: cells.bool()?,
        })
    }
}
