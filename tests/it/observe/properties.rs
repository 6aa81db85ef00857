//! Random observations, one after the other: the record keeps every rule of a record.

use proptest::prelude::*;
use proptest::sample::select;
use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{
    BillingCycle, BillingState, ManagedBy, Metadata, NewSubscription, ObservedPayment,
    ObservedPeriod, ObservedSubscription, Payment, PaymentId, PaymentKind, PaymentStatus, PlanId,
    Quantity, Renewal, SeededRandomness, Subscription, SubscriptionId, SubscriptionStatus,
    Timestamp,
};
use test_support::service_world::of;

use super::{now, plan, user};

/// Moments near `now`, and the first and last that there are.
fn moments() -> impl Strategy<Value = Timestamp> {
    let near = now().micros();
    prop_oneof![
        8 => (-400..400_i64)
            .prop_map(move |days| Timestamp::from_micros(near + days * 86_400_000_000).unwrap()),
        1 => Just(Timestamp::MIN),
        1 => Just(Timestamp::MAX),
        1 => Just(now()),
    ]
}

fn cycles() -> impl Strategy<Value = BillingCycle> {
    select(vec!["daily", "weekly", "P10D", "monthly", "quarterly", "yearly", "one_time"])
        .prop_map(of)
}

fn renewals() -> impl Strategy<Value = Renewal> {
    prop_oneof![moments().prop_map(Renewal::At), Just(Renewal::None), Just(Renewal::Kept)]
}

fn statuses() -> impl Strategy<Value = SubscriptionStatus> {
    select(SubscriptionStatus::all().collect::<Vec<_>>())
}

fn amounts() -> impl Strategy<Value = &'static str> {
    select(vec!["0", "0.1", "19.90", "19.905", "7.000", "1.000001", "999999999999999", "100"])
}

fn currencies() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::weighted(0.8, select(vec!["EUR", "USD", "JPY", "KWD"]))
}

fn observations() -> impl Strategy<Value = ObservedSubscription> {
    let dates = (
        moments(),
        prop::option::of(moments()),
        renewals(),
        prop::option::of(moments()),
        prop::option::of(moments()),
        prop::option::of(moments()),
    );
    let money = (prop::option::of(amounts()), currencies(), select(vec![1_u64, 3, 1_000_000]));
    let others = (statuses(), cycles(), 0..2_u64, any::<bool>());
    (dates, money, others).prop_map(|(dates, money, others)| {
        let (starts_at, ends_at, renews_at, trial_ends_at, resumes_at, current_period_start) =
            dates;
        let (price, currency, quantity) = money;
        let (status, billing_cycle, plan, has_page) = others;
        ObservedSubscription {
            external_subscription_id: of("sub_1"),
            subscription_plan_id: PlanId::new(now(), &SeededRandomness::new(plan)).unwrap(),
            billing_cycle,
            status,
            starts_at,
            ends_at,
            renews_at,
            trial_ends_at,
            resumes_at,
            current_period_start,
            quantity: Quantity::new(quantity).unwrap(),
            price: price.map(of),
            currency: currency.map(of),
            manage_url: has_page.then(|| of("https://shop.example.com/billing")),
        }
    })
}

/// A record that its caller or the clock managed, with all that the clock would do.
fn others() -> impl Strategy<Value = Subscription> {
    (statuses(), cycles(), any::<bool>(), select(vec!["0", "0.5", "5.00"]), currencies()).prop_map(
        |(status, cycle, is_blocked, credit, currency)| {
            let mut new = NewSubscription::new(user(), plan());
            new.status = Some(status);
            new.billing_cycle = Some(cycle);
            new.metadata = Metadata::new([("a", "1")]).unwrap();
            let id = SubscriptionId::new(now(), &SeededRandomness::new(2)).unwrap();
            let made = Subscription::create(new, cycle, id, now()).unwrap();
            let state = BillingState {
                credit: of(credit),
                currency: currency.filter(|code| *code != "JPY").map(of),
                next_action_at: Some(now()),
                scheduled_change: Some(ScheduledChange::Pause { resumes_at: None }),
                lapses_at: Some(now()),
                ..BillingState::default()
            };
            Subscription {
                managed_by: ManagedBy::Clock,
                billing: Some(Box::new(state)),
                blocked: is_blocked,
                ..made
            }
        },
    )
}

