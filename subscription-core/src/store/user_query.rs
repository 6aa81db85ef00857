//! Queries that list users.

use super::query::{Direction, PageLimit, Position, SortKey};
use crate::accounts::User;
use crate::values::{Email, EmailKey, EmailPrefix, UserId};

/// A list of users.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserQuery {
    /// Users whose account is [closing](User::closing), sorted by id.
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
    /// Users whose e-mail address has this prefix, sorted by the [key](Email::key) of the address, byte by byte.
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

    /// True if `position` has the kind of sort key that the positions of this list have.
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
