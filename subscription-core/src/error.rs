//! Why the service did not do what it was asked.

use crate::accounts::Scope;
use crate::payments::PaymentRefused;
use crate::store::{Key, Source, StoreError, Unique};
use crate::subscriptions::SubscriptionRefused;
use crate::values::faults::Faults;
use crate::values::input::{InputError, MalformedJson};
use crate::values::randomness::RandomnessUnavailable;
use crate::values::states::InvalidTransition;
use crate::values::version::Version;

/// Why the service did not do what it was asked.
///
/// [`Error::kind`] says what can be done about it, [`Error::code`] names it for machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is no JSON.
    #[error(transparent)]
    Malformed(#[from] MalformedJson),
    /// The input is not what was asked for; all its faults are listed.
    #[error("invalid input: {0}")]
    Invalid(#[from] Faults),
    /// No such record.
    #[error("there is no {record} {name}")]
    NotFound {
        /// The kind of record.
        record: &'static str,
        /// The id or slug that was asked for.
        name: String,
    },
    /// The records as they are do not allow it.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The record is no longer at the version that the caller had read.
    #[error("{key} is at version {current} by now")]
    Stale {
        /// The record.
        key: Key,
        /// The version that it has.
        current: Version,
    },
    /// A position of another list was given to go on from.
    #[error("the position is not one of this list")]
    WrongPosition,
    /// The request's key was used before for another request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// Others were faster each time; it may be tried again.
    #[error("{0} is changing too fast")]
    Busy(Key),
    /// The store failed; see [`StoreError`] on whether anything was written.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The caller has not shown who they are.
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    /// The caller is known, and may not do it.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// A part that the service is built from failed.
    #[error(transparent)]
    Part(#[from] DependencyFailed),
}

/// How a caller has not shown who they are, by what they can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// No client calls with this.
    #[error("the client is not known")]
    ClientUnknown,
    /// The access token is not one of ours, or another client's.
    #[error("the access token is not valid")]
    TokenInvalid,
    /// Refresh it.
    #[error("the access token has expired")]
    TokenExpired,
    /// Sign in again.
    #[error("the session was ended")]
    SessionRevoked,
    /// Sign in again.
    #[error("the session has expired")]
    SessionExpired,
    /// The identity provider's token was not accepted.
    #[error("the identity was not proved")]
    IdentityRejected,
    /// Sign in again.
    #[error("the refresh token is not valid")]
    RefreshTokenInvalid,
    /// Somebody else had the refresh token too: the session was ended.
    #[error("the refresh token was used before")]
    RefreshTokenReused,
}

impl Unauthenticated {
    /// Its stable name, in `snake_case`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::ClientUnknown => "client_unknown",
            Self::TokenInvalid => "token_invalid",
            Self::TokenExpired => "token_expired",
            Self::SessionRevoked => "session_revoked",
            Self::SessionExpired => "session_expired",
            Self::IdentityRejected => "identity_rejected",
            Self::RefreshTokenInvalid => "refresh_token_invalid",
            Self::RefreshTokenReused => "refresh_token_reused",
        }
    }
}

/// Why a caller who is known may not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// The client lacks the scope.
    #[error("the client lacks the scope {0}")]
    ScopeMissing(Scope),
    /// The identity token names another address.
    #[error("the e-mail address is not the one of the identity")]
    EmailMismatch,
    /// The identity provider has not seen that the address is the person's.
    #[error("the e-mail address is not verified")]
    EmailNotVerified,
    /// Nobody deletes the account of another.
    #[error("the account is not the caller's")]
    AuthIdMismatch,
}

impl Forbidden {
    /// Its stable name, in `snake_case`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::ScopeMissing(_) => "scope_missing",
            Self::EmailMismatch => "email_mismatch",
            Self::EmailNotVerified => "email_not_verified",
            Self::AuthIdMismatch => "auth_id_mismatch",
        }
    }
}

/// What failed of the parts that the service is built from, beside the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DependencyFailed {
    /// No id or secret could be made.
    #[error(transparent)]
    Randomness(#[from] RandomnessUnavailable),
    /// The identity provider is out of reach.
    #[error("the identity provider is out of reach")]
    IdentityProvider(#[source] Source),
    /// No token could be signed.
    #[error("a token could not be signed")]
    Signing(#[source] Source),
    /// A session was made with a server key that is not there any more.
    #[error("a server key is missing")]
    ServerKey,
}

impl From<RandomnessUnavailable> for Error {
    fn from(error: RandomnessUnavailable) -> Self {
        DependencyFailed::from(error).into()
    }
}

/// What about the records does not allow a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Another record has the value.
    #[error("{holder} has this {unique}")]
    Taken {
        /// What must be unique.
        unique: Unique,
        /// The record that has it.
        holder: Key,
    },
    /// The plan takes no new subscriptions.
    #[error("the plan takes no new subscriptions")]
    PlanInactive,
    /// Subscriptions refer to the plan.
    #[error("the plan has subscriptions")]
    PlanInUse,
    /// The lifecycle does not allow the step.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// Money has changed hands: what for and how much is history.
    #[error("the payment is settled: its {} cannot change", fields.join(", "))]
    PaymentSettled {
        /// The fields that were to change.
        fields: Vec<&'static str>,
    },
    /// The identity has an account.
    #[error("the identity has an account")]
    AccountExists,
    /// Another account has the address.
    #[error("another account has this e-mail address")]
    EmailInUse,
    /// The account is being deleted.
    #[error("the account is being deleted")]
    AccountClosing,
    /// There is a client of this id.
    #[error("there is a client of this id")]
    ClientExists,
    /// The client was shut out for good.
    #[error("the client was shut out")]
    ClientRevoked,
    /// A public client calls with its id alone.
    #[error("a public client has no key")]
    ClientHasNoKey,
    /// The same request is being answered elsewhere, and it could not be told in time how.
    #[error("a request with this idempotency key is under way")]
    RequestInProgress,
}

/// What a caller can do about an [`Error`].
///
/// This enum is closed: an adapter maps every kind, and a new kind must make every adapter decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Send what can be read: JSON as the input, a position of this very list.
    Malformed,
    /// Mend the input.
    Invalid,
    /// Show who you are.
    Unauthenticated,
    /// Ask somebody who may.
    Forbidden,
    /// Ask for something that exists.
    NotFound,
    /// Look at the records, then ask for something else.
    Conflict,
    /// Read again, then decide again.
    Stale,
    /// Try again later.
    Unavailable,
    /// Tell the people who run it.
    Internal,
}

