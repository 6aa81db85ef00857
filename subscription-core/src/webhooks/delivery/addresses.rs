//! The URLs and addresses that deliveries may be sent to.
//!
//! A caller chooses the URL of an endpoint, so the URL could name a service in the network of this server. A name is
//! checked by the addresses that it resolves to, when the connection is made: the HTTP client calls
//! [`AddressRules::admits`].

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use ipnet::{AddrParseError, IpNet};
use url::{Host, Url};

use crate::values::{FaultCode, InvalidValue};
use crate::with_fields;

/// The networks to which no delivery is sent: private, loopback, documentation, multicast and reserved networks of
/// IPv4, and the address of a cloud's own services; all of IPv6 outside of `2000::/3`, and the networks within `2000::/3` for special purposes, documentation and
/// 6to4.
static BLOCKED: LazyLock<Result<Vec<IpNet>, AddrParseError>> = LazyLock::new(|| {
    let networks = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        // The platform of Azure answers at this public address, for the machine that asks.
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "4000::/2",
        "8000::/1",
    ];
    networks.iter().map(|network| network.parse()).collect()
});

/// The maximum number of characters of a URL.
const URL_MAX: usize = 2_048;

/// The rules for URLs and addresses. A denied network overrides an allowed one, and both override the built-in list of
/// private and reserved networks. An IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) is checked as IPv4.
///
/// ```
/// use subscription_core::webhooks::AddressRules;
///
/// let rules = AddressRules::default();
/// assert!(rules.read("https://shop.example/hooks").is_ok());
/// assert!(rules.read("https://10.0.0.7/hooks").is_err());
///
/// let rules = rules.with_allow(vec!["10.0.0.0/24".parse()?]);
/// assert!(rules.read("http://10.0.0.7/hooks").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AddressRules {
    /// The networks that are allowed, with or without TLS.
    pub allow: Vec<IpNet>,
    /// The networks that are denied.
    pub deny: Vec<IpNet>,
    /// True allows the loopback addresses of this machine, with or without TLS: for development.
    pub loopback: bool,
}

with_fields! {
    AddressRules {
        with_allow(Vec<IpNet>) => allow,
        with_deny(Vec<IpNet>) => deny,
        with_loopback(bool) => loopback,
    }
}

/// The reason why a URL is refused. The message is a predicate that follows the name of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// The text is not a URL with a host.
    #[error("must be a URL such as https://shop.example/webhooks")]
    Unreadable,
    /// The URL is too long.
    #[error("must have at most {URL_MAX} characters")]
    TooLong,
    /// The text has a control character.
    #[error("must not have control characters")]
    ControlCharacter,
    /// The scheme is neither `https` nor an allowed `http`.
    #[error("must begin with https://")]
    Scheme,
    /// The URL has a user or a password.
    #[error("must not have a user name or a password")]
    Credentials,
    /// The URL has a fragment.
    #[error("must not have a fragment")]
    Fragment,
    /// The host is an address to which no delivery is sent.
    #[error("must not be a private, local or reserved address")]
    Address,
}

impl From<BadUrl> for InvalidValue {
    fn from(bad: BadUrl) -> Self {
        Self::new(FaultCode::NotAllowedValue, bad.to_string())
    }
}

impl AddressRules {
    /// Parses a URL and checks it.
    pub fn read(&self, text: &str) -> Result<Url, BadUrl> {
        // The parser removes tabs and line ends, so the result would differ from the URL that the caller saw.
        if text.chars().any(char::is_control) {
            return Err(BadUrl::ControlCharacter);
        }
        let url = Url::parse(text).map_err(|_| BadUrl::Unreadable)?;
        self.check(&url).map(|()| url)
    }

    /// Checks everything in a URL except the addresses to which its host name resolves.
    pub fn check(&self, url: &Url) -> Result<(), BadUrl> {
        let plain = match url.scheme() {
            "https" => false,
            "http" if self.loopback || !self.allow.is_empty() => true,
            _ => return Err(BadUrl::Scheme),
        };
        if url.as_str().len() > URL_MAX {
            return Err(BadUrl::TooLong);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadUrl::Credentials);
        }
        if url.fragment().is_some() {
            return Err(BadUrl::Fragment);
        }
        let admitted = match url.host() {
            Some(Host::Ipv4(ip)) => self.admits(ip.into(), plain),
            Some(Host::Ipv6(ip)) => self.admits(ip.into(), plain),
            Some(Host::Domain(name)) if is_localhost(name) => {
                self.admits(Ipv4Addr::LOCALHOST.into(), plain)
            }
            // Without allowed networks, only the names of this machine may be called without TLS.
            Some(Host::Domain(_)) if plain && self.allow.is_empty() => return Err(BadUrl::Scheme),
            Some(Host::Domain(_)) => true,
            None => return Err(BadUrl::Unreadable),
        };
        if admitted { Ok(()) } else { Err(BadUrl::Address) }
    }

    /// True if deliveries may be sent to this address. `plain` is true for a connection without TLS.
    pub fn admits(&self, ip: IpAddr, plain: bool) -> bool {
        let ip = ip.to_canonical();
        let is_in = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&ip));
        if is_in(&self.deny) {
            return false;
        }
        is_in(&self.allow) || (self.loopback && ip.is_loopback()) || (!plain && is_public(ip))
    }
}

/// True for the names of this machine, which must not be looked up by a resolver (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// True for an address in none of the blocked networks. If a network in the list could not be parsed, this would be
/// false for every address.
fn is_public(ip: IpAddr) -> bool {
    let blocked = BLOCKED.as_ref();
    blocked.is_ok_and(|blocked| !blocked.iter().any(|network| network.contains(&ip)))
}
