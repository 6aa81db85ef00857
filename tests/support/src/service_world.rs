//! A service whose parts a test can control. The clock stands still until the test turns it.

use std::sync::Arc;

use subscription_core::store::{Idempotency, PageLimit};
use subscription_core::{
    BillingCycle, Error, ErrorKind, InvalidValue, ManualClock, MemoryStore, NewPayment, NewPlan,
    NewSubscription, Payment, Plan, SeededRandomness, Subscription, SubscriptionId,
    SubscriptionService, Timestamp, UserId,
};

/// A new service over a store in memory. Its clock shows 31 January 2025.
pub struct ServiceWorld {
    pub service: SubscriptionService,
    pub clock: ManualClock,
}

impl ServiceWorld {
    pub fn new() -> Self {
        crate::logs::listen();
        let clock = ManualClock::at(at("2025-01-31T00:00:00.000000Z"));
        let service = SubscriptionService::builder(MemoryStore::default())
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .build();
        Self { service, clock }
    }

    /// Creates a monthly plan with the price 19.99.
    pub async fn plan(&self, slug: &str) -> Arc<Plan> {
        self.service.create_plan(new_plan(slug)).await.unwrap()
    }

    /// Creates a subscription of a new user to a new plan. `change` can edit the input first.
    pub async fn subscription(
        &self,
        change: impl FnOnce(&mut NewSubscription),
    ) -> Arc<Subscription> {
        let user = self.user();
        let plan = self.plan(&format!("plan-{user}")).await;
        let mut new = NewSubscription::new(user, plan.id);
        change(&mut new);
        self.service.create_subscription(new).await.unwrap()
    }

    /// Creates a payment of 19.99 USD for a subscription. `change` can edit the input first.
    pub async fn payment(
        &self,
        subscription: SubscriptionId,
        change: impl FnOnce(&mut NewPayment),
    ) -> Arc<Payment> {
        let mut new = NewPayment::new(subscription, of("19.99"), of("USD"));
        change(&mut new);
        self.service.create_payment(new).await.unwrap()
    }

    /// The id of a new user.
    pub fn user(&self) -> UserId {
        UserId::new(self.service.now(), &subscription_core::SystemRandomness).unwrap()
    }

    /// The names of all events so far.
    pub async fn events(&self) -> Vec<String> {
        let events = self.service.events(0, PageLimit::MAX).await.unwrap();
        events.iter().map(|recorded| recorded.event.name()).collect()
    }
}

/// Parses a value. Panics if the text is not valid.
pub fn of<T: std::str::FromStr<Err = InvalidValue>>(text: &str) -> T {
    text.parse().unwrap_or_else(|refused| panic!("{text}: {refused}"))
}

/// Parses a moment. Panics if the text is not valid.
pub fn at(text: &str) -> Timestamp {
    of(text)
}

/// The input of a monthly plan with the price 19.99.
pub fn new_plan(slug: &str) -> NewPlan {
    NewPlan::new(of("Pro"), of(slug), of("19.99"), BillingCycle::MONTHLY)
}

/// An idempotency key of a client.
pub fn once(client: &str, key: &str) -> Idempotency {
    Idempotency { client: client.into(), key: of(key) }
}

/// The kind and the code of the error in a result. Panics if the result is a success.
pub fn wrong<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorKind, &'static str) {
    let error = result.unwrap_err();
    (error.kind(), error.code())
}

/// The invalid fields that an error names, each with its code.
pub fn faults<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> Vec<String> {
    match result.map_err(Into::into) {
        Err(Error::Invalid(faults)) => {
            faults.iter().map(|fault| format!("{} {}", fault.field, fault.code)).collect()
        }
        other => panic!("no faults, but {other:?}"),
    }
}
