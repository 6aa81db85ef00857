//! Records read back as they were written.

use std::sync::Arc;

use super::records::{
    answer, asked_payment, at, at_version, billing, metadata, one_of_each, parsed, payment, plan,
    subscription, user,
};
use super::steps::{assert_absent, assert_stored, found, put};
use crate::payments::{Payment, PaymentKind, PaymentStatus};
use crate::plans::{BillingCycle, CycleUnit, NodeQuota, Plan, Tier};
use crate::store::{
    IdempotencyRecord, IdempotencyResult, Operation, PageLimit, PaymentQuery, PlanQuery, Query,
    Record, Store, SubscriptionQuery, UniqueValue,
};
use crate::subscriptions::{
    BillingState, ManagedBy, Quantity, ScheduledChange, Subscription, SubscriptionStatus,
};
use crate::values::{Metadata, Timestamp};

/// Writes records in one set, and reads each record by its key and in the list of all records of its kind.
async fn assert_reads_back(store: &Arc<dyn Store>, records: Vec<Record>) {
    put(store, records.clone()).await;

    assert_stored(store, records.clone()).await;
    let mut listed = Vec::new();
    for query in [
        Query::Plan(PlanQuery::default().with_limit(PageLimit::MAX)),
        Query::Subscription(SubscriptionQuery::default().with_limit(PageLimit::MAX)),
        Query::Payment(PaymentQuery::all().with_limit(PageLimit::MAX)),
    ] {
        listed.extend(store.list(&query).await.unwrap().items);
    }
    for record in records.iter().filter(|it| !matches!(it, Record::Idempotency(_))) {
        assert!(listed.contains(record), "{record:?}");
    }
}

/// A record that was never written is not found by its key, and not by a unique value.
pub async fn what_was_never_written_reads_as_nothing(store: Arc<dyn Store>) {
    assert_absent(&store, one_of_each(1)).await;
    let nothing = parsed("nothing");
    assert_eq!(found(&store, UniqueValue::PlanSlug(&plan(1).slug)).await, None);
    assert_eq!(found(&store, UniqueValue::ExternalSubscription(&nothing)).await, None);
    assert_eq!(found(&store, UniqueValue::ExternalPayment(&nothing)).await, None);
    assert_eq!(found(&store, UniqueValue::LiveKey("nothing")).await, None);
    let period = UniqueValue::PaymentPeriod(subscription(1).id, at(1));
    assert_eq!(found(&store, period).await, None);
}

/// A plan is found by its slug, a subscription and a payment by the id that their provider gave.
pub async fn a_record_is_found_by_what_names_it_outside(store: Arc<dyn Store>) {
    put(&store, one_of_each(1)).await;
    put(&store, one_of_each(2)).await;

    let slug = found(&store, UniqueValue::PlanSlug(&parsed("plan-2"))).await;
    assert_eq!(slug, Some(plan(2).into()));
    let id = parsed("subscription 2");
    let external = found(&store, UniqueValue::ExternalSubscription(&id)).await;
    assert_eq!(external, Some(subscription(2).into()));
    let external = found(&store, UniqueValue::ExternalPayment(&parsed("payment 2"))).await;
    assert_eq!(external, Some(payment(2).into()));
}

/// All fields have other values than their defaults, at their limits where they have limits.
pub async fn every_field_of_a_plan_reads_back(store: Arc<dyn Store>) {
    let full = Plan {
        product_id: Some(parsed("product 1")),
        currency: Some(parsed("EUR")),
        trial_period: Some(parsed("P14D")),
        variants: ["b", "a", "b"].map(parsed).to_vec(),
        href: Some(parsed("https://example.com/plans?of=all#first")),
        billing_cycle: BillingCycle::every(18, CycleUnit::Month).unwrap(),
        description: parsed("First line.\nSecond\tline."),
        node_quota: NodeQuota::new(NodeQuota::MAX).unwrap(),
        features: parsed(" api, sso,, audit log "),
        most_popular: true,
        tier: Tier::new(Tier::MAX).unwrap(),
        is_active: false,
        metadata: metadata(),
        updated_at: at(99),
        ..plan(1)
    };
    let once = Plan { billing_cycle: BillingCycle::ONE_TIME, ..plan(2) };

    assert_reads_back(&store, vec![Record::from(full), Record::from(once)]).await;
}

