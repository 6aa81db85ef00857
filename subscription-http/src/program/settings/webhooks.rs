//! The table `[webhooks]`: whether events are sent to endpoints, and to which addresses. All faults are reported in one
//! error.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use subscription_core::webhooks::{AddressRules, IpNet};
use subscription_http::{DeliverSettings, HttpDeliver};
use toml::{Table, Value};

use super::{Mode, Settings};
use crate::program::Failure;

/// The keys of `[webhooks]`, with their help texts.
#[rustfmt::skip] // Keeps each row on one line.
pub(super) const WEBHOOK_KEYS: [(&str, &str); 4] = [
    ("enabled", "send events to the endpoints that clients create [default: true in development or if this table exists, otherwise false]"),
    ("allow", "private networks where endpoints are allowed, also without TLS, such as [\"10.1.0.0/16\"] [default: none; in development this machine]"),
    ("deny", "networks that nothing is sent to, even if they are public or allowed [default: none]"),
    ("ca_file", "a PEM file of root certificates to check endpoints with [default: the roots that browsers trust]"),
];

/// The checked settings: the HTTP client that sends, and the addresses that it may send to.
pub(crate) struct WebhookSettings {
    pub(crate) transport: HttpDeliver,
    pub(crate) addresses: AddressRules,
}

impl Settings {
    /// True if events are sent to endpoints.
    pub(crate) fn has_webhooks(&self) -> bool {
        let enabled = self.webhooks.as_ref().and_then(|table| table.get("enabled"));
        let default = self.mode == Mode::Development || self.webhooks.is_some();
        enabled.and_then(Value::as_bool).unwrap_or(default)
    }

    /// The checked settings, or one error with all faults. `None` if the server sends no webhooks.
    pub(crate) fn webhook_settings(&self) -> Result<Option<WebhookSettings>, Failure> {
        let empty = Table::new();
        let mut faults = Vec::new();
        let table = match &self.webhooks {
            None => &empty,
            Some(Value::Table(table)) => table,
            Some(_) => return Err(Failure::new("webhooks must be a table: [webhooks]")),
        };
        if table.get("enabled").is_some_and(|enabled| !enabled.is_bool()) {
            faults.push("webhooks.enabled must be true or false".to_owned());
        }
        let allow = networks(table, "allow", &mut faults);
        let deny = networks(table, "deny", &mut faults);
        let addresses = AddressRules::default().with_allow(allow).with_deny(deny);
        let addresses = addresses.with_loopback(self.mode == Mode::Development);
        let roots = roots(table).map_err(|fault| faults.push(format!("webhooks.ca_file {fault}")));
        let transport = DeliverSettings::default().with_addresses(addresses.clone());
        let transport = HttpDeliver::new(&transport.with_roots(roots.unwrap_or_default()))
            .map_err(|error| faults.push(format!("webhooks.ca_file cannot be used: {error}")));
        match transport {
            Ok(transport) if faults.is_empty() => {
                Ok(self.has_webhooks().then_some(WebhookSettings { transport, addresses }))
            }
            _ => {
                let faults = faults.join("\n  - ");
                Err(Failure(format!("[webhooks] cannot be used\n  - {faults}")))
            }
        }
    }
}

/// A list of networks.
fn networks(table: &Table, key: &str, faults: &mut Vec<String>) -> Vec<IpNet> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let example = "must be a list of networks such as [\"10.1.0.0/16\", \"fd00::/8\"]";
    let Some(items) = value.as_array() else {
        faults.push(format!("webhooks.{key} {example}"));
        return Vec::new();
    };
    let mut networks = Vec::new();
    for item in items {
        match item.as_str().map(str::parse::<IpNet>) {
            Some(Ok(network)) if network.addr() == network.network() => networks.push(network),
            Some(Ok(network)) => {
                let meant = network.trunc();
                faults.push(format!(
                    "webhooks.{key}: {network} has bits after its prefix: did you mean {meant}?"
                ));
            }
            _ => {
                let shown = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
                faults
                    .push(format!("webhooks.{key}: {shown} is not a network such as 10.1.0.0/16"));
            }
        }
    }
    networks
}

/// The root certificates of the file that `ca_file` names. Empty if no file is named.
fn roots(table: &Table) -> Result<Vec<Vec<u8>>, String> {
    let Some(value) = table.get("ca_file") else { return Ok(Vec::new()) };
    let path = value.as_str().ok_or("must be the name of a file")?;
    let read = |error| format!("{path} cannot be read: {error}");
    let certificates = CertificateDer::pem_file_iter(path).map_err(read)?;
    let roots: Result<Vec<_>, _> = certificates.map(|one| one.map(|one| one.to_vec())).collect();
    match roots.map_err(read)? {
        roots if roots.is_empty() => Err(format!("{path} has no certificate")),
        roots => Ok(roots),
    }
}