fn sound(one: &Subscription, seen: &ObservedSubscription) -> Result<(), TestCaseError> {
    prop_assert_eq!(one.check(), Ok(()));
    prop_assert_eq!(one.managed_by, ManagedBy::Provider);
    prop_assert_eq!(one.is_active, one.is_active_at(one.updated_at));
    prop_assert!(one.renews_at.is_none_or(|at| one.schedule().starts_at(at)), "off the grid");
    prop_assert_eq!(one.next_action_at(), None);
    prop_assert_eq!(one.scheduled_change(), None);
    let late = matches!(one.status, SubscriptionStatus::PastDue | SubscriptionStatus::Unpaid);
    prop_assert_eq!(one.past_due_since().is_some(), late);
    if let Some((start, end)) = one.current_period_start().zip(one.renews_at) {
        prop_assert!(start <= end, "a period that ends before it starts");
    }
    let followed = (one.status, one.starts_at, one.billing_cycle, one.quantity);
    prop_assert_eq!(followed, (seen.status, seen.starts_at, seen.billing_cycle, seen.quantity));
    prop_assert_eq!(one.subscription_plan_id, seen.subscription_plan_id);
    prop_assert_eq!(one.manage_url(), seen.manage_url.as_ref());
    // A store keeps the billing state as JSON.
    if let Some(billing) = &one.billing {
        let json = serde_json::to_string(billing).unwrap();
        prop_assert_eq!(&json.parse::<BillingState>().unwrap(), &**billing);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_record_that_follows_any_observations_keeps_every_rule(
        other in prop::option::of(others()),
        seen in prop::collection::vec((observations(), -40..400_i64), 1..8),
    ) {
        let mut moment = now();
        let mut record = other;
        for (seen, hours) in seen {
            let moved = moment.micros() + hours * 3_600_000_000;
            moment = Timestamp::from_micros(moved).unwrap();
            let before = record.clone();
            let next = if let Some(before) = &before {
                before.observe(seen.clone(), moment)
            } else {
                let id = SubscriptionId::new(moment, &SeededRandomness::new(2)).unwrap();
                Some(Subscription::observe_new(seen.clone(), id, user(), moment))
            };
            if let Some((before, next)) = before.as_ref().zip(next.as_ref()) {
                prop_assert_eq!((next.id, next.user_id), (before.id, before.user_id));
                prop_assert_eq!((next.blocked, &next.metadata), (before.blocked, &before.metadata));
                prop_assert_eq!(next.created_at, before.created_at);
                prop_assert_eq!(next.version, before.version.next());
                prop_assert!(next.updated_at >= before.updated_at);
            }
            let after = next.or(before).unwrap();
            sound(&after.as_of(moment), &seen)?;
            // Observing the same again changes nothing, now or later. An end that lay in the future is the end
            // of an expired subscription once it has passed.
            prop_assert_eq!(after.observe(seen.clone(), moment), None);
            let later = Timestamp::from_micros(moment.micros() + 86_400_000_000).unwrap();
            let comes_true = seen.status == SubscriptionStatus::Expired
                && seen.ends_at.is_some_and(|at| at > moment);
            if !comes_true {
                prop_assert_eq!(after.observe(seen, later), None);
            }
            record = Some(after);
        }
    }

    #[test]
    fn a_payment_that_follows_any_observations_keeps_every_rule(
        seen in prop::collection::vec(
            (
                select(PaymentStatus::all().collect::<Vec<_>>()),
                select(vec![("19.90", "EUR"), ("19.9", "EUR"), ("20", "EUR"), ("20", "JPY")]),
                prop::option::of((select(&PaymentKind::ALL[..]), moments(), prop::option::of(moments()))),
            ),
            1..10,
        ),
    ) {
        let subscription = SubscriptionId::new(now(), &SeededRandomness::new(2)).unwrap();
        let mut record: Option<Payment> = None;
        for (status, (amount, currency), period) in seen {
            let seen = ObservedPayment {
                external_payment_id: of("pi_1"),
                amount: of(amount),
                currency: of(currency),
                status,
                period: period.map(|(kind, start, end)| ObservedPeriod {
                    kind,
                    start,
                    end,
                    cycle: BillingCycle::MONTHLY,
                    value: of(amount),
                }),
            };
            let Some(before) = record.take() else {
                let id = PaymentId::new(now(), &SeededRandomness::new(3)).unwrap();
                record = Some(Payment::observe_new(seen, id, subscription, now()));
                continue;
            };
            let Ok(next) = before.observe(seen.clone(), now()) else {
                prop_assert!(before.settled);
                record = Some(before);
                continue;
            };
            let was_settled = before.settled;
            let after = next.unwrap_or(before);
            prop_assert_eq!(after.check(), Ok(()));
            prop_assert_eq!(after.status, status);
            prop_assert_eq!(after.settled, was_settled || status.is_settled());
            prop_assert_eq!(after.action_at(), None);
            prop_assert_eq!(after.claimed_period(), None);
            prop_assert_eq!(after.observe(seen, now()), Ok(None));
            record = Some(after);
        }
    }
}
