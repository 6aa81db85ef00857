//! The settings file, and the tables that only it has: `[[clients]]`, `[checkout_hosts]`, `[billing]`,
//! `[providers]`, `[webhooks]` and `[limits]`.

use std::path::Path;

use serde::Deserialize;

use super::{Settings, unknown_names};
use crate::program::{Failure, read_text};

/// A public client in the settings file.
#[derive(Deserialize)]
pub(crate) struct ConfiguredClient {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) scopes: Vec<String>,
    #[serde(default)]
    pub(crate) origins: Vec<String>,
}

pub(super) fn read(path: &Path) -> Result<Settings, Failure> {
    let shown = path.display();
    let text = read_text("cannot read", path)?;
    let failure = |error: toml::de::Error| {
        let mut message = error.to_string();
        // The error's full message quotes a line of the file. If this line may contain the database's password or a
        // secret of a provider, only its number and the short message are shown.
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
