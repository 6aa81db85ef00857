//! The responses of the API to GET requests.

use serde_json::{Value, json};
use url::Url;

use super::history::History;
use super::model::Account;
use super::{lemon_squeezy, stripe};

/// A response: its status and its body.
pub(super) type Answer = (u16, Value);

/// The parameters of a query.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name)?.parse().ok()
    }
}

impl Account {
    /// The response to a GET request for a path with its query.
    pub(super) fn answer(&self, path_and_query: &str) -> Answer {
        let url = Url::parse("http://localhost").unwrap().join(path_and_query).unwrap();
        let pairs = url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned()));
        let parameters = Parameters(pairs.collect());
        let segments: Vec<_> = url.path().split('/').skip(1).collect();
        if self.is_stripe() {
            self.answer_of_stripe(url.path(), &segments, &parameters)
        } else {
            self.answer_of_lemon_squeezy(url.path(), &segments, &parameters)
        }
    }

    /// The state of an object that the API shows, and the index of that state. The state may be an old one if the API
    /// lags. `None` if the API does not show the object yet.
    pub(super) fn seen<'a, T: Clone + PartialEq>(
        &self,
        history: &'a History<T>,
    ) -> Option<(usize, &'a T)> {
        let place = history.place_after(self.changes.saturating_sub(self.lag))?;
        Some((place, history.at(place)?))
    }

    /// All objects of a kind, the newest first.
    fn all<'a, T: Clone + PartialEq + 'a>(
        &self,
        histories: impl DoubleEndedIterator<Item = &'a History<T>>,
    ) -> Vec<&'a T> {
        histories.rev().filter_map(|history| Some(self.seen(history)?.1)).collect()
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each route")]
    fn answer_of_stripe(&self, path: &str, segments: &[&str], query: &Parameters) -> Answer {
        let missing = json!({ "error": {
            "type": "invalid_request_error", "code": "resource_missing", "message": "No such object",
        } });
        let found = |object: Option<Value>| object.map_or((404, missing), |object| (200, object));
        let limit = query.number("limit").unwrap_or(10).min(100);
        let after = query.get("starting_after");
        let since = query.number("created[gte]").unwrap_or(i64::MIN);
        let intent = query.get("payment_intent");
        let listed = |all| (200, stripe::list(path, all, after, limit));
        let expanded = query.0.iter().filter(|(name, _)| name.starts_with("expand"));
        let levels = expanded.map(|(_, path)| path.split('.').count()).max().unwrap_or(0);
        if levels > 4 {
            return (
                400,
                json!({ "error": { "message": "You cannot expand more than 4 levels" } }),
            );
        }
        match segments {
            ["v1", "subscriptions", id] => found(
                self.subscriptions
                    .get(*id)
                    .and_then(|of| Some(stripe::subscription(self, self.seen(of)?.1))),
            ),
            ["v1", "invoices", id] => found(
                self.invoices
                    .get(*id)
                    .and_then(|of| Some(stripe::invoice(self, self.seen(of)?.1, levels))),
            ),
            ["v1", "checkout", "sessions", id] => found(
                self.sessions.get(*id).and_then(|of| Some(stripe::session(self, self.seen(of)?.1))),
            ),
            ["v1", "customers", id] => found(stripe::customer(self, id)),
            // Without `status=all`, the list omits ended subscriptions.
            ["v1", "subscriptions"] => {
                let all = self.all(self.subscriptions.values()).into_iter();
                let ended = query.get("status") == Some("all");
                let all = all.filter(|of| ended || of.status != "canceled");
                listed(all.map(|of| stripe::subscription(self, of)).collect())
            }
            ["v1", "invoices"] => {
                let all = self.all(self.invoices.values()).into_iter();
                let all = all.filter(|of| of.created >= since);
                listed(all.map(|of| stripe::invoice(self, of, 0)).collect())
            }
            ["v1", "checkout", "sessions"] => {
                let of = query.get("subscription");
                let all = self.all(self.sessions.values()).into_iter();
                let all = all.filter(|it| of.is_none_or(|of| it.subscription == of));
                listed(all.map(|of| stripe::session(self, of)).collect())
            }
            ["v1", "invoice_payments"] => {
                let intent = query.get("payment[payment_intent]");
                let all = self.all(self.invoices.values()).into_iter();
                let all = all.flat_map(|of| of.payments.iter().map(move |payment| (of, payment)));
                let all = all.filter(|(_, payment)| intent.is_none_or(|it| payment.id == it));
                let invoice = query.get("invoice");
                let all = all.filter(|(of, _)| invoice.is_none_or(|id| of.id == id));
                // A path of `expand` begins with `data`, which does not count as a level of an invoice payment.
                listed(
                    all.map(|(of, payment)| stripe::invoice_payment(self, of, payment, levels + 1))
                        .collect(),
                )
            }
            ["v1", list @ ("disputes" | "refunds")] => {
                let all = self.all(self.invoices.values()).into_iter();
                let all = all.flat_map(|of| &of.payments);
                let all = all.filter(|payment| intent.is_none_or(|it| payment.id == it));
                let charge = query.get("charge");
                let all = all
                    .filter(|payment| charge.is_none_or(|it| it == format!("ch_{}", payment.id)));
                listed(if *list == "disputes" {
                    let all = all.filter(|payment| payment.dispute.is_some());
                    all.map(|payment| stripe::dispute(self, payment)).collect()
                } else {
                    all.filter(|payment| payment.refunded > 0).map(stripe::refund).collect()
                })
            }
            _ => found(None),
        }
    }

    fn answer_of_lemon_squeezy(&self, path: &str, segments: &[&str], query: &Parameters) -> Answer {
        let missing = || json!({ "errors": [{ "status": "404", "title": "Not Found" }] });
        let found = |data: Option<Value>| {
            data.map_or_else(|| (404, missing()), |data| (200, lemon_squeezy::single(path, data)))
        };
        let (page, size) = (query.number("page[number]"), query.number("page[size]"));
        let (page, size) = (page.unwrap_or(1).max(1), size.unwrap_or(10).clamp(1, 100));
        let listed = |all: Vec<Value>| (200, lemon_squeezy::list(path, &all, page, size));
        match segments {
            ["v1", "subscriptions", id] => found(
                self.subscriptions
                    .get(*id)
                    .and_then(|of| Some(lemon_squeezy::subscription(self, self.seen(of)?.1))),
            ),
            ["v1", "subscription-invoices", id] => found(
                self.invoices
                    .get(*id)
                    .and_then(|of| Some(lemon_squeezy::invoice(self, self.seen(of)?.1))),
            ),
            ["v1", "orders", id] => found(
                self.orders
                    .get(*id)
                    .and_then(|of| Some(lemon_squeezy::order(self, self.seen(of)?.1))),
            ),
            ["v1", "customers", id] => found(lemon_squeezy::customer(self, id)),
            ["v1", "subscriptions"] => {
                let all = self.all(self.subscriptions.values()).into_iter();
                listed(all.map(|of| lemon_squeezy::subscription(self, of)).collect())
            }
            ["v1", "subscription-invoices"] => {
                let all = self.all(self.invoices.values()).into_iter();
                listed(all.map(|of| lemon_squeezy::invoice(self, of)).collect())
            }
            ["v1", "orders"] => {
                let all = self.all(self.orders.values()).into_iter();
                listed(all.map(|of| lemon_squeezy::order(self, of)).collect())
            }
            _ => found(None),
        }
    }
}
