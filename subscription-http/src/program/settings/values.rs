//! Values of settings as people write them: what cannot be one is refused with what would be right.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use subscription_http::Quota;
use tracing::level_filters::LevelFilter;

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
        // No other name is taken: only this one surely means this machine.
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

/// How much to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Level(LevelFilter);

impl Level {
    pub(crate) const fn filter(self) -> LevelFilter {
        self.0
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = text.parse().map(Self);
        level.map_err(|_| "log must be error, warn, info, debug, trace or off".to_owned())
    }
}

impl TryFrom<String> for Level {
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

/// Whose subscriptions are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Users {
    /// People who signed up here: any other `user_id` is refused.
    #[default]
    Accounts,
    /// Any UUID: users are another system's business, and are not looked up.
    Any,
}

/// `30/5m`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Limit(pub(crate) Option<Quota>);

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let quota = || {
            let (requests, window) = text.split_once('/')?;
            let requests = requests.trim().parse().ok().filter(|requests| *requests > 0)?;
            let window = window.trim();
            let digits = window.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let count: u64 = if digits.is_empty() { 1 } else { digits.parse().ok()? };
            let seconds = match window.get(digits.len()..)? {
                "s" => count,
                "m" => count.checked_mul(60)?,
                "h" => count.checked_mul(3_600)?,
                _ => return None,
            };
            (seconds > 0).then(|| Quota::new(requests, Duration::from_secs(seconds)))
        };
        quota().map(|quota| Self(Some(quota))).ok_or_else(|| {
            format!("a limit is so many requests in so much time, as 30/5m, or off; not {text:?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_requests_in_a_time() {
        let limit = |text: &str| Limit::try_from(text.to_owned()).map(|Limit(quota)| quota);

        assert_eq!(limit("30/5m"), Ok(Some(Quota::new(30, Duration::from_mins(5)))));
        assert_eq!(limit("10/s"), Ok(Some(Quota::new(10, Duration::from_secs(1)))));
        assert_eq!(limit("100 / 2h"), Ok(Some(Quota::new(100, Duration::from_hours(2)))));
        assert_eq!(limit("off"), Ok(None));
        for bad in ["", "30", "0/5m", "30/0s", "30/5", "30/5d", "x/5m", "30/99999999999999999999s"]
        {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }

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
