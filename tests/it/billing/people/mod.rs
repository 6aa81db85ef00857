//! Changes of plan that subscribers make themselves: what costs something waits for its payment, what gives something
//! back waits for the end of the period.

mod golden;
mod waiting;

use std::sync::Arc;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::PaymentQuery;
use subscription_core::{
    Amount, Error, ManualClock, MemoryStore, NewPlan, NewSubscription, OneLivePer, Payment,
    PaymentChanges, PaymentStatus, Plan, PlanChange, Quote, SeededRandomness, Subscription,
    SubscriptionService, UserId,
};
use test_support::service_world::{at, of};

use PaymentStatus::{Canceled, Succeeded};

/// A subscription of a user, on 1 April or at the start of its paid year.
struct Shop {
    clock: ManualClock,
    billing: Billing,
    held: Arc<Subscription>,
}

impl Shop {
    /// A subscription to a plan for a price in USD, whose first period is paid.
    async fn new(price: &str, cycle: &str) -> Self {
        Self::with(price, cycle, |_| {}).await
    }

    async fn with(price: &str, cycle: &str, more: impl FnOnce(&mut NewSubscription)) -> Self {
        let start = if cycle == "yearly" { "2026-01-01" } else { "2026-04-01" };
        let clock = ManualClock::at(at(&format!("{start}T00:00:00Z")));
        let service = SubscriptionService::builder(MemoryStore::default())
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .one_live_per(OneLivePer::Product)
            .build();
        let billing = Billing::new(service, Policy::default());
        let own = plan(&billing, "own", price, cycle).await;
        let user = UserId::new(billing.service().now(), &SeededRandomness::new(2)).unwrap();
        let mut new = NewSubscription::new(user, own.id);
        more(&mut new);
        let held = billing.service().create_subscription(new).await.unwrap();
        let shop = Self { clock, billing, held };
        shop.report(Succeeded).await;
        shop
    }

    fn turn(&self, day: &str) {
        self.clock.set(at(&format!("{day}T00:00:00Z")));
    }

    async fn until(&self, day: &str) {
        self.turn(day);
        while self.billing.advance(100).await.unwrap().more {}
    }

    async fn now(&self) -> Arc<Subscription> {
        self.billing.service().subscription(self.held.id).await.unwrap()
    }

    /// The newest payment first.
    async fn payments(&self) -> Vec<Arc<Payment>> {
        let page = self.billing.service().payments(PaymentQuery::of(self.held.id)).await.unwrap();
        page.items.into_iter().rev().collect()
    }

    /// Reports the status of the newest payment, and returns what the payment then has.
    async fn report(&self, status: PaymentStatus) -> Option<PaymentStatus> {
        let newest = self.payments().await.first()?.id;
        let changes = PaymentChanges::status(status);
        let payment = self.billing.service().update_payment(newest, changes).await.unwrap();
        Some(payment.status)
    }

    /// The user's change to another plan.
    async fn to(&self, price: &str, cycle: &str) -> PlanChange {
        let slug = format!("plan-{}-{cycle}", price.replace('.', "-"));
        let plan = match self.billing.service().plan(&of(&slug)).await {
            Ok(plan) => plan,
            Err(_) => plan(&self.billing, &slug, price, cycle).await,
        };
        let mut change = PlanChange::to_plan(plan.id);
        change.user_id = Some(self.held.user_id);
        change
    }

    async fn quote(&self, change: &PlanChange) -> Result<Quote, Error> {
        self.billing.preview_plan_change(self.held.id, change).await
    }

    /// The user agrees to the present quote.
    async fn change(&self, price: &str, cycle: &str) -> Quote {
        let change = self.to(price, cycle).await;
        let quote = self.quote(&change).await.unwrap();
        self.agree(&change, &quote).await.unwrap();
        quote
    }

    async fn agree(&self, change: &PlanChange, quote: &Quote) -> Result<(), Error> {
        let agreed = change.clone().as_quoted(quote);
        self.billing.change_plan(self.held.id, &agreed).await.map(drop)
    }

    /// Price, cycle, credit, discount, and when it renews.
    async fn state(&self) -> String {
        let now = self.now().await;
        let renews = now.renews_at.map_or("-".to_owned(), |at| at.to_string()[..10].to_owned());
        let off = now.discount().map(|it| format!(", {} periods used", it.used));
        format!(
            "{} {}, credit {}{}, renews {renews}",
            now.price().unwrap(),
            now.billing_cycle,
            Amount::try_from(now.credit().unwrap_or_default().value().round_dp(2))
                .unwrap()
                .with_digits(2),
            off.unwrap_or_default(),
        )
    }

    /// The start of the period and the amount of each payment that is not canceled, oldest first.
    async fn charged(&self) -> String {
        let payments = self.payments().await;
        let kept = payments.iter().rev().filter(|payment| payment.status != Canceled);
        let kept = kept
            .map(|it| format!("{} {}", &it.period_start().unwrap().to_string()[..10], it.amount));
        kept.collect::<Vec<_>>().join(", ")
    }
}

async fn plan(billing: &Billing, slug: &str, price: &str, cycle: &str) -> Arc<Plan> {
    let plan = NewPlan::new(of("Pro"), of(slug), of(price), of(cycle));
    let plan = NewPlan { currency: Some(of("USD")), product_id: Some(of("product")), ..plan };
    billing.service().create_plan(plan).await.unwrap()
}

fn in_words(quote: &Quote) -> String {
    let next = quote.next_amount.map_or("-".to_owned(), |next| next.to_string());
    format!(
        "{} due {}, credit {}, next {next}",
        quote.effective, quote.amount_due, quote.credit_after
    )
}
