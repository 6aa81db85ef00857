//! Checks on a request's head that hyper does not make, and readers of its headers.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, Uri, Version};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};

use super::hosts::{self, Host};
use crate::api::Refusal;
use crate::api::input::bounds::{CLIENT_ID_CHARS_MAX, URI_BYTES_MAX};

/// The maximum number of hops of `x-forwarded-for` that are read, beginning from the right.
const HOPS_MAX: usize = 16;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const CLIENT_ID: HeaderName = HeaderName::from_static("client-id");

/// The headers that may be sent only once, and only in ASCII.
static SINGLE: [(HeaderName, &str); 3] =
    [(CLIENT_ID, "client-id"), (AUTHORIZATION, "authorization"), (CONTENT_TYPE, "content-type")];

/// Checks the URI and the headers that decide how a request is read.
pub(crate) fn check(uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > URI_BYTES_MAX {
        return Err(Refusal::UriTooLong);
    }
    check_host(uri, version, headers)?;
    // One pass over all headers is faster than a look-up of each.
    let mut seen = [false; 3];
    for (name, value) in headers {
        for ((single, shown), seen) in SINGLE.iter().zip(&mut seen) {
            if single != name {
                continue;
            }
            // The header is repeated, or is not ASCII. Later code relies on this check: it reads these headers as
            // ASCII.
            if std::mem::replace(seen, true) || !value.as_bytes().is_ascii() {
                return Err(Refusal::HeaderInvalid(shown));
            }
        }
    }
    if !framed(headers) {
        return Err(Refusal::HeaderInvalid("transfer-encoding"));
    }
    Ok(())
}

/// True if the end of the body is unambiguous. A request without a `Transfer-Encoding` is unambiguous. A request with
/// a `Transfer-Encoding` must have a single one, which is `chunked`, and no `Content-Length`.
pub(crate) fn framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.next().is_none_or(|coding| {
        let chunked = |coding: &str| coding.trim().eq_ignore_ascii_case("chunked");
        let alone = codings.next().is_none() && !headers.contains_key(CONTENT_LENGTH);
        alone && coding.to_str().is_ok_and(chunked)
    })
}

fn check_host(uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let sound = |host: &http::HeaderValue| host.to_str().is_ok_and(|host| Host::of(host).is_some());
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if sound(host) => Ok(()),
        // HTTP/2 has the host in `:authority`.
        (None, None) if version == Version::HTTP_2 && uri.authority().is_some() => Ok(()),
        (None | Some(_), _) => Err(Refusal::HostInvalid),
    }
}

/// The segments of a path. Each is percent-decoded once.
pub(crate) fn segments(path: &str) -> Result<Vec<Cow<'_, str>>, Refusal> {
    let segments = path.split('/').skip(1).map(|segment| {
        let text = if segment.contains('%') {
            percent_decode_str(segment).decode_utf8().map_err(|_| Refusal::PathInvalid)?
        } else {
            Cow::Borrowed(segment)
        };
        let dots = text == "." || text == "..";
        if dots || text.contains(|c: char| matches!(c, '/' | '\\') || c.is_control()) {
            return Err(Refusal::PathInvalid);
        }
        Ok(text)
    });
    segments.collect()
}

/// The credential of the calling client, from the header `client-id`.
pub(crate) fn client_id(headers: &HeaderMap) -> Result<SecretString, Refusal> {
    let value = headers.get(CLIENT_ID).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.trim() {
        "" => Err(Refusal::ClientMissing),
        id if id.len() > CLIENT_ID_CHARS_MAX => Err(Refusal::HeaderInvalid("client-id")),
        id => Ok(id.into()),
    }
}

/// The access token; `None` if none was sent.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let value = std::str::from_utf8(headers.get(AUTHORIZATION)?.as_bytes()).ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.into())
}

/// The portal token; `None` if none was sent.
pub(crate) fn portal_token(headers: &HeaderMap) -> Option<SecretString> {
    bearer(headers).filter(|token| token.expose_secret().starts_with("spt_"))
}

/// True for a JSON content type, with any parameters.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// True for a body with a content coding other than `identity`.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let is_plain = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    let mut lines = headers.get_all(CONTENT_ENCODING).iter();
    lines.any(|line| {
        line.to_str().map_or(true, |line| !line.split(',').map(str::trim).all(is_plain))
    })
}

/// The address of the caller: the first hop, from the right, that is not a trusted proxy.
///
/// `x-forwarded-for` is read only if the peer is trusted, or if the client may assert addresses (`asserts`). A hop that
/// is not an address ends the search, and the last trusted proxy counts as the caller: the caller itself may have
/// written everything to the left of this hop.
pub(crate) fn origin(
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    asserts: bool,
    trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let peer = peer.map(|peer| peer.to_canonical());
    if !asserts && !peer.is_some_and(&trusted) || !headers.contains_key(FORWARDED_FOR) {
        return peer;
    }
    let mut last = peer;
    for hop in hops(headers).iter().rev().take(HOPS_MAX) {
        let Some(address) = hosts::address_of(hop.trim()) else { break };
        last = Some(address);
        if !trusted(address) {
            break;
        }
    }
    last
}

/// True if all hops of `x-forwarded-for` are addresses of this machine, or if there are none. A hop that is not an
/// address may stand for a caller on another machine.
pub(crate) fn is_forwarded_here(headers: &HeaderMap) -> bool {
    let is_here = |hop: &&str| hosts::address_of(hop.trim()).is_some_and(|ip| ip.is_loopback());
    hops(headers).iter().all(is_here)
}

/// The hops of `x-forwarded-for`. A line that is not ASCII is a hop that is not an address.
fn hops(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(FORWARDED_FOR).iter();
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',')).collect()
}
