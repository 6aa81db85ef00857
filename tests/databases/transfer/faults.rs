//! Files that can be read, but whose records do not go together.

use serde_json::{Value, json};
use subscription_core::Store as _;
use subscription_core::auth::User;
use subscription_core::store::Record;
use subscription_core::store::transfer::{ImportOptions, TransferError};
use subscription_core::{Payment, Subscription, SubscriptionStatus};
use test_support::trials;
use test_support::trials::Trial;

use super::refusals::{faults, forged};
use super::sample_records::SampleRecords;
use super::{Movable, commit};
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        every_fault_of_a_file_is_told_with_its_line_and_leaves_nothing,
        each_rule_is_checked,
        numbers_that_leave_no_room_are_refused,
        of_many_faults_the_first_hundred_are_listed,
        two_records_with_one_value_of_what_is_unique_are_refused,
        what_deletions_leave_behind_is_taken,
        a_live_subscription_of_nobody_is_taken_only_for_any_user,
    ]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        every_fault_of_a_file_is_told_by_a_server_and_leaves_nothing,
        two_records_with_one_value_of_what_is_unique_are_refused_by_a_server,
    ]
}

/// One set of records, each with a line of its own: a subscription that is active, and its payment.
struct Home {
    file: String,
    plan: Record,
    subscription: Subscription,
    payment: Payment,
    user: User,
}

async fn home() -> Home {
    let store = sqlite::fresh().await;
    let mut samples = SampleRecords::new();
    let records = samples.one_of_each();
    let [
        plan,
        Record::Subscription(subscription),
        Record::Payment(payment),
        Record::User(user),
        ..,
    ] = &*records
    else {
        panic!("{records:?}")
    };
    let (status, ends_at) = (SubscriptionStatus::Active, None);
    let subscription = Subscription { status, ends_at, ..(**subscription).clone() };
    let (plan, payment, user) = (plan.clone(), (**payment).clone(), (**user).clone());
    let mut writes = records;
    writes[1] = Record::from(subscription.clone());
    let events = writes.iter().filter_map(|write| samples.event(write)).collect();
    let changes = subscription_core::store::ChangeSet { writes, events, ..Default::default() };
    store.commit(changes).await.unwrap();
    let file = String::from_utf8(store.moved_out().await).unwrap();
    Home { file, plan, subscription, payment, user }
}

/// The lines of the file that [`home`] makes.
const PLAN: usize = 2;
const SUBSCRIPTION: usize = 3;
const PAYMENT: usize = 4;
const USER: usize = 5;
const SESSION: usize = 6;
const CLIENT: usize = 7;
const ANSWER: usize = 8;
const DOCUMENT: usize = 9;
const FIRST_EVENT: usize = 10;
const LAST_EVENT: usize = 15;

/// Replaces the value of a field in a line, and keeps the order of the others.
fn set(lines: &mut [String], line: usize, field: &str, value: &Value) {
    let text = &mut lines[line - 1];
    let record = text.find("\"record\":").unwrap_or_default();
    let start = record + text[record..].find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
    let mut rest = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    rest.next().unwrap().unwrap();
    let end = start + rest.byte_offset();
    text.replace_range(start..end, &value.to_string());
}

fn with(file: &str, edits: &[(usize, &str, Value)]) -> String {
    forged(file, |lines| {
        for (line, field, value) in edits {
            set(lines, *line, field, value);
        }
    })
}

/// The billing fields of a payment for a period with this start and `END` for its end.
const ASKED: &str = r#"{"kind":"renewal","period_start":"2025-01-31T00:00:00Z","period_end":"END","due_at":"2025-01-31T00:00:00Z","attempt":1,"next_attempt_at":null,"retries":0,"value":1,"cycle":"monthly"}"#;

/// The billing fields of a subscription that is scheduled to change its plan.
const SCHEDULED: &str = r#"{"scheduled_change":{"change_plan":{"subscription_plan_id":"PLAN","billing_cycle":"monthly","price":1,"currency":"EUR","quantity":1}}}"#;

