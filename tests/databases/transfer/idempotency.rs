//! Results under idempotency keys move with the records: a request that is repeated after the move changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{Idempotency, IdempotencyResult, Operation, PaymentQuery, Record};
use subscription_core::subscriptions::{Action, PlanChange, Quantity};
use subscription_core::{
    ManualClock, NewPayment, NewPlan, NewSubscription, Payment, PaymentChanges, PaymentKind,
    PaymentStatus, Store, SubscriptionService, UserId,
};
use test_support::service_world::{at, new_plan, of, once};
use test_support::trials;
use test_support::trials::Trial;

use super::sample_records::SampleRecords;
use super::{Movable, commit};
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        every_request_under_a_key_is_repeated_after_a_move,
        a_result_must_be_one_that_its_operation_returns,
    ]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![every_request_under_a_key_is_repeated_after_a_move_to_a_server]
}

async fn every_request_under_a_key_is_repeated_after_a_move() {
    moved(Arc::new(sqlite::fresh().await), Arc::new(sqlite::fresh().await)).await;
}

async fn every_request_under_a_key_is_repeated_after_a_move_to_a_server() {
    moved(Arc::new(sqlite::fresh().await), Arc::new(postgres::fresh().await)).await;
    moved(Arc::new(postgres::fresh().await), Arc::new(sqlite::fresh().await)).await;
}

/// A request of every kind under a key. Returns the records, and the number of those that were replayed.
async fn requests(store: Arc<dyn Store>) -> (Vec<String>, usize) {
    let service = SubscriptionService::builder(store)
        .clock(ManualClock::at(at("2026-01-31T00:00:00Z")))
        .build();
    let billing = Billing::new(service, Policy::default());
    let service = billing.service();
    let key = |name: &str| -> Idempotency { once("shop", name) };
    let mut results = Vec::new();
    let mut replays = 0;
    let mut add = |record: String, replayed: bool| {
        results.push(record);
        replays += usize::from(replayed);
    };

    let new = NewPlan { currency: Some(of("EUR")), ..new_plan("pro") };
    let plan = service.create_plan_once(new, key("plan")).await.unwrap();
    add(format!("{:?}", plan.record), plan.replayed);
    let user: UserId = of("0198c0de-0000-7000-8000-00000000000a");
    let new = NewSubscription::new(user, plan.record.id);
    let made = service.create_subscription_once(new, key("subscription")).await.unwrap();
    add(format!("{:?}", made.record), made.replayed);
    let id = made.record.id;
    let new = NewPayment::new(id, of("5"), of("EUR"));
    let paid = service.create_payment_once(new, key("payment")).await.unwrap();
    add(format!("{:?}", paid.record), paid.replayed);
    let payments = service.payments(PaymentQuery::of(id)).await.unwrap().items;
    let is_first = |payment: &&Arc<Payment>| {
        payment.asked.as_ref().is_some_and(|asked| asked.kind == PaymentKind::Initial)
    };
    let asked = payments.iter().find(is_first).unwrap().id;
    if !made.replayed {
        let failed = PaymentChanges::status(PaymentStatus::Failed);
        service.update_payment(asked, failed).await.unwrap();
    }
    let retried = billing.retry_payment(asked, None, key("retry")).await.unwrap();
    add(format!("{:?}", retried.record), retried.replayed);
    if !made.replayed {
        let paid = PaymentChanges::status(PaymentStatus::Succeeded);
        service.update_payment(asked, paid).await.unwrap();
    }
    let change = PlanChange::to_quantity(Quantity::new(3).unwrap());
    let changed = billing.change_plan_once(id, None, &change, key("change")).await.unwrap();
    add(format!("{:?}", changed.record), changed.replayed);
    for (name, action) in [("cancel", Action::Cancel(None)), ("resume", Action::Resume)] {
        let acted = service.act_once(id, None, action, key(name)).await.unwrap();
        add(format!("{:?}", acted.record), acted.replayed);
    }
    (results, replays)
}

async fn moved<H: Movable + 'static, A: Movable + 'static>(home: Arc<H>, away: Arc<A>) {
    let (first, replays) = requests(Arc::<H>::clone(&home)).await;
    assert_eq!((first.len(), replays), (7, 0));
    let file = home.moved_out().await;
    let text = String::from_utf8(file.clone()).unwrap();
    let named = Operation::ALL.map(Operation::as_str).into_iter();
    let named = named.filter(|name| text.contains(&format!("\"operation\":\"{name}\"")));
    let all: BTreeSet<_> = Operation::ALL.map(Operation::as_str).into();
    assert_eq!(named.collect::<BTreeSet<_>>(), all, "the file has every operation");

    away.move_in(&file).await.unwrap();

    assert_eq!(requests(Arc::<A>::clone(&away)).await, (first, 7));
}

async fn a_result_must_be_one_that_its_operation_returns() {
    let mut samples = SampleRecords::new();
    let records = samples.one_of_each();
    let results = records.iter().filter_map(|record| match record {
        Record::Plan(plan) => Some(IdempotencyResult::Plan(Arc::clone(plan))),
        Record::Subscription(of) => Some(IdempotencyResult::Subscription(Arc::clone(of))),
        Record::Payment(payment) => Some(IdempotencyResult::Payment(Arc::clone(payment))),
        Record::User(_)
        | Record::Session(_)
        | Record::Client(_)
        | Record::Idempotency(_)
        | Record::Document(_) => None,
    });
    let mut accepted = Vec::new();
    for result in results {
        for operation in Operation::ALL {
            let (home, away) = (sqlite::fresh().await, sqlite::fresh().await);
            let mut records = records.clone();
            for record in &mut records {
                if let Record::Idempotency(stored) = record {
                    let stored = Arc::make_mut(stored);
                    stored.result = result.clone();
                    stored.key.operation = operation;
                }
            }
            commit(&home, records).await;

            match away.move_in(&home.moved_out().await).await {
                Ok(_) => accepted.push((operation.as_str(), result.clone())),
                Err(refused) => {
                    let story = format!(
                        "operation {operation} stores the wrong kind of record as its result"
                    );
                    assert!(refused.to_string().contains(&story), "{refused}");
                }
            }
        }
    }
    let kinds: Vec<_> = accepted
        .iter()
        .map(|(operation, result)| match result {
            IdempotencyResult::Plan(_) => ("plan", *operation),
            IdempotencyResult::Subscription(_) => ("subscription", *operation),
            IdempotencyResult::Payment(_) => ("payment", *operation),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("plan", "create_plan"),
            ("subscription", "create_subscription"),
            ("subscription", "act"),
            ("payment", "create_payment"),
            ("payment", "retry_payment"),
        ]
    );
}
