//! The random changes of an account.

use super::catalogue::{ONE_TIME, PRICES};
use super::history::History;
use super::model::{Account, Dispute, Invoice, Pause, Payment, Subscription, months_after};
use crate::rng::Rng;

const DAY: i64 = 86_400;

/// Maximum number of subscriptions of an account.
const SUBSCRIPTIONS_MAX: usize = 6;

impl Account {
    /// Makes one random change. Each customer belongs to one of the users, but a stranger may buy as the customer of
    /// another user. The user of a subscription is named in its data, or in its checkout session.
    pub fn live(&mut self, rng: &Rng, users: &[String]) {
        let living = self.subscriptions.values().map(History::last);
        let living: Vec<_> = living.filter(|of| !of.is_over()).cloned().collect();
        let room = self.subscriptions.len() < SUBSCRIPTIONS_MAX;
        match rng.below(10) {
            0 | 1 if room => self.begin(rng, users),
            0..3 if !self.invoices.is_empty() => self.change_some_invoice(rng),
            3 if !self.is_stripe() => self.live_an_order(rng, users),
            _ => match rng.pick(living) {
                Some(of) => self.live_on(rng, &of),
                None if room => self.begin(rng, users),
                None => self.change_some_invoice(rng),
            },
        }
    }

    /// A random user, and a customer for the purchase. A user may have several customers, and a stranger may buy as the
    /// customer of another user.
    fn customer_of(&mut self, rng: &Rng, users: &[String]) -> (String, String) {
        let user = rng.pick(users.iter().cloned()).unwrap();
        if self.strangers > 0
            && rng.percent(self.strangers)
            && let Some(customer) = rng.pick(self.customers.keys().cloned())
        {
            return (customer, user);
        }
        (self.customer(), user)
    }

    fn begin(&mut self, rng: &Rng, users: &[String]) {
        let (customer, user) = self.customer_of(rng, users);
        let price = rng.below(ONE_TIME);
        let trial_end = rng.maybe(30, |_| self.now + 14 * DAY);
        if self.is_stripe() {
            let in_session = rng.percent(50);
            let named = Some(user.as_str()).filter(|_| !in_session);
            let id = self.subscribe(&customer, named, price, trial_end);
            if trial_end.is_none() && rng.percent(30) {
                self.change(&id, |of| of.status = "incomplete");
            }
            if in_session {
                self.session(&id, Some(&user));
            }
            if trial_end.is_none() {
                let paid = self.subscription(&id).status == "active";
                self.invoice(&id, "subscription_create", paid);
            }
        } else {
            self.order(&customer, Some(&user), price);
            let id = self.subscribe(&customer, Some(&user), price, trial_end);
            if trial_end.is_none() {
                self.invoice(&id, "initial", true);
            }
        }
    }

    fn live_an_order(&mut self, rng: &Rng, users: &[String]) {
        let some = rng.pick(self.one_time_orders().map(|order| order.id.clone()));
        match some {
            Some(id) if self.orders.len() > 3 || rng.percent(50) => {
                let total = PRICES[ONE_TIME].amount;
                let (status, refunded) = match rng.below(4) {
                    0 => ("paid", 0),
                    1 => ("partial_refund", total / 3),
                    2 => ("refunded", total),
                    _ => ("fraudulent", 0),
                };
                self.change_order(&id, |of| (of.status, of.refunded) = (status, refunded));
            }
            _ => {
                let (customer, user) = self.customer_of(rng, users);
                self.order(&customer, Some(&user), ONE_TIME);
            }
        }
    }

    fn live_on(&mut self, rng: &Rng, of: &Subscription) {
        let (id, now, stripe) = (of.id.as_str(), self.now, self.is_stripe());
        let (ended, late) = (if stripe { "canceled" } else { "expired" }, rng.percent(30));
        match of.status {
            "incomplete" if rng.percent(30) => self.change(id, |of| {
                of.status = "incomplete_expired";
                of.ended_at = Some(now);
            }),
            "incomplete" => {
                self.change(id, |of| of.status = "active");
                self.pay_open_invoices(id);
            }
            "past_due" | "unpaid" => match rng.below(4) {
                0 => self.change(id, |of| of.status = "unpaid"),
                1 => self.change(id, |of| {
                    of.status = ended;
                    (of.canceled_at, of.ended_at) = (Some(now), Some(now));
                }),
                _ => {
                    self.change(id, |of| of.status = "active");
                    self.pay_open_invoices(id);
                }
            },
            "paused" => self.change(id, |of| {
                of.status = "active";
                of.pause = None;
            }),
            "cancelled" if rng.percent(50) => self.change(id, |of| {
                of.status = "expired";
                of.ended_at = of.cancel_at.map(|at| at.min(now));
            }),
            _ if of.cancel_at_period_end && !rng.percent(20) => self.change(id, |of| {
                (of.cancel_at_period_end, of.cancel_at, of.canceled_at) = (false, None, None);
                of.status = if of.status == "cancelled" { "active" } else { of.status };
            }),
            // The state changes from X to Y and back to X within one second.
            _ => match rng.below(9) {
                0 => self.change(id, |of| of.quantity = if of.quantity == 1 { 3 } else { 1 }),
                1 => self.change(id, |of| {
                    (of.cancel_at_period_end, of.canceled_at) = (true, Some(now));
                    of.cancel_at = Some(of.period.1);
                    of.status = if stripe { of.status } else { "cancelled" };
                }),
                2 => self.change(id, |of| {
                    of.status = ended;
                    (of.canceled_at, of.ended_at) = (Some(now), Some(now));
                }),
                3 => self.pause(rng, id),
                4 => self.change(id, |of| {
                    of.price = (of.price + 1) % ONE_TIME;
                    of.period = (now, months_after(now, PRICES[of.price].months));
                    of.trial_end = None;
                    of.status = "active";
                }),
                5 if stripe && of.status == "trialing" => {
                    self.change(id, |of| of.status = "paused");
                }
                _ => self.renew(id, !late),
            },
        }
    }

