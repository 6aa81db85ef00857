//! Changes of plan that subscribers make themselves: what costs something waits for its payment, what gives something
//! back waits for the end of the period.

use std::sync::Arc;

use subscription_core::billing::{Billing, Policy};
use subscription_core::plans::Reduction;
use subscription_core::store::PaymentQuery;
use subscription_core::{
    Action, Amount, Conflict, Effective, Error, Field, ManagedBy, ManualClock, MemoryStore,
    NewDiscount, NewPlan, NewSubscription, OneLivePer, Payment, PaymentChanges, PaymentKind,
    PaymentStatus, Plan, PlanChange, Quote, SeededRandomness, Subscription, SubscriptionChanges,
    SubscriptionService, SubscriptionStatus, UserId,
};
use test_support::service_world::{at, of, wrong};

use PaymentStatus::{Canceled, Failed, Pending as Asked, Processing, Refunded, Succeeded};

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

    /// The amounts of the payments that were made or are asked for, oldest first.
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
    // A quote of before the change is refused after it, and nothing is asked for twice.
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

/// Its value is no longer that with which the change was quoted.
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
