//! The records that our service must have for an account, computed by rules that are written by hand from the tables of
//! the design.

use subscription_core::providers::{PauseMeans, ProviderKind};

use super::catalogue::{PRICES, Price};
use super::history::History;
use super::model::{Account, Invoice, Moment, Order, Payment, Subscription, months_after, written};

/// A subscription that our service must have. If the outer `Option` of `renews_at` or `ends_at` is `None`, the provider
/// does not set this field of our record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedSubscription {
    pub external_id: String,
    pub plan: &'static str,
    pub status: &'static str,
    pub starts_at: String,
    pub ends_at: Option<Option<String>>,
    pub renews_at: Option<Option<String>>,
    pub trial_ends_at: Option<String>,
    pub resumes_at: Option<String>,
    pub quantity: i64,
}

/// A payment that our service must have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedPayment {
    pub external_id: String,
    /// The external id of its subscription.
    pub subscription: String,
    pub amount: String,
    pub currency: &'static str,
    pub status: &'static str,
    pub kind: Option<&'static str>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
}

/// The subscriptions that our service must have, also those of orders.
pub fn subscriptions(account: &Account, pause: PauseMeans) -> Vec<ExpectedSubscription> {
    let own = account.subscriptions.values().map(History::last);
    let own = own.map(|of| subscription(account.kind, pause, of));
    own.chain(account.one_time_orders().map(order)).collect()
}

/// The payments that our service must have, also those of orders.
pub fn payments(account: &Account) -> Vec<ExpectedPayment> {
    let invoices = account.invoices.values().map(History::last);
    let of_invoices = invoices.flat_map(|of| invoice(account.kind, of));
    of_invoices.chain(account.one_time_orders().map(payment_of_order)).collect()
}

/// The external id of our record for a subscription.
pub fn external_id(kind: ProviderKind, id: &str) -> String {
    match kind {
        ProviderKind::Stripe => id.to_owned(),
        ProviderKind::LemonSqueezy => format!("ls_{id}"),
    }
}

pub fn subscription(
    kind: ProviderKind,
    pause: PauseMeans,
    of: &Subscription,
) -> ExpectedSubscription {
    let mut expected = ExpectedSubscription {
        external_id: external_id(kind, &of.id),
        plan: of.price().slug,
        status: "active",
        starts_at: written(of.created),
        ends_at: Some(None),
        renews_at: Some(None),
        trial_ends_at: None,
        resumes_at: None,
        quantity: of.quantity,
    };
    match kind {
        ProviderKind::Stripe => by_stripe(&mut expected, pause, of),
        ProviderKind::LemonSqueezy => by_lemon_squeezy(&mut expected, of),
    }
    expected
}

fn by_stripe(expected: &mut ExpectedSubscription, pause: PauseMeans, of: &Subscription) {
    let at = |moment: Option<Moment>| moment.map(written);
    let runs = matches!(of.status, "trialing" | "active");
    match of.status {
        "canceled" | "incomplete_expired" => {
            expected.status = "expired";
            expected.ends_at = Some(at(of.ended_at.or(of.canceled_at).or(Some(of.created))));
        }
        "incomplete" => {
            expected.status = "pending";
            expected.renews_at = Some(at(Some(of.period.1)));
        }
        "paused" => (expected.status, expected.renews_at) = ("paused", None),
        "past_due" | "unpaid" => {
            (expected.status, expected.renews_at) = (of.status, None);
            expected.ends_at = Some(at(of.cancel_at));
        }
        _ if runs && of.pause.is_some() && pause == PauseMeans::Stop => {
            (expected.status, expected.renews_at) = ("paused", None);
            expected.resumes_at = at(of.pause.and_then(|pause| pause.resumes_at));
        }
        _ if runs && (of.cancel_at.is_some() || of.cancel_at_period_end) => {
            expected.status = "cancelled";
            expected.ends_at = Some(at(of.cancel_at.or(Some(of.period.1))));
        }
        "trialing" => {
            expected.status = "on_trial";
            expected.trial_ends_at = at(of.trial_end);
            expected.renews_at = Some(at(of.trial_end));
        }
        "active" => expected.renews_at = Some(at(Some(of.period.1))),
        other => panic!("{other} is no status of Stripe"),
    }
}

