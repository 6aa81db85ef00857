//! Providers behind TLS: certificates are verified.

use std::error::Error;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use subscription_core::auth::{Fetch as _, FetchFailed};
use subscription_http::{FetchSettings, HttpFetch};
use tokio_rustls::TlsAcceptor;

use super::provider::{Provider, keys, plain};

/// A provider called `localhost`, and its certificate, which it signed itself.
async fn provider() -> (Provider, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let provider = Provider::over(keys(), Some(TlsAcceptor::from(Arc::new(config)))).await;
    (provider, made.cert.der().to_vec())
}

async fn fetch(provider: &Provider, host: &str, roots: &[&[u8]]) -> Result<Vec<u8>, FetchFailed> {
    let roots = roots.iter().map(|root| root.to_vec()).collect();
    let fetch = HttpFetch::new(&FetchSettings::default().with_roots(roots)).unwrap();
    let url = format!("https://{host}:{}/keys", provider.address.port());
    fetch.fetch(plain(url.parse().unwrap())).await
}

/// The last of an error's causes.
fn root_cause(failed: &FetchFailed) -> String {
    let mut cause: &dyn Error = failed;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    cause.to_string()
}

#[tokio::test]
async fn only_a_certificate_that_is_trusted_for_the_name_is_believed() {
    let (provider, certificate) = provider().await;
    let (_other, unrelated) = self::provider().await;

    for (host, roots, why) in [
        ("localhost", vec![], "UnknownIssuer"),
        ("localhost", vec![&unrelated[..]], ""),
        ("127.0.0.1", vec![&certificate[..]], "not valid for name"),
    ] {
        let failed = fetch(&provider, host, &roots).await.unwrap_err();
        let cause = root_cause(&failed);
        assert!(cause.contains("invalid peer certificate") && cause.contains(why), "{cause}");
    }
    assert_eq!(provider.asked(), [""; 0], "nothing was said to who is not trusted");

    let body = fetch(&provider, "localhost", &[&unrelated, &certificate]).await.unwrap();
    assert!(body.starts_with(b"{\"keys\":"), "{body:?}");
    assert_eq!(provider.asked().len(), 1);
}

#[test]
fn a_root_that_is_no_certificate_is_told_at_once() {
    let settings = FetchSettings::default().with_roots(vec![b"no certificate".into()]);
    HttpFetch::new(&settings).unwrap_err();
}
