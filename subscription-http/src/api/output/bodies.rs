//! The bodies of responses that are not records: users, sessions, tokens, what people see of their
//! subscriptions, and timelines.

use std::net::IpAddr;

use secrecy::ExposeSecret as _;
use serde::Serialize;
use subscription_core::auth::{Session, SignedIn, User};
use subscription_core::billing::Upcoming;
use subscription_core::plans::{NodeQuota, Tier};
use subscription_core::subscriptions::ShownChange;
use subscription_core::{
    Amount, BillingCycle, Currency, Description, Email, Features, HttpsUrl, Name, Plan, Quantity,
    SessionId, Slug, Subscription, SubscriptionId, SubscriptionStatus, Text, Timestamp, UserId,
    Version,
};

use crate::api::admission::self_service::SelfService;

/// A user, as the user may see it.
#[derive(Serialize)]
pub(crate) struct UserBody<'a> {
    id: UserId,
    email: &'a Email,
    created_at: Timestamp,
}

impl<'a> From<&'a User> for UserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { id: user.id, email: &user.email, created_at: user.created_at }
    }
}

/// A user, as operators see it.
#[derive(Serialize)]
pub(crate) struct AccountBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    updated_at: Timestamp,
    version: Version,
}

impl<'a> From<&'a User> for AccountBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { user: user.into(), updated_at: user.updated_at, version: user.version }
    }
}

/// A page of a list.
#[derive(Serialize)]
pub(crate) struct PageBody<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) has_more: bool,
    pub(crate) next_cursor: Option<String>,
}

/// A session, as its user may see it. It has no tokens.
#[derive(Serialize)]
pub(crate) struct SessionBody<'a> {
    id: SessionId,
    /// True if the request was made in this session; `None` for operators, who call without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<bool>,
    client: &'a Slug,
    issuer: &'a str,
    created_at: Timestamp,
    auth_time: Timestamp,
    last_refreshed_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
    idle_expires_at: Timestamp,
    ip: Option<IpAddr>,
    user_agent: Option<&'a str>,
}

impl<'a> SessionBody<'a> {
    /// The body for `session`. `current` is the session of the request; `None` if the request has no session.
    pub(crate) fn new(session: &'a Session, current: Option<&Session>) -> Self {
        Self {
            id: session.id,
            current: current.map(|current| session.id == current.id),
            client: &session.client_id,
            issuer: session.issuer.as_str(),
            created_at: session.created_at,
            auth_time: session.auth_time,
            last_refreshed_at: session.rotated_at,
            last_seen_at: session.last_seen_at,
            expires_at: session.expires_at,
            idle_expires_at: session.idle_expires_at,
            ip: session.origin.ip,
            user_agent: session.origin.user_agent.as_ref().map(Text::as_str),
        }
    }
}

/// The user and the session that an access token belongs to.
#[derive(Serialize)]
pub(crate) struct LoggedInBody<'a> {
    logged_in: bool,
    auth_id: UserId,
    user: UserBody<'a>,
    session: SessionBody<'a>,
}

impl<'a> LoggedInBody<'a> {
    pub(crate) fn new(user: &'a User, session: &'a Session) -> Self {
        let user = UserBody::from(user);
        let session = SessionBody::new(session, Some(session));
        Self { logged_in: true, auth_id: user.id, user, session }
    }
}

/// The tokens of a session, after a sign-in, a sign-up or a refresh.
#[derive(Serialize)]
pub(crate) struct SignedInBody<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: u64,
    refresh_token: &'a str,
    refresh_expires_in: u64,
    auth_id: UserId,
    session_id: SessionId,
    user: UserBody<'a>,
}

impl<'a> From<&'a SignedIn> for SignedInBody<'a> {
    fn from(signed_in: &'a SignedIn) -> Self {
        Self {
            access_token: signed_in.access_token.expose_secret(),
            token_type: "Bearer",
            expires_in: signed_in.expires_in.as_secs(),
            refresh_token: signed_in.refresh_token.expose_secret(),
            refresh_expires_in: signed_in.refresh_expires_in.as_secs(),
            auth_id: signed_in.user.id,
            session_id: signed_in.session.id,
            user: UserBody::from(&*signed_in.user),
        }
    }
}

/// A subscription, as its user may see it. It has no ids of other systems.
#[derive(Serialize)]
pub(crate) struct MySubscription<'a> {
    id: SubscriptionId,
    status: SubscriptionStatus,
    is_active: bool,
    billing_cycle: BillingCycle,
    starts_at: Timestamp,
    renews_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    current_period_start: Option<Timestamp>,
    current_period_end: Option<Timestamp>,
    quantity: Quantity,
    price: Option<Amount>,
    currency: Option<Currency>,
    trial_ends_at: Option<Timestamp>,
    resumes_at: Option<Timestamp>,
    scheduled_change: Option<ShownChange>,
    manage_url: Option<&'a HttpsUrl>,
    plan: MyPlan<'a>,
    actions: Vec<SelfService>,
}

/// The plan of a subscription, as its user may see it.
#[derive(Serialize)]
struct MyPlan<'a> {
    slug: &'a Slug,
    name: &'a Name,
    description: &'a Description,
    price: Amount,
    billing_cycle: BillingCycle,
    features: &'a Features,
    node_quota: NodeQuota,
    tier: Tier,
}

impl<'a> MySubscription<'a> {
    pub(crate) fn new(
        subscription: &'a Subscription,
        plan: &'a Plan,
        actions: Vec<SelfService>,
    ) -> Self {
        Self {
            id: subscription.id,
            status: subscription.status,
            is_active: subscription.is_active,
            billing_cycle: subscription.billing_cycle,
            starts_at: subscription.starts_at,
            renews_at: subscription.renews_at,
            ends_at: subscription.ends_at,
            current_period_start: subscription.current_period_start(),
            current_period_end: subscription.current_period_end(),
            quantity: subscription.quantity,
            price: subscription.price(),
            currency: subscription.currency(),
            trial_ends_at: subscription.trial_ends_at(),
            resumes_at: subscription.resumes_at(),
            scheduled_change: subscription.shown_change(),
            manage_url: subscription.manage_url(),
            plan: MyPlan {
                slug: &plan.slug,
                name: &plan.name,
                description: &plan.description,
                price: plan.price,
                billing_cycle: plan.billing_cycle,
                features: &plan.features,
                node_quota: plan.node_quota,
                tier: plan.tier,
            },
            actions,
        }
    }
}

/// The steps that a subscription will take.
#[derive(Serialize)]
pub(crate) struct TimelineBody<'a> {
    data: &'a [Upcoming],
    has_more: bool,
}

impl<'a> TimelineBody<'a> {
    pub(crate) const fn new(data: &'a [Upcoming], has_more: bool) -> Self {
        Self { data, has_more }
    }
}
