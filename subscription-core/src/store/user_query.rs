//! Lists of users.

use std::str::FromStr;

use super::query::{Direction, PageLimit, Position, SortKey};
use crate::accounts::User;
use crate::values::faults::{FaultCode, InvalidValue};
use crate::values::id::UserId;
use crate::values::text::{Email, checked};

/// A list of users.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserQuery {
    /// Users whose account is [closing](User::closing), by id.
    Closing {
        /// The largest number of users.
        limit: PageLimit,
    },
    /// A page of the users whose account is not closing.
    Open {
        /// Which ones, and in which order.
        filter: UserFilter,
        /// After which place; from the start if `None`.
        after: Option<Position>,
        /// How many.
        limit: PageLimit,
    },
}

/// Which users, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserFilter {
    /// All, newest first.
    #[default]
    All,
    /// The user with this address, compared by its [key](Email::key).
    Email(Email),
    /// Users whose address begins so, in the byte order of the [keys](Email::key).
    EmailPrefix(EmailPrefix),
    /// Users with one of these ids, newest first.
    Ids(Vec<UserId>),
}

impl UserFilter {
    /// True if `user` is one of those asked for.
    pub fn admits(&self, user: &User) -> bool {
        !user.closing
            && match self {
                Self::All => true,
                Self::Email(email) => user.email == *email,
                Self::EmailPrefix(prefix) => user.email.key().starts_with(prefix.as_str()),
                Self::Ids(ids) => ids.contains(&user.id),
            }
    }

    /// The direction of the order.
    pub const fn direction(&self) -> Direction {
        if self.is_by_email() { Direction::Ascending } else { Direction::Descending }
    }

    /// The place of `user` in the order.
    pub fn position(&self, user: &User) -> Position {
        let key = if self.is_by_email() {
            SortKey::Email(user.email.key().to_owned())
        } else {
            SortKey::CreatedAt
        };
        Position { key, id: user.id.uuid() }
    }

    /// True if `position` is one of the order.
    pub const fn fits(&self, position: &Position) -> bool {
        match position.key {
            SortKey::Email(_) => self.is_by_email(),
            SortKey::CreatedAt => !self.is_by_email(),
            _ => false,
        }
    }

    const fn is_by_email(&self) -> bool {
        matches!(self, Self::EmailPrefix(_))
    }
}

/// The beginning of an e-mail address: 3 to 254 ASCII characters without blanks, compared with the
/// [key](Email::key) of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmailPrefix(Box<str>);

impl EmailPrefix {
    /// The prefix in lower case, as it is in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The smallest text that comes after every text with this prefix, in byte order.
    pub fn end(&self) -> String {
        // The last character is ASCII and printable, so that it has a successor.
        let mut chars = self.0.chars();
        let last = chars.next_back().map_or('\0', |last| char::from(last as u8 + 1));
        chars.chain([last]).collect()
    }
}

impl FromStr for EmailPrefix {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = checked(text.trim(), 3, 254, false)?;
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_ascii_lowercase().into()))
        } else {
            Err(InvalidValue::new(
                FaultCode::BadFormat,
                "must be the beginning of an e-mail address, in ASCII and without blanks",
            ))
        }
    }
}
