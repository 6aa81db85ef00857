//! The records of the cases: the same in every run, each named by a number.
//!
//! Numbers follow the order of creation, and in pairs the order of everything that lists are sorted
//! by: records 6 and 7 have the same tier, price, name and renewal, which come after those of 4 and
//! 5. So records come in the order of their numbers, whatever they are sorted by.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use crate::accounts::{
    Client, ClientKey, ClientKind, ClientSource, IdentityKey, Origin, Scope, Session, User,
};
use crate::events::{Actor, Change, Event, Subject};
use crate::payments::{
    Basis, Line, LineKind, Payment, PaymentKind, PaymentStatus, RequestedPayment,
};
use crate::plans::{BillingCycle, Features, NodeQuota, Plan, Reduction, Tier};
use crate::store::{Collection, Document, DocumentKey};
use crate::store::{IdempotencyKey, IdempotencyRecord, IdempotencyResult, Operation, Record};
use crate::subscriptions::{
    BillingState, Cancellation, Discount, ManagedBy, Quantity, ScheduledChange, Subscription,
    SubscriptionStatus, Terms,
};
use crate::values::randomness::SeededRandomness;
use crate::values::{
    Description, EventId, Metadata, PaymentId, PlanId, SessionId, SubscriptionId, Timestamp,
    UserId, Version,
};
use std::sync::Arc;
use uuid::Uuid;

/// Parses a value.
pub(super) fn parsed<T: FromStr<Err: Debug>>(text: impl AsRef<str>) -> T {
    text.as_ref().parse().unwrap()
}

/// A time, in seconds after the start of the cases.
pub(super) fn at(seconds: u64) -> Timestamp {
    let begin: Timestamp = parsed("2025-01-31T00:00:00.123456Z");
    begin.saturating_add(Duration::from_secs(seconds))
}

/// Metadata at its limits: twenty keys, in no sorted order, of any script.
pub(super) fn metadata() -> Option<Metadata> {
    let long = (0..18).rev().map(|n| (format!("{n:\u{1f980}>40}"), "\u{1f980}".repeat(500)));
    let short = [("b\"\\ ", ""), ("a", "'\"\\%_;--\u{2028}")];
    let short = short.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Metadata::new(short.into_iter().chain(long)).unwrap()
}

pub(super) fn plan(n: u64) -> Plan {
    Plan {
        id: PlanId::new(at(n), &SeededRandomness::new(n)).unwrap(),
        name: parsed(format!("Plan {:04}", n / 2)),
        product_id: None,
        variants: Vec::new(),
        slug: parsed(format!("plan-{n}")),
        // Both plans of a pair have the same price, written with different digits.
        price: parsed(if n.is_multiple_of(2) {
            format!("{}.5", n / 2)
        } else {
            format!("{}.50", n / 2)
        }),
        currency: None,
        href: None,
        billing_cycle: BillingCycle::MONTHLY,
        trial_period: None,
        description: Description::default(),
        node_quota: NodeQuota::default(),
        features: Features::default(),
        most_popular: false,
        tier: Tier::new(n / 2).unwrap(),
        is_active: true,
        metadata: None,
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
    }
}

pub(super) fn user(n: u64) -> UserId {
    UserId::new(at(n), &SeededRandomness::new(n)).unwrap()
}

/// The subscription with number `n`, to the plan with number `n`.
pub(super) fn subscription(n: u64) -> Subscription {
    Subscription {
        id: SubscriptionId::new(at(n), &SeededRandomness::new(n)).unwrap(),
        user_id: user(n),
        subscription_plan_id: plan(n).id,
        external_subscription_id: Some(parsed(format!("subscription {n}"))),
        billing_cycle: BillingCycle::MONTHLY,
        status: SubscriptionStatus::Active,
        is_active: true,
        renews_at: Some(at(10_000 + n / 2)),
        starts_at: at(n),
        ends_at: None,
        metadata: None,
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
        blocked: false,
        anchor_at: None,
        managed_by: ManagedBy::Caller,
        quantity: Quantity::ONE,
        billing: None,
        live_key: None,
    }
}

