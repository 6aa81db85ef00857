//! The figures of months.

use subscription_core::figures::MONTHS_MAX;
use subscription_core::{NewPayment, PaymentKind, PaymentStatus};
use test_support::service_world::{at, of};

use super::{Book, asked, moment, revenue, users};

const MAY: (&str, &str) = ("2025-05-20", "2025-06-20");

#[tokio::test]
async fn a_payment_counts_by_its_status_and_kind() {
    use PaymentKind::{Initial, Proration, Renewal};
    for kind in [Initial, Renewal, Proration] {
        for status in PaymentStatus::all() {
            for retried in [false, true] {
                let book = Book::new();
                let plan = book.plan("10.00", Some("USD"), "monthly").await;
                let held = book.held(&plan, |_| {}).await;
                let next_attempt = retried.then(|| moment("2025-06-18"));
                book.paid(held.id, MAY, |payment| {
                    payment.status = status;
                    asked(payment).kind = kind;
                    asked(payment).next_attempt_at = next_attempt;
                })
                .await;

                let last = book.months(1).await.data.remove(0);

                let counts = match status {
                    PaymentStatus::Succeeded
                    | PaymentStatus::PartiallyRefunded
                    | PaymentStatus::Disputed => true,
                    PaymentStatus::Pending | PaymentStatus::Processing => kind != Initial,
                    PaymentStatus::Failed => kind != Initial && retried,
                    PaymentStatus::Canceled | PaymentStatus::Refunded => false,
                };
                let what = format!("{kind} {status} {retried}");
                assert_eq!(last.paying_users, u64::from(counts), "{what}");
                let money = last
                    .money
                    .first()
                    .map(|money| (money.mrr.to_string(), money.at_risk.to_string()));
                let at_risk = if status == PaymentStatus::Failed { "10.00" } else { "0.00" };
                assert_eq!(
                    money,
                    counts.then(|| ("10.00".to_owned(), at_risk.to_owned())),
                    "{what}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_period_covers_the_ends_of_months_from_its_start_to_before_its_end() {
    let cases = [
        // start, end, end of the subscription, revenue of April, May and now
        ("2025-04-30T23:59:59.999999Z", "2025-05-31T23:59:59.999999Z", None, [10, 0, 0]),
        ("2025-04-30T23:59:59.999999Z", "2025-06-01", None, [10, 10, 0]),
        ("2025-05-01", "2025-06-01", None, [0, 10, 0]),
        ("2025-05-01", "2025-06-15T12:00:00Z", None, [0, 10, 0]),
        ("2025-05-01", "2025-06-15T12:00:00.000001Z", None, [0, 10, 10]),
        ("2025-06-15T12:00:00Z", "2025-07-15T12:00:00Z", None, [0, 0, 10]),
        ("2025-06-15T12:00:00.000001Z", "2025-07-15T12:00:00Z", None, [0, 0, 0]),
        ("2025-04-01", "2025-07-01", Some("2025-05-31T23:59:59.999999Z"), [10, 0, 0]),
        ("2025-04-01", "2025-07-01", Some("2025-06-01"), [10, 10, 0]),
        ("2025-04-01", "2025-07-01", Some("2025-03-01"), [0, 0, 0]),
    ];
    for (start, end, ends_at, expected) in cases {
        let book = Book::new();
        let plan = book.plan("10.00", Some("USD"), "monthly").await;
        let held = book.held(&plan, |held| held.ends_at = ends_at.map(moment)).await;
        book.paid(held.id, (start, end), |_| {}).await;

        let months = book.months(3).await;

        let paid = |amount| if amount == 0 { String::new() } else { "USD 10.00".to_owned() };
        assert_eq!(revenue(&months), expected.map(paid), "{start} to {end}, {ends_at:?}");
    }
}

#[tokio::test]
async fn the_newest_payment_that_covers_a_moment_counts() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let held = book.held(&plan, |_| {}).await;
    let worth = |value: &'static str| move |payment: &mut _| asked(payment).value = of(value);
    book.paid(held.id, ("2024-12-15", "2025-12-15"), worth("1.00")).await;
    book.paid(held.id, ("2025-02-10", "2025-04-10"), worth("2.00")).await;
    // A late payment for an earlier time, and one that is given up.
    book.paid(held.id, ("2025-01-15", "2025-03-01"), worth("3.00")).await;
    book.paid(held.id, ("2025-01-14", "2025-12-01"), |payment| {
        asked(payment).value = of("4.00");
        payment.status = PaymentStatus::Failed;
    })
    .await;

    let months = book.months(7).await;

    let expected = ["1.00", "3.00", "3.00", "2.00", "1.00", "1.00", "1.00"];
    assert_eq!(revenue(&months), expected.map(|worth| format!("USD {worth}")));
    assert!(months.data.iter().all(|month| month.paying_users == 1));
}

#[tokio::test]
async fn users_come_leave_and_return() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let first = book.held(&plan, |_| {}).await;
    let second = book.held(&plan, |_| {}).await;
    // The first leaves one subscription and has another: that is no churn.
    let other = book.held(&plan, |held| held.user_id = first.user_id).await;
    for (of, from, to) in [
        (&first, "2025-01-10", "2025-02-10"),
        (&first, "2025-02-10", "2025-03-10"),
        (&second, "2025-02-10", "2025-03-10"),
        (&other, "2025-03-10", "2025-04-10"),
        (&second, "2025-05-10", "2025-07-10"),
    ] {
        book.paid(of.id, (from, to), |_| {}).await;
    }

    let months = book.months(7).await;

    let expected = [
        "0 +0 ^0 -0 -",
        "1 +1 ^0 -0 -",
        "2 +1 ^0 -0 0.0000",
        "1 +0 ^0 -1 0.5000",
        "0 +0 ^0 -1 1.0000",
        "1 +0 ^1 -0 -",
        "1 +0 ^0 -0 0.0000",
    ];
    assert_eq!(users(&months), expected);
}

#[tokio::test]
async fn a_rate_has_four_digits_and_is_rounded_half_to_even() {
    for (all, churned, expected) in
        [(3, 1, "0.3333"), (3, 2, "0.6667"), (16, 1, "0.0625"), (32, 1, "0.0312")]
    {
        let book = Book::new();
        let plan = book.plan("10.00", Some("USD"), "monthly").await;
        for nth in 0..all {
            let held = book.held(&plan, |_| {}).await;
            let end = if nth < churned { "2025-06-10" } else { "2025-07-10" };
            book.paid(held.id, ("2025-05-10", end), |_| {}).await;
        }

        let rate = book.months(1).await.data[0].churn_rate;

        assert_eq!(rate.unwrap().to_string(), expected, "{churned} of {all}");
    }
}

#[tokio::test]
async fn a_user_who_paid_before_the_months_that_are_shown_returns() {
    for (period, expected) in [
        (("2010-01-10", "2010-02-10"), "1 +0 ^1 -0 -"),
        (("2020-06-01", "2020-07-01"), "1 +0 ^1 -0 -"),
        (("2020-05-31T23:59:59.999999Z", "2020-06-01"), "1 +0 ^1 -0 -"),
        (("2025-04-01", "2025-05-01"), "1 +0 ^1 -0 -"),
        // A period that covers no end of a month is in no figure.
        (("2010-01-10", "2010-01-31T23:59:59.999999Z"), "1 +1 ^0 -0 -"),
        (("2025-04-01", "2025-04-30"), "1 +1 ^0 -0 -"),
    ] {
        let book = Book::new();
        let plan = book.plan("10.00", Some("USD"), "monthly").await;
        let held = book.held(&plan, |_| {}).await;
        book.paid(held.id, period, |_| {}).await;
        book.paid(held.id, ("2025-06-10", "2025-07-10"), |_| {}).await;

        for count in [1, 2, MONTHS_MAX] {
            let months = book.months(count).await;

            assert_eq!(users(&months).last().unwrap(), expected, "{period:?} {count}");
        }
    }
}

#[tokio::test]
async fn a_deleted_subscription_is_a_user_of_its_own() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let first = book.held(&plan, |_| {}).await;
    let second = book
        .held(&plan, |held| {
            (held.user_id, held.ends_at) = (first.user_id, Some(moment("2025-06-01")));
        })
        .await;
    for held in [&first, &second] {
        book.paid(held.id, MAY, |_| {}).await;
    }
    let before = book.months(2).await;

    book.delete(&second).await;

    let (now, months) = (book.now().await, book.months(2).await);
    assert_eq!(users(&before), ["1 +1 ^0 -0 -", "1 +0 ^0 -0 0.0000"]);
    assert_eq!(users(&months), ["2 +2 ^0 -0 -", "2 +0 ^0 -0 0.0000"]);
    assert_eq!(revenue(&months), ["USD 20.00", "USD 20.00"]);
    assert_eq!((now.paying_users, now.money[0].mrr.to_string()), (1, "10.00".to_owned()));
}

#[tokio::test]
async fn payments_without_a_period_are_revenue_alone() {
    let book = Book::new();
    let plan = book.plan("10.00", None, "monthly").await;
    let held = book.held(&plan, |_| {}).await;
    let paid = |payment: &mut subscription_core::Payment| {
        payment.asked = None;
        payment.created_at = moment("2025-05-31T23:59:59.999999Z");
    };
    book.paid(held.id, MAY, paid).await;
    book.paid(held.id, MAY, |payment| {
        paid(payment);
        payment.created_at = moment("2025-06-01");
        payment.status = PaymentStatus::Failed;
    })
    .await;
    // One for an unending period has a period, but no month to count in.
    book.paid(held.id, MAY, |payment| asked(payment).period_end = None).await;

    let months = book.months(2).await;

    assert_eq!(months.without_period, 2);
    assert_eq!(revenue(&months), ["", ""]);
    assert_eq!(users(&months), ["0 +0 ^0 -0 -", "0 +0 ^0 -0 -"]);
    assert_eq!(paid_by_month(&months), [vec!["USD succeeded 2 20.00"], vec!["USD failed 1 10.00"]]);
}

/// Currency, status, number and amount.
fn paid_by_month(months: &subscription_core::figures::Months) -> Vec<Vec<String>> {
    let paid = |month: &subscription_core::figures::Month| {
        let paid = month.payments.iter();
        paid.map(|paid| format!("{} {} {} {}", paid.currency, paid.status, paid.count, paid.amount))
            .collect()
    };
    months.data.iter().map(paid).collect()
}

#[tokio::test]
async fn payments_are_in_the_month_of_their_period_by_currency_and_status() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let held = book.held(&plan, |_| {}).await;
    for (period, amount, currency, status) in [
        (("2025-05-01", "2025-06-01"), "10.00", "USD", PaymentStatus::Refunded),
        (("2025-05-31T23:59:59.999999Z", "2025-07-01"), "0.5", "USD", PaymentStatus::Succeeded),
        (("2025-05-09", "2025-06-09"), "10.00", "USD", PaymentStatus::Succeeded),
        (("2025-05-10", "2025-06-10"), "900", "JPY", PaymentStatus::Pending),
        // Not yet in a month that is shown.
        (("2025-07-01", "2025-08-01"), "10.00", "USD", PaymentStatus::Pending),
        (("2020-06-30", "2020-07-30"), "10.00", "USD", PaymentStatus::Succeeded),
        (("2020-07-01", "2020-08-01"), "10.00", "USD", PaymentStatus::Succeeded),
    ] {
        book.paid(held.id, period, |payment| {
            (payment.amount, payment.currency, payment.status) = (of(amount), of(currency), status);
            payment.created_at = moment("2025-06-02");
        })
        .await;
    }

    let months = book.months(MONTHS_MAX).await;

    let paid = paid_by_month(&months);
    let may = ["JPY pending 1 900", "USD succeeded 2 10.50", "USD refunded 1 10.00"];
    assert_eq!(paid[MONTHS_MAX - 2..], [may.map(str::to_owned).to_vec(), Vec::new()]);
    assert_eq!(paid[0], ["USD succeeded 1 10.00"]);
    assert_eq!(paid.iter().flatten().count(), 4);
}

