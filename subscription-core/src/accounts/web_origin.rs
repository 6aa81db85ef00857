//! Web origins of the pages that may call the service.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::values::faults::{FaultCode, InvalidValue};

/// The origin of a web page, as browsers write it in the header `Origin`: a scheme, a host, and a port
/// if it is not the scheme's own. It is `https`, or `http` on the browser's own machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct WebOrigin(Box<str>);

impl WebOrigin {
    /// The bare text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the page comes from the browser's own machine.
    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| is_loopback(&url))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

impl FromStr for WebOrigin {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let bad = |message: String| Err(InvalidValue::new(FaultCode::BadFormat, message));
        if text.contains('*') {
            return bad("must be one origin, without *".to_owned());
        }
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url else {
            return bad("must be an origin such as https://shop.example".to_owned());
        };
        if url.scheme() == "http" && !is_loopback(&url) {
            return bad("must be https, but for pages on this machine".to_owned());
        }
        let written = url.origin().ascii_serialization();
        if written != text {
            return bad(format!("must be written as browsers send it: {written}"));
        }
        Ok(Self(written.into()))
    }
}

impl TryFrom<String> for WebOrigin {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        text.parse()
    }
}

impl Borrow<str> for WebOrigin {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
