//! A TCP stream that detects request heads with both a `Content-Length` and a `Transfer-Encoding`.
//!
//! A proxy in front of the server may find another end of such a request than hyper, so that one request becomes two.
//! hyper removes the `Content-Length` and uses the `Transfer-Encoding`, so the request that hyper passes on no longer
//! has both headers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::Activity;

/// The length in bytes of the longest header name that is searched for, with its colon.
const NAME_BYTES_MAX: usize = "transfer-encoding:".len();

/// A stream that reports its activity to an [`Activity`].
pub(super) struct SniffedStream {
    stream: TcpStream,
    lines: Lines,
    activity: Arc<Activity>,
}

/// The headers that were found in the lines since the last empty line.
///
/// The search does not know where a body ends and the next head begins. It still finds every head with both headers,
/// because only an empty line makes it forget a header, and no empty line is inside a head. It mistakes a body for a
/// head if lines of the body begin with both header names. A JSON body has no such lines.
#[derive(Default)]
struct Lines {
    /// The beginning of a line that has not ended yet.
    start: Vec<u8>,
    has_length: bool,
    has_coding: bool,
}

impl Lines {
    /// Searches the next bytes. Returns true if they complete a head with both headers.
    fn search(&mut self, bytes: &[u8]) -> bool {
        let mut both = false;
        let mut rest = bytes;
        while let Some((line, after)) =
            memchr::memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end + 1))
        {
            // Most lines arrive in one piece and are not copied.
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

impl SniffedStream {
    pub(super) fn new(stream: TcpStream, activity: &Arc<Activity>) -> Self {
        Self { stream, lines: Lines::default(), activity: Arc::clone(activity) }
    }
}

impl AsyncRead for SniffedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        if !read.is_empty() {
            self.activity.received();
        }
        if self.lines.search(read) {
            self.activity.found_ambiguous();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SniffedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.activity.written();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.activity.written();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this only after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.activity.flushed();
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
                let seen = text.as_bytes().chunks(size).any(|piece| lines.search(piece));

                assert_eq!(seen, expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
