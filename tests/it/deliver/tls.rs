//! Receivers behind TLS: certificates are verified.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use subscription_core::webhooks::DeliveryResult;
use subscription_http::{DeliverSettings, HttpDeliver};
use test_support::receiver::{Shared, serve};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Names, over, rules, send};

/// A receiver called `receiver.example.com`, and its certificate, which it signed itself.
async fn receiver() -> (SocketAddr, Shared, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["receiver.example.com".into()]).unwrap();
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (acceptor, seen) = (TlsAcceptor::from(Arc::new(config)), Shared::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&seen));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        }
    });
    (address, seen, made.cert.der().to_vec())
}

#[tokio::test]
async fn only_a_certificate_that_is_trusted_for_the_name_is_believed() {
    let (address, seen, certificate) = receiver().await;
    let (.., unrelated) = receiver().await;
    let client = |roots: &[&[u8]]| {
        let roots = roots.iter().map(|root| root.to_vec()).collect();
        let settings = DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[]));
        over(&settings.with_names(Names::of([&["127.0.0.1"]])).with_roots(roots))
    };
    let url = |host: &str| format!("https://{host}:{}/", address.port());

    for (host, roots) in [
        ("receiver.example.com", vec![]),
        ("receiver.example.com", vec![&unrelated[..]]),
        ("other.example.com", vec![&certificate[..]]),
        ("127.0.0.1", vec![&certificate[..]]),
    ] {
        let outcome = send(&client(&roots), &url(host)).await;
        assert_eq!(outcome, DeliveryResult::Unreachable, "{host}");
    }
    assert_eq!(seen.borrow().received.len(), 0);

    let client = client(&[&unrelated, &certificate]);
    for _ in 0..3 {
        let outcome = send(&client, &url("receiver.example.com")).await;
        assert_eq!(outcome, DeliveryResult::answered(200));
    }
    assert_eq!((seen.borrow().connections, seen.borrow().received.len()), (1, 3));
}

#[test]
fn a_root_that_is_no_certificate_is_told_at_once() {
    let settings = DeliverSettings::default().with_roots(vec![b"no certificate".into()]);
    HttpDeliver::new(&settings).unwrap_err();
}