impl Error {
    /// What a caller can do about it.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Malformed(_) | Self::WrongPosition => ErrorKind::Malformed,
            Self::Invalid(_) | Self::KeyReused => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Stale { .. } => ErrorKind::Stale,
            Self::Unauthenticated(_) => ErrorKind::Unauthenticated,
            Self::Forbidden(_) => ErrorKind::Forbidden,
            Self::Busy(_)
            | Self::Store(StoreError::Unavailable(_))
            | Self::Part(DependencyFailed::Randomness(_) | DependencyFailed::IdentityProvider(_)) => {
                ErrorKind::Unavailable
            }
            Self::Part(DependencyFailed::Signing(_) | DependencyFailed::ServerKey)
            | Self::Store(
                StoreError::Conflict(_)
                | StoreError::Taken(_)
                | StoreError::PlanInUse(_)
                | StoreError::BadChangeSet(_)
                | StoreError::Damaged(_),
            ) => ErrorKind::Internal,
        }
    }

    /// Its stable name, in `snake_case`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_json",
            Self::Invalid(_) => "validation_failed",
            Self::WrongPosition => "invalid_cursor",
            Self::KeyReused => "idempotency_key_reused",
            Self::NotFound { record: "account", .. } => "account_not_found",
            Self::NotFound { .. } => "not_found",
            Self::Conflict(conflict) => conflict.code(),
            Self::Stale { .. } => "precondition_failed",
            Self::Busy(_) | Self::Part(DependencyFailed::Randomness(_)) => "overloaded",
            Self::Unauthenticated(unauthenticated) => unauthenticated.code(),
            Self::Forbidden(forbidden) => forbidden.code(),
            Self::Part(DependencyFailed::IdentityProvider(_)) => "identity_provider_unavailable",
            Self::Store(StoreError::Unavailable(_)) => "store_unavailable",
            Self::Store(
                StoreError::Conflict(_)
                | StoreError::Taken(_)
                | StoreError::PlanInUse(_)
                | StoreError::BadChangeSet(_)
                | StoreError::Damaged(_),
            )
            | Self::Part(DependencyFailed::Signing(_) | DependencyFailed::ServerKey) => "internal",
        }
    }
}

impl Error {
    /// Gives both, or the faults of both together, or the first other error.
    ///
    /// Where one of them could not be told, because the store failed, that comes before all.
    pub(crate) fn all_faults<A, B>(a: Result<A, Self>, b: Result<B, Self>) -> Result<(A, B), Self> {
        match (a, b) {
            (Err(error @ Self::Store(_)), _) | (_, Err(error @ Self::Store(_))) => Err(error),
            (Err(Self::Invalid(mut faults)), Err(Self::Invalid(more))) => {
                more.iter().for_each(|fault| faults.push(fault.clone()));
                Err(faults.into())
            }
            (Err(invalid @ Self::Invalid(_)), _) | (_, Err(invalid @ Self::Invalid(_))) => {
                Err(invalid)
            }
            (a, b) => Ok((a?, b?)),
        }
    }
}

impl Conflict {
    /// Its stable name, in `snake_case`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Taken { unique: Unique::PlanSlug, .. } => "slug_taken",
            Self::Taken {
                unique: Unique::ExternalSubscription | Unique::ExternalPayment, ..
            } => "external_id_taken",
            Self::Taken { unique: Unique::UserIdentity, .. } | Self::AccountExists => {
                "account_exists"
            }
            Self::Taken { unique: Unique::UserEmail, .. } | Self::EmailInUse => "email_in_use",
            Self::AccountClosing => "account_closing",
            Self::ClientExists => "client_exists",
            Self::ClientHasNoKey => "client_has_no_key",
            Self::ClientRevoked => "client_revoked",
            Self::PlanInactive => "plan_inactive",
            Self::PlanInUse => "plan_in_use",
            Self::Transition(_) => "invalid_transition",
            Self::PaymentSettled { .. } => "payment_settled",
            Self::RequestInProgress => "idempotency_in_progress",
        }
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Malformed(malformed) => Self::Malformed(malformed),
            InputError::Invalid(faults) => Self::Invalid(faults),
        }
    }
}

impl From<SubscriptionRefused> for Error {
    fn from(refused: SubscriptionRefused) -> Self {
        match refused {
            SubscriptionRefused::Invalid(faults) => Self::Invalid(faults),
            SubscriptionRefused::Transition(transition) => Conflict::from(transition).into(),
        }
    }
}

impl From<PaymentRefused> for Error {
    fn from(refused: PaymentRefused) -> Self {
        match refused {
            PaymentRefused::Invalid(faults) => Self::Invalid(faults),
            PaymentRefused::Transition(transition) => Conflict::from(transition).into(),
            PaymentRefused::Settled { fields } => Conflict::PaymentSettled { fields }.into(),
        }
    }
}
