//! The table `[providers]`: the accounts at payment providers whose subscriptions the server records.
//!
//! This module reads the values of the table itself: an error of the TOML parser would quote the values, and some of
//! them are secrets. All faults are reported in one error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::providers::{PauseMeans, ProviderKind};
use subscription_core::{Href, Slug};
use toml::{Table, Value};
use url::{Host, Url};

use super::{Mode, Settings, Users};
use crate::program::Failure;

/// The keys of `[providers.NAME]`, with their help texts.
#[rustfmt::skip] // Keeps each row on one line.
pub(super) const PROVIDER_KEYS: [(&str, &str); 9] = [
    ("kind", "the provider: \"stripe\" or \"lemon_squeezy\""),
    ("signing_secrets", "1 to 4 secrets, one of which signs the provider's webhooks; or list them, with commas, in the variable SUBSCRIPTION_PROVIDER_<NAME>_SIGNING_SECRETS"),
    ("api_key", "a key to read the provider's API; at Stripe a restricted key is enough; or set the variable SUBSCRIPTION_PROVIDER_<NAME>_API_KEY"),
    ("live", "true: live data is copied; false: test data [default: true in production, false in development]"),
    ("pause", "Stripe: while collection is paused, a subscription continues (\"keep\") or is paused (\"stop\") [default: \"keep\"]"),
    ("match_email", "true: a customer is bound to the user with the same verified e-mail address [default: false]"),
    ("manage_url", "the page at which subscribers manage their subscriptions [default: none]"),
    ("plans", "the slug of the plan for each price or variant, as in price_1AbC = \"pro\""),
    ("api_base", "the URL of a stand-in for the provider's API, on this machine; for tests in development"),
];

/// The minimum number of characters of a signing secret, and the maximum number of secrets.
const SECRET_CHARS_MIN: usize = 16;
const SECRETS_MAX: usize = 4;

/// The endings of a provider's environment variables, after `SUBSCRIPTION_PROVIDER_<NAME>_`.
const VARIABLES: [&str; 2] = ["SIGNING_SECRETS", "API_KEY"];

/// The prefix of the environment variables of all providers.
pub(super) const VARIABLE_PREFIX: &str = "SUBSCRIPTION_PROVIDER_";

/// The settings of one provider, checked.
pub(crate) struct ProviderSettings {
    pub(crate) name: Slug,
    pub(crate) kind: ProviderKind,
    pub(crate) signing_secrets: Vec<SecretString>,
    pub(crate) api_key: SecretString,
    pub(crate) live: bool,
    pub(crate) pause: PauseMeans,
    pub(crate) match_email: bool,
    pub(crate) any_user: bool,
    pub(crate) manage_url: Option<Href>,
    pub(crate) plans: BTreeMap<String, Slug>,
    pub(crate) api_base: Option<Url>,
}

impl Settings {
    /// True if a provider is configured.
    pub(crate) fn has_providers(&self) -> bool {
        !self.provider_names().is_empty()
    }

    fn provider_names(&self) -> Vec<&str> {
        let table = self.providers.as_ref().and_then(Value::as_table);
        table.into_iter().flat_map(Table::keys).map(String::as_str).collect()
    }

    /// The names of the environment variables that configured providers may have.
    pub(super) fn provider_variables(&self) -> Vec<String> {
        let names = self.provider_names();
        names.iter().flat_map(|name| VARIABLES.map(|ending| variable(name, ending))).collect()
    }

