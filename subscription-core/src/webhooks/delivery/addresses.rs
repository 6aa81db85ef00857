//! The URLs and addresses that deliveries may be sent to.
//!
//! A caller chooses the URL of an endpoint, so the URL could name a service in the network of this server. A name is
//! checked by the addresses that it resolves to, when the connection is made: the HTTP client calls
//! [`AddressRules::admits`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::values::{FaultCode, InvalidValue};
use crate::with_fields;

/// The IPv4 networks to which no delivery is sent: private, loopback, documentation, multicast and reserved networks.
const BLOCKED_IPV4: [Ipv4Net; 15] = [
    ipv4(0, 0, 0, 8),
    ipv4(10, 0, 0, 8),
    ipv4(100, 64, 0, 10),
    ipv4(127, 0, 0, 8),
    ipv4(169, 254, 0, 16),
    ipv4(172, 16, 0, 12),
    ipv4(192, 0, 0, 24),
    ipv4(192, 0, 2, 24),
    ipv4(192, 88, 99, 24),
    ipv4(192, 168, 0, 16),
    ipv4(198, 18, 0, 15),
    ipv4(198, 51, 100, 24),
    ipv4(203, 0, 113, 24),
    ipv4(224, 0, 0, 4),
    ipv4(240, 0, 0, 4),
];

/// The IPv6 network to which deliveries may be sent.
const GLOBAL_IPV6: Ipv6Net = ipv6(0x2000, 0, 3);
/// The parts of `GLOBAL_IPV6` to which no delivery is sent: special purposes, documentation, 6to4.
const BLOCKED_IPV6: [Ipv6Net; 4] =
    [ipv6(0x2001, 0, 23), ipv6(0x2001, 0xdb8, 32), ipv6(0x2002, 0, 16), ipv6(0x3fff, 0, 20)];

/// The maximum number of characters of a URL.
const URL_MAX: usize = 2_048;

const fn ipv4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn ipv6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

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

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !BLOCKED_IPV4.iter().any(|network| network.contains(&ip)),
        IpAddr::V6(ip) => {
            GLOBAL_IPV6.contains(&ip) && !BLOCKED_IPV6.iter().any(|network| network.contains(&ip))
        }
    }
}
