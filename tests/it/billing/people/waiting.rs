//! Changes that wait: for a payment, through renewals, cancellations and reports.

use subscription_core::store::PaymentQuery;
use subscription_core::{
    Action, Conflict, Effective, Error, Field, ManagedBy, NewPlan, NewSubscription, PaymentChanges,
    PaymentKind, PaymentStatus, PlanChange, SeededRandomness, SubscriptionChanges,
    SubscriptionStatus, UserId,
};
use test_support::service_world::{at, of, wrong};

use PaymentStatus::{Canceled, Failed, Pending as Asked, Processing, Refunded, Succeeded};

use super::{Shop, in_words};

/// The bank has the money on its way over the renewal. The renewal waits, and is then taken by the terms that hold.
#[tokio::test]
async fn a_renewal_waits_while_the_payment_of_a_change_is_processed() {
    for (end, charged, state) in [
        (
            Failed,
            "2026-04-01 12.00, 2026-05-01 12.00",
            "12 monthly, credit 0.00, renews 2026-06-01",
        ),
        (
            Succeeded,
            "2026-04-01 12.00, 2026-04-11 112.00",
            "120 yearly, credit 0.00, renews 2027-04-11",
        ),
    ] {
        let shop = Shop::new("12", "monthly").await;
        shop.until("2026-04-11").await;
        shop.change("120", "yearly").await;
        shop.report(Processing).await;
        shop.until("2026-05-03").await;
        assert_eq!(shop.charged().await, "2026-04-01 12.00, 2026-04-11 112.00");
        assert_eq!(shop.now().await.next_action_at(), None);

        shop.report(end).await;

        shop.until("2026-05-03").await;
        assert_eq!((&*shop.charged().await, &*shop.state().await), (charged, state), "{end}");
    }
}

#[tokio::test]
async fn a_change_that_would_cost_nothing_yet_is_refused() {
    let last = Shop::new("19.99", "monthly").await;
    last.clock.set(at("2026-04-30T23:59:59Z"));
    let trial =
        Shop::with("10", "monthly", |new| new.trial_ends_at = at("2026-05-01T00:00:00Z").into())
            .await;
    for shop in [last, trial] {
        let dearer = shop.to("49.99", "monthly").await;
        assert_eq!(wrong(shop.quote(&dearer).await).1, "validation_failed");
        let same = shop.held.subscription_plan_id;
        let mut same = PlanChange::to_plan(same);
        same.user_id = Some(shop.held.user_id);
        assert_eq!(wrong(shop.quote(&same).await).1, "validation_failed");
    }
}

