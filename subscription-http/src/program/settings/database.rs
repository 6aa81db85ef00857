//! The database that records are kept in, by its address.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use super::Mode;

/// Where records are kept.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Database {
    Memory,
    Sqlite(PathBuf),
    Postgres(String),
}

impl Database {
    /// The database where none is named; production mode has none, as it would begin with an empty one.
    pub(crate) fn by_default(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Development => Some(Self::Sqlite("subscription.db".into())),
            Mode::Production => None,
        }
    }

    /// True unless opening it begins with an empty one.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Memory => false,
            Self::Sqlite(path) => path.exists(),
            Self::Postgres(_) => true,
        }
    }
}

impl fmt::Debug for Database {
    /// Hides what may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(_) => f.write_str("postgres://…"),
        }
    }
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:")) {
            Some(path) if !path.is_empty() && !path.contains('?') => Ok(Self::Sqlite(path.into())),
            // Told without the text, which may hold a password.
            _ => Err("must be sqlite://FILE, postgres://… or memory:".to_owned()),
        }
    }
}

impl TryFrom<String> for Database {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_by_their_scheme() {
        assert_eq!("memory:".parse(), Ok(Database::Memory));
        assert_eq!("sqlite:///var/x.db".parse(), Ok(Database::Sqlite("/var/x.db".into())));
        assert_eq!("sqlite:x.db".parse(), Ok(Database::Sqlite("x.db".into())));
        let url = "postgres://ada:secret@db/x";
        let postgres: Database = url.parse().unwrap();
        assert_eq!(postgres, Database::Postgres(url.to_owned()));
        assert_eq!(format!("{postgres:?}"), "postgres://…");
        for bad in ["", "mysql://x", "sqlite://", "x.db"] {
            let refused = bad.parse::<Database>().unwrap_err();

            assert!(!refused.contains("x.db"), "{refused}");
        }
    }
}
