//! A client that tells an answer that never came from one that broke off.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything takes here.
const DEADLINE: Duration = Duration::from_mins(1);

/// The client id of every request.
pub(crate) const CLIENT: &str = "crashes";

/// A request that may be sent more than once.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    head: String,
    body: String,
}

impl Request {
    fn new(method: &str, path: &str, body: &str) -> Self {
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nclient-id: {CLIENT}\r\n");
        Self { head, body: body.to_owned() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path, "")
    }

    pub(crate) fn post(path: &str, body: &str) -> Self {
        Self::new("POST", path, body)
    }

    pub(crate) fn put(path: &str, body: &str) -> Self {
        Self::new("PUT", path, body)
    }

    pub(crate) fn delete(path: &str) -> Self {
        Self::new("DELETE", path, "")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        write!(self.head, "{name}: {value}\r\n").unwrap();
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn if_match(self, version: u64) -> Self {
        self.header("if-match", &format!("\"{version}\""))
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Its head and its body.
    pub(crate) fn parts(&self) -> (String, &str) {
        let Self { head, body } = self;
        let length = body.len();
        let of_body = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {length}\r\n")
        };
        (format!("{head}{of_body}\r\n"), body)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The name of the error that it is.
    pub(crate) fn code(&self) -> String {
        text(&self.json(), "code")
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// A field that is text.
pub(crate) fn text(of: &Value, field: &str) -> String {
    of[field].as_str().unwrap_or_else(|| panic!("no {field} in {of}")).to_owned()
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing of it came.
    Before,
    /// It broke off.
    Within(String),
    /// The client hung up and did not wait for it.
    HungUp,
}

/// A connection that is kept, and made again when it is needed.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
    /// How long after the next request the client hangs up, without waiting for the answer.
    pub(crate) hang_up_after: Option<Duration>,
}

impl Connection {
    pub(crate) const fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, hang_up_after: None }
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Answer, Cut> {
        let (head, body) = request.parts();
        self.send(format!("{head}{body}").as_bytes())?;
        if let Some(pause) = self.hang_up_after.take() {
            std::thread::sleep(pause);
            self.stream = None;
            return Err(Cut::HungUp);
        }
        self.answer()
    }

    /// Where an answer is sure to come.
    pub(crate) fn sure(&mut self, request: &Request) -> Answer {
        self.ask(request).unwrap_or_else(|cut| panic!("{cut:?} for {request:?}"))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Cut> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).map_err(|_| Cut::Before)?;
            stream.set_read_timeout(Some(DEADLINE)).map_err(|_| Cut::Before)?;
            stream.set_nodelay(true).map_err(|_| Cut::Before)?;
            self.stream = Some(BufReader::new(stream));
        }
        let sent = self.stream.as_mut().map(|stream| stream.get_mut().write_all(bytes));
        if let Some(Err(_)) = sent {
            self.stream = None;
            return Err(Cut::Before);
        }
        Ok(())
    }

    /// The next answer, to what was sent.
    pub(crate) fn answer(&mut self) -> Result<Answer, Cut> {
        let mut stream = self.stream.take().ok_or(Cut::Before)?;
        let answer = read(&mut stream)?;
        if answer.header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> Result<Answer, Cut> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read_until(b'\n', &mut head);
        if let Err(error) = &read {
            let hangs = matches!(error.kind(), std::io::ErrorKind::WouldBlock);
            assert!(!hangs, "no answer in {DEADLINE:?}");
        }
        if !read.is_ok_and(|read| read > 0) {
            let begun = String::from_utf8_lossy(&head).into_owned();
            return Err(if head.is_empty() { Cut::Before } else { Cut::Within(begun) });
        }
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status in {head}"));
    let mut answer = Answer { status, head, body: String::new() };
    let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).is_err() {
        return Err(Cut::Within(answer.head));
    }
    answer.body = String::from_utf8(body).unwrap();
    Ok(answer)
}
