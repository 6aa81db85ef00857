//! Load: kept-alive connections, each of which sends its next request as soon as it has its response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::servers::Caller;

const SLICE: Duration = Duration::from_millis(100);

/// A request as it goes over the wire.
#[derive(Clone)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn get(path: &str, caller: &Caller) -> Self {
        Self::new("GET", path, "", caller)
    }

    pub(crate) fn post(path: &str, body: &str, caller: &Caller) -> Self {
        Self::new("POST", path, body, caller)
    }

    fn new(method: &str, path: &str, body: &str, caller: &Caller) -> Self {
        let Caller { client, token, .. } = caller;
        let length = match method {
            "POST" => format!("Content-Length: {}\r\n", body.len()),
            _ => String::new(),
        };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nclient-id: {client}\r\n\
             Authorization: Bearer {token}\r\n{length}{kind}\r\n{body}"
        );
        Self(request.into_bytes())
    }
}

/// Sends a request on a new connection, and returns the body of the response.
pub(crate) async fn one(address: SocketAddr, request: &Request) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request.0).await.unwrap();
    let mut read = Vec::new();
    let (head, length) = answer(&mut stream, &mut read).await;
    read[head..head + length].to_vec()
}

/// Reads one response to its end. Returns where its body begins, and the length of the body.
async fn answer(stream: &mut TcpStream, read: &mut Vec<u8>) -> (usize, usize) {
    read.clear();
    loop {
        assert_ne!(stream.read_buf(read).await.unwrap(), 0, "the server hung up");
        let Some(head) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&read[..head]).unwrap().to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 20"), "{}", String::from_utf8_lossy(read));
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        while read.len() < head + 4 + length {
            assert_ne!(stream.read_buf(read).await.unwrap(), 0, "the server hung up");
        }
        return (head + 4, length);
    }
}

/// Connections to one server.
pub(crate) struct Connections(Vec<(TcpStream, Request)>);

impl Connections {
    /// Opens `count` connections, each of which has had one response.
    pub(crate) async fn open(address: SocketAddr, count: usize, request: &Request) -> Self {
        Self::open_each(address, vec![request.clone(); count]).await
    }

    /// Opens a connection for each request.
    pub(crate) async fn open_each(address: SocketAddr, requests: Vec<Request>) -> Self {
        let mut streams = Vec::with_capacity(requests.len());
        for request in requests {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            stream.write_all(&request.0).await.unwrap();
            answer(&mut stream, &mut Vec::new()).await;
            streams.push((stream, request));
        }
        Self(streams)
    }

    /// The responses a second on all connections, over one slice.
    pub(crate) async fn slice(&mut self) -> f64 {
        let begun = Instant::now();
        let until = begun + SLICE;
        let mut tasks = JoinSet::new();
        for (mut stream, request) in self.0.drain(..) {
            tasks.spawn(async move {
                let (mut answers, mut read) = (0_u32, Vec::with_capacity(65_536));
                while Instant::now() < until {
                    stream.write_all(&request.0).await.unwrap();
                    answer(&mut stream, &mut read).await;
                    answers += 1;
                }
                (stream, request, answers)
            });
        }
        let mut answers = 0;
        while let Some(done) = tasks.join_next().await {
            let (stream, request, some) = done.unwrap();
            self.0.push((stream, request));
            answers += some;
        }
        f64::from(answers) / begun.elapsed().as_secs_f64()
    }
}

/// The responses a second of two servers that are measured in turn, and the ratio of each pair of slices.
pub(crate) struct Compared {
    pub(crate) first: Vec<f64>,
    pub(crate) second: Vec<f64>,
    pub(crate) ratios: Vec<f64>,
}

impl Compared {
    pub(crate) async fn of(mut first: Connections, mut second: Connections, slices: usize) -> Self {
        // The first slices only warm up caches, buffers and branches, which are warm in a running service.
        first.slice().await;
        second.slice().await;
        let mut compared = Self { first: Vec::new(), second: Vec::new(), ratios: Vec::new() };
        for _ in 0..slices {
            let (one, two) = (first.slice().await, second.slice().await);
            compared.first.push(one);
            compared.second.push(two);
            compared.ratios.push(one / two);
        }
        compared
    }
}

/// The median, and the ends of the middle half.
pub(crate) fn middle(mut numbers: Vec<f64>) -> (f64, f64, f64) {
    numbers.sort_by(f64::total_cmp);
    let at = |part: usize| numbers[numbers.len() * part / 4];
    (at(2), at(1), at(3))
}
