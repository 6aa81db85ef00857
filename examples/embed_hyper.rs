//! The service inside a hyper server of your own, under a path of your choice.
//!
//!     cargo run --example embed_hyper
//!
//! The host serves `/hello` itself and passes requests below `/billing` on. This example calls both once, prints the
//! responses, and ends.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{MemoryStore, SubscriptionService};
use subscription_http::Api;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The host's handling of a request.
async fn host(api: Api, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let below = request.uri().path_and_query().map(|path| path.as_str().to_owned());
    match below.as_deref().and_then(|path| path.strip_prefix("/billing")) {
        Some(path) => {
            *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
            api.answer(request, None).await
        }
        None => Response::new(Full::from("hello from the host\n")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Keys of a real host come from its vault, and its identities from a provider.
    let service = SubscriptionService::new(MemoryStore::default());
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
    let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    let api = Api::builder(service, auth, vec![3; 32].into()).believe_every_client().build();

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let api = api.clone();
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(host(api, request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });

    for path in ["/hello", "/billing/subscription-plans", "/billing/health/ready"] {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nclient-id: web\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        println!("{path}\n  {}\n  {}", answer.lines().next().unwrap_or_default(), body.trim());
    }
    Ok(())
}
