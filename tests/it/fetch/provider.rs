//! A fake identity provider on a free local port, which sends the bytes that a test gives it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::{
    Authentication, FetchRequest, IdentityVerifier, KeyRing, OidcIdentities, SigningKey,
};
use subscription_http::{FetchSettings, HttpFetch, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::auth::forge::Signer;
use crate::auth::provider::{ada, trust};
use crate::auth::world::{AuthWorld, SERVER_KEY, SIGNING_SEED, secret, server_key};
use crate::http::world::{Answer, HttpWorld, WEB};

/// Short enough to wait for, where a test waits for it.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// The behaviour of a provider when it gets a request.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// Sends bytes and closes.
    Send(Vec<u8>),
    /// Sends bytes, and then nothing.
    Hold(Vec<u8>),
    /// Sends bytes, and then others without end.
    Endless(Vec<u8>, Vec<u8>),
    /// The first whose text is in the request line, else 404.
    ByPath(Vec<(&'static str, Script)>),
}

impl Script {
    /// 200 with a JSON body.
    pub(crate) fn json(body: &Value) -> Self {
        Self::body(200, "", body.to_string())
    }

    pub(crate) fn body(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        Self::Send([head.as_bytes(), body].concat())
    }
}

/// A provider that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// The bytes that the last request was sent without end.
    sent: Arc<AtomicUsize>,
    run: JoinHandle<()>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Provider {
    pub(crate) async fn new(script: Script) -> Self {
        Self::over(script, None).await
    }

    /// The same behind TLS, if there is a configuration for it.
    pub(crate) async fn over(script: Script, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (script, asked) = (Arc::new(Mutex::new(script)), Arc::<Mutex<Vec<_>>>::default());
        let sent = Arc::<AtomicUsize>::default();
        let parts = (Arc::clone(&script), Arc::clone(&asked), Arc::clone(&sent));
        let run = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, asked, sent, tls) =
                    (Arc::clone(&parts.0), Arc::clone(&parts.1), Arc::clone(&parts.2), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &script, &asked, &sent).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &script, &asked, &sent).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, script, asked, sent, run }
    }

    pub(crate) fn plays(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }

    /// The requests that came, head and body.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// Goes away for good.
    pub(crate) async fn gone(&mut self) {
        self.run.abort();
        (&mut self.run).await.unwrap_err();
    }

    /// A world whose people are known by the keys that this provider publishes.
    pub(crate) async fn world(&self, settings: &FetchSettings) -> HttpWorld {
        let fetch = Arc::new(HttpFetch::new(settings).unwrap());
        world_of(Arc::new(OidcIdentities::new(trust(), self.url("/keys"), fetch))).await
    }
}

/// Answers one request.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Mutex<Script>,
    asked: &Mutex<Vec<String>>,
    sent: &AtomicUsize,
) {
    let mut read = Vec::new();
    let whole = |read: &[u8]| {
        let text = String::from_utf8_lossy(read).to_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        (body.len() >= length.map_or(0, |length| length.parse().unwrap())).then_some(())
    };
    while whole(&read).is_none() {
        if !stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
            return;
        }
    }
    let request = String::from_utf8(read).unwrap();
    let line = request.lines().next().unwrap().to_owned();
    asked.lock().unwrap().push(request);
    let mut script = script.lock().unwrap().clone();
    if let Script::ByPath(all) = script {
        let mut fitting = all.into_iter().filter(|(text, _)| line.contains(text));
        script = fitting.next().map_or_else(|| Script::body(404, "", "{}"), |(_, script)| script);
    }
    match script {
        Script::Send(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        Script::Hold(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.flush().await.ok();
            // Until the other side has had enough.
            stream.read_buf(&mut Vec::new()).await.ok();
        }
        Script::Endless(bytes, more) => {
            stream.write_all(&bytes).await.ok();
            sent.store(0, Ordering::SeqCst);
            while stream.write_all(&more).await.is_ok() {
                sent.fetch_add(more.len(), Ordering::SeqCst);
            }
        }
        Script::ByPath(_) => panic!("one of them was chosen"),
    }
}

/// A world whose people a verifier knows.
pub(crate) async fn world_of(verifier: Arc<dyn IdentityVerifier>) -> HttpWorld {
    let mut auth = AuthWorld::new();
    let keys = KeyRing::new(SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap());
    let server_keys = server_key(1, SERVER_KEY);
    auth.auth = Authentication::builder(auth.service.clone(), verifier, keys, server_keys).build();
    HttpWorld::with(auth, Timeouts::default()).await
}

/// The key set of a provider with one key, `k1`.
pub(crate) fn keys() -> Script {
    Script::json(&json!({ "keys": [signer().jwk("k1")] }))
}

fn signer() -> Signer {
    Signer::ed25519([1; 32])
}

/// Ada's token, signed with the provider's key under some name.
pub(crate) fn token(kid: &str) -> String {
    signer().token(&json!({ "alg": "EdDSA", "kid": kid }), &ada())
}

/// The result of a sign-up or sign-in of Ada with a token.
pub(crate) async fn enter(world: &HttpWorld, how: &str, token: &str) -> Answer {
    let body = json!({ "access_token": token, "email": "ada@example.com" }).to_string();
    world.call("POST", &format!("/authentication/{how}"), &[("client-id", WEB)], body).await
}

/// A document to be fetched without any form.
pub(crate) fn plain(url: url::Url) -> FetchRequest {
    FetchRequest::get(url)
}
