//! The objects of an account, and the changes to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Months, SecondsFormat};
use serde_json::Value;
use subscription_core::providers::{ObjectKind, ProviderKind};

use super::catalogue::{ONE_TIME, PRICES, Price};
use super::history::History;
use super::webhooks::Event;
use super::{lemon_squeezy, stripe};

/// A moment in seconds since 1970.
pub type Moment = i64;

/// The version of the API that decides where fields are in Stripe's objects: some fields moved on 2025-03-31.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Places {
    Before,
    #[default]
    After,
}

/// A pause of collection (Stripe) or of the subscription (Lemon Squeezy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// True if the service continues during the pause (`free` at Lemon Squeezy).
    pub free: bool,
    pub resumes_at: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub customer: String,
    /// The user whom the checkout was made for.
    pub user: Option<String>,
    /// The status in the provider's own words.
    pub status: &'static str,
    pub created: Moment,
    /// The second of the last change. Two changes may happen in the same second.
    pub updated: Moment,
    pub period: (Moment, Moment),
    pub trial_end: Option<Moment>,
    pub pause: Option<Pause>,
    pub cancel_at: Option<Moment>,
    pub cancel_at_period_end: bool,
    pub canceled_at: Option<Moment>,
    pub ended_at: Option<Moment>,
    /// The index of its price in [`PRICES`].
    pub price: usize,
    pub quantity: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispute {
    pub id: String,
    pub status: &'static str,
}

/// A payment of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The payment intent.
    pub id: String,
    pub amount: i64,
    /// The status of the intent.
    pub status: &'static str,
    /// True if the last attempt failed.
    pub has_error: bool,
    pub refunded: i64,
    pub dispute: Option<Dispute>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    pub id: String,
    pub subscription: String,
    pub customer: String,
    pub created: Moment,
    /// The reason in the provider's own words.
    pub reason: &'static str,
    /// The status in the provider's own words.
    pub status: &'static str,
    pub price: usize,
    pub total: i64,
    /// The period that its line pays for.
    pub period: (Moment, Moment),
    /// Its payments (Stripe). If a paid invoice has no payments, it was paid out of band.
    pub payments: Vec<Payment>,
    /// The refunded part (Lemon Squeezy).
    pub refunded: i64,
}

/// An order (Lemon Squeezy).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub id: String,
    pub customer: String,
    pub user: Option<String>,
    pub created: Moment,
    pub status: &'static str,
    pub price: usize,
    pub refunded: i64,
}

/// A checkout session (Stripe).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    pub subscription: String,
    pub customer: String,
    pub user: Option<String>,
    pub created: Moment,
}

/// An account at a provider.
#[derive(Debug)]
pub struct Account {
    pub kind: ProviderKind,
    pub places: Places,
    pub live: bool,
    pub now: Moment,
    /// The number of changes to the account so far.
    pub changes: u64,
    /// How many changes the API lags behind.
    pub lag: u64,
    /// The percentage of purchases that a user makes as the customer of another user.
    pub strangers: u32,
    pub subscriptions: BTreeMap<String, History<Subscription>>,
    pub invoices: BTreeMap<String, History<Invoice>>,
    pub orders: BTreeMap<String, History<Order>>,
    pub sessions: BTreeMap<String, History<Session>>,
    /// The e-mail address of each customer.
    pub customers: BTreeMap<String, String>,
    /// The webhooks that were not delivered yet.
    pub outbox: Vec<Event>,
    last_id: u64,
}

/// An account that a server and a test share.
pub type Shared = Arc<Mutex<Account>>;

/// Locks the account.
pub fn shared(account: &Shared) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The moment that is this number of months later.
pub(super) fn months_after(moment: Moment, months: u32) -> Moment {
    let date = DateTime::from_timestamp(moment, 0).unwrap();
    date.checked_add_months(Months::new(months)).unwrap().timestamp()
}

