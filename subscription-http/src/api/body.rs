//! The body of a request: read where it is wanted, and where it is not, out of the way of the next one.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Version, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;
use pin_project_lite::pin_project;

use crate::api::error::{ApiError, Refusal};
use crate::api::request_head;
use crate::api::timeout::within;

/// The largest body.
const BODY_BYTES_MAX: usize = 65_536;

/// How long a body that nobody wants is waited for, so that its connection can go on.
const PASSED_BY_WITHIN: Duration = Duration::from_millis(100);

pin_project! {
    /// The body of a request, and how far it was read.
    pub(crate) struct RequestBody<B> {
        #[pin]
        body: B,
        state: State,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing of it stands before the next request.
    Done,
    /// Nobody has looked at it.
    Unread,
    /// It was read in part, or it is not sent before it is asked for.
    Halted,
}

impl<B> RequestBody<B>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(crate) fn new(head: &Parts, body: B) -> Self {
        // HTTP/2 keeps requests apart, whatever becomes of their bodies.
        let state = if body.is_end_stream() || head.version > Version::HTTP_11 {
            State::Done
        } else if head.headers.contains_key(header::EXPECT) {
            State::Halted
        } else {
            State::Unread
        };
        Self { body, state }
    }

    /// Reads JSON to its end.
    pub(crate) async fn read(
        self: Pin<&mut Self>,
        time: Duration,
        headers: &HeaderMap,
    ) -> Result<Bytes, ApiError> {
        if !request_head::is_json(headers) {
            return Err(Refusal::MediaType.into());
        }
        if request_head::is_packed(headers) {
            return Err(Refusal::ContentCoding.into());
        }
        let parts = self.project();
        *parts.state = State::Halted;
        let body = match within(time, Limited::new(parts.body, BODY_BYTES_MAX).collect()).await {
            None => Err(Refusal::TooSlow),
            Some(Ok(body)) => Ok(body.to_bytes()),
            Some(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge),
            Some(Err(_)) => Err(Refusal::BodyUnreadable),
        }?;
        *parts.state = State::Done;
        Ok(body)
    }

    /// True if something of it stands before the next request.
    pub(crate) fn is_in_the_way(&self) -> bool {
        self.state != State::Done
    }

    /// Reads what nobody wants, if it is little and comes soon; else the connection cannot go on.
    pub(crate) async fn pass_by(self: Pin<&mut Self>) {
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
        *parts.state = within(PASSED_BY_WITHIN, ended).await.unwrap_or(State::Halted);
    }
}
