//! The check for unknown names of settings, in the environment and in the settings file.
//!
//! Without this check, a misspelt name would be ignored. Each unknown name is an error, which suggests the setting with
//! the most similar name.

use clap::{Args as _, Command};
use toml::de::{DeTable, DeValue};

use super::help::{BILLING_KEYS, CLIENT_KEYS, LIMITS};
use super::providers::{PROVIDER_KEYS, VARIABLE_PREFIX};
use super::webhooks::WEBHOOK_KEYS;
use super::{Settings, with_variable};
use crate::program::Failure;

/// Refuses environment variables that have our prefix but belong to no setting. Names that begin with
/// `SUBSCRIPTION_TEST_` are for our tests.
pub(crate) fn check_environment() -> Result<(), Failure> {
    let command = Settings::augment_args(Command::new("")).mut_args(with_variable);
    let known: Vec<_> =
        command.get_arguments().filter_map(|flag| flag.get_env()?.to_str()).collect();
    refuse_unknown(&known, |name| {
        // The valid variables of providers depend on the settings file, which is read later.
        name.starts_with("SUBSCRIPTION_")
            && !name.starts_with("SUBSCRIPTION_TEST_")
            && !name.starts_with(VARIABLE_PREFIX)
    })
}

/// Refuses environment variables of providers that the settings file does not configure.
pub(super) fn check_provider_variables(known: &[String]) -> Result<(), Failure> {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    refuse_unknown(&known, |name| name.starts_with(VARIABLE_PREFIX))
}

/// Refuses environment variables that are ours but not in `known`.
fn refuse_unknown(known: &[&str], is_ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let mut unknown: Vec<_> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, value)| {
            is_ours(name)
                && !known.contains(&name.as_str())
                && !is_set_by_kubernetes(name, &value.to_string_lossy())
        })
        .map(|(name, _)| match nearest(&name, known) {
            Some(similar) => format!("{name}: did you mean {similar}?"),
            None => name,
        })
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    let unknown = unknown.join("\n  - ");
    Err(Failure::new(format!(
        "unknown environment variables (--help lists all settings)\n  - {unknown}"
    )))
}

/// True for the variables that Kubernetes sets in every container about a service that is named
/// `subscription…`: `SUBSCRIPTION_HTTP_SERVICE_HOST`, `SUBSCRIPTION_HTTP_PORT_8080_TCP_ADDR`.
fn is_set_by_kubernetes(name: &str, value: &str) -> bool {
    let is_port = |rest: &str| {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < rest.len()
            && ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| after.starts_with(protocol))
    };
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split("_PORT_").skip(1).any(is_port)
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// The unknown keys of a settings file, one line each, in the file's order.
pub(super) fn in_file(text: &str) -> Result<Vec<String>, toml::de::Error> {
    let file = DeTable::parse(text)?;
    let command = Settings::augment_args(Command::new(""));
    let flags = command.get_arguments().map(|flag| flag.get_id().as_str());
    let tables = ["clients", "checkout_hosts", "billing", "providers", "webhooks", "limits"];
    let keys: Vec<_> = flags.filter(|id| *id != "config").chain(tables).collect();
    let clients = CLIENT_KEYS.map(|(key, _)| key);
    let limits = LIMITS.map(|(key, ..)| key);
    let billing = BILLING_KEYS.map(|(key, _)| key);
    let webhooks = WEBHOOK_KEYS.map(|(key, _)| key);
    let provider = PROVIDER_KEYS.map(|(key, _)| key);
    let mut found = Vec::new();
    let mut check = |table: &DeTable<'_>, known: &[&str], place: &str| {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let hint = match nearest(key.get_ref(), known) {
                Some(similar) => format!("did you mean {similar}?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let before = text.get(..key.span().start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            found
                .push((line, format!("line {line}: unknown key {}{place}; {hint}", key.get_ref())));
        }
    };
    check(file.get_ref(), &keys, "");
    for (name, known) in [
        ("clients", &clients[..]),
        ("billing", &billing[..]),
        ("webhooks", &webhooks[..]),
        ("limits", &limits[..]),
    ] {
        match file.get_ref().get(name).map(toml::Spanned::get_ref) {
            Some(DeValue::Table(table)) => check(table, known, &format!(" in [{name}]")),
            Some(DeValue::Array(items)) => {
                let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                tables.for_each(|table| check(table, known, &format!(" in [[{name}]]")));
            }
            // A value that is neither a table nor a list is refused later, when the settings are read.
            _ => {}
        }
    }
    if let Some(DeValue::Table(providers)) =
        file.get_ref().get("providers").map(toml::Spanned::get_ref)
    {
        for (name, table) in providers {
            if let Some(table) = table.get_ref().as_table() {
                check(table, &provider, &format!(" in [providers.{}]", name.get_ref()));
            }
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, message)| message).collect())
}

/// The known name with the smallest edit distance to `name`. `None` if the distance is large for the length of the
/// known name. Upper and lower case count as the same, and so do `-` and `_`.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let errors = |candidate: &str| strsim::levenshtein(&plain(name), &plain(candidate));
    let (errors, nearest) =
        known.iter().map(|candidate| (errors(candidate), *candidate)).min_by_key(|(n, _)| *n)?;
    (errors <= 1 + nearest.len() / 6).then_some(nearest)
}
