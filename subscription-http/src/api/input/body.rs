//! The body of a request. It is read if the route needs it. Otherwise it is discarded, so that the connection can be
//! used for the next request.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Version, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;
use pin_project_lite::pin_project;
use tokio::time::timeout;

use super::bounds::BODY_BYTES_MAX;
use crate::BoxError;
use crate::api::admission::request_head;
use crate::api::{ApiError, Refusal};

/// How long discarding a body may take. After that the connection is closed.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(100);

pin_project! {
    /// The body of a request, and how much of it was read.
    pub(crate) struct RequestBody<B> {
        #[pin]
        body: B,
        state: State,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The body was read to its end, or it does not block the next request.
    Done,
    /// Nothing of the body was read.
    Unread,
    /// Only a part of the body was read, or the client waits for a `100 Continue` before it sends the body.
    Halted,
}

impl<B> RequestBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
{
    pub(crate) fn new(head: &Parts, body: B) -> Self {
        // HTTP/2 has a stream for each request, so an unread body blocks no other request.
        let state = if body.is_end_stream() || head.version > Version::HTTP_11 {
            State::Done
        } else if head.headers.contains_key(header::EXPECT) {
            State::Halted
        } else {
            State::Unread
        };
        Self { body, state }
    }

    /// Checks by the headers that the body is JSON, and reads it to its end.
    pub(crate) async fn read_json(
        self: Pin<&mut Self>,
        time: Duration,
        most: usize,
        headers: &HeaderMap,
    ) -> Result<Bytes, ApiError> {
        if !request_head::is_json(headers) {
            return Err(Refusal::MediaType.into());
        }
        if request_head::is_encoded(headers) {
            return Err(Refusal::ContentCoding.into());
        }
        self.read(time, most).await
    }

    /// Reads a body of any type to its end.
    pub(crate) async fn read(
        self: Pin<&mut Self>,
        time: Duration,
        most: usize,
    ) -> Result<Bytes, ApiError> {
        let parts = self.project();
        *parts.state = State::Halted;
        let body = match timeout(time, Limited::new(parts.body, most).collect()).await {
            Err(_) => Err(Refusal::TooSlow),
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge(most)),
            Ok(Err(_)) => Err(Refusal::BodyUnreadable),
        }?;
        *parts.state = State::Done;
        Ok(body)
    }

    /// True if the head of the request says that there is no body.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_end_stream()
    }

    /// True if the body may be larger than the maximum of a JSON body.
    pub(crate) fn may_be_large(&self) -> bool {
        let most = self.body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
        most.is_none_or(|most| most > BODY_BYTES_MAX)
    }

    /// True if the rest of the body must be read before the next request can be read.
    pub(crate) fn is_unread(&self) -> bool {
        self.state != State::Done
    }

    /// Reads and drops an unread body, if it has at most `BODY_BYTES_MAX` bytes and arrives within `DISCARD_TIMEOUT`.
    pub(crate) async fn discard(self: Pin<&mut Self>) {
        let parts = self.project();
        let is_short = usize::try_from(parts.body.size_hint().lower())
            .is_ok_and(|least| least <= BODY_BYTES_MAX);
        if *parts.state != State::Unread || !is_short {
            return;
        }
        let mut body = Limited::new(parts.body, BODY_BYTES_MAX);
        let ended = async {
            while let Some(frame) = body.frame().await {
                if frame.is_err() {
                    return State::Halted;
                }
            }
            State::Done
        };
        *parts.state = timeout(DISCARD_TIMEOUT, ended).await.unwrap_or(State::Halted);
    }
}
