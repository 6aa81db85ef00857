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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for (text, is_loopback) in [
            ("https://shop.example", false),
            ("https://shop.example:8443", false),
            ("https://xn--bcher-kva.example", false),
            ("https://192.0.2.7", false),
            ("https://localhost", true),
            ("http://localhost", true),
            ("http://localhost:5173", true),
            ("http://shop.localhost:3000", true),
            ("http://127.0.0.1:3000", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:3000", true),
        ] {
            let origin: WebOrigin = text.parse().unwrap();

            assert_eq!(origin.as_str(), text);
            assert_eq!(origin.is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn what_no_browser_sends_or_anybody_could_be_is_no_origin() {
        for (text, told) in [
            ("*", "without *"),
            ("https://*.shop.example", "without *"),
            ("null", "such as https://shop.example"),
            ("", "such as https://shop.example"),
            ("shop.example", "such as https://shop.example"),
            ("file:///index.html", "such as https://shop.example"),
            ("ftp://shop.example", "such as https://shop.example"),
            ("http://shop.example", "must be https"),
            ("http://localhost.shop.example", "must be https"),
            ("http://127.0.0.1.shop.example", "must be https"),
            ("http://evillocalhost", "must be https"),
            ("https://shop.example/", "send it: https://shop.example"),
            ("https://shop.example/basket", "send it: https://shop.example"),
            ("https://shop.example:443", "send it: https://shop.example"),
            ("https://Shop.Example", "send it: https://shop.example"),
            ("https://ada@shop.example", "send it: https://shop.example"),
            ("https://b\u{fc}cher.example", "send it: https://xn--bcher-kva.example"),
            (" https://shop.example", "send it: https://shop.example"),
        ] {
            let refused = text.parse::<WebOrigin>().unwrap_err();

            assert_eq!(refused.code(), FaultCode::BadFormat, "{text}");
            assert!(refused.to_string().contains(told), "{text}: {refused}");
        }
    }
}
