//! Errors of the service and of authentication.

use std::borrow::Cow;

use crate::accounts::Scope;
use crate::payments::PaymentRefused;
use crate::store::{Cause, Key, StoreError, Unique};
use crate::subscriptions::{Managed, ManagedBy, Quote, SubscriptionRefused};
use crate::values::{
    Currency, FaultCode, Faults, InputError, InvalidTransition, InvalidValue, MalformedJson,
    RandomnessUnavailable, Version,
};

/// An error of the service or of authentication.
///
/// [`Error::kind`] says what the caller can do about it; [`Error::code`] is a stable name for machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is not JSON.
    #[error(transparent)]
    Malformed(#[from] MalformedJson),
    /// The input is invalid; all its faults are listed.
    #[error("invalid input: {0}")]
    Invalid(#[from] Faults),
    /// There is no such record.
    #[error("there is no {record} {name}")]
    NotFound {
        /// The kind of record.
        record: &'static str,
        /// The requested id or slug.
        name: String,
    },
    /// The state of the records does not allow the change.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The record is no longer at the version that the caller read.
    #[error("the version of {key} is {current} now, not the expected version")]
    Stale {
        /// The record whose version has changed.
        key: Key,
        /// The version that the record has now.
        current: Version,
    },
    /// The position after which a page should begin belongs to another list.
    #[error("the position does not belong to this list")]
    WrongPosition,
    /// Events that the caller has not read have been deleted.
    #[error(
        "events after this sequence were deleted; all from {first_kept} on are stored: read all records again, and \
         continue from the newest event"
    )]
    EventsForgotten {
        /// The sequence number of the oldest event that is still stored.
        first_kept: u64,
    },
    /// The idempotency key was used before for another request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// Other writers changed the record at each try; the caller may retry.
    #[error("too many requests change {0} at the same time")]
    Busy(Key),
    /// The store failed. [`StoreError`] says whether anything may have been written.
    #[error("the database failed")]
    Store(#[from] StoreError),
    /// The caller is not authenticated.
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    /// The caller is authenticated but not allowed to do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// A dependency of the service failed.
    #[error(transparent)]
    Part(#[from] DependencyFailed),
}

/// The reason why a caller is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// No client has this credential.
    #[error("the client is not known")]
    ClientUnknown,
    /// The access token was not issued by this service, or belongs to another client.
    #[error("the access token is not valid")]
    TokenInvalid,
    /// The access token has expired: refresh it.
    #[error("the access token has expired")]
    TokenExpired,
    /// The session was revoked or no longer exists: sign in again.
    #[error("the session was ended")]
    SessionRevoked,
    /// The session has expired: sign in again.
    #[error("the session has expired")]
    SessionExpired,
    /// The identity provider's token was not accepted.
    #[error("the token of the identity provider was not accepted")]
    IdentityRejected,
    /// The refresh token was not issued by this server, is malformed, or belongs to another client: sign in again.
    #[error("the refresh token is not valid")]
    RefreshTokenInvalid,
    /// The refresh token was used twice, so somebody else may have a copy of it: the session was revoked.
    #[error("the refresh token was used before")]
    RefreshTokenReused,
}

impl Unauthenticated {
    /// The stable name of the error, in `snake_case`.
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

/// The reason why an authenticated caller is not allowed to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// The client does not have the scope that the request needs.
    #[error("the client lacks the scope {0}")]
    ScopeMissing(Scope),
    /// The identity token has another e-mail address than the caller sent, or none.
    #[error("the e-mail address differs from the one in the token of the identity provider")]
    EmailMismatch,
    /// The identity provider has not verified the address.
    #[error("the e-mail address is not verified")]
    EmailNotVerified,
    /// The account that the request names is not that of the signed-in user.
    #[error("the auth_id is not that of the signed-in user")]
    AuthIdMismatch,
}

impl Forbidden {
    /// The stable name of the error, in `snake_case`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::ScopeMissing(_) => "scope_missing",
            Self::EmailMismatch => "email_mismatch",
            Self::EmailNotVerified => "email_not_verified",
            Self::AuthIdMismatch => "auth_id_mismatch",
        }
    }
}