#[tokio::test]
async fn months_are_named_and_the_last_one_runs() {
    let book = Book::new();

    for count in [1, 2, 24, MONTHS_MAX] {
        let months = book.months(count).await;

        let named: Vec<_> = months.data.iter().map(|month| month.month.as_str()).collect();
        assert_eq!(named.len(), count);
        assert_eq!(*named.last().unwrap(), "2025-06");
        let complete: Vec<_> = months.data.iter().map(|month| month.complete).collect();
        assert_eq!(complete.iter().filter(|complete| !**complete).count(), 1);
        assert!(!complete.last().unwrap());
        assert_eq!((months.as_of, months.without_period), (at(super::NOW), 0));
        if count == MONTHS_MAX {
            assert_eq!((named[0], named[6], named[5]), ("2020-07", "2021-01", "2020-12"));
        }
    }
}

#[tokio::test]
async fn the_first_years_of_the_calendar_have_months_before_them() {
    let book = Book::new();
    book.clock.set(at("1970-01-01T00:00:00Z"));

    let months = book.months(MONTHS_MAX).await;

    assert_eq!(
        (months.data[0].month.as_str(), months.data[59].month.as_str()),
        ("1965-02", "1970-01")
    );
}

/// An import knows the amount of a period, and not the price of the whole.
#[tokio::test]
async fn a_payment_that_a_caller_creates_counts_by_its_period_and_a_proration_does_not() {
    let book = Book::new();
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let held = book.held(&plan, |_| {}).await;
    let created = |kind, start: &str, end: &str| NewPayment {
        kind: Some(kind),
        status: Some(PaymentStatus::Succeeded),
        period_start: Some(moment(start)),
        period_end: Some(moment(end)),
        ..NewPayment::new(held.id, of("12.00"), of("USD"))
    };
    let year = created(PaymentKind::Initial, "2025-05-01", "2026-05-01");
    book.service.create_payment(year).await.unwrap();
    let upgrade = created(PaymentKind::Proration, "2025-06-10", "2026-05-01");
    book.service.create_payment(upgrade).await.unwrap();

    let months = book.months(2).await;

    assert_eq!(revenue(&months), ["USD 1.00", "USD 1.00"]);
    assert_eq!(months.without_period, 0);
}
