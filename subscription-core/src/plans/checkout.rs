//! Checkout links: the `href` of a plan, with the id of the buyer in its query.
//!
//! The payment provider returns the user's id with the purchase. A buyer can edit the link, so the id does not prove
//! who the buyer is.

use std::collections::BTreeMap;

use serde::Deserialize;
use url::{Host, Url, form_urlencoded};

use super::Plan;
use crate::values::{FaultCode, InvalidValue, UserId};

/// A payment provider whose checkout pages have a query parameter for the id of the buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckoutProvider {
    /// Pages at `*.lemonsqueezy.com`.
    LemonSqueezy,
    /// Pages at `buy.stripe.com`.
    Stripe,
}

/// The custom domains of payment providers: the provider of each host name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, CheckoutProvider>")]
pub struct CheckoutHosts(BTreeMap<String, CheckoutProvider>);

impl TryFrom<BTreeMap<String, CheckoutProvider>> for CheckoutHosts {
    type Error = InvalidValue;

    fn try_from(hosts: BTreeMap<String, CheckoutProvider>) -> Result<Self, InvalidValue> {
        let mut known = BTreeMap::new();
        for (text, provider) in hosts {
            let refused = |message: String| InvalidValue::new(FaultCode::BadFormat, message);
            let host = Host::parse(&text).ok().filter(|_| !text.contains('*'));
            let Some(Host::Domain(host)) = host else {
                let message = format!("must be host names such as pay.shop.example; not {text:?}");
                return Err(refused(message));
            };
            let host = host.trim_end_matches('.').to_owned();
            if known.insert(host, provider).is_some_and(|other| other != provider) {
                return Err(refused(format!("names {text:?} twice, with different providers")));
            }
        }
        Ok(Self(known))
    }
}

impl CheckoutHosts {
    /// The provider of a host; `None` if the provider is not known.
    fn provider(&self, host: &str) -> Option<CheckoutProvider> {
        let host = host.trim_end_matches('.');
        self.0.get(host).copied().or(match host {
            "buy.stripe.com" => Some(CheckoutProvider::Stripe),
            _ => host.ends_with(".lemonsqueezy.com").then_some(CheckoutProvider::LemonSqueezy),
        })
    }
}

impl Plan {
    /// The address where a user buys the plan: the plan's `href`, with the user's id in the query parameter that the
    /// host expects. The parameter is last in the query, and occurs only once. `None` if the plan has no `href`.
    pub fn checkout_url(&self, user_id: UserId, hosts: &CheckoutHosts) -> Option<String> {
        let href = self.href.as_ref()?.as_str();
        // The parser writes a host in lower case and in its ASCII form, as the keys of `hosts` are written.
        let url = Url::parse(href).ok();
        let provider = url.as_ref().and_then(Url::host_str).and_then(|host| hosts.provider(host));
        let (name, written) = match provider {
            Some(CheckoutProvider::LemonSqueezy) => {
                ("checkout[custom][user_id]", "checkout%5Bcustom%5D%5Buser_id%5D")
            }
            Some(CheckoutProvider::Stripe) => ("client_reference_id", "client_reference_id"),
            None => ("user_id", "user_id"),
        };
        let (before, fragment) = href.split_at(href.find('#').unwrap_or(href.len()));
        let (page, query) = before.split_once('?').unwrap_or((before, ""));
        let is_ours = |pair: &str| {
            form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(found, _)| found == name)
        };
        let others: Vec<_> = query.split('&').filter(|pair| !is_ours(pair)).collect();
        let others = others.join("&");
        let and = if others.is_empty() { "" } else { "&" };
        Some(format!("{page}?{others}{and}{written}={user_id}{fragment}"))
    }
}
