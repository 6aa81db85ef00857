//! The settings that exist only in the settings file, with their help texts.

use std::fmt::Write as _;

use subscription_http::{Quota, RateLimits};

use super::providers::PROVIDER_KEYS;
use super::values::Limit;
use super::webhooks::WEBHOOK_KEYS;

/// The keys of `[[clients]]`, with their help texts.
pub(super) const CLIENT_KEYS: [(&str, &str); 4] = [
    ("id", "its client-id: 1 to 64 of a-z, 0-9 and -"),
    ("name", "its name for people [default: its id]"),
    ("scopes", "what it may do: \"auth\", \"plans:read\""),
    ("origins", "origins of its web pages, such as [\"https://shop.example\"] [default: none]"),
];

/// The keys of `[billing]`, with their help texts.
#[rustfmt::skip] // Keeps each row on one line.
pub(super) const BILLING_KEYS: [(&str, &str); 5] = [
    ("dunning", "the delays from each failure of a payment to its next attempt, at most 15 [default: [\"P1D\", \"P3D\", \"P5D\", \"P5D\"]]"),
    ("after_dunning", "the status of a subscription after the last retry failed: \"unpaid\" or \"expired\" [default: \"unpaid\"]"),
    ("activation", "when a subscription becomes active: \"at_start\", or \"on_payment\" (when its first payment succeeds, else it expires after 23 hours) [default: \"at_start\"]"),
    ("remind_before", "how long before the end of a trial or a renewal an event announces it, or \"off\" [default: \"P3D\"]"),
    ("missed_periods_max", "missed periods that are charged after an outage, 0 to 366; older ones are skipped [default: 3]"),
];

/// A key of `[limits]`, its help text, and its field.
type LimitKey = (&'static str, &'static str, fn(&mut RateLimits) -> &mut Option<Quota>);

#[rustfmt::skip] // Keeps each row on one line.
pub(super) const LIMITS: [LimitKey; 9] = [
    ("sign_in", "sign-ins and sign-ups from one address", |limits| &mut limits.sign_in),
    ("refresh", "token refreshes from one address", |limits| &mut limits.refresh),
    ("refresh_session", "token refreshes of one session", |limits| &mut limits.refresh_session),
    ("failed_clients", "calls with an unknown client-id from one address", |limits| &mut limits.failed_clients),
    ("client", "all calls of one confidential client", |limits| &mut limits.client),
    ("address", "all calls from one address", |limits| &mut limits.address),
    ("webhook", "webhooks of payment providers from one address", |limits| &mut limits.webhook),
    ("endpoint", "pings, rewinds and resends of one webhook endpoint", |limits| &mut limits.endpoint),
    ("portal", "calls of one user with links to the portal", |limits| &mut limits.portal),
];

/// The last part of `--help`: the settings that have no flag.
pub(crate) fn help() -> String {
    let mut text = "Settings that only the settings file has:\n".to_owned();
    #[rustfmt::skip] // Keeps each row on one line.
    let tables: [(&str, &[(&str, &str)]); 5] = [
        ("[[clients]]           a public client: a browser or an app, which cannot keep a secret", &CLIENT_KEYS),
        (
            "[checkout_hosts]      the provider of a checkout page at a domain of yours: \"stripe\" or \
             \"lemon-squeezy\",\n                        as in \"pay.shop.example\" = \"stripe\"",
            &[],
        ),
        ("[billing]             subscriptions to plans with a currency, which the server bills", &BILLING_KEYS),
        ("[providers.NAME]      an account at a payment provider, whose subscriptions are copied here", &PROVIDER_KEYS),
        ("[webhooks]            events that are sent to endpoints of clients, signed", &WEBHOOK_KEYS),
    ];
    for (table, keys) in tables {
        writeln!(text, "  {table}").ok();
        for (key, help) in keys {
            writeln!(text, "    {key:<19} {help}").ok();
        }
    }
    text += "  [limits]              rate limits, as \"30/5m\" (30 requests in 5 minutes) or \"off\"; all are off in \
             development\n";
    for (key, help, field) in LIMITS {
        let default = Limit(*field(&mut RateLimits::production()));
        writeln!(text, "    {key:<19} {help} [default: \"{default}\"]").ok();
    }
    text
}
