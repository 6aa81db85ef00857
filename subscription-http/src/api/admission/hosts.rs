//! The check of `Host` against DNS rebinding.
//!
//! In a DNS rebinding attack, the host name of a web page is made to resolve to this machine. For the browser, the
//! page then has the same origin as the server, so the page may read every response. But the header `Host` has the
//! name of the page, and the page cannot change that header.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{PoisonError, RwLock};

use http::{HeaderMap, Uri, header};
use serde::Deserialize;

use crate::api::routes;

/// A host name or an address that a server serves, with one port or with any port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AllowedHost {
    name: Name,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Address(IpAddr),
    /// The name in lower case, without a final dot.
    Domain(Box<str>),
}

/// A text that cannot be parsed as an [`AllowedHost`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a name such as billing.example, or an address, with or without a port; not {0:?}")]
pub struct BadHost(String);

impl FromStr for AllowedHost {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self { name: Name::Address(address.to_canonical()), port: None });
        }
        let Host { name, port } = Host::of(text).ok_or_else(|| BadHost(text.to_owned()))?;
        let domain = || Name::Domain(name.to_ascii_lowercase().into());
        let name = address(name).map_or_else(domain, Name::Address);
        Ok(Self { name, port })
    }
}

impl TryFrom<String> for AllowedHost {
    type Error = BadHost;

    fn try_from(text: String) -> Result<Self, BadHost> {
        text.parse()
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Name::Address(ip) => write!(f, "{ip}")?,
            Name::Domain(name) => f.write_str(name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl AllowedHost {
    fn is(&self, host: Host<'_>) -> bool {
        let is_named = match &self.name {
            Name::Address(ip) => address(host.name) == Some(*ip),
            Name::Domain(name) => name.eq_ignore_ascii_case(host.name),
        };
        is_named && (self.port.is_none() || self.port == host.port)
    }
}

/// A host, as it is written in a request.
#[derive(Clone, Copy)]
pub(super) struct Host<'h> {
    /// The name or address; an IPv6 address is in brackets.
    name: &'h str,
    port: Option<u16>,
}

impl<'h> Host<'h> {
    /// Reads a host with or without a port; `None` if it is malformed.
    pub(super) fn of(text: &'h str) -> Option<Self> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port),
            Some(_) | None => (text, ""),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_domain = !name.is_empty() && name.bytes().all(plain);
        if !is_domain && address(name).is_none() {
            return None;
        }
        let port = match port {
            "" => None,
            // `parse` would accept a `+` before the number.
            _ if port.starts_with('+') => return None,
            _ => Some(port.parse().ok()?),
        };
        Some(Self { name, port })
    }

    fn is_loopback(self) -> bool {
        let name = self.name.to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || address(&name).is_some_and(|ip| ip.is_loopback())
    }
}

/// The IP address of a host; `None` if the host is a domain name.
fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    // Colons are allowed only in brackets, and brackets only around an IPv6 address.
    let ip: IpAddr = bare.unwrap_or(name).parse().ok()?;
    (ip.is_ipv6() == bare.is_some()).then(|| ip.to_canonical())
}

/// Parses an address with or without a port. An IPv6 address may be in brackets.
pub(super) fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    bare.or_else(|| address(Host::of(text)?.name))
}

/// The hosts that a server serves.
#[derive(Default)]
pub(crate) struct Hosts {
    /// True if only the names of this machine and the listed names are served, as in development. If false, all names
    /// are served, unless some are listed.
    pub(crate) loopback_only: bool,
    pub(crate) listed: Vec<AllowedHost>,
    /// The addresses where the server listens.
    listens_at: RwLock<Vec<IpAddr>>,
}

