//! The figures of now.

use std::time::Duration;

use subscription_core::figures::PLANS_MAX;
use subscription_core::subscriptions::BillingState;
use subscription_core::{Quantity, SubscriptionStatus, Timestamp};
use test_support::service_world::{at, of};

use super::{Book, NOW};

/// Currency, `mrr`, `at_risk`, `committed` and `trial`.
async fn money(book: &Book) -> Vec<String> {
    let money = book.now().await.money.clone();
    let shown = money.iter().map(|money| {
        let currency = money.currency.map_or_else(|| "-".to_owned(), |code| code.to_string());
        format!("{currency} {} {} {} {}", money.mrr, money.at_risk, money.committed, money.trial)
    });
    shown.collect()
}

fn later(micros: i64) -> Timestamp {
    Timestamp::from_micros(at(NOW).micros() + micros).unwrap()
}

#[tokio::test]
async fn a_subscription_counts_by_its_status() {
    let cases = [
        (SubscriptionStatus::Pending, None, None),
        (SubscriptionStatus::OnTrial, None, Some("USD 0.00 0.00 0.00 10.00")),
        (SubscriptionStatus::OnTrial, Some(later(1)), None),
        (SubscriptionStatus::Active, None, Some("USD 10.00 0.00 10.00 0.00")),
        (SubscriptionStatus::Active, Some(later(1)), Some("USD 10.00 0.00 0.00 0.00")),
        (SubscriptionStatus::Active, Some(later(0)), None),
        (SubscriptionStatus::PastDue, None, Some("USD 10.00 10.00 10.00 0.00")),
        (SubscriptionStatus::PastDue, Some(later(1)), Some("USD 10.00 10.00 0.00 0.00")),
        (SubscriptionStatus::Unpaid, None, None),
        (SubscriptionStatus::Paused, None, None),
        (SubscriptionStatus::Cancelled, Some(later(1)), Some("USD 10.00 0.00 0.00 0.00")),
        (SubscriptionStatus::Cancelled, Some(later(0)), None),
        (SubscriptionStatus::Expired, Some(later(1)), None),
    ];
    for (status, ends_at, expected) in cases {
        let book = Book::new();
        let plan = book.plan("10.00", Some("USD"), "monthly").await;
        book.held(&plan, |held| (held.status, held.ends_at) = (status, ends_at)).await;

        let now = book.now().await;

        let shown = money(&book).await;
        assert_eq!(shown.first().map(String::as_str), expected, "{status} {ends_at:?}");
        let counts = expected.is_some_and(|shown| shown.contains("USD 10"));
        assert_eq!(now.paying_users, u64::from(counts), "{status} {ends_at:?}");
        assert_eq!(now.plans[0].subscriptions, u64::from(counts), "{status} {ends_at:?}");
        assert_eq!(now.subscriptions.values().sum::<u64>(), 1, "{status}");
        assert_eq!((now.subscriptions.len(), now.subscriptions[&status]), (8, 1), "{status}");
        assert_eq!(now.as_of, at(NOW));
    }
}

#[tokio::test]
async fn a_subscription_counts_from_its_start_on() {
    for (start, expected) in [(later(0), 1), (later(1), 0)] {
        let book = Book::new();
        let plan = book.plan("10.00", None, "monthly").await;
        book.held(&plan, |held| held.starts_at = start).await;

        assert_eq!(book.now().await.paying_users, expected, "{start}");
    }
}

#[tokio::test]
async fn a_block_changes_access_and_not_the_revenue() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    book.held(&plan, |_| {}).await;
    book.held(&plan, |held| held.blocked = true).await;

    let now = book.now().await;

    assert_eq!((now.with_access, now.blocked, now.paying_users), (1, 1, 2));
    assert_eq!(money(&book).await, ["USD 20.00 0.00 20.00 0.00"]);
}

#[tokio::test]
async fn price_and_currency_are_those_of_the_subscription_or_else_of_its_plan() {
    let book = Book::new();
    let in_dollars = book.plan("10.00", Some("USD"), "monthly").await;
    let without = book.plan("7", None, "monthly").await;
    let billed = |price: Option<&str>, currency: Option<&str>| {
        let (price, currency) = (price.map(of), currency.map(of));
        Some(Box::new(BillingState { price, currency, ..BillingState::default() }))
    };
    book.held(&in_dollars, |_| {}).await;
    book.held(&in_dollars, |held| held.quantity = Quantity::new(3).unwrap()).await;
    book.held(&in_dollars, |held| held.billing_cycle = of("yearly")).await;
    book.held(&in_dollars, |held| held.billing = billed(Some("2.00"), None)).await;
    book.held(&in_dollars, |held| held.billing = billed(Some("900"), Some("JPY"))).await;
    book.held(&without, |_| {}).await;
    book.held(&without, |held| held.billing = billed(None, Some("EUR"))).await;

    let plans = book.now().await.plans.clone();

    let expected = [
        "EUR 7.00 0.00 7.00 0.00",
        "JPY 900 0 900 0",
        "USD 42.833333 0.00 42.833333 0.00",
        "- 7 0 7 0",
    ];
    assert_eq!(money(&book).await, expected);
    let shown: Vec<_> = plans
        .iter()
        .map(|plan| {
            let money =
                plan.money.iter().map(|money| format!("{:?} {}", money.currency, money.mrr));
            (plan.id, plan.subscriptions, money.collect::<Vec<_>>())
        })
        .collect();
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown[0], (in_dollars.id, 5, texts(&["Some(JPY) 900", "Some(USD) 42.833333"])));
    assert_eq!(shown[1], (without.id, 2, texts(&["Some(EUR) 7.00", "None 7"])));
}

#[tokio::test]
async fn a_user_pays_once_and_a_free_one_does_not() {
    let book = Book::new();
    let (paid, free) =
        (book.plan("10", None, "monthly").await, book.plan("0", None, "monthly").await);
    let once = book.plan("99", None, "one_time").await;
    let first = book.held(&paid, |_| {}).await;
    book.held(&paid, |held| held.user_id = first.user_id).await;
    book.held(&free, |_| {}).await;
    book.held(&once, |_| {}).await;

    let now = book.now().await;

    assert_eq!((now.paying_users, now.with_access), (1, 4));
    assert_eq!(money(&book).await, ["- 20 0 20 0"]);
}

#[tokio::test]
async fn the_largest_plans_are_shown() {
    let book = Book::new();
    let mut plans = Vec::new();
    for _ in 0..PLANS_MAX + 3 {
        book.clock.advance(Duration::from_secs(1));
        plans.push(book.plan("1", None, "monthly").await);
    }
    for plan in &plans[PLANS_MAX..] {
        book.held(plan, |_| {}).await;
    }
    book.held(&plans[PLANS_MAX + 1], |_| {}).await;

    let now = book.now().await;

    let shown: Vec<_> = now.plans.iter().map(|plan| (plan.id, plan.subscriptions)).collect();
    let largest = [(PLANS_MAX + 1, 2), (PLANS_MAX, 1), (PLANS_MAX + 2, 1)];
    assert_eq!(shown[..3], largest.map(|(nth, count)| (plans[nth].id, count)));
    assert_eq!(
        shown[3..],
        plans[..PLANS_MAX - 3].iter().map(|plan| (plan.id, 0)).collect::<Vec<_>>()
    );
    assert_eq!(money(&book).await, ["- 4 0 4 0"]);
}

#[tokio::test]
async fn an_empty_store_has_figures() {
    let now = Book::new().now().await;

    assert!(now.money.is_empty() && now.plans.is_empty());
    assert_eq!(now.subscriptions.values().sum::<u64>(), 0);
}
