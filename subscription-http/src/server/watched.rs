//! A stream whose lines are looked at on the way to hyper, which hides one thing from us.
//!
//! A head with both a length and a transfer coding may be read differently by a proxy before us. hyper
//! drops the length and goes by the coding, so the request that it hands on shows nothing of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest of the names that are looked for, with its colon.
const NAME_BYTES_MAX: usize = "transfer-encoding:".len();

/// A stream that is looked at.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    lines: Lines,
    ambiguous: Ambiguous,
}

/// True once a head with both has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Ambiguous(Arc<AtomicBool>);

impl Ambiguous {
    pub(super) fn is_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
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
        if matches!(line, b"\n" | b"\r\n") {
            (self.has_length, self.has_coding) = (false, false);
        } else {
            self.has_length |= begins("content-length:");
            self.has_coding |= begins("transfer-encoding:");
        }
        self.has_length && self.has_coding
    }
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S) -> (Self, Ambiguous) {
        let ambiguous = Ambiguous::default();
        (Self { stream, lines: Lines::default(), ambiguous: ambiguous.clone() }, ambiguous)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        if self.lines.look(read) {
            self.ambiguous.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
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
