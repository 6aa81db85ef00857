//! A receiver of webhooks on a local port. It counts connections, records deliveries, and sends the replies that a test
//! sets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use subscription_core::webhooks::{SignatureHeaders, verify};
use subscription_core::{Clock as _, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// The reply to a delivery.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status without a body.
    Status(u16),
    /// These bytes. The connection stays open for further requests.
    Send(Vec<u8>),
    /// These bytes. Then the connection is closed.
    Close(Vec<u8>),
    /// These bytes. Then nothing more is sent, and the connection stays open until the client closes it.
    Hold(Vec<u8>),
    /// The first bytes once, and then the second bytes again and again without end.
    Endless(Vec<u8>, Vec<u8>),
    /// The reply, sent after this time.
    After(Duration, Box<Reply>),
}

/// A request that was received completely.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// The headers, with their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// True if the reply had a status from 200 to 299.
    pub accepted: bool,
    pub at: Instant,
}

impl Received {
    /// The value of a header. Empty if the request does not have this header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// True if the signature of the request is valid for this secret, and its timestamp is at most a day away.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let headers = SignatureHeaders {
            id: self.header("webhook-id"),
            timestamp: self.header("webhook-timestamp"),
            signature: self.header("webhook-signature"),
        };
        let (secret, day) = (secret.parse().unwrap(), Duration::from_hours(24));
        verify(&[secret], &headers, &self.body, SystemClock.now(), day).is_ok()
    }
}

/// Everything that the receiver has received so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub connections: usize,
    /// The number of connections that have ended.
    pub closed: usize,
    /// The number of bytes that were sent by replies without end.
    pub sent: u64,
    pub received: Vec<Received>,
    /// The replies by path. The reply to other paths is the status 200.
    replies: BTreeMap<String, Reply>,
}

/// The state that tests and connections share.
pub type Shared = Arc<watch::Sender<Seen>>;

/// A receiver that runs until it is dropped. It has a thread of its own, so that tests of any kind can use it.
#[derive(Debug)]
pub struct Receiver {
    pub address: SocketAddr,
    seen: Shared,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()).ok());
        self.thread.take().map(|thread| thread.join().ok());
    }
}

impl Receiver {
    pub fn start() -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into())
    }

    pub fn start_at(address: SocketAddr) -> Self {
        let (seen, (stop, stopped), (tell, told)) =
            (Shared::default(), oneshot::channel(), mpsc::channel());
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().unwrap();
        Self { address, seen, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a receiver in the caller's runtime, so that it uses the caller's (possibly paused) time.
    pub async fn here(ip: IpAddr, port: u16) -> Self {
        let listener = TcpListener::bind((ip, port)).await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Shared::default());
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, shared) => {}
                _ = stopped => {}
            }
        });
        Self { address, seen, stop: Some(stop), thread: None }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the reply to all further deliveries to a path.
    pub fn replies(&self, path: &str, reply: Reply) {
        self.seen.send_modify(|seen| drop(seen.replies.insert(path.to_owned(), reply)));
    }

    pub fn connections(&self) -> usize {
        self.seen.borrow().connections
    }

    /// The number of bytes that were sent by replies without end.
    pub fn sent(&self) -> u64 {
        self.seen.borrow().sent
    }

    /// The deliveries to a path, in the order in which they were received.
    pub fn received(&self, path: &str) -> Vec<Received> {
        let seen = self.seen.borrow();
        seen.received.iter().filter(|received| received.path == path).cloned().collect()
    }

    /// The number of different events that a path has received.
    pub fn distinct(&self, path: &str) -> usize {
        let seen = self.seen.borrow();
        let of_path = seen.received.iter().filter(|received| received.path == path);
        of_path.map(|received| received.header("webhook-id")).collect::<BTreeSet<_>>().len()
    }

    /// Waits until `is_so` returns true.
    pub async fn until(&self, is_so: impl FnMut(&Seen) -> bool + Send) {
        self.seen.subscribe().wait_for(is_so).await.unwrap();
    }
}

async fn accept(listener: TcpListener, seen: Shared) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, Arc::clone(&seen)));
    }
}

/// Receives requests of one connection until it ends.
pub async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: Shared) {
    seen.send_modify(|seen| seen.connections += 1);
    let mut read = Vec::new();
    while let Some(mut received) = request(&mut stream, &mut read).await {
        let reply = seen.borrow().replies.get(&received.path).cloned();
        let reply = reply.unwrap_or(Reply::Status(200));
        received.accepted = matches!(reply, Reply::Status(200..300));
        seen.send_modify(|seen| seen.received.push(received));
        if !play(reply, &mut stream, &seen).await {
            break;
        }
    }
    seen.send_modify(|seen| seen.closed += 1);
}

/// Sends a reply. Returns false if the connection cannot be used for another request.
async fn play(
    mut reply: Reply,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    seen: &Shared,
) -> bool {
    while let Reply::After(span, then) = reply {
        tokio::time::sleep(span).await;
        reply = *then;
    }
    match reply {
        Reply::Status(status) => {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await.is_ok()
        }
        Reply::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Reply::Close(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
            false
        }
        Reply::Hold(bytes) => {
            stream.write_all(&bytes).await.ok();
            // This loop ends when the client closes the connection.
            while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {}
            false
        }
        Reply::Endless(bytes, more) => {
            stream.write_all(&bytes).await.ok();
            while stream.write_all(&more).await.is_ok() {
                seen.send_modify(|seen| seen.sent += more.len() as u64);
            }
            false
        }
        Reply::After(..) => unreachable!("the loop has ended it"),
    }
}

/// Reads the next request; `None` at the end of the connection.
async fn request(stream: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) -> Option<Received> {
    loop {
        if let Some((received, length)) = parsed(read) {
            read.drain(..length);
            return Some(received);
        }
        if !stream.read_buf(read).await.is_ok_and(|count| count > 0) {
            return None;
        }
    }
}

/// The request at the start of these bytes, and its length. `None` if the request is not complete yet.
fn parsed(read: &[u8]) -> Option<(Received, usize)> {
    let head = read.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = std::str::from_utf8(read.get(..head)?).unwrap();
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let end = head + 4 + length;
    let body = read.get(head + 4..end)?.to_vec();
    Some((Received { path, headers, body, accepted: false, at: Instant::now() }, end))
}