    /// The settings of all providers, or one error with all faults. Logs a warning for a setting that is allowed but
    /// unwise.
    pub(crate) fn provider_settings(&self) -> Result<Vec<ProviderSettings>, Failure> {
        let Some(all) = &self.providers else { return Ok(Vec::new()) };
        let mut faults = Vec::new();
        let empty = Table::new();
        let all = all.as_table().unwrap_or_else(|| {
            faults.push("providers must be a table, such as [providers.stripe]".to_owned());
            &empty
        });
        let mut read = Vec::new();
        for (name, table) in all {
            let Some(table) = table.as_table() else {
                faults.push(format!("providers.{name} must be a table"));
                continue;
            };
            let mut reader = Reader { name, table, faults: &mut faults };
            read.extend(reader.provider(self.mode, self.users));
        }
        shared_secrets(&read, &mut faults);
        if !faults.is_empty() {
            let faults = faults.join("\n  - ");
            return Err(Failure(format!("[providers] cannot be used\n  - {faults}")));
        }
        for warning in read.iter().flat_map(|provider| warnings(provider, self.mode)) {
            tracing::warn!("{warning}");
        }
        Ok(read)
    }
}

/// The environment variable of a provider.
fn variable(name: &str, ending: &str) -> String {
    let name = name.to_ascii_uppercase().replace('-', "_");
    format!("{VARIABLE_PREFIX}{name}_{ending}")
}

/// Adds a fault if two providers have a signing secret in common, because each would accept the other's webhooks.
fn shared_secrets(providers: &[ProviderSettings], faults: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, &Slug> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for provider in providers {
        for secret in &provider.signing_secrets {
            let other = seen.insert(secret.expose_secret(), &provider.name);
            if let Some(other) = other.filter(|other| **other != provider.name)
                && told.insert((other, &provider.name))
            {
                let name = &provider.name;
                faults.push(format!(
                    "providers.{other}.signing_secrets and providers.{name}.signing_secrets have a secret in common"
                ));
            }
        }
    }
}

fn warnings(provider: &ProviderSettings, mode: Mode) -> Vec<String> {
    let ProviderSettings { name, kind, api_key, live, .. } = provider;
    let mut warnings = Vec::new();
    if *kind == ProviderKind::Stripe && api_key.expose_secret().starts_with("sk_") {
        warnings.push(format!(
            "providers.{name}.api_key is a secret key (sk_), which can do everything: use a restricted key (rk_) that \
             only reads"
        ));
    }
    if mode == Mode::Production && !live {
        warnings.push(format!("providers.{name}.live is false in production: test data is copied"));
    }
    warnings
}