/// The message of an error, followed by those of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A dependency of the service, other than the store, that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DependencyFailed {
    /// The source of random bytes failed.
    #[error(transparent)]
    Randomness(#[from] RandomnessUnavailable),
    /// The identity provider cannot be reached.
    #[error("the identity provider cannot be reached")]
    IdentityProvider(#[source] Cause),
    /// Signing an access token failed.
    #[error("a token could not be signed")]
    Signing(#[source] Cause),
    /// The server key of a session or of a webhook endpoint is not configured.
    #[error("a server key is missing")]
    ServerKey,
}

impl From<RandomnessUnavailable> for Error {
    fn from(error: RandomnessUnavailable) -> Self {
        DependencyFailed::from(error).into()
    }
}

/// The reason why the state of the records does not allow a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Another record has a value that must be unique.
    #[error("{}", taken(*unique, holder))]
    Taken {
        /// The rule that requires the value to be unique.
        unique: Unique,
        /// The record that has the value.
        holder: Key,
    },
    /// The plan is inactive and accepts no new subscriptions.
    #[error("the plan takes no new subscriptions")]
    PlanInactive,
    /// Subscriptions refer to the plan.
    #[error("the plan is in use: subscriptions have it, or are scheduled to change to it")]
    PlanInUse,
    /// The record cannot change from its status to the new one.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// The payment is settled: its amount, currency and subscription no longer change.
    #[error("the payment is settled: its {} cannot change", fields.join(", "))]
    PaymentSettled {
        /// The fields that the request would change.
        fields: Vec<&'static str>,
    },
    /// The payment pays for a period. Its amount, currency and subscription cannot change, and the payment cannot be
    /// deleted while it is open or processing.
    #[error("{}", of_period(fields))]
    PaymentOfPeriod {
        /// The fields that the request would change; empty if the request would delete the payment.
        fields: Vec<&'static str>,
    },
    /// The clock or a provider manages the subscription, so callers cannot make this change. Or callers manage it, but
    /// the request needs a subscription that the clock manages.
    #[error(transparent)]
    Managed(#[from] Managed),
    /// A payment of the subscription is open, has failed or is disputed, and must be paid first.
    #[error("a payment of the subscription is not paid yet, or is disputed")]
    PaymentOpen,
    /// Another change is scheduled for the subscription.
    #[error("another change of the subscription is scheduled")]
    ChangeScheduled,
    /// The subscription already has a discount.
    #[error("the subscription has a discount: remove it first")]
    DiscountExists,
    /// The plan has another currency than the subscription, or one of the two has no currency.
    #[error("{}", currency_mismatch(*from, *to))]
    CurrencyMismatch {
        /// The currency of the subscription.
        from: Option<Currency>,
        /// The currency of the plan.
        to: Option<Currency>,
    },
    /// The change of plan needs a new quote: for example because its cost differs from the one that the caller agreed
    /// to, because the agreed quote is too old, or because a subscriber has not agreed to a quote.
    #[error("the cost of the change is different now, or the quote is too old")]
    QuoteChanged(
        /// The quote as of now.
        Box<Quote>,
    ),
    /// The identity already has an account.
    #[error("the identity already has an account")]
    AccountExists,
    /// Another account has the e-mail address.
    #[error("another account has this e-mail address")]
    EmailInUse,
    /// The account is being deleted.
    #[error("the account is being deleted")]
    AccountClosing,
    /// There is already a client with this id.
    #[error("there is already a client with this id")]
    ClientExists,
    /// The client was revoked.
    #[error("the client was revoked")]
    ClientRevoked,
    /// A public client authenticates with its id alone, so it has no key to create or revoke.
    #[error("a public client has no key")]
    ClientHasNoKey,
    /// The customer of a payment provider is bound to another user.
    #[error("the customer of the payment provider is already bound to another user")]
    CustomerConflict,
    /// The maximum number of webhook endpoints already exists.
    #[error("there are already 100 webhook endpoints")]
    EndpointLimit,
    /// The secret of an endpoint was rotated, and the previous secret still signs deliveries.
    #[error(
        "the previous secret still signs deliveries: wait, or rotate with an overlap of 0 hours"
    )]
    RotationInProgress,
    /// The server key from which the secret of an endpoint was derived is missing or was replaced by another key.
    #[error("the server key that made the secret is missing: rotate the secret")]
    KeyMissing,
    /// The webhook endpoint has the maximum number of parked events that will be tried again: events that could not be
    /// sent, and later events of the same records, which wait behind them.
    #[error("the endpoint already has 100 parked events")]
    ParkedFull,
    /// Another request with the same idempotency key is in progress, and did not end before this request gave up.
    #[error("a request with this idempotency key is in progress")]
    RequestInProgress,
}

/// The action that a caller can take about an [`Error`].
///
/// This enum is exhaustive: an adapter maps every kind, so a new kind is a compile error in each adapter until the
/// adapter maps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Send valid JSON, or a position from the same list.
    Malformed,
    /// Correct the input.
    Invalid,
    /// Authenticate.
    Unauthenticated,
    /// Use an account or client that has the permission.
    Forbidden,
    /// Name a record that exists.
    NotFound,
    /// Read the records, then send a request that their state allows.
    Conflict,
    /// Read the record again, then decide again.
    Stale,
    /// Read all records again, and continue from the newest event: older events that the request needs are deleted.
    Gone,
    /// Try again later.
    Unavailable,
    /// Report the error to the operator.
    Internal,
}