/// The billing fields of a subscription with a discount.
fn discounted(periods: &str, amount: &str, used: u32) -> Value {
    let discount = format!(
        r#"{{"off":{{"amount":{amount}}},"periods":{periods},"used":{used},"applied":false}}"#
    );
    json!(format!(r#"{{"price":10.00,"currency":"USD","discount":{discount}}}"#))
}

const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

async fn all_at_once(store: &impl Movable) {
    let home = home().await;
    let empty = store.moved_out().await;
    let file = with(
        &home.file,
        &[
            (PLAN, "version", json!(0)),
            (SUBSCRIPTION, "subscription_plan_id", json!(NOBODY)),
            (SUBSCRIPTION, "user_id", json!(NOBODY)),
            (PAYMENT, "amount", json!("0")),
            (SESSION, "user_id", json!(NOBODY)),
            (LAST_EVENT, "sequence", json!(99)),
        ],
    );

    let refused = store.move_in(file.as_bytes()).await.unwrap_err();

    let expected = [
        "line 2: version must be at least 1",
        "line 3: subscription_plan_id is not the id of a plan in the file",
        "line 3: user_id is not the id of a user in the file: a file with users must have the user of each live subscription",
        "line 4: amount must be more than 0",
        "line 6: user_id is not the id of a user in the file",
        "line 15: sequence must not exceed the number feed in line 1",
    ];
    assert_eq!(faults(&refused), expected);
    let text = refused.to_string();
    assert!(text.starts_with("the file has 6 faults, and nothing of it was imported\n  line 2: "));
    assert_eq!(store.moved_out().await, empty);
    store.move_in(home.file.as_bytes()).await.unwrap();
    assert_eq!(store.moved_out().await, home.file.as_bytes());
}

async fn every_fault_of_a_file_is_told_with_its_line_and_leaves_nothing() {
    all_at_once(&sqlite::fresh().await).await;
}

async fn every_fault_of_a_file_is_told_by_a_server_and_leaves_nothing() {
    all_at_once(&postgres::fresh().await).await;
}

/// Changes to a file, and the fault that they make.
type Case = (Vec<Edit>, &'static str);
type Edit = (usize, &'static str, Value);

fn of_subscriptions() -> Vec<Case> {
    let (early, start) = (json!("1970-01-01T00:00:00Z"), json!("2025-01-31T00:00:00Z"));
    let line = SUBSCRIPTION;
    let (credit, due) = (r#"{"credit":1}"#, r#"{"next_action_at":"2025-01-31T00:00:00Z"}"#);
    vec![
        (
            vec![(line, "starts_at", start.clone()), (line, "renews_at", early.clone())],
            "line 3: renews_at must not be before starts_at",
        ),
        (
            vec![(line, "starts_at", start), (line, "ends_at", early)],
            "line 3: ends_at must not be before starts_at",
        ),
        (
            vec![(line, "status", json!("cancelled"))],
            "line 3: ends_at must be set: the status is cancelled",
        ),
        (
            vec![(line, "status", json!("expired"))],
            "line 3: ends_at must be set: the status is expired",
        ),
        (
            vec![(line, "is_active", json!(true)), (line, "blocked", json!(true))],
            "line 3: is_active must not be true: the subscription is blocked",
        ),
        (
            vec![(line, "managed_by", json!("clock")), (line, "billing", json!(null))],
            "line 3: price must be set, because managed_by is clock",
        ),
        (
            vec![(line, "managed_by", json!("clock")), (line, "billing", json!(credit))],
            "line 3: currency must be set, because managed_by is clock",
        ),
        (
            vec![(line, "managed_by", json!("provider")), (line, "billing", json!(due))],
            "line 3: next_action_at must be null: managed_by is provider",
        ),
        (
            vec![(line, "billing", json!(SCHEDULED.replace("PLAN", NOBODY)))],
            "line 3: billing.scheduled_change has a plan that is not in the file",
        ),
        (
            vec![(line, "billing", json!("{"))],
            "line 3: EOF while parsing an object at line 1 column 1",
        ),
    ]
}

fn of_discounts() -> Vec<Case> {
    let unsound = "line 3: discount must fit the currency; discount.periods must be null, or 1 to 120 and not below the periods used";
    let unbilled = "line 3: discount is only for a subscription whose managed_by is clock";
    [
        ("clock", discounted("3", "1.00", 4), unsound),
        ("clock", discounted("121", "1", 0), unsound),
        ("clock", discounted("null", "1.001", 0), unsound),
        ("clock", discounted("1", "0.00", 0), unsound),
        ("provider", discounted("1", "1", 0), unbilled),
    ]
    .into_iter()
    .map(|(by, billing, expected)| {
        let edits =
            vec![(SUBSCRIPTION, "managed_by", json!(by)), (SUBSCRIPTION, "billing", billing)];
        (edits, expected)
    })
    .collect()
}

fn of_payments() -> Vec<Case> {
    let line = PAYMENT;
    vec![
        (
            vec![(line, "currency", json!("JPY")), (line, "amount", json!("5.00"))],
            "line 4: amount must have at most 0 digits after the point in JPY",
        ),
        (
            vec![(line, "currency", json!("USD")), (line, "amount", json!("5.123"))],
            "line 4: amount must have at most 2 digits after the point in USD",
        ),
        (
            vec![(line, "status", json!("succeeded")), (line, "settled", json!(false))],
            "line 4: settled must be true: the status of the payment is succeeded",
        ),
        (vec![(line, "version", json!(0))], "line 4: version must be at least 1"),
        (
            vec![(line, "asked", json!(ASKED.replace("END", "2025-01-31T00:00:00Z")))],
            "line 4: period_end must be after period_start",
        ),
    ]
}

fn of_others() -> Vec<Case> {
    let public = (CLIENT, "kind", json!("public"));
    let key = json!([{"key_id": 0, "hash": vec![0; 32], "created_at": "2025-01-31T00:00:00Z"}]);
    let scopes = |scopes: Value| (CLIENT, "scopes", scopes);
    vec![
        (
            vec![(USER, "email_key", json!("other@example.com"))],
            "line 5: email_key does not match email: was this line edited?",
        ),
        (
            vec![public.clone(), scopes(json!(["payments:write"])), (CLIENT, "keys", json!([]))],
            "line 7: scopes must not have payments:write: the client is public",
        ),
        (
            vec![public, scopes(json!([])), (CLIENT, "keys", key)],
            "line 7: keys must be empty: a public client has no keys",
        ),
        (vec![(DOCUMENT, "body", json!("{\"a\":"))], "line 9: body must be JSON"),
        (
            vec![(DOCUMENT, "body", json!(format!("\"{}\"", "x".repeat(65_535))))],
            "line 9: body must have at most 65536 bytes",
        ),
        (
            vec![(FIRST_EVENT, "sequence", json!(0))],
            "line 10: sequence must rise from event to event",
        ),
        (
            vec![(1, "feed", json!(3))],
            "line 13: sequence must not exceed the number feed in line 1",
        ),
    ]
}

async fn each_rule_is_checked() {
    let (home, store) = (home().await, sqlite::fresh().await);
    let empty = store.moved_out().await;
    for (edits, expected) in
        [of_subscriptions(), of_discounts(), of_payments(), of_others()].concat()
    {
        let file = with(&home.file, &edits);

        let refused = store.move_in(file.as_bytes()).await.unwrap_err();

        assert!(faults(&refused).contains(&expected.to_owned()), "{expected}: {refused}");
        assert_eq!(store.moved_out().await, empty, "{expected}");
    }
    let other = match home.file.lines().nth(ANSWER - 1).unwrap() {
        line if line.contains("create_plan") => "create_payment",
        _ => "create_plan",
    };
    let file = with(&home.file, &[(ANSWER, "operation", json!(other))]);
    let refused = store.move_in(file.as_bytes()).await.unwrap_err();
    let expected =
        format!("line 8: operation {other} stores the wrong kind of record as its result");
    assert_eq!(faults(&refused)[0], expected, "{refused}");
}

/// From the greatest that the database could hold no next one would follow, and every write would fail.
async fn numbers_that_leave_no_room_are_refused() {
    let (home, store) = (home().await, sqlite::fresh().await);
    let (too_great, great) = (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64));
    for (line, field) in
        [(1, "feed"), (PLAN, "version"), (USER, "version"), (FIRST_EVENT, "version")]
    {
        for number in [too_great.clone(), json!(i64::MAX)] {
            let file = with(&home.file, &[(line, field, number.clone())]);

            let refused = store.move_in(file.as_bytes()).await.unwrap_err();

            let expected = format!("line {line}: {field} must be at most 9007199254740992");
            assert_eq!(faults(&refused), [expected], "{number}");
        }
    }
    let file = with(&home.file, &[(1, "feed", great.clone()), (LAST_EVENT, "sequence", great)]);
    store.move_in(file.as_bytes()).await.unwrap();
    commit(&store, vec![Record::from(crate::records::plan("next"))]).await;
}

async fn of_many_faults_the_first_hundred_are_listed() {
    let (home, store) = (sqlite::fresh().await, sqlite::fresh().await);
    SampleRecords::new().fill(&home, 130).await;
    let file = String::from_utf8(home.moved_out().await).unwrap();
    let file = forged(&file, |lines| {
        for line in 2..132 {
            set(lines, line, "version", &json!(0));
        }
    });

    let refused = store.move_in(file.as_bytes()).await.unwrap_err();

    let TransferError::Faulty(told) = &refused else { panic!("{refused:?}") };
    assert_eq!((told.listed().count(), told.total()), (100, 130));
    assert!(refused.to_string().ends_with("\n  and 30 more"), "{refused}");
}

async fn one_value_twice(store: &impl Movable) {
    let home = sqlite::fresh().await;
    SampleRecords::new().fill(&home, 2).await;
    let file = String::from_utf8(home.moved_out().await).unwrap();
    let empty = store.moved_out().await;
    let asked = ASKED.replace("END", "2025-02-28T00:00:00Z");
    let period =
        [("subscription_id", json!(NOBODY)), ("status", json!("pending")), ("asked", json!(asked))];
    for (lines, edits, named) in [
        ([2, 3], vec![("slug", json!("same"))], "slug"),
        ([4, 5], vec![("live_key", json!("same"))], "live"),
        ([6, 7], period.to_vec(), "period"),
    ] {
        let edit = |line| edits.iter().map(move |(field, value)| (line, *field, value.clone()));
        let edits: Vec<_> = lines.into_iter().flat_map(edit).collect();
        let file = with(&file, &edits);

        let refused = store.move_in(file.as_bytes()).await.unwrap_err();

        let faults = faults(&refused);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let [first, last] = lines;
        let place = format!("one of lines {first} to {last}: ");
        assert!(faults[0].starts_with(&place), "{faults:?}");
        assert!(faults[0].contains(named), "{faults:?}");
        assert_eq!(store.moved_out().await, empty);
    }
}

async fn two_records_with_one_value_of_what_is_unique_are_refused() {
    one_value_twice(&sqlite::fresh().await).await;
}

async fn two_records_with_one_value_of_what_is_unique_are_refused_by_a_server() {
    one_value_twice(&postgres::fresh().await).await;
}

/// A payment outlives its subscription, an expired subscription its user and its plan.
async fn what_deletions_leave_behind_is_taken() {
    let (home, from, store) = (home().await, sqlite::fresh().await, sqlite::fresh().await);
    let gone = NOBODY.parse().unwrap();
    let Home { subscription, payment, user, .. } = home;
    let expired = Subscription {
        user_id: gone,
        status: SubscriptionStatus::Expired,
        ends_at: Some(subscription.starts_at),
        ..subscription
    };
    let payment = Payment { subscription_id: NOBODY.parse().unwrap(), ..payment };
    let left = vec![home.plan, Record::from(expired), Record::from(payment), Record::from(user)];
    commit(&from, left).await;
    let file = from.moved_out().await;

    store.move_in(&file).await.unwrap();

    assert_eq!(store.moved_out().await, file);
}

/// A service that does not check users takes subscriptions for anybody, and may have accounts besides.
async fn a_live_subscription_of_nobody_is_taken_only_for_any_user() {
    let home = home().await;
    let foreign = Subscription { user_id: NOBODY.parse().unwrap(), ..home.subscription };
    let foreign = vec![home.plan, Record::from(foreign)];
    let without_accounts = sqlite::fresh().await;
    commit(&without_accounts, foreign.clone()).await;
    let with_accounts = sqlite::fresh().await;
    commit(&with_accounts, [foreign, vec![Record::from(home.user)]].concat()).await;
    let file = with_accounts.moved_out().await;
    let store = sqlite::fresh().await;

    sqlite::fresh().await.move_in(&without_accounts.moved_out().await).await.unwrap();
    let refused = store.move_in(&file).await.unwrap_err();
    store.move_in_with(&file, ImportOptions::default().for_any_user()).await.unwrap();

    let expected = "line 3: user_id is not the id of a user in the file: a file with users must have the user of each live subscription";
    assert_eq!(faults(&refused), [expected]);
    assert_eq!(store.moved_out().await, file);
}
