//! The identity verifier that the settings name.

use std::path::Path;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use subscription_core::auth::{
    DevelopmentIdentities, IdentityVerifier, IntrospectedIdentities, OidcIdentities,
    SharedSecretIdentities, Trust,
};
use subscription_http::{FetchSettings, HttpFetch};

use crate::program::settings::{Mode, Settings};
use crate::program::{Failure, read_text};

/// The identity verifier. `None` if production mode has no settings for one.
pub(super) fn verifier(settings: &Settings) -> Result<Option<Arc<dyn IdentityVerifier>>, Failure> {
    let keys_url = &settings.identity_keys_url;
    let introspection_url = &settings.identity_introspection_url;
    let secret_file = &settings.identity_secret_file;
    let names = [
        (&settings.identity_issuer, "identity-issuer"),
        (&settings.identity_audience, "identity-audience"),
        (&settings.identity_client_id, "identity-client-id"),
    ];
    if (keys_url, introspection_url, secret_file) == (&None, &None, &None)
        && names.iter().all(|(name, _)| name.is_none())
    {
        return Ok(match settings.mode {
            Mode::Development => Some(Arc::new(DevelopmentIdentities)),
            Mode::Production => None,
        });
    }
    let required = |(name, flag): (&Option<String>, &str)| {
        name.clone().ok_or_else(|| Failure(format!("an identity provider needs --{flag}")))
    };
    let [issuer, audience, client_id] = names;
    let trust = Trust { issuer: required(issuer)?, audience: required(audience)? };
    for (url, flag) in
        [(keys_url, "identity-keys-url"), (introspection_url, "identity-introspection-url")]
    {
        if let Some(Err(error)) = url.as_ref().map(HttpFetch::check) {
            return Err(Failure(format!("--{flag} cannot be used: {}", Failure::from(error))));
        }
    }
    let fetch = || HttpFetch::new(&FetchSettings::default()).map(Arc::new);
    let verifier: Arc<dyn IdentityVerifier> = match (keys_url, introspection_url, secret_file) {
        (Some(url), None, None) => Arc::new(OidcIdentities::new(trust, url.clone(), fetch()?)),
        (None, Some(url), Some(file)) => {
            let client = (required(client_id)?, secret(file)?);
            Arc::new(IntrospectedIdentities::new(trust, url.clone(), client, fetch()?))
        }
        (None, None, Some(file)) => {
            let secret: SecretSlice<u8> = secret(file)?.expose_secret().as_bytes().to_vec().into();
            let verifier = SharedSecretIdentities::new(trust, &secret).map_err(|error| {
                let file = file.display();
                Failure(format!("{file}: {error}; create one: openssl rand -base64 48 > {file}"))
            });
            Arc::new(verifier?)
        }
        _ => {
            return Err(Failure::new(
                "an identity provider is one of: --identity-keys-url; --identity-introspection-url \
                 with --identity-client-id and --identity-secret-file; --identity-secret-file alone",
            ));
        }
    };
    Ok(Some(verifier))
}

fn secret(file: &Path) -> Result<SecretString, Failure> {
    let text = read_text("cannot read", file)?;
    Ok(SecretString::from(text.trim_end_matches(['\n', '\r'])))
}
