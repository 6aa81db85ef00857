//! The settings file, and the tables that only it has: `[[clients]]`, `[checkout_hosts]`, `[billing]`,
//! `[providers]`, `[webhooks]` and `[limits]`.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use subscription_http::{Quota, RateLimits};

use super::providers::PROVIDER_KEYS;
use super::values::Limit;
use super::webhooks::WEBHOOK_KEYS;
use super::{Settings, unknown_names};
use crate::program::Failure;

/// A public client in the settings file.
#[derive(Deserialize)]
pub(crate) struct ConfiguredClient {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) scopes: Vec<String>,
    #[serde(default)]
    pub(crate) origins: Vec<String>,
}

/// The keys of `[[clients]]`, with their help texts.
pub(super) const CLIENT_KEYS: [(&str, &str); 4] = [
    ("id", "its client-id: 1 to 64 of a-z, 0-9 and -"),
    ("name", "its name for people [default: its id]"),
    ("scopes", "what it may do: \"auth\", \"plans:read\""),
    ("origins", "origins of its web pages, such as [\"https://shop.example\"] [default: none]"),
];

/// The keys of `[billing]`, with their help texts.
#[rustfmt::skip] // A row is a line.
pub(super) const BILLING_KEYS: [(&str, &str); 5] = [
    ("dunning", "when a failed payment is tried again, each time after the failure before, at most 15 times [default: [\"P1D\", \"P3D\", \"P5D\", \"P5D\"]]"),
    ("after_dunning", "what a subscription becomes if no try is left: \"unpaid\" or \"expired\" [default: \"unpaid\"]"),
    ("activation", "when a subscription becomes active: \"at_start\", or \"on_payment\" (within 23 hours) [default: \"at_start\"]"),
    ("remind_before", "when an event announces the end of a trial or a renewal, or \"off\" [default: \"P3D\"]"),
    ("missed_periods_max", "missed periods that are asked for after an outage, 0 to 366; older ones are skipped [default: 3]"),
];

/// A key of `[limits]`, its help text, and its field.
type LimitKey = (&'static str, &'static str, fn(&mut RateLimits) -> &mut Option<Quota>);

#[rustfmt::skip] // A row is a line.
pub(super) const LIMITS: [LimitKey; 8] = [
    ("sign_in", "sign-ins and sign-ups from one address", |limits| &mut limits.sign_in),
    ("refresh", "token refreshes from one address", |limits| &mut limits.refresh),
    ("refresh_session", "token refreshes of one session", |limits| &mut limits.refresh_session),
    ("failed_clients", "calls with an unknown client-id from one address", |limits| &mut limits.failed_clients),
    ("client", "all calls of one confidential client", |limits| &mut limits.client),
    ("address", "all calls from one address", |limits| &mut limits.address),
    ("webhook", "webhooks of payment providers from one address", |limits| &mut limits.webhook),
    ("endpoint", "pings, rewinds and resends of one webhook endpoint", |limits| &mut limits.endpoint),
];

/// The end of `--help`: the settings that have no flag.
pub(crate) fn help() -> String {
    let mut text = "Settings that only the settings file has:\n".to_owned();
    #[rustfmt::skip] // A row is a line.
    let tables: [(&str, &[(&str, &str)]); 5] = [
        ("[[clients]]           a public client: a browser or an app, which cannot keep a secret", &CLIENT_KEYS),
        (
            "[checkout_hosts]      the provider of a checkout page at a domain of yours: \"stripe\" or \
             \"lemon-squeezy\",\n                        as in \"pay.shop.example\" = \"stripe\"",
            &[],
        ),
        ("[billing]             subscriptions to plans with a currency, which the server bills", &BILLING_KEYS),
        ("[providers.NAME]      an account at a payment provider, whose subscriptions are followed here", &PROVIDER_KEYS),
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

pub(super) fn read(path: &Path) -> Result<Settings, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    let failure = |error: toml::de::Error| {
        let mut message = error.to_string();
        // The message quotes a line, which may hold the database's password, or a secret of a provider.
        if message.contains('@') || text.contains("providers") {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            message = format!("line {}: {}", before.matches('\n').count() + 1, error.message());
        }
        Failure::new(format!("{shown}: {message}"))
    };
    let unknown = unknown_names::in_file(&text).map_err(failure)?;
    if unknown.is_empty() {
        return toml::from_str(&text).map_err(failure);
    }
    Err(Failure::new(format!("{shown} has unknown keys\n  - {}", unknown.join("\n  - "))))
}
