//! Values of settings that are narrower than their types: refused with what would be right.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Listen(SocketAddr);

impl Listen {
    pub(crate) const fn address(self) -> SocketAddr {
        self.0
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Not looked up: a name could lead to any machine, but for this one.
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let address = match local {
            Some(port) => Some((Ipv4Addr::LOCALHOST, port).into()),
            None => text.parse().ok(),
        };
        address.map(Self).ok_or_else(|| {
            let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
            let port = port.unwrap_or(8080);
            format!("must be an IP address and a port, such as 127.0.0.1:{port} or [::1]:{port}")
        })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A number from 1 to `MAX`: what is beyond it is a mistake, and is more than any machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct Bounded<const MAX: usize>(usize);

/// Connections of callers.
pub(crate) type Connections = Bounded<1_000_000>;

/// Connections to PostgreSQL, which has itself no more than 262,143.
pub(crate) type DatabaseConnections = Bounded<10_000>;

impl<const MAX: usize> Bounded<MAX> {
    pub(crate) const fn get(self) -> usize {
        self.0
    }
}

impl<const MAX: usize> TryFrom<u64> for Bounded<MAX> {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        let bounded = usize::try_from(number).ok().filter(|number| (1..=MAX).contains(number));
        bounded.map(Self).ok_or_else(|| format!("must be a number from 1 to {MAX}"))
    }
}

impl<const MAX: usize> FromStr for Bounded<MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What is no number is out of bounds as well.
        text.parse().unwrap_or(u64::MAX).try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_ip_and_a_port_or_this_machine_by_name() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:9", "[::1]:9"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(text.parse(), Ok(Listen(address.parse().unwrap())), "{text}");
        }
        for (text, sample) in [
            ("8080", "127.0.0.1:8080"),
            (":9000", "127.0.0.1:9000"),
            ("example.com:443", "127.0.0.1:443"),
            ("localhost", "127.0.0.1:8080"),
            ("localhost:99999", "127.0.0.1:8080"),
            ("", "127.0.0.1:8080"),
        ] {
            let told = text.parse::<Listen>().unwrap_err();

            assert!(told.contains(&format!("{sample} ")), "{text}: {told}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!("1".parse::<Connections>().map(Bounded::get), Ok(1));
        assert_eq!("10000".parse::<DatabaseConnections>().map(Bounded::get), Ok(10_000));
        for bad in ["0", "10001", "18446744073709551615", "18446744073709551616", "-1", "x", ""] {
            let told = bad.parse::<DatabaseConnections>().unwrap_err();

            assert_eq!(told, "must be a number from 1 to 10000", "{bad}");
        }
    }
}