/// The subscriptions have every status and every manager. Their fields include those that no client sees: `anchor_at`,
/// and a part of `billing`.
pub async fn every_field_of_a_subscription_reads_back(store: Arc<dyn Store>) {
    let managers = ManagedBy::ALL.into_iter().cycle();
    let full = SubscriptionStatus::all().zip(managers).zip(1..);
    let full = full.map(|((status, managed_by), n)| Subscription {
        user_id: user(7),
        billing_cycle: BillingCycle::every(10, CycleUnit::Day).unwrap(),
        status,
        is_active: false,
        starts_at: at(20),
        ends_at: Some(at(40)),
        metadata: metadata(),
        updated_at: at(99),
        blocked: true,
        anchor_at: Some(at(30)),
        managed_by,
        quantity: Quantity::new(Quantity::MAX.into()).unwrap(),
        billing: Some(Box::new(billing(n))),
        live_key: Some(format!("'\"é {n}").into()),
        ..subscription(n)
    });
    let bare =
        Subscription { external_subscription_id: None, renews_at: None, ..subscription(100) };
    // Only one field of the billing state is set.
    let pause = ScheduledChange::Pause { resumes_at: None };
    let billing = BillingState { scheduled_change: Some(pause), ..BillingState::default() };
    let paused = Subscription { billing: Some(Box::new(billing)), ..subscription(101) };
    let records = full.chain([bare, paused]).map(Record::from).collect();

    assert_reads_back(&store, records).await;
}

/// The payments have every status and every kind. Their fields include those that no client sees: `settled`, and a part
/// of `asked`.
pub async fn every_field_of_a_payment_reads_back(store: Arc<dyn Store>) {
    let kinds = PaymentKind::ALL.into_iter().cycle();
    let full = PaymentStatus::all().zip(kinds).zip(1..);
    let full = full.map(|((status, kind), n)| Payment {
        subscription_id: subscription(n).id,
        amount: parsed("1.000"),
        currency: parsed("KWD"),
        status,
        metadata: metadata(),
        updated_at: at(99),
        settled: true,
        ..asked_payment(n, kind, n)
    });
    let bare = Payment { external_payment_id: None, ..payment(100) };
    let mut endless = asked_payment(101, PaymentKind::Initial, 1);
    if let Some(asked) = &mut endless.asked {
        asked.period_end = None;
        asked.next_attempt_at = None;
        asked.attempt = 7;
        asked.retries = 15;
        asked.cycle = BillingCycle::ONE_TIME;
    }
    let mut mirrored = asked_payment(102, PaymentKind::Renewal, 1);
    if let Some(asked) = &mut mirrored.asked {
        asked.mirrored = true;
    }
    let records = full.chain([bare, endless, mirrored]).map(Record::from).collect();

    assert_reads_back(&store, records).await;
}

/// The result in the idempotency record is the record as it was then, whatever happened to it since.
pub async fn every_field_of_a_kept_answer_reads_back(store: Arc<dyn Store>) {
    let anchor_at = Some(at(3));
    let metadata = metadata();
    let full = Plan { metadata: metadata.clone(), ..plan(1) };
    let blocked = Subscription {
        blocked: true,
        anchor_at,
        metadata: metadata.clone(),
        managed_by: ManagedBy::Clock,
        quantity: Quantity::new(3).unwrap(),
        billing: Some(Box::new(billing(1))),
        live_key: Some("live".into()),
        ..subscription(1)
    };
    let settled =
        Payment { settled: true, metadata, ..asked_payment(1, PaymentKind::Proration, 1) };
    let kept = [
        (Operation::CreatePlan, IdempotencyResult::Plan(plan(1).into())),
        (Operation::CreatePlan, IdempotencyResult::Plan(full.into())),
        (Operation::CreateSubscription, IdempotencyResult::Subscription(blocked.into())),
        (Operation::CreatePayment, IdempotencyResult::Payment(settled.into())),
    ];
    let records = kept.into_iter().zip(1..).map(|((operation, kept), n)| {
        let mut record = IdempotencyRecord { result: kept, ..answer(n) };
        record.fingerprint = std::array::from_fn(|n| u8::try_from(n * 8).unwrap());
        record.key.operation = operation;
        "Клиент '1'; --".clone_into(&mut record.key.client);
        Record::from(record)
    });

    assert_reads_back(&store, records.collect()).await;
}

