//! Subscriptions and payments that follow a payment provider.

mod commits;
mod payments;
mod properties;
mod subscriptions;

use subscription_core::{
    BillingCycle, ObservedPayment, ObservedPeriod, ObservedSubscription, PaymentKind,
    PaymentStatus, PlanId, Quantity, Renewal, SeededRandomness, Subscription, SubscriptionId,
    SubscriptionStatus, Timestamp, UserId,
};
use test_support::service_world::{at, of};

const START: &str = "2025-01-10T00:00:00Z";
const RENEWAL: &str = "2025-02-10T00:00:00Z";

fn now() -> Timestamp {
    at("2025-01-31T00:00:00Z")
}

/// An active monthly subscription that renews on 10 February.
fn observed(plan: PlanId) -> ObservedSubscription {
    ObservedSubscription {
        external_subscription_id: of("sub_1"),
        subscription_plan_id: plan,
        billing_cycle: BillingCycle::MONTHLY,
        status: SubscriptionStatus::Active,
        starts_at: at(START),
        ends_at: None,
        renews_at: Renewal::At(at(RENEWAL)),
        trial_ends_at: None,
        resumes_at: None,
        current_period_start: Some(at(START)),
        quantity: Quantity::ONE,
        price: Some(of("19.90")),
        currency: Some(of("EUR")),
        manage_url: Some(of("https://shop.example.com/billing")),
    }
}

/// A payment for the period from 10 January to 10 February.
fn observed_payment() -> ObservedPayment {
    ObservedPayment {
        external_payment_id: of("pi_1"),
        amount: of("19.90"),
        currency: of("EUR"),
        status: PaymentStatus::Succeeded,
        period: Some(ObservedPeriod {
            kind: PaymentKind::Renewal,
            start: at(START),
            end: Some(at(RENEWAL)),
            cycle: BillingCycle::MONTHLY,
            value: of("19.90"),
        }),
    }
}

fn plan() -> PlanId {
    PlanId::new(now(), &SeededRandomness::new(7)).unwrap()
}

fn user() -> UserId {
    UserId::new(now(), &SeededRandomness::new(8)).unwrap()
}

/// A new subscription of a provider.
fn made(observed: ObservedSubscription) -> Subscription {
    let id = SubscriptionId::new(now(), &SeededRandomness::new(9)).unwrap();
    Subscription::observe_new(observed, id, user(), now())
}