impl Error {
    /// The error of one field of an input.
    pub fn invalid(
        code: FaultCode,
        message: impl Into<Cow<'static, str>>,
        field: &'static str,
    ) -> Self {
        Faults::from(InvalidValue::new(code, message).at(field)).into()
    }

    /// The action that the caller can take.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Malformed(_) | Self::WrongPosition => ErrorKind::Malformed,
            Self::Invalid(_) | Self::KeyReused => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Stale { .. } => ErrorKind::Stale,
            Self::EventsForgotten { .. } => ErrorKind::Gone,
            Self::Unauthenticated(_) => ErrorKind::Unauthenticated,
            Self::Forbidden(_) => ErrorKind::Forbidden,
            Self::Busy(_)
            | Self::Store(StoreError::Unavailable(_) | StoreError::Busy(_))
            | Self::Part(DependencyFailed::Randomness(_) | DependencyFailed::IdentityProvider(_)) => {
                ErrorKind::Unavailable
            }
            Self::Part(_) | Self::Store(_) => ErrorKind::Internal,
        }
    }

    /// The stable name of the error, in `snake_case`.
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
            Self::EventsForgotten { .. } => "events_forgotten",
            Self::Busy(_)
            | Self::Store(StoreError::Busy(_))
            | Self::Part(DependencyFailed::Randomness(_)) => "overloaded",
            Self::Unauthenticated(unauthenticated) => unauthenticated.code(),
            Self::Forbidden(forbidden) => forbidden.code(),
            Self::Part(DependencyFailed::IdentityProvider(_)) => "identity_provider_unavailable",
            Self::Store(StoreError::Unavailable(_)) => "store_unavailable",
            Self::Part(_) | Self::Store(_) => "internal",
        }
    }

    /// Returns both values, or one error. Errors take precedence in this order: an error of the store, the faults of
    /// both results together, another error of `a`, another error of `b`.
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

fn taken(unique: Unique, holder: &Key) -> String {
    if unique == Unique::LiveSubscription {
        format!("the user has a live subscription already: {holder}")
    } else {
        format!("{holder} has this {unique}")
    }
}

fn currency_mismatch(from: Option<Currency>, to: Option<Currency>) -> String {
    match (from, to) {
        (None, _) => "neither the subscription nor its plan has a currency".to_owned(),
        (Some(_), None) => "the plan has no currency".to_owned(),
        (Some(from), Some(to)) => format!(
            "the subscription is paid in {from} and the plan in {to}: the currency can change only at the end of a \
             period, and only if the subscription has no credit"
        ),
    }
}

fn of_period(fields: &[&str]) -> String {
    if fields.is_empty() {
        "the payment is for a period and is not settled: cancel it, then delete it".to_owned()
    } else {
        format!("the payment is for a period: its {} cannot change", fields.join(", "))
    }
}

impl Conflict {
    /// The stable name of the error, in `snake_case`.
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
            Self::PaymentOfPeriod { .. } | Self::Taken { unique: Unique::PaymentPeriod, .. } => {
                "payment_of_period"
            }
            Self::Taken { unique: Unique::LiveSubscription, .. } => "already_subscribed",
            Self::Managed(Managed { by: ManagedBy::Clock, .. }) => "managed_by_clock",
            Self::Managed(Managed { by: ManagedBy::Provider, .. }) => "managed_by_provider",
            Self::Managed(Managed { by: ManagedBy::Caller, .. }) => "managed_by_caller",
            Self::PaymentOpen => "payment_open",
            Self::ChangeScheduled => "change_scheduled",
            Self::DiscountExists => "discount_exists",
            Self::CurrencyMismatch { .. } => "currency_mismatch",
            Self::QuoteChanged(_) => "quote_changed",
            Self::CustomerConflict => "customer_conflict",
            Self::EndpointLimit => "endpoint_limit",
            Self::RotationInProgress => "rotation_in_progress",
            Self::KeyMissing => "key_missing",
            Self::ParkedFull => "parked_full",
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
            SubscriptionRefused::Managed(managed) => Conflict::from(managed).into(),
        }
    }
}

impl From<PaymentRefused> for Error {
    fn from(refused: PaymentRefused) -> Self {
        match refused {
            PaymentRefused::Invalid(faults) => Self::Invalid(faults),
            PaymentRefused::Transition(transition) => Conflict::from(transition).into(),
            PaymentRefused::Settled { fields } => Conflict::PaymentSettled { fields }.into(),
            PaymentRefused::OfPeriod { fields } => Conflict::PaymentOfPeriod { fields }.into(),
        }
    }
}
