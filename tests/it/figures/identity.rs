//! For what the clock bills and is paid, the revenue of now is that of the running month, also after upgrades.

use std::collections::BTreeMap;
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::figures::Figures;
use subscription_core::store::DuePayments;
use subscription_core::{
    Action, Effective, ManualClock, MemoryStore, NewPlan, NewSubscription, PaymentChanges,
    PaymentStatus, PlanChange, Quantity, SeededRandomness, SubscriptionService, SubscriptionStatus,
    Timestamp, UserId,
};
use test_support::rng::Rng;
use test_support::seed::seeds;
use test_support::service_world::{at, of};
use uuid::Uuid;

/// Pays what is asked for, until nothing is.
async fn pay(billing: &Billing) {
    let due = || DuePayments::until(PaymentStatus::Pending, Timestamp::MAX);
    loop {
        let page = billing.due_payments(due()).await.unwrap();
        for payment in &page.items {
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            billing.service().update_payment(payment.id, paid).await.unwrap();
        }
        if page.items.is_empty() {
            return;
        }
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story of a business")]
async fn the_revenue_of_now_is_that_of_the_running_month() {
    let mut upgrades = 0;
    for seed in seeds(10) {
        let rng = Rng::new(seed);
        let clock = ManualClock::at(at("2024-01-31T08:00:00Z"));
        let service = SubscriptionService::builder(MemoryStore::default())
            .clock(clock.clone())
            .randomness(SeededRandomness::new(seed))
            .build();
        let billing = Billing::new(service, Policy::default());
        let service = billing.service();
        let mut plans = Vec::new();
        for (nth, (price, currency, cycle)) in [
            ("9.99", "USD", "monthly"),
            ("29.99", "USD", "monthly"),
            ("299.00", "USD", "yearly"),
            ("3.50", "USD", "weekly"),
            ("5000", "JPY", "quarterly"),
            ("0.10", "JPY", "daily"),
            ("1.000", "BHD", "P10D"),
        ]
        .into_iter()
        .filter(|(price, currency, _)| *currency != "JPY" || !price.contains('.'))
        .enumerate()
        {
            let slug = of(&format!("plan-{nth}"));
            let new = NewPlan::new(of("Plan"), slug, of(price), of(cycle));
            let trial_period = rng.maybe(30, |_| of("P14D"));
            let new = NewPlan { currency: Some(of(currency)), trial_period, ..new };
            plans.push(service.create_plan(new).await.unwrap());
        }
        let mut held = Vec::new();
        for step in 0..40_u128 {
            clock.advance(Duration::from_secs(3_600 * (1 + rng.below(24 * 20))));
            while billing.advance(1_000).await.unwrap().steps > 0 {
                pay(&billing).await;
            }
            pay(&billing).await;
            // Payments of the same moment have ids in no order.
            clock.advance(Duration::from_secs(1));
            match rng.below(4) {
                0 | 1 => {
                    let user = UserId::from(Uuid::from_u128(rng.below(9) + 1 + step % 2));
                    let mut new = NewSubscription::new(user, rng.pick(&plans).unwrap().id);
                    new.quantity = Some(Quantity::new(rng.below(3) + 1).unwrap());
                    held.push(service.create_subscription(new).await.unwrap().id);
                }
                2 => {
                    let Some(id) = rng.pick(held.iter().copied()) else { continue };
                    let mut change = PlanChange::to_plan(rng.pick(&plans).unwrap().id);
                    change.quantity = rng.maybe(50, |rng| Quantity::new(rng.below(5) + 1).unwrap());
                    // Only those that cost something: no downgrade, and none that credit pays in full.
                    if let Ok(quote) = billing.preview_plan_change(id, &change).await
                        && !quote.amount_due.value().is_zero()
                    {
                        billing.change_plan(id, &change).await.unwrap();
                        upgrades += 1;
                    }
                }
                _ => {
                    let Some(id) = rng.pick(held.iter().copied()) else { continue };
                    // A trial that is cancelled counts now until its end, and was never paid.
                    let status = service.subscription(id).await.unwrap().status;
                    if status == SubscriptionStatus::OnTrial {
                        continue;
                    }
                    let effective = rng.pick([Effective::PeriodEnd, Effective::Now]);
                    service.act(id, Action::Cancel(effective)).await.ok();
                }
            }
            pay(&billing).await;

            let figures = Figures::new(service.clone());
            let (now, months) = (figures.now().await.unwrap(), figures.months(1).await.unwrap());

            let month = &months.data[0];
            let of_now: BTreeMap<_, _> = now
                .money
                .iter()
                .filter(|money| money.mrr.millionths() > 0)
                .map(|money| (money.currency.unwrap().to_string(), money.mrr.to_string()))
                .collect();
            let of_month: BTreeMap<_, _> = month
                .money
                .iter()
                .map(|money| (money.currency.to_string(), money.mrr.to_string()))
                .collect();
            assert_eq!(of_now, of_month, "seed {seed}, step {step}");
            assert_eq!(now.paying_users, month.paying_users, "seed {seed}, step {step}");
        }
    }
    assert!(upgrades > 10, "{upgrades} upgrades");
}
