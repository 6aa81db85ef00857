//! Queries that list users.

use std::str::FromStr;

use super::query::{Direction, PageLimit, Position, SortKey};
use crate::accounts::User;
use crate::values::faults::InvalidValue;
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
        /// The users to list, and their order.
        filter: UserFilter,
        /// The position after which the page begins; from the start if `None`.
        after: Option<Position>,
        /// The largest number of users on the page.
        limit: PageLimit,
    },
}

/// The users to list, and their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserFilter {
    /// All users, newest first.
    #[default]
    All,
    /// The user with this e-mail address, compared by its [key](Email::key).
    Email(Email),
    /// Users whose e-mail address has this prefix, in the byte order of the [keys](Email::key).
    EmailPrefix(EmailPrefix),
    /// Users with one of these ids, newest first.
    Ids(Vec<UserId>),
}

impl UserFilter {
    /// True if `user` is one of the users to list.
    pub fn admits(&self, user: &User) -> bool {
        !user.closing
            && match self {
                Self::All => true,
                Self::Email(email) => user.email == *email,
                Self::EmailPrefix(prefix) => user.email.key().starts_with(prefix.as_str()),
                Self::Ids(ids) => ids.contains(&user.id),
            }
    }

    /// The direction in which the list is sorted.
    pub const fn direction(&self) -> Direction {
        if self.is_by_email() { Direction::Ascending } else { Direction::Descending }
    }

    /// The position of `user` in the list.
    pub fn position(&self, user: &User) -> Position {
        let key = if self.is_by_email() {
            SortKey::Email(user.email.key().to_owned())
        } else {
            SortKey::CreatedAt
        };
        Position { key, id: user.id.uuid() }
    }

    /// True if `position` is a position in the list.
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
    /// The prefix in lower case, as in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The smallest text that comes after every text with this prefix, in byte order.
    pub fn end(&self) -> String {
        // The last character is printable ASCII, so the next code is a character too.
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
            let message = "must be the beginning of an e-mail address, in ASCII and without blanks";
            Err(InvalidValue::bad_format(message))
        }
    }
}
