//! Queries that list users.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
            SortKey::Email(EmailKey::from(&user.email))
        } else {
            SortKey::CreatedAt
        };
        Position { key, id: user.id.uuid() }
    }

    /// True if `position` is a position in the list.
    pub const fn fits(&self, position: &Position) -> bool {
        let is_by_email = self.is_by_email();
        matches!(
            (is_by_email, &position.key),
            (true, SortKey::Email(_)) | (false, SortKey::CreatedAt)
        )
    }

    const fn is_by_email(&self) -> bool {
        matches!(self, Self::EmailPrefix(_))
    }
}

/// The [key](Email::key) of an e-mail address, in the order of its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmailKey(Box<str>);

impl EmailKey {
    /// The bare text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Email> for EmailKey {
    fn from(email: &Email) -> Self {
        Self(email.key().into())
    }
}

/// Finds keys by their text in ordered maps.
impl Borrow<str> for EmailKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The beginning of an e-mail address: 3 to 254 ASCII characters without blanks, compared with the
/// [key](Email::key) of an address.
#[derive(Clone, PartialEq, Eq)]
pub struct EmailPrefix(Box<str>);

/// Hides the person: addresses do not belong in logs.
macro_rules! hidden_in_logs {
    ($($name:ident)+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )+};
}

hidden_in_logs! { EmailKey EmailPrefix }

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
