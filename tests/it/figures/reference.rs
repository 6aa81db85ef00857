//! Random records, and the figures of months by the words of their definitions: a loop over all payments for each
//! subscription and month.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use subscription_core::figures::{Now, worth};
use subscription_core::{
    ManualClock, Payment, PaymentKind, PaymentStatus, Subscription, SubscriptionStatus, Timestamp,
};
use test_support::rng::Rng;
use test_support::seed::seeds;
use test_support::service_world::{at, of};

use super::slow_store::SlowStore;
use super::{Book, asked};

const DAY: i64 = 86_400_000_000;

fn day(rng: &Rng, from: &str, days: i64) -> Timestamp {
    Timestamp::from_micros(at(from).micros() + rng.below(days) * DAY).unwrap()
}

async fn fill(book: &Book, rng: &Rng) -> (Vec<Subscription>, Vec<Payment>) {
    let mut plans = Vec::new();
    for (price, currency, cycle) in [
        ("10.00", Some("USD"), "monthly"),
        ("99.99", Some("EUR"), "yearly"),
        ("3", None, "weekly"),
        ("0", None, "monthly"),
    ] {
        plans.push(book.plan(price, currency, cycle).await);
    }
    let (mut subscriptions, mut payments) = (Vec::<Subscription>::new(), Vec::new());
    for _ in 0..12 {
        let plan = rng.pick(&plans).unwrap();
        let known = rng.pick(&subscriptions).map(|held| held.user_id);
        let held = book.held(plan, |held| {
            held.status = rng.pick(SubscriptionStatus::all()).unwrap();
            held.ends_at = rng.maybe(30, |rng| day(rng, "2024-12-01T00:00:00Z", 300));
            held.blocked = rng.percent(10);
            held.user_id = known.filter(|_| rng.percent(30)).unwrap_or(held.user_id);
        });
        subscriptions.push(held.await);
    }
    for nth in 0..80 {
        let held = rng.pick(&subscriptions).unwrap();
        // No two periods begin at the same moment.
        let start = day(rng, "2024-09-01T00:00:00Z", 310).micros() + nth;
        let start = Timestamp::from_micros(start).unwrap();
        let paid = book.paid(held.id, ("2025-01-01", "2025-02-01"), |payment| {
            payment.status = rng.pick(PaymentStatus::all()).unwrap();
            payment.currency = of(rng.pick(["USD", "EUR"]).unwrap());
            payment.amount = of(rng.pick(["5.00", "7.00"]).unwrap());
            let asked = asked(payment);
            asked.kind = rng.pick(PaymentKind::ALL).unwrap();
            asked.value = of(rng.pick(["0", "5.00", "10.00", "24.00"]).unwrap());
            asked.cycle = of(rng.pick(["monthly", "yearly", "weekly", "one_time"]).unwrap());
            asked.mirrored = rng.percent(20);
            asked.next_attempt_at = rng.maybe(50, |_| start).filter(|_| !asked.mirrored);
            asked.period_start = start;
            let days = rng.pick([1, 7, 31, 90, 365]).unwrap();
            let end = Timestamp::from_micros(start.micros() + days * DAY).unwrap();
            asked.period_end = rng.maybe(90, |_| end);
            if rng.percent(5) {
                payment.asked = None;
            }
        });
        payments.push(paid.await);
    }
    for held in subscriptions.clone().iter().take(2) {
        book.delete(held).await;
        subscriptions.retain(|other| other.id != held.id);
    }
    (subscriptions, payments)
}

/// The newest payment of each subscription that counts and covers `t`: user, currency, monthly amount, at risk.
fn covering(
    subscriptions: &[Subscription],
    payments: &[Payment],
    t: Timestamp,
) -> Vec<(uuid::Uuid, String, i128, bool)> {
    let mut newest = BTreeMap::new();
    for payment in payments {
        let Some(asked) = &payment.asked else { continue };
        let (Some(end), Some(worth)) = (asked.period_end, worth(payment)) else { continue };
        let held = subscriptions.iter().find(|held| held.id == payment.subscription_id);
        let ends_at = held.and_then(|held| held.ends_at).unwrap_or(Timestamp::MAX);
        let paid =
            ["succeeded", "partially_refunded", "disputed"].contains(&payment.status.as_str());
        let open = payment.status == PaymentStatus::Pending
            || payment.status == PaymentStatus::Processing
            || payment.status == PaymentStatus::Failed && asked.next_attempt_at.is_some();
        let counts = paid || open && asked.kind != PaymentKind::Initial;
        if counts && asked.period_start <= t && t < end.min(ends_at) {
            let user = held.map_or(payment.subscription_id.uuid(), |held| held.user_id.uuid());
            let failed = payment.status == PaymentStatus::Failed;
            // Payments are made in the order of their ids.
            let currency = payment.currency.to_string();
            newest.insert(payment.subscription_id, (user, currency, worth.millionths(), failed));
        }
    }
    newest.into_values().filter(|(_, _, worth, _)| *worth > 0).collect()
}

