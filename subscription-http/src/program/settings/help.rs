//! The settings that exist only in the settings file, with their help texts.

use std::fmt::Write as _;

use subscription_http::{Quota, RateLimits};

use super::providers::PROVIDER_KEYS;
use super::values::Limit;
use super::webhooks::WEBHOOK_KEYS;

/// The keys of `[[clients]]`, with their help texts.
pub(super) const CLIENT_KEYS: [(&str, &str); 4] = [
    ("id", "the client-id: 1 to 64 characters of a-z, 0-9 and -"),
    ("name", "the name of the client for people [default: the id]"),
    ("scopes", "a list of what the client may do: \"auth\", \"plans:read\""),
    (
        "origins",
        "origins of the client's web pages, such as [\"https://shop.example\"] [default: none]",
    ),
];

/// The keys of `[billing]`, with their help texts.
#[rustfmt::skip] // Keeps each row on one line.
pub(super) const BILLING_KEYS: [(&str, &str); 5] = [
    ("dunning", "the delays from each failure of a payment to the next attempt, at most 15 delays [default: [\"P1D\", \"P3D\", \"P5D\", \"P5D\"]]"),
    ("after_dunning", "the status of a subscription after the last retry failed: \"unpaid\" or \"expired\" [default: \"unpaid\"]"),
    ("activation", "when a subscription becomes active: \"at_start\", or \"on_payment\" (when its first payment succeeds, else it expires after 23 hours) [default: \"at_start\"]"),
    ("remind_before", "how long before a renewal, or before the end of a trial, an event announces it, or \"off\" [default: \"P3D\"]"),
    ("missed_periods_max", "the largest number of missed periods that are charged after an outage, 0 to 366; older ones are skipped [default: 3]"),
];

/// A key of `[limits]`, its help text, and its field.
type LimitKey = (&'static str, &'static str, fn(&mut RateLimits) -> &mut Option<Quota>);

#[rustfmt::skip] // Keeps each row on one line.
pub(super) const LIMITS: [LimitKey; 10] = [
    ("sign_in", "sign-ins and sign-ups from one address", |limits| &mut limits.sign_in),
    ("refresh", "token refreshes from one address", |limits| &mut limits.refresh),
    ("refresh_session", "token refreshes of one session", |limits| &mut limits.refresh_session),
    ("failed_clients", "calls with an unknown client-id from one address", |limits| &mut limits.failed_clients),
    ("client", "all calls of one confidential client", |limits| &mut limits.client),
    ("address", "all calls from one address", |limits| &mut limits.address),
    ("webhook", "webhooks of payment providers from one address", |limits| &mut limits.webhook),
    ("endpoint", "pings, rewinds and resends of one webhook endpoint", |limits| &mut limits.endpoint),
    ("person", "calls of one user under /me, with sessions and portal links", |limits| &mut limits.person),
    ("self_service", "changes that one user makes under /me", |limits| &mut limits.self_service),
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
        ("[billing]             how the server bills subscriptions to plans with a currency", &BILLING_KEYS),
        ("[providers.NAME]      an account at a payment provider, whose subscriptions are copied here", &PROVIDER_KEYS),
        ("[webhooks]            signed events that are sent to endpoints of clients", &WEBHOOK_KEYS),
    ];
    for (table, keys) in tables {
        writeln!(text, "  {table}").ok();
        for (key, help) in keys {
            writeln!(text, "    {key:<19} {help}").ok();
        }
    }
    text += "  [limits]              rate limits, as \"30/5m\" (30 requests in 5 minutes) or \"off\"; in development \
             the default of all is \"off\"\n";
    for (key, help, field) in LIMITS {
        let default = Limit(*field(&mut RateLimits::production()));
        writeln!(text, "    {key:<19} {help} [default: \"{default}\"]").ok();
    }
    text
}
