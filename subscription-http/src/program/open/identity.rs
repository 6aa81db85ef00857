//! Who vouches for people, as it was set.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use subscription_core::auth::{
    DevelopmentIdentities, IdentityVerifier, IntrospectedIdentities, OidcIdentities,
    SharedSecretIdentities, Trust,
};
use subscription_http::{FetchSettings, HttpFetch};

use crate::program::Failure;
use crate::program::settings::{IdentitySettings, Mode};

/// The verifier that is set; `None` if none is and somebody must be asked.
pub(crate) fn verifier(
    settings: &IdentitySettings,
    mode: Mode,
) -> Result<Option<Arc<dyn IdentityVerifier>>, Failure> {
    if *settings == IdentitySettings::default() {
        return Ok(match mode {
            Mode::Development => Some(Arc::new(DevelopmentIdentities)),
            Mode::Production => None,
        });
    }
    let needed = |value: &Option<String>, flag: &str| {
        let missing = || Failure::new(format!("an identity provider needs --{flag}"));
        value.clone().ok_or_else(missing)
    };
    let trust = Trust {
        issuer: needed(&settings.issuer, "identity-issuer")?,
        audience: needed(&settings.audience, "identity-audience")?,
    };
    check_url(settings.keys_url.as_ref(), "identity-keys-url")?;
    check_url(settings.introspection_url.as_ref(), "identity-introspection-url")?;
    match (&settings.keys_url, &settings.introspection_url, &settings.secret_file) {
        (Some(keys_url), None, None) => {
            let fetch = Arc::new(HttpFetch::new(&FetchSettings::default())?);
            Ok(Some(Arc::new(OidcIdentities::new(trust, keys_url.clone(), fetch))))
        }
        (None, Some(endpoint), Some(file)) => {
            let fetch = Arc::new(HttpFetch::new(&FetchSettings::default())?);
            let id = needed(&settings.client_id, "identity-client-id")?;
            let client = (id, secret(file)?);
            Ok(Some(Arc::new(IntrospectedIdentities::new(trust, endpoint.clone(), client, fetch))))
        }
        (None, None, Some(file)) => {
            let secret: SecretSlice<u8> = secret(file)?.expose_secret().as_bytes().to_vec().into();
            let verifier = SharedSecretIdentities::new(trust, &secret);
            Ok(Some(Arc::new(verifier.map_err(|error| {
                let file = file.display();
                Failure::new(format!("{file}: {error}; openssl rand -base64 48 > {file} makes one"))
            })?)))
        }
        _ => Err(Failure::new(
            "an identity provider is one of: --identity-keys-url; --identity-introspection-url with \
             --identity-client-id and --identity-secret-file; --identity-secret-file alone",
        )),
    }
}

/// Refuses an address that nothing would be fetched from, before anybody signs in.
fn check_url(url: Option<&url::Url>, flag: &str) -> Result<(), Failure> {
    match url.map(HttpFetch::check) {
        Some(Err(error)) => {
            let error = Failure::from(error);
            Err(Failure::new(format!("--{flag} cannot be used: {error}")))
        }
        Some(Ok(())) | None => Ok(()),
    }
}

fn secret(file: &std::path::Path) -> Result<SecretString, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    Ok(SecretString::from(text.trim_end_matches(['\n', '\r'])))
}
