//! A stream whose lines are looked at on the way to hyper, which hides one thing from us.
//!
//! A head with both a length and a transfer coding may be read differently by a proxy before us. hyper
//! drops the length and goes by the coding, so the request that it hands on shows nothing of it.
//!
//! What hyper has read and not used it reads again when it begins anew.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::Activity;

/// How HTTP/2 begins where nobody was asked for it (RFC 9113, 3.4).
const GREETING: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest of the names that are looked for, with its colon.
const NAME_BYTES_MAX: usize = "transfer-encoding:".len();

/// A stream that is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    /// What was looked at already and is to be read before the rest.
    ahead: Vec<u8>,
    lines: Lines,
    activity: Arc<Activity>,
}

/// What the lines since the last empty one have said.
///
/// Where a body ends is not known here, nor needed: a head has no empty line in it, so whatever comes
/// before it cannot hide one of the two. A body that has both at the beginning of lines is taken for a
/// head; JSON has neither.
#[derive(Debug, Default)]
struct Lines {
    /// How the line begins.
    start: Vec<u8>,
    has_length: bool,
    has_coding: bool,
}

impl Lines {
    /// True if there was a head with both.
    fn look(&mut self, bytes: &[u8]) -> bool {
        let (mut both, mut rest) = (false, bytes);
        while let Some((line, after)) =
            memchr::memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end + 1))
        {
            // Most lines come whole, and are read where they are.
            both |= if self.start.is_empty() {
                self.end_line(line)
            } else {
                self.begin_line(line);
                let line = std::mem::take(&mut self.start);
                self.end_line(&line)
            };
            rest = after;
        }
        self.begin_line(rest);
        both
    }

    fn begin_line(&mut self, piece: &[u8]) {
        let room = NAME_BYTES_MAX.saturating_sub(self.start.len());
        self.start.extend(piece.iter().take(room));
    }

    fn end_line(&mut self, line: &[u8]) -> bool {
        let begins = |name: &str| {
            let start = line.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        match line {
            b"\n" | b"\r\n" => (self.has_length, self.has_coding) = (false, false),
            [b'c' | b'C', ..] => self.has_length |= begins("content-length:"),
            [b't' | b'T', ..] => self.has_coding |= begins("transfer-encoding:"),
            _ => {}
        }
        self.has_length && self.has_coding
    }
}

impl Watched {
    pub(super) fn new(stream: TcpStream, activity: &Arc<Activity>) -> Self {
        let activity = Arc::clone(activity);
        Self { stream, ahead: Vec::new(), lines: Lines::default(), activity }
    }

    /// The same, but what was read and not used is read again.
    pub(super) fn again(mut self, unused: &[u8]) -> Self {
        self.ahead.splice(..0, unused.iter().copied());
        self
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads on in what may be HTTP/2's greeting, and will be read again; none until it is known.
    pub(super) fn greeting(&mut self) -> io::Result<Option<Version>> {
        let mut buffer = *GREETING;
        let room = GREETING.len().saturating_sub(self.ahead.len());
        let room = buffer.get_mut(..room).unwrap_or_default();
        let count = match self.stream.try_read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = buffer.get(..count).unwrap_or_default();
        self.look(read);
        self.ahead.extend(read);
        if !GREETING.starts_with(&self.ahead) {
            return Ok(Some(Version::HTTP_11));
        }
        Ok((self.ahead.len() == GREETING.len()).then_some(Version::HTTP_2))
    }

    fn look(&mut self, read: &[u8]) {
        if self.lines.look(read) {
            self.activity.ambiguous.set(true);
        }
    }

    /// Gives what is ahead, as much as there is room for.
    fn give_ahead(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(self.ahead.drain(..count).as_slice());
        if self.ahead.is_empty() {
            self.ahead = Vec::new();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            self.give_ahead(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.look(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.activity.unsent.set(true);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.activity.unsent.set(true);
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this only when it has nothing more to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.activity.unsent.set(false);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_a_length_and_a_coding_is_seen_however_it_arrives() {
        let both = "Transfer-Encoding: chunked\r\nx: y\r\ncontent-LENGTH:4\r\n\r\n";
        let cases = [
            (both.to_owned(), true),
            (both.replace("\r\n", "\n"), true),
            (format!("{{\"a\":\n\n1}}POST / HTTP/1.1\r\n{both}"), true),
            (
                "Content-Length: 4\r\n\r\nnullPOST / HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n"
                    .into(),
                false,
            ),
            ("x-content-length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".into(), false),
            ("Content-Lengthy: 4\r\nTransfer-Encoding: chunked\r\n\r\n".into(), false),
            ("x: Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".into(), false),
        ];
        for (text, expected) in cases {
            for size in [1, 2, 3, 7, 4_096] {
                let mut lines = Lines::default();
                let seen = text.as_bytes().chunks(size).any(|piece| lines.look(piece));

                assert_eq!(seen, expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
