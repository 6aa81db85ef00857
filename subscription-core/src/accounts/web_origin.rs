//! Web origins of the pages that may call the service.

use std::borrow::Borrow;

use url::{Host, Url};

use crate::values::text::checked_texts;
use crate::values::{FaultCode, InvalidValue};

checked_texts! {
    /// The origin of a web page, as browsers write it in the header `Origin`: a scheme, a host, and a port
    /// if it is not the scheme's default. The scheme is `https`, or `http` for pages of the browser's own machine.
    WebOrigin: origin;
}

fn origin(text: &str) -> Result<&str, InvalidValue> {
    if text.contains('*') {
        return Err(InvalidValue::bad_format("must be one origin, without *"));
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else {
        return Err(InvalidValue::bad_format("must be an origin such as https://shop.example"));
    };
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(InvalidValue::bad_format("must be https, except on localhost or loopback IPs"));
    }
    let written = url.origin().ascii_serialization();
    if written != text {
        let message = format!("must be written as browsers send it: {written}");
        return Err(InvalidValue::new(FaultCode::BadFormat, message));
    }
    Ok(text)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

impl WebOrigin {
    /// True if the page comes from the browser's own machine.
    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| is_loopback(&url))
    }
}

impl Borrow<str> for WebOrigin {
    fn borrow(&self) -> &str {
        &self.0
    }
}