impl Hosts {
    /// True if all hosts that a request names are served.
    pub(crate) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if !self.loopback_only && self.listed.is_empty() {
            return true;
        }
        if !self.loopback_only && routes::takes_any_host(uri.path()) {
            return true;
        }
        let is_allowed = |host: Host<'_>| {
            self.loopback_only && (host.is_loopback() || self.listens_at(host))
                || self.listed.iter().any(|allowed| allowed.is(host))
        };
        hosts(uri, headers).all(|host| host.is_some_and(is_allowed))
    }

    fn listens_at(&self, host: Host<'_>) -> bool {
        let addresses = self.listens_at.read().unwrap_or_else(PoisonError::into_inner);
        address(host.name).is_some_and(|ip| addresses.contains(&ip))
    }

    /// Adds an address where the server listens, so that requests may name this address in `Host`.
    pub(crate) fn listen(&self, ip: IpAddr) {
        let mut addresses = self.listens_at.write().unwrap_or_else(PoisonError::into_inner);
        addresses.push(ip.to_canonical());
    }
}

/// True if every host that a request names is this machine.
pub(crate) fn are_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    hosts(uri, headers).all(|host| host.is_some_and(Host::is_loopback))
}

/// The hosts that a request names, in `Host` and in `:authority`. A malformed host is `None`.
fn hosts<'h>(uri: &'h Uri, headers: &'h HeaderMap) -> impl Iterator<Item = Option<Host<'h>>> {
    let sent = headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    // An authority may begin with a user name.
    let authority = uri.authority().and_then(|authority| authority.as_str().rsplit('@').next());
    [sent, authority].into_iter().flatten().map(Host::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(hosts: &Hosts, host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        hosts.allow(&Uri::from_static("/subscriptions"), &headers)
    }

    #[test]
    fn names_of_this_machine_are_told_from_those_that_only_look_so() {
        let hosts = Hosts { loopback_only: true, ..Hosts::default() };
        hosts.listen("192.0.2.7".parse().unwrap());

        for host in [
            "localhost",
            "LocalHost:8080",
            "localhost.",
            "localhost:",
            "shop.localhost:1",
            "127.0.0.1",
            "127.9.8.7:65535",
            "[::1]",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "192.0.2.7:8080",
        ] {
            assert!(allowed(&hosts, host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evillocalhost",
            ".localhost.evil",
            "0.0.0.0",
            "192.0.2.8",
            "[::2]",
            "::1",
            "[127.0.0.1]",
            "[::1",
            "[::1]x",
            "localhost::80",
            "localhost:+80",
            "localhost:65536",
            "user@localhost",
            "",
        ] {
            assert!(!allowed(&hosts, host), "{host}");
        }
    }

    #[test]
    fn an_address_is_read_with_a_port_and_in_brackets() {
        for text in ["10.0.0.7", "10.0.0.7:80", "::ffff:10.0.0.7", "[::ffff:10.0.0.7]:80"] {
            assert_eq!(address_of(text), "10.0.0.7".parse().ok(), "{text}");
        }
        for text in ["::1:", "[10.0.0.7]", "10.0.0.7:http", "proxy.example", ""] {
            assert_eq!(address_of(text), None, "{text}");
        }
    }

    #[test]
    fn listed_names_are_meant_with_any_port_unless_they_have_one() {
        let listed = ["Billing.example", "10.0.0.5:8080", "[2001:db8::1]", "other.example:8443"];
        let listed = listed.map(|text| text.parse().unwrap()).to_vec();
        let hosts = Hosts { listed, ..Hosts::default() };

        for host in ["billing.example", "BILLING.example:1", "10.0.0.5:8080", "[2001:db8:0::1]:443"]
        {
            assert!(allowed(&hosts, host), "{host}");
        }
        for host in
            ["localhost", "x.billing.example", "10.0.0.5", "10.0.0.5:80", "other.example", "a"]
        {
            assert!(!allowed(&hosts, host), "{host}");
        }
        for text in
            ["", "*", "*.billing.example", "https://billing.example", "a/b", "a:b", "a:99999"]
        {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
        for text in ["billing.example:8443", "10.0.0.5", "[2001:db8::1]:1"] {
            assert_eq!(text.parse::<AllowedHost>().unwrap().to_string(), text);
        }
    }
}
