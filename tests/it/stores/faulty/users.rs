//! The lists of users of a store with a fault.

use std::sync::Arc;

use subscription_core::accounts::User;
use subscription_core::store::{Page, PageLimit, StoreError, StoreExt as _, UserFilter, UserQuery};

use super::{Fault, FaultyStore};

pub(super) async fn users(
    store: &FaultyStore,
    query: UserQuery,
) -> Result<Page<Arc<User>>, StoreError> {
    let mut page = store.inner.list_as::<User>(query.clone()).await?;
    let UserQuery::Open { filter, after, .. } = query else {
        if store.has(Fault::HidesClosingUsers) {
            page.items.clear();
        }
        return Ok(page);
    };
    match (store.fault, filter) {
        (Some(Fault::ListsClosingUsersAsOpen), _) if page.next.is_none() => {
            let closing = UserQuery::Closing { limit: PageLimit::MAX };
            page.items.extend(store.inner.list_as::<User>(closing).await?.items);
        }
        (Some(Fault::ListsUsersBackwards), _) => page.items.reverse(),
        (Some(Fault::NeedsTheUserOfThePosition), _) => {
            if let Some(after) = after
                && store.inner.get_as::<User>(&after.id.into()).await?.is_none()
            {
                page.items.clear();
            }
        }
        (Some(Fault::TakesEmailPrefixesAsPatterns), UserFilter::EmailPrefix(prefix)) => {
            let (filter, limit) = (UserFilter::All, PageLimit::MAX);
            let all = UserQuery::Open { filter, after: None, limit };
            page = store.inner.list_as::<User>(all).await?;
            // As LIKE does: an underscore stands for any character.
            let is_like = |user: &Arc<User>| {
                let mut pairs = prefix.as_str().chars().zip(user.email.key().chars());
                pairs.all(|(wanted, found)| wanted == '_' || wanted == found)
            };
            page.items.retain(is_like);
            page.items.sort_by(|a, b| a.email.key().cmp(b.email.key()));
        }
        _ => {}
    }
    Ok(page)
}