/// Reads the table of one provider.
struct Reader<'a> {
    name: &'a str,
    table: &'a Table,
    faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    /// The settings of the provider. `None` if they have faults.
    fn provider(&mut self, mode: Mode, users: Users) -> Option<ProviderSettings> {
        let faults_before = self.faults.len();
        let name = self.name.parse().map_err(|error| {
            let name = self.name;
            self.faults.push(format!("providers.{name}: the name {error}"));
        });
        let kind = self.kind();
        let live = self.boolean("live").unwrap_or(mode == Mode::Production);
        let signing_secrets = self.signing_secrets();
        let api_key = self.api_key(kind, live);
        let pause = self.pause(kind);
        let match_email = self.boolean("match_email").unwrap_or(false);
        let manage_url = self.manage_url();
        let plans = self.plans();
        let api_base = self.api_base(mode);
        if self.faults.len() > faults_before {
            return None;
        }
        Some(ProviderSettings {
            name: name.ok()?,
            kind: kind?,
            signing_secrets,
            api_key: api_key?,
            live,
            pause,
            match_email,
            any_user: users == Users::Any,
            manage_url,
            plans,
            api_base,
        })
    }

    fn fault(&mut self, key: &str, message: impl Display) {
        let name = self.name;
        self.faults.push(format!("providers.{name}.{key} {message}"));
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.table.get(key)?.as_str().map(str::to_owned);
        if text.is_none() {
            self.fault(key, "must be a text");
        }
        text
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<T> {
        let text = self.text(key)?;
        text.parse().map_err(|error| self.fault(key, error)).ok()
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.table.get(key)?.as_bool();
        if value.is_none() {
            self.fault(key, "must be true or false");
        }
        value
    }

    fn kind(&mut self) -> Option<ProviderKind> {
        if !self.table.contains_key("kind") {
            self.fault("kind", "is required: \"stripe\" or \"lemon_squeezy\"");
        }
        self.parsed("kind")
    }

    fn signing_secrets(&mut self) -> Vec<SecretString> {
        const KEY: &str = "signing_secrets";
        let variable = variable(self.name, VARIABLES[0]);
        let secrets: Vec<String> = match (std::env::var(&variable), self.table.get(KEY)) {
            (Ok(text), _) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(str::to_owned).collect()
            }
            (Err(_), Some(value)) => {
                // The parser's error is not shown: it may quote a secret.
                let Ok(texts) = value.clone().try_into() else {
                    self.fault(KEY, "must be a list of texts");
                    return Vec::new();
                };
                texts
            }
            (Err(_), None) => Vec::new(),
        };
        if secrets.is_empty() {
            self.fault(KEY, format!("is required (or {variable})"));
        }
        if secrets.len() > SECRETS_MAX {
            self.fault(KEY, format!("has more than {SECRETS_MAX} secrets"));
        }
        if secrets.iter().any(|secret| secret.chars().count() < SECRET_CHARS_MIN) {
            self.fault(KEY, format!("has a secret of less than {SECRET_CHARS_MIN} characters"));
        }
        secrets.into_iter().map(SecretString::from).collect()
    }

    fn api_key(&mut self, kind: Option<ProviderKind>, live: bool) -> Option<SecretString> {
        const KEY: &str = "api_key";
        let variable = variable(self.name, VARIABLES[1]);
        let key = std::env::var(&variable).ok().or_else(|| self.text(KEY));
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            // A value that is not a text has already been reported as a fault by `text`.
            if self.table.get(KEY).is_none_or(Value::is_str) {
                self.fault(KEY, format!("is required (or {variable})"));
            }
            return None;
        };
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.fault(KEY, "must be visible ASCII characters");
        }
        if kind == Some(ProviderKind::Stripe) {
            let (other, mode) = if live { ("_test_", "test") } else { ("_live_", "live") };
            if key.contains(other) {
                self.fault(KEY, format!("is a key of {mode} mode ({other}), but live is {live}"));
            }
        }
        Some(key.into())
    }

    fn pause(&mut self, kind: Option<ProviderKind>) -> PauseMeans {
        if kind == Some(ProviderKind::LemonSqueezy) && self.table.contains_key("pause") {
            self.fault("pause", "is a setting of Stripe alone: leave it out");
        }
        self.parsed("pause").unwrap_or_default()
    }

    fn manage_url(&mut self) -> Option<Href> {
        let url: Href = self.parsed("manage_url")?;
        if !url.as_str().starts_with("https://") {
            self.fault("manage_url", "must begin with https://");
        }
        Some(url)
    }

    fn plans(&mut self) -> BTreeMap<String, Slug> {
        let Some(value) = self.table.get("plans") else { return BTreeMap::new() };
        let Some(plans) = value.as_table() else {
            self.fault("plans", "must be a table from prices or products to slugs of plans");
            return BTreeMap::new();
        };
        let mut read = BTreeMap::new();
        for (price, slug) in plans {
            match slug.as_str().map(str::parse) {
                Some(Ok(slug)) => drop(read.insert(price.clone(), slug)),
                Some(Err(error)) => self.fault(&format!("plans.{price}"), error),
                None => self.fault(&format!("plans.{price}"), "must be the slug of a plan"),
            }
        }
        read
    }

    /// The URL of a stand-in for the provider's API. The stand-in receives the API key, so it must be on this machine.
    fn api_base(&mut self, mode: Mode) -> Option<Url> {
        const KEY: &str = "api_base";
        let url: Url = self.parsed(KEY)?;
        let is_here = match url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        if mode != Mode::Development {
            self.fault(KEY, "is allowed only in development mode: leave it out");
        }
        if !is_here || !["http", "https"].contains(&url.scheme()) {
            self.fault(KEY, "must be on this machine, such as http://127.0.0.1:9000");
        }
        Some(url)
    }
}