/// No part of the previous metadata stays, whatever the kind of record.
pub async fn metadata_is_replaced_whole_and_cleared(store: Arc<dyn Store>) {
    let other = Metadata::new([("a", "1")]).unwrap();
    for (version, metadata) in [metadata(), other.clone(), None, other].into_iter().enumerate() {
        let records = [
            Record::from(Plan { metadata: metadata.clone(), ..plan(1) }),
            Record::from(Subscription { metadata: metadata.clone(), ..subscription(1) }),
            Record::from(Payment { metadata, ..payment(1) }),
        ];
        let version = u64::try_from(version + 1).unwrap();

        assert_reads_back(&store, records.map(|record| at_version(record, version)).to_vec()).await;
    }
}

/// Times are exact to the microsecond, from the first possible time to the last.
pub async fn times_read_back_to_the_microsecond(store: Arc<dyn Store>) {
    let times = [
        Timestamp::MIN,
        parsed("1970-01-01T00:00:00.000001Z"),
        parsed("2024-02-29T23:59:59.999999Z"),
        Timestamp::MAX,
    ];
    let records = times.into_iter().zip(1..).map(|(time, n)| {
        Record::from(Subscription {
            renews_at: Some(time),
            ends_at: Some(time),
            anchor_at: Some(time),
            billing: Some(Box::new(BillingState {
                next_action_at: Some(time),
                ..BillingState::default()
            })),
            updated_at: time,
            ..subscription(n)
        })
    });

    assert_reads_back(&store, records.collect()).await;
}

/// Amounts keep every digit, including zeros at the end.
pub async fn amounts_read_back_digit_for_digit(store: Arc<dyn Store>) {
    let amounts = ["0", "0.00", "1", "1.0", "1.000000", "0.000001", "999999999999999.999999"];
    let records = amounts.into_iter().zip(1..).flat_map(|(amount, n)| {
        [
            Record::from(Plan { price: parsed(amount), ..plan(n) }),
            Record::from(Payment { amount: parsed(amount), ..payment(n) }),
            Record::from(Subscription {
                billing: Some(Box::new(BillingState {
                    price: Some(parsed(amount)),
                    credit: parsed(amount),
                    ..BillingState::default()
                })),
                ..subscription(n)
            }),
        ]
    });

    assert_reads_back(&store, records.collect()).await;
}

/// Text of any script and of full length is stored as it is: nothing is folded, trimmed or taken for syntax.
pub async fn text_reads_back_character_for_character(store: Arc<dyn Store>) {
    let longest = "🦀".repeat(200);
    let syntax = ["'\"\\%_;--\u{2028}", "1:a,:;2,", ":,;", "3"];
    let texts = ["Ünïcode", "e\u{301}", "日本語", "عربى", "👩‍👩‍👧", &longest].into_iter().chain(syntax);
    let records = texts.zip(1..).flat_map(|(text, n)| {
        let plan = Plan {
            name: parsed(text),
            description: parsed(text),
            features: parsed(text),
            product_id: Some(parsed(text)),
            variants: vec![parsed(text), parsed(","), parsed("[]")],
            ..plan(n)
        };
        let external_subscription_id = Some(parsed(text));
        let subscription = Subscription { external_subscription_id, ..subscription(n) };
        let payment = Payment { external_payment_id: Some(parsed(text)), ..payment(n) };
        [Record::from(plan), Record::from(subscription), Record::from(payment)]
    });

    assert_reads_back(&store, records.collect()).await;
}