fn by_lemon_squeezy(expected: &mut ExpectedSubscription, of: &Subscription) {
    let at = |moment: Option<Moment>| moment.map(written);
    match (of.status, of.pause) {
        ("on_trial", _) => {
            expected.status = "on_trial";
            expected.trial_ends_at = at(of.trial_end);
            expected.renews_at = Some(at(of.trial_end.or(Some(of.period.1))));
            expected.quantity = 1;
        }
        ("past_due" | "unpaid", _) => (expected.status, expected.renews_at) = (of.status, None),
        ("paused", pause) | (_, pause @ Some(_))
            if !matches!(of.status, "cancelled" | "expired") =>
        {
            expected.status =
                if pause.is_some_and(|pause| pause.free) { "active" } else { "paused" };
            expected.resumes_at = at(pause.and_then(|pause| pause.resumes_at));
            expected.renews_at = None;
        }
        ("active", _) => expected.renews_at = Some(at(Some(of.period.1))),
        ("cancelled" | "expired", _) => {
            expected.status = of.status;
            expected.ends_at = Some(at(of.ended_at.or(of.cancel_at)));
        }
        (other, _) => panic!("{other} is no status of Lemon Squeezy"),
    }
}

/// The payments of an invoice.
pub fn invoice(kind: ProviderKind, of: &Invoice) -> Vec<ExpectedPayment> {
    let period = match kind {
        ProviderKind::Stripe => of.period,
        ProviderKind::LemonSqueezy => (of.created, months_after(of.created, of.price().months)),
    };
    let named = match of.reason {
        "subscription_create" | "initial" => Some("initial"),
        "subscription_cycle" | "renewal" => Some("renewal"),
        "subscription_update" | "updated" => Some("proration"),
        _ => None,
    };
    let one = |id: String, amount, status| ExpectedPayment {
        external_id: id,
        subscription: external_id(kind, &of.subscription),
        amount: of.price().decimal(amount),
        currency: of.price().currency,
        status,
        kind: named,
        period_start: named.map(|_| written(period.0)),
        period_end: named.map(|_| written(period.1)),
    };
    if kind == ProviderKind::LemonSqueezy {
        let status = match of.status {
            _ if 0 < of.refunded && of.refunded < of.total => "partially_refunded",
            "paid" => "succeeded",
            "void" => "canceled",
            "refunded" => "refunded",
            "pending" => "pending",
            other => panic!("{other} is no status of an invoice of Lemon Squeezy"),
        };
        return vec![one(format!("ls_inv_{}", of.id), of.total, status)];
    }
    if of.payments.is_empty() && of.status == "paid" {
        return vec![one(of.id.clone(), of.total, "succeeded")];
    }
    let payments = of.payments.iter();
    payments.map(|it| one(it.id.clone(), it.amount, payment_by_stripe(of, it))).collect()
}

fn payment_by_stripe(of: &Invoice, payment: &Payment) -> &'static str {
    let dispute = payment.dispute.as_ref().map(|dispute| dispute.status);
    let is_open = |status: &str| {
        matches!(status.trim_start_matches("warning_"), "needs_response" | "under_review")
    };
    match payment.status {
        _ if dispute.is_some_and(is_open) => "disputed",
        _ if dispute == Some("lost") || payment.refunded == payment.amount => "refunded",
        _ if payment.refunded > 0 => "partially_refunded",
        "succeeded" => "succeeded",
        "processing" => "processing",
        "canceled" => "canceled",
        _ if of.status == "void" => "canceled",
        _ if of.status == "uncollectible" || payment.has_error => "failed",
        _ => "pending",
    }
}

pub fn order(of: &Order) -> ExpectedSubscription {
    let status = match of.status {
        "paid" | "partial_refund" => "active",
        "pending" => "pending",
        _ => "expired",
    };
    ExpectedSubscription {
        external_id: format!("ls_ord_{}", of.id),
        plan: PRICES[of.price].slug,
        status,
        starts_at: written(of.created),
        // An order has no end. The record of a refunded order ends at the time when our service observed the refund.
        ends_at: (status != "expired").then_some(None),
        renews_at: Some(None),
        trial_ends_at: None,
        resumes_at: None,
        quantity: 1,
    }
}

pub fn payment_of_order(of: &Order) -> ExpectedPayment {
    let price: Price = PRICES[of.price];
    let status = match of.status {
        "paid" => "succeeded",
        "partial_refund" => "partially_refunded",
        "refunded" => "refunded",
        "fraudulent" => "disputed",
        "failed" => "failed",
        _ => "pending",
    };
    ExpectedPayment {
        external_id: format!("ls_ord_{}", of.id),
        subscription: format!("ls_ord_{}", of.id),
        amount: price.decimal(price.amount),
        currency: price.currency,
        status,
        kind: None,
        period_start: None,
        period_end: None,
    }
}
