//! Figures are read by one caller at a time, page by page, and cached.

use std::sync::Arc;
use std::time::Duration;

use subscription_core::ErrorKind;
use subscription_core::ManualClock;
use subscription_core::figures::Figures;
use test_support::service_world::at;

use super::slow_store::SlowStore;
use super::{Book, NOW, asked};

/// A book of one subscription over a store that counts its lists. Figures get old by a clock that the store moves.
async fn counted() -> (Book, Figures, Arc<SlowStore>, ManualClock) {
    let ages = ManualClock::at(at("2030-01-01T00:00:00Z"));
    let store = Arc::new(SlowStore::new(ages.clone()));
    let book = Book::over(Arc::clone(&store) as _);
    let plan = book.plan("10.00", Some("USD"), "monthly").await;
    let held = book.held(&plan, |_| {}).await;
    book.paid(held.id, ("2025-06-01", "2025-07-01"), |_| {}).await;
    let figures = Figures::aged_by(book.service.clone(), ages.clone());
    store.lists();
    (book, figures, store, ages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_calls_at_once_read_the_store_once() {
    let (_book, figures, store, _) = counted().await;
    store.close();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let figures = figures.clone();
            tokio::spawn(async move { figures.now().await.unwrap().paying_users })
        })
        .collect();
    while store.lists() == 0 {
        tokio::task::yield_now().await;
    }

    store.open();

    for call in calls {
        assert_eq!(call.await.unwrap(), 1);
    }
    assert_eq!(store.lists(), 1, "a page of plans, which was counted, and one of subscriptions");
}

#[tokio::test]
async fn figures_of_both_kinds_are_not_read_at_once_and_those_in_the_cache_do_not_wait() {
    let (_book, figures, store, _) = counted().await;
    figures.now().await.unwrap();
    store.lists();
    store.close();
    let months = tokio::spawn({
        let figures = figures.clone();
        async move { figures.months(1).await.unwrap().data[0].paying_users }
    });
    let mut begun = 0;
    while begun < 3 {
        begun += store.lists();
        tokio::task::yield_now().await;
    }

    let now = figures.now().await.unwrap();

    assert_eq!(now.paying_users, 1);
    store.open();
    assert_eq!(months.await.unwrap(), 1);
    assert_eq!(store.lists(), 0);
}

/// A hundred times as long as reading took, within bounds.
#[tokio::test]
async fn figures_are_cached_by_how_long_it_took_to_read_them() {
    for (millis, kept_now, kept_months) in [
        (0, 1_000, 1_000),
        (1, 1_000, 1_000),
        (10, 2_000, 3_000),
        (500, 60_000, 150_000),
        (9_000, 60_000, 600_000),
    ] {
        let (_book, figures, store, ages) = counted().await;
        store.take_millis(millis);
        let short = Duration::from_millis(1);
        // Plans and subscriptions; subscriptions, and payments from both ends.
        for (kept, of_now, lists) in [(kept_now, true, 2), (kept_months, false, 3)] {
            let read = || async {
                if of_now {
                    figures.now().await.unwrap();
                } else {
                    figures.months(24).await.unwrap();
                }
                store.lists()
            };
            assert_eq!(read().await, lists, "{millis}");
            ages.advance(Duration::from_millis(kept).saturating_sub(short));
            assert_eq!(read().await, 0, "{millis}");
            ages.advance(short);
            assert_eq!(read().await, lists, "{millis}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_was_turned_shows_no_old_figures() {
    let (book, figures, store, ages) = counted().await;
    store.take_millis(10_000);
    figures.now().await.unwrap();
    store.lists();

    // Both clocks go on together.
    for clock in [&book.clock, &ages] {
        clock.advance(Duration::from_secs(20));
    }
    figures.now().await.unwrap();
    assert_eq!(store.lists(), 0);

    // The service's clock is turned forwards, and then back.
    for turned in ["2025-06-15T13:00:00Z", NOW] {
        book.clock.set(at(turned));
        assert_eq!(figures.now().await.unwrap().as_of, at(turned));
        assert_eq!(store.lists(), 2);
    }

    // The clock of ages is set back: it does not make figures last.
    ages.set(at("2029-01-01T00:00:00Z"));
    figures.now().await.unwrap();
    assert_eq!(store.lists(), 2);
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_keep_others_from_the_figures() {
    let (_book, figures, store, _) = counted().await;
    store.close();
    let left = tokio::time::timeout(Duration::ZERO, figures.now()).await;

    store.open();

    assert!(left.is_err());
    assert_eq!(figures.now().await.unwrap().paying_users, 1);
}

#[tokio::test]
async fn a_failure_is_the_callers_and_is_not_cached() {
    let (_book, figures, store, _) = counted().await;
    store.fail(1);

    let failed = figures.months(1).await.unwrap_err();

    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert_eq!(figures.months(1).await.unwrap().data[0].paying_users, 1);
}

#[tokio::test]
async fn every_page_is_read() {
    let (book, figures, store, _) = counted().await;
    let plan = book.plan("1.00", Some("USD"), "monthly").await;
    for _ in 0..2_000 {
        let held = book.held(&plan, |_| {}).await;
        book.paid(held.id, ("2025-06-01", "2025-07-01"), |payment| {
            asked(payment).value = "1.00".parse().unwrap();
        })
        .await;
    }
    for _ in 0..1_000 {
        book.plan("0", None, "monthly").await;
    }
    store.lists();

    let now = figures.now().await.unwrap();
    assert_eq!((now.paying_users, now.money[0].mrr.to_string()), (2_001, "2010.00".to_owned()));
    assert_eq!(store.lists(), 2 + 3);
    let months = figures.months(1).await.unwrap();
    assert_eq!(
        (months.data[0].paying_users, super::revenue(&months)),
        (2_001, vec!["USD 2010.00".to_owned()])
    );
    assert_eq!(store.lists(), 3 + 4, "a page is read from both ends");
}
