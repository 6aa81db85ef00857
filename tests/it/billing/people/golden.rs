//! Golden numbers: the quotes of changes by users, and what holds after their payments.

use subscription_core::plans::Reduction;
use subscription_core::{NewDiscount, PaymentStatus, SubscriptionChanges, SubscriptionStatus};
use test_support::service_world::of;

use PaymentStatus::{Canceled, Failed, Succeeded};

use super::{Shop, in_words};

/// A change that costs something: the quote, the state once it is paid, and the state before and after a failure.
async fn costs(make: impl AsyncFn() -> Shop, day: &str, to: (&str, &str), expected: [&str; 3]) {
    let [quoted, paid, before] = expected;
    for end in [Some(Succeeded), Some(Failed), Some(Canceled), None] {
        let shop = make().await;
        shop.until(day).await;
        let count = shop.payments().await.len();

        let quote = shop.change(to.0, to.1).await;

        assert_eq!(in_words(&quote), quoted);
        assert_eq!(shop.state().await, before, "nothing is changed before the payment");
        assert_eq!(shop.payments().await.len(), count + 1);
        let waits = shop.now().await;
        assert_eq!(waits.scheduled_plan_id(), Some(quote.subscription_plan_id));
        match end {
            Some(Succeeded) => drop(shop.report(Succeeded).await),
            Some(end) => assert_eq!(shop.report(end).await, Some(Canceled)),
            None => {
                let lapses = quote.at.saturating_add(std::time::Duration::from_hours(23));
                assert_eq!(waits.next_action_at(), Some(lapses));
                shop.clock.set(lapses);
                shop.billing.advance(10).await.unwrap();
                assert_eq!(shop.payments().await.first().unwrap().status, Canceled);
            }
        }
        assert_eq!(
            shop.state().await,
            if end == Some(Succeeded) { paid } else { before },
            "{end:?}"
        );
        let now = shop.now().await;
        assert_eq!((now.status, now.scheduled_change()), (SubscriptionStatus::Active, None));
        assert_eq!(now.past_due_since(), None);
    }
}

/// A change at the end of the period: the quote, and the state after the period.
async fn waits(shop: Shop, day: &str, to: (&str, &str), quoted: &str, until: &str, then: &str) {
    shop.until(day).await;
    let before = shop.state().await;
    let count = shop.payments().await.len();

    let quote = shop.change(to.0, to.1).await;

    assert_eq!((in_words(&quote), shop.state().await), (quoted.to_owned(), before));
    assert_eq!(shop.payments().await.len(), count, "nothing is paid");
    shop.until(until).await;
    assert_eq!(shop.state().await, then);
}

fn off(percent: &str, periods: u32) -> NewDiscount {
    NewDiscount { off: Reduction::Percent(of(percent)), periods: Some(periods) }
}

#[tokio::test]
async fn a_dearer_plan_is_made_when_it_is_paid() {
    for (credit, quoted, paid, before) in [
        (
            "0",
            "now due 5.00, credit 0.00, next 20.00",
            "20 monthly, credit 0.00",
            "10 monthly, credit 0.00",
        ),
        (
            "3",
            "now due 2.00, credit 0.00, next 20.00",
            "20 monthly, credit 0.00",
            "10 monthly, credit 3.00",
        ),
    ] {
        let make = async || {
            let shop = Shop::new("10", "monthly").await;
            let credit = SubscriptionChanges { credit: Some(of(credit)), ..Default::default() };
            shop.billing.service().update_subscription(shop.held.id, credit).await.unwrap();
            shop
        };
        let renews = |state: &str| format!("{state}, renews 2026-05-01");
        costs(make, "2026-04-16", ("20", "monthly"), [quoted, &renews(paid), &renews(before)])
            .await;
    }
}

#[tokio::test]
async fn a_change_that_credit_pays_for_is_made_at_once() {
    let shop = Shop::new("10", "monthly").await;
    let credit = SubscriptionChanges { credit: Some(of("7")), ..Default::default() };
    shop.billing.service().update_subscription(shop.held.id, credit).await.unwrap();
    shop.until("2026-04-16").await;

    let quote = shop.change("20", "monthly").await;

    assert_eq!(in_words(&quote), "now due 0.00, credit 2.00, next 18.00");
    assert_eq!(shop.state().await, "20 monthly, credit 2.00, renews 2026-05-01");
    assert_eq!(shop.payments().await.len(), 1);
}

#[tokio::test]
async fn a_plan_of_another_cycle_starts_its_period_with_its_payment() {
    let make = async || Shop::new("12", "monthly").await;
    let expected = [
        "now due 112.00, credit 0.00, next 120.00",
        "120 yearly, credit 0.00, renews 2027-04-11",
        "12 monthly, credit 0.00, renews 2026-05-01",
    ];
    costs(make, "2026-04-11", ("120", "yearly"), expected).await;
}

#[tokio::test]
async fn a_free_plan_is_left_with_the_first_payment() {
    let make = async || Shop::new("0", "monthly").await;
    let expected = [
        "now due 20.00, credit 0.00, next 20.00",
        "20 monthly, credit 0.00, renews 2026-05-11",
        "0 monthly, credit 0.00, renews 2026-05-01",
    ];
    costs(make, "2026-04-11", ("20", "monthly"), expected).await;
}

#[tokio::test]
async fn another_plan_ends_the_discount_only_if_it_is_paid() {
    let make = async || Shop::with("20", "monthly", |new| new.discount = Some(off("50", 6))).await;
    let expected = [
        "now due 2.50, credit 0.00, next 15.00",
        "15 monthly, credit 0.00, renews 2026-05-01",
        "20 monthly, credit 0.00, 1 periods used, renews 2026-05-01",
    ];
    costs(make, "2026-04-16", ("15", "monthly"), expected).await;
}

#[tokio::test]
async fn a_cheaper_plan_waits_for_the_end_of_the_period_and_gives_no_credit() {
    let quoted = "period_end due 0.00, credit 0.00, next 10.00";
    let then = "10 monthly, credit 0.00, renews 2026-06-01";
    waits(
        Shop::new("20", "monthly").await,
        "2026-04-16",
        ("10", "monthly"),
        quoted,
        "2026-05-02",
        then,
    )
    .await;

    let quoted = "period_end due 0.00, credit 0.00, next 12.00";
    let then = "12 monthly, credit 0.00, renews 2027-02-01";
    waits(
        Shop::new("120", "yearly").await,
        "2026-04-11",
        ("12", "monthly"),
        quoted,
        "2027-01-02",
        then,
    )
    .await;

    let quoted = "period_end due 0.00, credit 0.00, next 0.00";
    let then = "0 monthly, credit 0.00, renews 2026-06-01";
    waits(
        Shop::new("20", "monthly").await,
        "2026-04-11",
        ("0", "monthly"),
        quoted,
        "2026-05-02",
        then,
    )
    .await;
}