#[tokio::test]
async fn a_change_needs_its_owner_and_the_present_quote() {
    let shop = Shop::new("10", "monthly").await;
    let change = shop.to("20", "monthly").await;
    let id = shop.held.id;

    let unquoted = shop.billing.change_plan(id, &change).await.unwrap_err();
    let Error::Conflict(Conflict::QuoteChanged(quote)) = unquoted else { panic!("{unquoted}") };
    assert_eq!(in_words(&quote), "now due 10.00, credit 0.00, next 20.00");

    let mut stranger = change.clone();
    stranger.user_id =
        Some(UserId::new(shop.billing.service().now(), &SeededRandomness::new(9)).unwrap());
    for of_stranger in [stranger.clone(), stranger.as_quoted(&quote)] {
        let name = id.to_string();
        for refused in [
            shop.quote(&of_stranger).await.map(drop),
            shop.billing.change_plan(id, &of_stranger).await.map(drop),
        ] {
            let Err(Error::NotFound { record: "subscription", name: found }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(found, name);
        }
    }
    // The same quote is refused a second time, both while the change waits and after it.
    shop.agree(&change, &quote).await.unwrap();
    assert_eq!(wrong(shop.agree(&change, &quote).await).1, "change_scheduled");
    shop.report(Succeeded).await;
    shop.turn("2026-04-02");
    let back = shop.to("30", "monthly").await;
    assert_eq!(wrong(shop.agree(&back, &quote).await).1, "quote_changed");
}

/// While a change waits, nobody changes what its quote counts on, and its payment ends with it.
#[tokio::test]
async fn what_a_waiting_change_counts_on_stays_or_ends_it() {
    use Action::{Cancel, Pause, Resume, Uncancel, Unschedule};
    let make = async || {
        let shop = Shop::new("10", "monthly").await;
        shop.until("2026-04-16").await;
        shop.change("20", "monthly").await;
        shop
    };
    let shop = make().await;
    let id = shop.held.id;
    let service = shop.billing.service();
    for changes in [
        SubscriptionChanges { price: Field::Value(of("1")), ..Default::default() },
        SubscriptionChanges { quantity: Some(2_u64.try_into().unwrap()), ..Default::default() },
        SubscriptionChanges { managed_by: Some(ManagedBy::Caller), ..Default::default() },
        SubscriptionChanges { credit: Some(of("1")), ..Default::default() },
    ] {
        let refused = service.update_subscription(id, changes).await;
        assert_eq!(wrong(refused).1, "payment_open");
    }
    let mut by_seller = shop.to("30", "monthly").await;
    by_seller.user_id = None;
    assert_eq!(wrong(shop.quote(&by_seller).await).1, "change_scheduled");
    let paused = service.act(id, Pause { effective: None, resumes_at: None }).await;
    assert_eq!(wrong(paused).1, "change_scheduled");
    let unpaid = Canceled;
    let user = shop.held.user_id;

    // The user or the seller drops it.
    service.act_of(user, id, Uncancel).await.unwrap();
    assert_eq!(
        (shop.payments().await[0].status, &*shop.state().await),
        (unpaid, "10 monthly, credit 0.00, renews 2026-05-01")
    );
    let shop = make().await;
    shop.billing.service().act(shop.held.id, Unschedule).await.unwrap();
    assert_eq!(shop.payments().await[0].status, unpaid);

    // Not while its money may be on the way.
    let shop = make().await;
    shop.report(Processing).await;
    for action in [Uncancel, Unschedule] {
        let refused = shop.billing.service().act_of(shop.held.user_id, shop.held.id, action).await;
        assert_eq!(wrong(refused).1, "payment_open", "{action:?}");
    }

    // A refund of the running period ends it.
    let shop = make().await;
    let first = shop.payments().await[1].id;
    let refund = PaymentChanges::status(Refunded);
    shop.billing.service().update_payment(first, refund).await.unwrap();
    assert_eq!(
        (shop.payments().await[0].status, shop.now().await.scheduled_change()),
        (unpaid, None)
    );

    // The end of the subscription ends it; a cancellation at the period's end and its undoing keep it.
    let shop = make().await;
    shop.billing.service().act(shop.held.id, Cancel(Some(Effective::PeriodEnd))).await.unwrap();
    shop.billing.service().act(shop.held.id, Resume).await.unwrap();
    assert_eq!(shop.payments().await[0].status, Asked);
    shop.billing.service().act(shop.held.id, Cancel(Some(Effective::Now))).await.unwrap();
    assert_eq!(shop.payments().await[0].status, unpaid);
}

/// The moment of the change is the start of the period, whose payment then bounces.
#[tokio::test]
async fn a_debt_stays_when_a_change_of_the_same_moment_ends() {
    for end in [Some(Succeeded), Some(Failed), None] {
        let shop = Shop::new("10", "monthly").await;
        let quote = shop.change("20", "monthly").await;
        assert_eq!(Some(quote.at), shop.held.current_period_start());
        let of = async |kind| {
            let payments = shop.payments().await;
            payments.into_iter().find(|payment| payment.kind() == Some(kind)).unwrap()
        };
        let service = shop.billing.service();
        let first = of(PaymentKind::Initial).await.id;
        service.update_payment(first, PaymentChanges::status(Failed)).await.unwrap();
        assert_eq!(shop.now().await.status, SubscriptionStatus::PastDue);

        match end {
            Some(end) => {
                let report = PaymentChanges::status(end);
                let change = of(PaymentKind::Proration).await.id;
                service.update_payment(change, report).await.unwrap();
            }
            None => shop.until("2026-04-02").await,
        }

        let ended = end.filter(|end| *end == Succeeded).unwrap_or(Canceled);
        assert_eq!(of(PaymentKind::Proration).await.status, ended);
        assert_ne!(of(PaymentKind::Initial).await.status, Canceled, "the debt stays, {end:?}");
        assert_eq!(shop.now().await.status, SubscriptionStatus::PastDue);
    }
}

#[tokio::test]
async fn another_payment_that_is_processed_does_not_hold_a_change() {
    let shop = Shop::new("10", "monthly").await;
    shop.until("2026-04-16").await;
    shop.change("20", "monthly").await;
    let first = shop.payments().await[1].id;
    for status in [Failed, Processing, Succeeded] {
        let report = PaymentChanges::status(status);
        shop.billing.service().update_payment(first, report).await.unwrap();
    }

    shop.until("2026-04-17").await;

    assert_eq!(shop.payments().await[0].status, Canceled);
    assert_eq!(shop.now().await.scheduled_change(), None);
}

#[tokio::test]
async fn a_renewal_does_not_wait_for_a_payment_that_nobody_collects() {
    let shop = Shop::new("12", "monthly").await;
    shop.clock.set(at("2026-04-30T12:00:00Z"));
    shop.change("120", "yearly").await;

    shop.until("2026-05-01").await;

    assert_eq!(shop.charged().await, "2026-04-01 12.00, 2026-05-01 12.00");
    assert_eq!(shop.state().await, "12 monthly, credit 0.00, renews 2026-06-01");
}

/// The change was quoted with the value that the period had as long as it was paid.
#[tokio::test]
async fn a_payment_of_the_period_that_is_forgiven_ends_a_change() {
    let shop = Shop::new("10", "monthly").await;
    shop.until("2026-04-16").await;
    shop.change("20", "monthly").await;
    let first = shop.payments().await[1].id;
    for status in [Failed, Canceled] {
        let report = PaymentChanges::status(status);
        shop.billing.service().update_payment(first, report).await.unwrap();
    }

    assert_eq!(shop.payments().await[0].status, Canceled);
    assert_eq!(shop.now().await.scheduled_change(), None);
}

#[tokio::test]
async fn a_change_whose_money_is_on_its_way_is_neither_dropped_nor_outlived() {
    let make = async || {
        let shop = Shop::new("12", "monthly").await;
        shop.until("2026-04-28").await;
        shop.change("120", "yearly").await;
        shop.report(Processing).await;
        shop
    };
    // The user cancels, and the bank takes longer than the period.
    let shop = make().await;
    let service = shop.billing.service();
    service.act_of(shop.held.user_id, shop.held.id, Action::Leave).await.unwrap();
    shop.until("2026-05-03").await;
    let over = shop.now().await;
    assert_eq!((over.status, over.is_active), (SubscriptionStatus::Cancelled, false));
    shop.report(Succeeded).await;
    let paid = shop.now().await;
    assert_eq!((paid.status, paid.is_active), (SubscriptionStatus::Cancelled, true));
    assert_eq!(paid.ends_at, Some(at("2027-04-28T00:00:00Z")));

    // The first payment bounces, and the seller wants to drop the change.
    let shop = make().await;
    let service = shop.billing.service();
    let first = shop.payments().await[1].id;
    service.update_payment(first, PaymentChanges::status(Failed)).await.unwrap();
    let refused = service.act(shop.held.id, Action::Unschedule).await;
    assert_eq!(wrong(refused).1, "payment_open");

    // A refund leaves it: the money of the change arrives.
    let shop = make().await;
    let first = shop.payments().await[1].id;
    let refund = PaymentChanges::status(Refunded);
    shop.billing.service().update_payment(first, refund).await.unwrap();
    shop.report(Succeeded).await;
    assert_eq!(shop.state().await, "120 yearly, credit 0.00, renews 2027-04-28");
}

#[tokio::test]
async fn a_year_that_was_bought_while_the_user_cancelled_is_not_cut_short() {
    let shop = Shop::new("12", "monthly").await;
    shop.until("2026-04-11").await;
    shop.change("120", "yearly").await;
    let service = shop.billing.service();
    service.act_of(shop.held.user_id, shop.held.id, Action::Leave).await.unwrap();

    shop.report(Succeeded).await;

    let now = shop.now().await;
    assert_eq!(now.status, SubscriptionStatus::Cancelled);
    assert_eq!((now.ends_at, now.renews_at), (Some(at("2027-04-11T00:00:00Z")), now.ends_at));
}

#[tokio::test]
async fn a_product_that_the_user_has_already_cannot_be_chosen_twice() {
    let shop = Shop::new("10", "monthly").await;
    let mut other = NewPlan::new(of("Other"), of("other"), of("5"), of("monthly"));
    other.currency = Some(of("USD"));
    let other = shop.billing.service().create_plan(other).await.unwrap();
    let new = NewSubscription::new(shop.held.user_id, other.id);
    let second = shop.billing.service().create_subscription(new).await.unwrap();
    let payment = PaymentQuery::of(second.id);
    let payment = shop.billing.service().payments(payment).await.unwrap().items[0].id;
    let paid = PaymentChanges::status(Succeeded);
    shop.billing.service().update_payment(payment, paid).await.unwrap();
    let change = shop.to("20", "monthly").await;
    let quote = shop.billing.preview_plan_change(second.id, &change).await.unwrap();

    let refused = shop.billing.change_plan(second.id, &change.as_quoted(&quote)).await;

    assert_eq!(wrong(refused).1, "already_subscribed");
}
