//! The owner of a new subscription.
//!
//! The stored events of an object, its checkout session and the object itself may name users, and its customer may be
//! bound to a user. If these users differ, a caller must resolve the conflict. If the events have been deleted already,
//! and nothing else names a user, the binding decides.

use std::collections::BTreeSet;

use super::outcome::Interrupted;
use crate::accounts::User;
use crate::error::Error;
use crate::providers::facade::Account;
use crate::providers::inbox::documents::Link;
use crate::providers::{
    EventStatus, FoundObject, ObjectId, ObjectKind, ObjectRef, ProviderEvent, Providers, Reason,
};
use crate::store::{Document, StoreError, StoreExt as _, Stored, UniqueValue};
use crate::values::{Timestamp, UserId, Version};

/// The users whom callers and events name for an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UserClaims {
    /// The user that a caller has named. This user takes precedence over a binding.
    pub(crate) decided: Option<UserId>,
    /// The users that events, the checkout session and the object itself name.
    pub(crate) users: BTreeSet<UserId>,
}

impl UserClaims {
    pub(crate) fn add(&mut self, event: &ProviderEvent) {
        if event.user_decides {
            self.decided = self.decided.or(event.user_id);
        }
        self.users.extend(event.user_id);
    }
}

/// The owner of a new record, from the binding of the customer and the users that are named; `None` if there is no
/// binding and no user is named. If the users differ, or if the bound user may not have new subscriptions, the error is
/// the new status of the events.
///
/// `bound` is the user to whom the customer is bound, and true if new subscriptions may be created for this user. The
/// owner may be another user, if a caller has named one. The binding stays as it is then.
pub(crate) fn user_of(
    bound: Option<(UserId, bool)>,
    claims: &UserClaims,
) -> Result<Option<UserId>, EventStatus> {
    let conflict = EventStatus::waiting(Reason::CustomerConflict);
    let mut users = claims.users.iter().copied();
    match (claims.decided, bound) {
        (Some(decided), _) => Ok(Some(decided)),
        (None, Some((user, _))) if users.any(|claimed| claimed != user) => Err(conflict),
        (None, Some((user, true))) => Ok(Some(user)),
        (None, Some((_, false))) => Err(EventStatus::ignored(Reason::Detached)),
        (None, None) => {
            let first = users.next();
            if users.all(|claimed| Some(claimed) == first) { Ok(first) } else { Err(conflict) }
        }
    }
}

impl Providers {
    /// True if new subscriptions may be created for a user: the account exists and is not being deleted, or the source
    /// accepts every user id.
    pub(crate) async fn is_user(&self, account: &Account, id: UserId) -> Result<bool, Error> {
        if account.source.any_user {
            return Ok(true);
        }
        Ok(self.store().get_as::<User>(&id).await?.is_some_and(|user| !user.closing))
    }

    pub(crate) async fn customer_link(
        &self,
        account: &Account,
        customer: &ObjectId,
    ) -> Result<Option<Stored<Link>>, StoreError> {
        let key = Link::key(&account.source.name, &customer_ref(customer))?;
        Stored::load(self.store(), &key).await
    }

    /// The owner of an object, and the binding of its customer if this binding is new. Adds the users that the object
    /// and its checkout session name to `claims`.
    pub(crate) async fn user_for(
        &self,
        account: &Account,
        object: &FoundObject,
        subscription: Option<&ObjectId>,
        claims: &mut UserClaims,
        now: Timestamp,
    ) -> Result<(UserId, Option<Document>), Interrupted> {
        let link = match &object.customer {
            Some(customer) => self.customer_link(account, customer).await?,
            None => None,
        };
        let bound = match link.as_ref().and_then(|link| link.body.user_id) {
            Some(user) => Some((user, self.is_user(account, user).await?)),
            None => None,
        };
        claims.users.extend(object.user_id);
        if let Some(subscription) = subscription
            && *claims == UserClaims::default()
        {
            claims.users.extend(account.session_users(subscription, now).await?);
        }
        let mut user = user_of(bound, claims)?;
        if user.is_none() && account.source.match_email {
            let email = match &object.email {
                Some(email) => Some(email.clone()),
                None => account.email(object.customer.as_ref(), now).await?,
            };
            if let Some(email) = email {
                let found = self.store().find_as::<User>(UniqueValue::UserEmail(&email)).await?;
                user = found.map(|user| user.id);
            }
        }
        let unknown = EventStatus::waiting(Reason::UnknownCustomer);
        let user = user.ok_or(unknown)?;
        if !self.is_user(account, user).await? {
            return Err(unknown.into());
        }
        let new = object.customer.as_ref().filter(|_| link.is_none());
        let binding = new.map(|customer| binding(account, customer, user).document(Version::NEW));
        Ok((user, binding.transpose()?))
    }
}

fn customer_ref(customer: &ObjectId) -> ObjectRef {
    ObjectRef { kind: ObjectKind::Customer, id: customer.clone() }
}

/// The link of a customer to a user.
pub(crate) fn binding(account: &Account, customer: &ObjectId, user: UserId) -> Link {
    Link {
        source: account.source.name.clone(),
        object: customer_ref(customer),
        customer: None,
        user_id: Some(user),
        subscription_id: None,
        attach: false,
        unnamed: false,
    }
}
