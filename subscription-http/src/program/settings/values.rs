//! The types of settings. They are parsed from text, and an error says which values are valid.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use subscription_http::Quota;
use tracing::level_filters::LevelFilter;

/// The mode of the server, which decides which callers are trusted.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Trusts every caller, on this machine only.
    #[default]
    Development,
    /// Trusts known clients and verified users only.
    Production,
}

/// The users who can have subscriptions.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Users {
    /// Users who signed up here; any other `user_id` is refused.
    #[default]
    Accounts,
    /// Any UUID: another system has the users, and they are not looked up.
    Any,
}

/// The clock of the process.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClockKind {
    /// The clock of the machine.
    #[default]
    System,
    /// A clock that `POST /clock/advance` turns forward.
    Manual,
}

/// A setting that is on or off.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Switch {
    On,
    Off,
}

/// Implements `Deserialize` by `FromStr`: serde reads a text, and the type parses it.
macro_rules! deserialize_from_text {
    ($($kind:ty),+) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
                String::deserialize(text)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}

deserialize_from_text!(Console, Listen, Level, Limit, KeepEvents);

/// An address to listen on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self((Ipv4Addr::LOCALHOST, 8080).into())
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `localhost` is the only host name that is accepted, because other names would need a DNS lookup.
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let local = port.filter(|_| text.starts_with("localhost:"));
        let local = local.map(|port| (Ipv4Addr::LOCALHOST, port).into());
        local.or_else(|| text.parse().ok()).map(Self).ok_or_else(|| {
            let port = port.unwrap_or(8080);
            format!("must be an IP address and a port, such as 127.0.0.1:{port} or [::1]:{port}")
        })
    }
}

/// Where the console is served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Console {
    /// The console is not served.
    Off,
    /// The console is served at the address of the API (`--listen`).
    On,
    /// The console is served at an address of its own.
    At(Listen),
}

impl FromStr for Console {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            address => address.parse().map(Self::At).map_err(|_| {
                "must be on, off, or an IP address and a port, such as 127.0.0.1:9080 or [::1]:9080"
                    .to_owned()
            }),
        }
    }
}

/// The log level.
#[derive(Clone, Copy)]
pub(crate) struct Level(pub(crate) LevelFilter);

impl Default for Level {
    fn default() -> Self {
        Self(LevelFilter::INFO)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = text.parse().map(Self);
        level.map_err(|_| "log must be error, warn, info, debug, trace or off".to_owned())
    }
}

/// A number from 1 to `MAX`. A larger number is refused as a mistake.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct Bounded<const MAX: usize>(pub(crate) usize);

/// A number of connections from callers.
pub(crate) type Connections = Bounded<1_000_000>;

/// A number of connections to PostgreSQL. PostgreSQL itself accepts at most 262,143.
pub(crate) type DatabaseConnections = Bounded<10_000>;

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
        // Text that is not a number gets the same error as a number out of range.
        text.parse().unwrap_or(u64::MAX).try_into()
    }
}

/// A database, parsed from its URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Memory,
    Sqlite(PathBuf),
    Postgres(String),
}

impl Database {
    /// True if the database may already have records.
    pub(crate) fn exists(&self) -> bool {
        match self {
            Self::Memory => false,
            Self::Sqlite(path) => path.exists(),
            Self::Postgres(_) => true,
        }
    }
}

impl fmt::Debug for Database {
    /// Hides the URL of PostgreSQL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(_) => f.write_str("postgres://…"),
        }
    }
}

impl FromStr for Database {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:")) {
            Some(path) if !path.is_empty() && !path.contains('?') => Ok(Self::Sqlite(path.into())),
            _ => Err("must be sqlite://FILE, postgres://… or memory:"),
        }
    }
}

/// A rate limit as text: `30/5m`, or `off`.
#[derive(Clone, Copy)]
pub(crate) struct Limit(pub(crate) Option<Quota>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Quota { requests, window }) = self.0 else { return f.write_str("off") };
        match window.as_secs() {
            seconds if seconds % 3_600 == 0 => write!(f, "{requests}/{}h", seconds / 3_600),
            seconds if seconds % 60 == 0 => write!(f, "{requests}/{}m", seconds / 60),
            seconds => write!(f, "{requests}/{seconds}s"),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
            format!("must be a number of requests in a time, such as 30/5m, or off; not {text:?}")
        })
    }
}

/// How long events are kept; `None` is for ever.
#[derive(Clone, Copy)]
pub(crate) struct KeepEvents(pub(crate) Option<Duration>);

impl Default for KeepEvents {
    fn default() -> Self {
        Self(Some(Duration::from_hours(400 * 24)))
    }
}

impl FromStr for KeepEvents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const DAY: u64 = 24 * 3_600;
        #[rustfmt::skip] // Keeps each row on one line. A month has 31 days and a year 366, so no event is deleted too early.
        const UNITS: [(&str, char, u64); 7] = [
            ("PT", 'S', 1), ("PT", 'M', 60), ("PT", 'H', 3_600),
            ("P", 'D', DAY), ("P", 'W', 7 * DAY), ("P", 'M', 31 * DAY), ("P", 'Y', 366 * DAY),
        ];
        if text == "forever" {
            return Ok(Self(None));
        }
        let time = UNITS.into_iter().find_map(|(begin, end, unit)| {
            let digits = text.strip_prefix(begin)?.strip_suffix(end)?;
            let count = digits.parse::<u32>().ok().filter(|count| *count > 0)?;
            Some(Self(Some(Duration::from_secs(unit * u64::from(count)))))
        });
        time.ok_or_else(|| {
            format!(
                "must be an ISO 8601 duration of one unit, such as P400D, or forever; not {text:?}"
            )
        })
    }
}