/// A moment in the text format of Lemon Squeezy and of our API.
pub fn written(moment: Moment) -> String {
    let date = DateTime::from_timestamp(moment, 0).unwrap();
    date.to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl Subscription {
    pub fn price(&self) -> Price {
        PRICES[self.price]
    }

    /// True if the subscription has ended and cannot change any more.
    pub fn is_over(&self) -> bool {
        matches!(self.status, "canceled" | "incomplete_expired" | "expired")
    }
}

impl Invoice {
    pub fn price(&self) -> Price {
        PRICES[self.price]
    }
}

impl Account {
    pub fn new(kind: ProviderKind, now: Moment) -> Self {
        Self {
            kind,
            places: Places::default(),
            live: false,
            now,
            changes: 0,
            lag: 0,
            strangers: 0,
            subscriptions: BTreeMap::new(),
            invoices: BTreeMap::new(),
            orders: BTreeMap::new(),
            sessions: BTreeMap::new(),
            customers: BTreeMap::new(),
            outbox: Vec::new(),
            last_id: 0,
        }
    }

    pub fn into_shared(self) -> Shared {
        Arc::new(Mutex::new(self))
    }

    pub fn is_stripe(&self) -> bool {
        self.kind == ProviderKind::Stripe
    }

    /// A new id: a number, for Stripe with a prefix.
    pub fn new_id(&mut self, prefix: &str) -> String {
        self.last_id += 1;
        let number = 1_000_000 + self.last_id;
        if self.is_stripe() { format!("{prefix}_{number}") } else { number.to_string() }
    }

    pub fn customer(&mut self) -> String {
        let id = self.new_id("cus");
        let email = format!("{id}@people.example");
        self.customers.insert(id.clone(), email);
        id
    }

    /// Creates a subscription of a customer, and its first events. The subscription is active, or on trial if the end
    /// of a trial is given.
    pub fn subscribe(
        &mut self,
        customer: &str,
        user: Option<&str>,
        price: usize,
        trial_end: Option<Moment>,
    ) -> String {
        let months = PRICES[price].months;
        let status = match (trial_end, self.is_stripe()) {
            (None, _) => "active",
            (Some(_), true) => "trialing",
            (Some(_), false) => "on_trial",
        };
        let made = Subscription {
            id: self.new_id("sub"),
            customer: customer.to_owned(),
            user: user.map(str::to_owned),
            status,
            created: self.now,
            updated: self.now,
            period: (self.now, trial_end.unwrap_or_else(|| months_after(self.now, months))),
            trial_end,
            pause: None,
            cancel_at: None,
            cancel_at_period_end: false,
            canceled_at: None,
            ended_at: None,
            price,
            quantity: 1,
        };
        let id = made.id.clone();
        self.changes += 1;
        self.subscriptions.insert(id.clone(), History::new(self.changes, made));
        if self.is_stripe() {
            self.emit("customer.subscription.created", ObjectKind::Subscription, &id);
        } else {
            self.emit("subscription_created", ObjectKind::Subscription, &id);
        }
        id
    }

    /// Creates the checkout session of a subscription (Stripe). The session names the user.
    pub fn session(&mut self, subscription: &str, user: Option<&str>) -> String {
        let customer = self.subscription(subscription).customer.clone();
        let made = Session {
            id: self.new_id("cs"),
            subscription: subscription.to_owned(),
            customer,
            user: user.map(str::to_owned),
            created: self.now,
        };
        let id = made.id.clone();
        self.changes += 1;
        self.sessions.insert(id.clone(), History::new(self.changes, made));
        self.emit("checkout.session.completed", ObjectKind::CheckoutSession, &id);
        id
    }

    /// Creates an order (Lemon Squeezy).
    pub fn order(&mut self, customer: &str, user: Option<&str>, price: usize) -> String {
        let made = Order {
            id: self.new_id("order"),
            customer: customer.to_owned(),
            user: user.map(str::to_owned),
            created: self.now,
            status: "paid",
            price,
            refunded: 0,
        };
        let id = made.id.clone();
        self.changes += 1;
        self.orders.insert(id.clone(), History::new(self.changes, made));
        self.emit("order_created", ObjectKind::Order, &id);
        id
    }

    /// Creates an invoice of a subscription for its current period, with one payment that succeeded or failed.
    pub fn invoice(&mut self, subscription: &str, reason: &'static str, paid: bool) -> String {
        let of = self.subscription(subscription).clone();
        let total = of.price().amount * of.quantity;
        let stripe = self.is_stripe();
        let payment = stripe.then(|| Payment {
            id: self.new_id("pi"),
            amount: total,
            status: if paid { "succeeded" } else { "requires_payment_method" },
            has_error: !paid,
            refunded: 0,
            dispute: None,
        });
        let status = match (paid, stripe) {
            (true, _) => "paid",
            (false, true) => "open",
            (false, false) => "pending",
        };
        let made = Invoice {
            id: self.new_id("in"),
            subscription: subscription.to_owned(),
            customer: of.customer,
            created: self.now,
            reason,
            status,
            price: of.price,
            total,
            period: of.period,
            payments: payment.into_iter().collect(),
            refunded: 0,
        };
        let id = made.id.clone();
        self.changes += 1;
        self.invoices.insert(id.clone(), History::new(self.changes, made));
        let event = match (stripe, paid) {
            (true, true) => "invoice.paid",
            (true, false) => "invoice.payment_failed",
            (false, true) => "subscription_payment_success",
            (false, false) => "subscription_payment_failed",
        };
        self.emit(event, ObjectKind::Invoice, &id);
        id
    }

    pub fn subscription(&self, id: &str) -> &Subscription {
        self.subscriptions.get(id).unwrap_or_else(|| panic!("no subscription {id}")).last()
    }

    /// True if a subscription has always had its current price.
    pub fn has_one_price(&self, id: &str) -> bool {
        let history = &self.subscriptions[id];
        history.since(0).all(|state| state.price == history.last().price)
    }

    /// Changes a subscription, and emits the event of the change.
    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut Subscription)) {
        self.changes += 1;
        let history = self.subscriptions.get_mut(id).unwrap();
        let mut next = Subscription { updated: self.now, ..history.last().clone() };
        change(&mut next);
        let ended = next.is_over() && !history.last().is_over();
        history.push(self.changes, next);
        let event = match (self.is_stripe(), ended) {
            (true, true) => "customer.subscription.deleted",
            (true, false) => "customer.subscription.updated",
            (false, true) => "subscription_expired",
            (false, false) => "subscription_updated",
        };
        self.emit(event, ObjectKind::Subscription, id);
    }

    /// Changes an invoice, and emits an event. Events of charges, disputes and payment intents name the payment instead
    /// of the invoice.
    pub fn change_invoice(
        &mut self,
        id: &str,
        event: &'static str,
        change: impl FnOnce(&mut Invoice),
    ) {
        self.changes += 1;
        let history = self.invoices.get_mut(id).unwrap();
        let mut next = history.last().clone();
        change(&mut next);
        let intent = next.payments.last().map(|payment| payment.id.clone());
        history.push(self.changes, next);
        match intent.filter(|_| event.starts_with("charge.") || event.starts_with("payment_")) {
            Some(intent) => self.emit(event, ObjectKind::PaymentIntent, &intent),
            None => self.emit(event, ObjectKind::Invoice, id),
        }
    }

    /// Changes an invoice and its history, as if it had been created in this state.
    pub fn amend_invoice(&mut self, id: &str, change: impl FnOnce(&mut Invoice)) {
        let mut made = self.invoices[id].last().clone();
        change(&mut made);
        self.invoices.insert(id.to_owned(), History::new(self.changes, made));
    }

    pub fn change_order(&mut self, id: &str, change: impl FnOnce(&mut Order)) {
        self.changes += 1;
        let history = self.orders.get_mut(id).unwrap();
        let mut next = history.last().clone();
        change(&mut next);
        history.push(self.changes, next);
        self.emit("order_refunded", ObjectKind::Order, id);
    }

    /// The invoice that has a payment intent.
    pub fn invoice_of(&self, intent: &str) -> Option<&Invoice> {
        let mut invoices = self.invoices.values().map(History::last);
        invoices.find(|invoice| invoice.payments.iter().any(|payment| payment.id == intent))
    }

    /// Puts a webhook into the outbox. Its payload shows the current state of the object.
    fn emit(&mut self, name: &'static str, kind: ObjectKind, id: &str) {
        let number = self.new_id("evt");
        let body = self.payload(name, &number, kind, id).to_string();
        self.outbox.push(Event { name, body: body.into_bytes(), kind, object: id.to_owned() });
    }

    fn payload(&self, name: &str, number: &str, kind: ObjectKind, id: &str) -> Value {
        if self.is_stripe() {
            stripe::event(self, name, number, kind, id)
        } else {
            lemon_squeezy::event(self, name, kind, id)
        }
    }

    /// The user whom the checkout of an object was made for.
    pub fn user_of(&self, kind: ObjectKind, id: &str) -> Option<String> {
        match kind {
            ObjectKind::Order => self.orders[id].last().user.clone(),
            ObjectKind::Invoice => {
                self.user_of(ObjectKind::Subscription, &self.invoices[id].last().subscription)
            }
            _ => {
                let mut sessions = self.sessions.values().map(History::last);
                let session = sessions.find(|session| session.subscription == id);
                let named = session.and_then(|session| session.user.clone());
                self.subscription(id).user.clone().or(named)
            }
        }
    }

    /// The orders for which our service has records: those of the price that is paid once.
    pub fn one_time_orders(&self) -> impl Iterator<Item = &Order> {
        self.orders.values().map(History::last).filter(|order| order.price == ONE_TIME)
    }
}
