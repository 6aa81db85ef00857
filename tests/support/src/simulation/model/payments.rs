//! The model of requests about payments.

use rust_decimal::Decimal;
use subscription_core::events::{Change, Subject};
use subscription_core::{
    Amount, Currency, NewPayment, Payment, PaymentChanges, PaymentId, PaymentStatus, Timestamp,
    Version,
};
use uuid::Uuid;

use super::plans::set;
use super::subscriptions::set_field;
use super::{Expected, Model, fresh, not_found, payments, rules, update, updated};
use crate::simulation::operation::{Record, Refusal, Reply};

impl Model {
    pub fn create_payment(&self, new: &NewPayment, now: Timestamp) -> Result<Expected, Refusal> {
        let status = new.status.unwrap_or(PaymentStatus::Pending);
        let made = Payment {
            id: PaymentId::from(Uuid::nil()),
            subscription_id: new.subscription_id,
            amount: new.amount,
            currency: new.currency,
            external_payment_id: new.external_payment_id.clone(),
            status,
            metadata: new.metadata.clone(),
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            settled: rules::SETTLED.contains(&status.as_str()),
            asked: None,
        };
        self.check_fields(None, &made)?;
        self.check_external_id(&made)?;
        Ok(Expected::Create(Record::Payment(made)))
    }

    pub fn update_payment(
        &self,
        id: PaymentId,
        changes: &PaymentChanges,
        version: Option<Version>,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let current = self.payment(id)?;
        fresh(current.version, version)?;
        let mut next = current.clone();
        set(&mut next.subscription_id, changes.subscription_id);
        // For a settled payment, 19.9 and 19.90 are the same amount.
        let same = |amount: &Amount| current.settled && amount.value() == current.amount.value();
        set(&mut next.amount, changes.amount.filter(|amount| !same(amount)));
        set(&mut next.currency, changes.currency);
        set_field(&mut next.external_payment_id, changes.external_payment_id.clone());
        set(&mut next.status, changes.status);
        set_field(&mut next.metadata, changes.metadata.clone());
        next.settled |= rules::SETTLED.contains(&next.status.as_str());
        self.check_fields(Some(current), &next)?;
        step(current.status, next.status)?;
        if current.settled {
            let fixed = [
                ("subscription_id", current.subscription_id == next.subscription_id),
                ("amount", current.amount == next.amount),
                ("currency", current.currency == next.currency),
            ];
            let touched: Vec<_> =
                fixed.iter().filter(|(_, same)| !same).map(|(field, _)| field).collect();
            if !touched.is_empty() {
                return Err(Refusal::about("payment_settled", touched));
            }
        }
        self.check_external_id(&next)?;
        let change = if current.status == next.status {
            updated(current, &next)
        } else {
            Change::PaymentStatusChanged { from: current.status, to: next.status }
        };
        if next != *current {
            next.updated_at = now;
            next.version = current.version.next();
        }
        Ok(update(Record::Payment(current.clone()), Record::Payment(next), change))
    }

    pub fn delete_payment(
        &self,
        id: PaymentId,
        version: Option<Version>,
    ) -> Result<Expected, Refusal> {
        let current = self.payment(id)?;
        fresh(current.version, version)?;
        Ok(Expected::Delete(Record::Payment(current.clone())))
    }

    pub fn read_payment(&self, id: PaymentId) -> Result<Expected, Refusal> {
        let payment = self.payment(id)?;
        Ok(Expected::Answer(Ok(Reply::Found(Record::Payment(payment.clone())))))
    }

    fn payment(&self, id: PaymentId) -> Result<&Payment, Refusal> {
        match self.records.get(&Subject::Payment(id)) {
            Some(Record::Payment(payment)) => Ok(payment),
            Some(Record::Plan(_) | Record::Subscription(_)) | None => Err(not_found()),
        }
    }

    fn check_fields(&self, current: Option<&Payment>, next: &Payment) -> Result<(), Refusal> {
        let mut faults = Vec::new();
        let moves = current.is_none_or(|now| now.subscription_id != next.subscription_id);
        if moves && self.subscription(next.subscription_id).is_err() {
            faults.push("subscription_id");
        }
        let settled = current.is_some_and(|now| now.settled);
        let sound = next.amount.value() > Decimal::ZERO && fits(next.amount, next.currency);
        if !settled && !sound {
            faults.push("amount");
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Refusal::about("validation_failed", faults))
    }

    fn check_external_id(&self, next: &Payment) -> Result<(), Refusal> {
        let same = |other: &&Payment| {
            other.id != next.id
                && other.external_payment_id.is_some()
                && other.external_payment_id == next.external_payment_id
        };
        match payments(&self.records).find(same) {
            Some(holder) => Err(Refusal::about("external_id_taken", [Subject::Payment(holder.id)])),
            None => Ok(()),
        }
    }
}

/// True if the amount has no more digits after the decimal point than the currency allows. Only the currencies of the
/// actors are known here.
fn fits(amount: Amount, currency: Currency) -> bool {
    let digits = match currency.code() {
        "JPY" => 0,
        "BHD" => 3,
        _ => 2,
    };
    let text = amount.to_string();
    text.split_once('.').map_or(0, |(_, fraction)| fraction.len()) <= digits
}

fn step(from: PaymentStatus, to: PaymentStatus) -> Result<(), Refusal> {
    let allowed = rules::moves(rules::PAYMENT_MOVES, from.as_str());
    if from == to || allowed.contains(&to.as_str()) {
        return Ok(());
    }
    Err(Refusal::about("invalid_transition", allowed))
}