/// A payment for subscription 0. All payments are for this subscription, so that all of them are in one list.
pub(super) fn payment(n: u64) -> Payment {
    Payment {
        id: PaymentId::new(at(n), &SeededRandomness::new(n)).unwrap(),
        subscription_id: subscription(0).id,
        amount: parsed("19.90"),
        currency: parsed("EUR"),
        external_payment_id: Some(parsed(format!("payment {n}"))),
        status: PaymentStatus::Pending,
        metadata: None,
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
        settled: false,
        asked: None,
    }
}

/// A billing state with all fields set, which is due after `n` seconds.
pub(super) fn billing(n: u64) -> BillingState {
    BillingState {
        price: Some(parsed("10.50")),
        currency: Some(parsed("EUR")),
        credit: parsed("0.10"),
        trial_ends_at: Some(at(n + 1)),
        resumes_at: Some(at(n + 2)),
        current_period_start: Some(at(n + 3)),
        past_due_since: Some(at(n + 4)),
        next_action_at: Some(at(n)),
        scheduled_change: Some(ScheduledChange::ChangePlan(Terms {
            subscription_plan_id: plan(n).id,
            billing_cycle: BillingCycle::YEARLY,
            price: parsed("99.000"),
            currency: parsed("KWD"),
            quantity: Quantity::new(Quantity::MAX.into()).unwrap(),
        })),
        discount: Some(Discount {
            off: Reduction::Percent(parsed("12.50")),
            periods: Some(3),
            used: 1,
            applied: true,
        }),
        period_value: parsed("21.00"),
        dunning_ended_at: Some(at(n + 5)),
        lapses_at: Some(at(n + 6)),
        reminded_for: Some(at(n + 7)),
        settled_at: Some(at(n + 8)),
        credit_of_changes: parsed("1.00"),
        cancelled: Some(Cancellation {
            status: SubscriptionStatus::OnTrial,
            ends_at: Some(at(n + 9)),
            by_user: true,
        }),
        manage_url: Some(parsed("https://provider.example/manage?a=1")),
    }
}

/// The subscription with number `n`, whose next step is due after `seconds`.
pub(super) fn due_subscription(n: u64, seconds: u64) -> Subscription {
    let billing = BillingState { next_action_at: Some(at(seconds)), ..BillingState::default() };
    let managed_by = ManagedBy::Clock;
    Subscription { managed_by, billing: Some(Box::new(billing)), ..subscription(n) }
}

/// The inputs of an amount, with all fields.
fn basis() -> Basis {
    let line = |kind, amount| Line { kind, amount: parsed(amount) };
    let lines = vec![line(LineKind::Change, "19.90"), line(LineKind::Unused, "9.95")];
    let plan = PlanId::from(Uuid::from_u128(7));
    let off = Reduction::Amount(parsed("5.00"));
    Basis::new(plan, parsed("19.90"), 3, Some(off), lines)
}

/// The payment with number `n`, for the period of subscription 0 that starts after `start` seconds. It is to be
/// collected then, and to be retried 10 seconds later.
pub(super) fn asked_payment(n: u64, kind: PaymentKind, start: u64) -> Payment {
    let asked = RequestedPayment {
        kind,
        period_start: at(start),
        period_end: Some(at(start + 5)),
        due_at: at(start),
        attempt: 1,
        next_attempt_at: Some(at(start + 10)),
        retries: 0,
        value: parsed("19.90"),
        cycle: BillingCycle::MONTHLY,
        mirrored: false,
        by_clock: true,
        basis: Some(basis()),
    };
    Payment { asked: Some(Box::new(asked)), ..payment(n) }
}

/// The account of user `n`.
pub(super) fn account(n: u64) -> User {
    User {
        id: user(n),
        identity: IdentityKey {
            issuer: parsed("https://id.example.com"),
            subject: parsed(format!("subject {n}")),
        },
        email: parsed(format!("user-{n}@example.com")),
        closing: false,
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
    }
}

