//! The accounts that operators see: a list, an account by its e-mail address or id, and the sessions of a user.
//!
//! An account that is being deleted counts as missing.

use std::sync::Arc;

use super::Authentication;
use crate::accounts::{Session, User};
use crate::error::Error;
use crate::service::found;
use crate::store::{Page, PageLimit, Position, StoreExt as _, UserFilter, UserQuery};
use crate::values::UserId;

/// # Users
impl Authentication {
    /// A page of the users whose account is not being deleted.
    pub async fn users(
        &self,
        filter: UserFilter,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<Arc<User>>, Error> {
        if after.as_ref().is_some_and(|position| !filter.fits(position)) {
            return Err(Error::WrongPosition);
        }
        let query = UserQuery::Open { filter, after, limit };
        self.store().readable_as::<User>(query).await.map_err(Error::Store)
    }

    /// The user with this id. A user whose account is being deleted counts as not found.
    pub async fn user_by_id(&self, id: UserId) -> Result<Arc<User>, Error> {
        let user = self.store().get_as::<User>(&id).await;
        found(user.map(|user| user.filter(|user| !user.closing)), "user", id)
    }

    /// The live sessions of a user, newest first.
    pub async fn sessions_of(&self, id: UserId) -> Result<Vec<Arc<Session>>, Error> {
        self.user_by_id(id).await?;
        self.live_sessions(id, self.service().now()).await
    }
}
