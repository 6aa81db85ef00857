//! The bodies of responses that are not records: users, sessions, tokens, what people see of their subscriptions and
//! payments, and timelines.

use std::net::IpAddr;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use serde::Serialize;
use subscription_core::auth::{Session, SignedIn, User};
use subscription_core::billing::Upcoming;
use subscription_core::subscriptions::ShownChange;
use subscription_core::{
    Payment, PaymentRequest, Plan, SessionId, Slug, Subscription, Text, Timestamp,
    serialize_members,
};

use crate::api::admission::self_service::SelfService;

/// A user, as the user may see it.
pub(crate) struct UserBody<'a>(pub(crate) &'a User);

serialize_members! {
    UserBody<'_>: user.0;
    id, email, created_at,
}

/// A user, as operators see it.
pub(crate) struct AccountBody<'a>(pub(crate) &'a User);

serialize_members! {
    AccountBody<'_>: user.0;
    id, email, created_at, updated_at, version,
}

/// A page of a list.
#[derive(Serialize)]
pub(crate) struct PageBody<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) has_more: bool,
    pub(crate) next_cursor: Option<String>,
    /// The ids of the records that are left out, because they cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<&'a str>,
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
pub(crate) struct LoggedInBody<'a> {
    pub(crate) user: &'a User,
    pub(crate) session: &'a Session,
}

serialize_members! {
    LoggedInBody<'_>: body;
    logged_in { true }, auth_id { body.user.id }, user { UserBody(body.user) },
    session { SessionBody::new(body.session, Some(body.session)) },
}

/// The tokens of a session, after a sign-in, a sign-up or a refresh.
pub(crate) struct SignedInBody<'a>(pub(crate) &'a SignedIn);

serialize_members! {
    SignedInBody<'_>: tokens.0;
    access_token { tokens.0.access_token.expose_secret() }, token_type { "Bearer" },
    expires_in { tokens.0.expires_in.as_secs() }, refresh_token { tokens.0.refresh_token.expose_secret() },
    refresh_expires_in { tokens.0.refresh_expires_in.as_secs() }, auth_id { tokens.0.user.id },
    session_id { tokens.0.session.id }, user { UserBody(&tokens.0.user) },
}

/// A subscription, as its user may see it. It has no ids of other systems.
pub(crate) struct MySubscription {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) plan: Arc<Plan>,
    /// The plan that the subscription is scheduled to change to.
    pub(crate) next_plan: Option<Arc<Plan>>,
    pub(crate) next_charge: Option<PaymentRequest>,
    /// The changes that the user may make now.
    pub(crate) actions: Vec<SelfService>,
}

serialize_members! {
    MySubscription: my.subscription;
    id, status, is_active, billing_cycle, starts_at, renews_at, ends_at, current_period_start(),
    current_period_end(), quantity, price(), currency(), credit(),
    discount { my.subscription.discount().map(|discount| discount.shown()) }, trial_ends_at(), resumes_at(),
    next_charge { my.next_charge.as_ref().map(MyCharge) }, scheduled_change { my.scheduled_change() }, manage_url(),
    plan { MyPlan(&my.plan) }, actions { my.actions },
}

impl MySubscription {
    fn scheduled_change(&self) -> Option<MyChange<'_>> {
        let plan = self.next_plan.as_deref().map(PlanName);
        self.subscription.shown_change().map(|change| MyChange { change, plan })
    }
}

/// The next payment of a subscription, as its user may see it.
struct MyCharge<'a>(&'a PaymentRequest);

serialize_members! {
    MyCharge<'_>: charge.0;
    at { charge.0.due_at }, amount, currency,
}

/// A scheduled change, as its user may see it.
#[derive(Serialize)]
struct MyChange<'a> {
    #[serde(flatten)]
    change: ShownChange,
    /// The plan after the change; `None` if the change is a pause.
    plan: Option<PlanName<'a>>,
}

/// A plan, by the names that people see.
struct PlanName<'a>(&'a Plan);

serialize_members! {
    PlanName<'_>: plan.0;
    slug, name,
}

/// The plan of a subscription, as its user may see it.
struct MyPlan<'a>(&'a Plan);

serialize_members! {
    MyPlan<'_>: plan.0;
    slug, name, description, price, billing_cycle, features, node_quota, tier,
}

/// A payment, as the user who pays may see it. It has no ids of other systems.
pub(crate) struct MyPayment(pub(crate) Arc<Payment>);

serialize_members! {
    MyPayment: payment.0;
    id, subscription_id, amount, currency, status, kind(), lines(), period_start(), period_end(), due_at(),
    next_attempt_at(), created_at,
}

/// The steps that a subscription will take.
#[derive(Serialize)]
pub(crate) struct TimelineBody<'a> {
    pub(crate) data: &'a [Upcoming],
    pub(crate) has_more: bool,
}