/// A session of user 0, which ends after `n` seconds. All sessions are of this user, so that all of them are in one
/// list.
pub(super) fn session(n: u64) -> Session {
    Session {
        id: SessionId::new(at(n), &SeededRandomness::new(n)).unwrap(),
        user_id: user(0),
        client_id: parsed("web"),
        issuer: parsed("https://id.example.com"),
        opened_with: [1; 32],
        key_id: 1,
        salt: [2; 16],
        generation: 1,
        rotated_at: at(n),
        successor_used: false,
        auth_time: at(n),
        last_seen_at: at(n),
        expires_at: at(2 * n),
        idle_expires_at: at(n),
        revoked: None,
        origin: Origin::default(),
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
    }
}

pub(super) fn client(n: u64) -> Client {
    Client {
        id: parsed(format!("client-{n:04}")),
        name: parsed(format!("Client {n}")),
        kind: ClientKind::Confidential,
        scopes: [Scope::Auth, Scope::PlansWrite].into(),
        keys: vec![ClientKey { key_id: 1, hash: [3; 32], created_at: at(n) }],
        revoked_at: None,
        origins: [].into(),
        source: ClientSource::Command,
        left_at: None,
        created_at: at(n),
        updated_at: at(n),
        version: Version::FIRST,
    }
}

pub(super) fn request(n: u64) -> IdempotencyKey {
    IdempotencyKey {
        operation: Operation::CreatePlan,
        client: "client".to_owned(),
        key: parsed(format!("request-{n}")),
    }
}

/// The idempotency record of request `n`: its result is plan `n`, and it expires after `n` seconds.
pub(super) fn answer(n: u64) -> IdempotencyRecord {
    IdempotencyRecord {
        key: request(n),
        version: Version::FIRST,
        fingerprint: [u8::try_from(n % 256).unwrap(); 32],
        result: IdempotencyResult::Plan(plan(n).into()),
        expires_at: at(n),
    }
}

/// The event that plan `n` was created.
pub(super) fn event(n: u64) -> Event {
    Event {
        id: EventId::new(at(n), &SeededRandomness::new(n)).unwrap(),
        at: at(n),
        subject: Subject::Plan(plan(n).id),
        version: Version::FIRST,
        change: Change::Created,
        actor: Actor::Library,
    }
}

/// A record of every kind.
pub(super) fn one_of_each(n: u64) -> [Record; 8] {
    [
        Record::from(plan(n)),
        Record::from(subscription(n)),
        Record::from(payment(n)),
        Record::from(account(n)),
        Record::from(session(n)),
        Record::from(client(n)),
        Record::from(answer(n)),
        Record::from(document(n)),
    ]
}

/// The same record at another version.
pub fn at_version(record: impl Into<Record>, version: u64) -> Record {
    let mut record = record.into();
    let version = Version::from(version);
    match &mut record {
        Record::Plan(plan) => Arc::make_mut(plan).version = version,
        Record::Subscription(subscription) => Arc::make_mut(subscription).version = version,
        Record::Payment(payment) => Arc::make_mut(payment).version = version,
        Record::User(user) => Arc::make_mut(user).version = version,
        Record::Session(session) => Arc::make_mut(session).version = version,
        Record::Client(client) => Arc::make_mut(client).version = version,
        Record::Idempotency(answer) => Arc::make_mut(answer).version = version,
        Record::Document(document) => Arc::make_mut(document).version = version,
    }
    record
}

/// A document that is in every list of its collection.
pub(super) fn document(n: u64) -> Document {
    Document {
        key: DocumentKey {
            collection: Collection::named("notes"),
            id: format!("note-{n:03}").parse().unwrap(),
        },
        version: Version::FIRST,
        owner: Some(Uuid::from_u128(1)),
        label: Some("open".parse().unwrap()),
        due_at: Some(at(n)),
        body: format!(r#"{{"n":{n}}}"#).into(),
    }
}