    fn pause(&mut self, rng: &Rng, id: &str) {
        let resumes_at = rng.maybe(50, |_| self.now + 30 * DAY);
        let pause = Pause { free: rng.percent(50), resumes_at };
        let stripe = self.is_stripe();
        self.change(id, |of| {
            of.pause = if of.pause.is_some() { None } else { Some(pause) };
            if !stripe {
                of.status = if of.pause.is_some() { "paused" } else { "active" };
            }
        });
    }

    /// Begins the next period of a subscription, paid or not.
    fn renew(&mut self, id: &str, paid: bool) {
        let reason = if self.is_stripe() { "subscription_cycle" } else { "renewal" };
        let now = self.now;
        self.change(id, |of| {
            of.status = if paid { "active" } else { "past_due" };
            of.period = (now, months_after(now, of.price().months));
            (of.trial_end, of.pause) = (None, None);
            (of.cancel_at_period_end, of.cancel_at, of.canceled_at) = (false, None, None);
        });
        let id = self.invoice(id, reason, paid);
        if paid && self.is_stripe() && self.now % 7 == 0 {
            // The invoice was paid out of band before our service saw it.
            self.amend_invoice(&id, |of| of.payments.clear());
        }
    }

    fn pay_open_invoices(&mut self, subscription: &str) {
        let invoices = self.invoices.values().map(History::last);
        let open = invoices.filter(|of| matches!(of.status, "open" | "pending"));
        let open = open.filter(|of| of.subscription == subscription).map(|of| of.id.clone());
        let event =
            if self.is_stripe() { "invoice.paid" } else { "subscription_payment_recovered" };
        for id in open.collect::<Vec<_>>() {
            self.change_invoice(&id, event, paid);
        }
    }

    fn change_some_invoice(&mut self, rng: &Rng) {
        let ids: Vec<_> = self.invoices.keys().cloned().collect();
        let Some(id) = rng.pick(ids) else { return };
        let of = self.invoices[&id].last().clone();
        if !self.is_stripe() {
            let (event, status, refunded) = match (of.status, rng.below(3)) {
                ("pending", 0) => ("subscription_payment_failed", "void", 0),
                ("pending", _) => ("subscription_payment_recovered", "paid", 0),
                ("paid", 0) => ("subscription_payment_refunded", "partial_refund", of.total / 2),
                ("paid", _) => ("subscription_payment_refunded", "refunded", of.total),
                _ => return,
            };
            self.change_invoice(&id, event, |of| (of.status, of.refunded) = (status, refunded));
            return;
        }
        match (of.status, rng.below(6)) {
            ("open", 0) => self.change_invoice(&id, "invoice.voided", |of| of.status = "void"),
            ("open", 1) => self.change_invoice(&id, "invoice.marked_uncollectible", |of| {
                of.status = "uncollectible";
            }),
            ("open", 2) => self.change_invoice(&id, "payment_intent.processing", |of| {
                set(of, |payment| (payment.status, payment.has_error) = ("processing", false));
            }),
            ("open", 3) => self.change_invoice(&id, "payment_intent.canceled", |of| {
                set(of, |payment| payment.status = "canceled");
            }),
            ("open", _) => self.change_invoice(&id, "invoice_payment.paid", paid),
            ("paid", 0 | 1) => self.change_invoice(&id, "charge.refunded", |of| {
                set(of, |payment| payment.refunded = payment.amount / 2);
            }),
            ("paid", 2) => self.change_invoice(&id, "charge.refunded", |of| {
                set(of, |payment| payment.refunded = payment.amount);
            }),
            ("paid", _) => self.dispute(rng, &id),
            _ => {}
        }
    }

    fn dispute(&mut self, rng: &Rng, id: &str) {
        let number = self.new_id("dp");
        let (open, closed) =
            (rng.pick(["needs_response", "under_review", "warning_needs_response"]), {
                rng.pick(["won", "lost"])
            });
        let of = self.invoices[id].last().payments.last();
        let is_open = of.is_some_and(|payment| payment.dispute.is_some());
        let event = if is_open { "charge.dispute.closed" } else { "charge.dispute.created" };
        self.change_invoice(id, event, |of| {
            set(of, |payment| {
                let status = if is_open { closed } else { open }.unwrap();
                let id = payment.dispute.take().map_or(number, |dispute| dispute.id);
                payment.dispute = Some(Dispute { id, status });
            });
        });
    }
}

/// Makes an invoice paid. A cancelled payment stays cancelled, and another payment is added that succeeds.
fn paid(of: &mut Invoice) {
    of.status = "paid";
    if let Some(last) = of.payments.last().filter(|last| last.status == "canceled") {
        let again = Payment { id: format!("{}b", last.id), ..last.clone() };
        of.payments.push(again);
    }
    set(of, |payment| (payment.status, payment.has_error) = ("succeeded", false));
}

fn set(of: &mut Invoice, change: impl FnOnce(&mut Payment)) {
    if let Some(payment) = of.payments.last_mut() {
        change(payment);
    }
}