#[tokio::test]
async fn random_records_have_the_figures_of_the_definitions() {
    for seed in seeds(10) {
        let (store, rng) =
            (Arc::new(SlowStore::new(ManualClock::at(at(super::NOW)))), Rng::new(seed));
        // Payments are read from both ends, a page at a time.
        store.shorten_pages(rng.pick([1, 3, 7, 16, 39, 40, 200]).unwrap());
        let book = Book::over(store);
        let (subscriptions, payments) = fill(&book, &rng).await;

        let (now, months) = (book.now().await, book.months(12).await);

        let ends = [
            "2024-06-30",
            "2024-07-31",
            "2024-08-31",
            "2024-09-30",
            "2024-10-31",
            "2024-11-30",
            "2024-12-31",
            "2025-01-31",
            "2025-02-28",
            "2025-03-31",
            "2025-04-30",
            "2025-05-31",
        ];
        let ends = ends.map(|end| at(&format!("{end}T23:59:59.999999Z")));
        let (mut before, mut ever) = (BTreeSet::new(), BTreeSet::new());
        for (nth, t) in ends.into_iter().skip(1).chain([at(super::NOW)]).enumerate() {
            let month = &months.data[nth];
            let covering = covering(&subscriptions, &payments, t);
            let users: BTreeSet<_> = covering.iter().map(|(user, ..)| *user).collect();
            let mut money = BTreeMap::<String, (i128, i128)>::new();
            for (_, currency, worth, failed) in covering {
                let sums = money.entry(currency).or_default();
                sums.0 += worth;
                sums.1 += if failed { worth } else { 0 };
            }
            let shown: BTreeMap<_, _> = month
                .money
                .iter()
                .map(|money| {
                    (
                        money.currency.to_string(),
                        (money.mrr.millionths(), money.at_risk.millionths()),
                    )
                })
                .collect();
            let what = format!("seed {seed}, {}", month.month);
            assert_eq!(shown, money, "{what}");
            let came: Vec<_> = users.difference(&before).collect();
            let new = came.iter().filter(|user| !ever.contains(**user)).count();
            let churned = before.difference(&users).count();
            let counts =
                [month.paying_users, month.new_users, month.returned_users, month.churned_users];
            let expected = [users.len(), new, came.len() - new, churned];
            assert_eq!(counts.map(|count| usize::try_from(count).unwrap()), expected, "{what}");
            assert_eq!(month.churn_rate.is_none(), before.is_empty(), "{what}");
            assert_eq!(before.len() + new + (came.len() - new) - churned, users.len(), "{what}");
            ever.extend(users.iter().copied());
            before = users;
        }
        adds_up(&now, subscriptions.len(), seed);
        let without = payments.iter().filter(|payment| payment.asked.is_none()).count();
        assert_eq!(months.without_period, without as u64, "seed {seed}");
    }
}

/// The parts of the figures of now fit.
fn adds_up(now: &Now, subscriptions: usize, seed: u64) {
    for money in &now.money {
        assert!(
            money.mrr >= money.committed && money.mrr >= money.at_risk,
            "seed {seed} {money:?}"
        );
    }
    let of_plans: i128 =
        now.plans.iter().flat_map(|plan| &plan.money).map(|money| money.mrr.millionths()).sum();
    let all: i128 = now.money.iter().map(|money| money.mrr.millionths()).sum();
    assert_eq!(of_plans, all, "seed {seed}");
    assert_eq!(now.subscriptions.values().sum::<u64>(), subscriptions as u64, "seed {seed}");
}
