//! Requests of an actor and replies of the service, as data.
//!
//! Both can be stored, repeated, compared and printed.

use std::sync::Arc;

use subscription_core::events::Subject;
use subscription_core::payments::{NewPayment, Payment, PaymentChanges};
use subscription_core::plans::{NewPlan, NodeQuota, Plan, PlanChanges};
use subscription_core::store::{
    Idempotency, IdempotencyKey, IdempotencyResult, Operation as Repeatable, PaymentQuery,
    PlanQuery, SubscriptionQuery,
};
use subscription_core::subscriptions::{NewSubscription, Subscription, SubscriptionChanges};
use subscription_core::{
    Action, Conflict, Created, Error, PaymentId, Slug, SubscriptionId, SubscriptionService,
    Timestamp, UserId, Version,
};

/// A plan, a subscription or a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Plan(Plan),
    Subscription(Subscription),
    Payment(Payment),
}

impl From<&IdempotencyResult> for Record {
    fn from(result: &IdempotencyResult) -> Self {
        match result {
            IdempotencyResult::Plan(plan) => Self::Plan((**plan).clone()),
            IdempotencyResult::Subscription(held) => Self::Subscription((**held).clone()),
            IdempotencyResult::Payment(payment) => Self::Payment((**payment).clone()),
        }
    }
}

/// A request to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    CreatePlan(Box<NewPlan>, Option<Idempotency>),
    UpdatePlan(Slug, Box<PlanChanges>, Option<Version>),
    DeletePlan(Slug, Option<Version>),
    ReadPlan(Slug),
    ListPlans(Box<PlanQuery>),
    CreateSubscription(Box<NewSubscription>, Option<Idempotency>),
    UpdateSubscription(SubscriptionId, Box<SubscriptionChanges>, Option<Version>),
    /// With the user who must own the subscription, or `None` for any user.
    Cancel(SubscriptionId, Option<UserId>),
    Resume(SubscriptionId, Option<UserId>),
    DeleteSubscription(SubscriptionId, Option<Version>),
    ReadSubscription(SubscriptionId),
    ListSubscriptions(Box<SubscriptionQuery>),
    CreatePayment(Box<NewPayment>, Option<Idempotency>),
    UpdatePayment(PaymentId, Box<PaymentChanges>, Option<Version>),
    DeletePayment(PaymentId, Option<Version>),
    ReadPayment(PaymentId),
    ListPayments(PaymentQuery),
    LookUpEntitlement(UserId),
    ForgetExpiredIdempotency,
    ForgetEvents(u64),
    /// Not a request: the clock moves by this number of seconds. A negative number turns it back.
    TurnClock(i64),
}

/// The outcome: a reply or a refusal.
pub type Outcome = Result<Reply, Refusal>;

/// A reply of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Created { record: Record, replayed: bool },
    Found(Record),
    Listed(Vec<Record>),
    Entitled { grants: Vec<(Record, Record)>, features: Vec<String>, node_quota: NodeQuota },
    Forgotten(usize),
    Done,
}

/// The error of the service: its code, and the fields, states or records that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub about: Vec<String>,
}

impl Refusal {
    pub fn new(code: &'static str) -> Self {
        Self { code, about: Vec::new() }
    }

    /// A refusal that names fields, states or records, in any order.
    pub fn about<T: ToString>(code: &'static str, about: impl IntoIterator<Item = T>) -> Self {
        let mut about: Vec<_> = about.into_iter().map(|about| about.to_string()).collect();
        about.sort();
        Self { code, about }
    }

    /// True if the store could not be reached, or its result was lost. The operation may have taken effect.
    pub fn is_unavailable(&self) -> bool {
        self.code == "store_unavailable"
    }

    /// True if the operation failed because other writers were faster each time.
    pub fn is_busy(&self) -> bool {
        matches!(self.code, "overloaded" | "idempotency_in_progress")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = error.code();
        if let Error::Invalid(faults) = &error {
            Self::about(code, faults.iter().map(|fault| &*fault.field))
        } else if let Error::Stale { current, .. } = &error {
            Self::about(code, [current])
        } else if let Error::Conflict(Conflict::Taken { holder, .. }) = &error {
            Self::about(code, [holder])
        } else if let Error::Conflict(Conflict::Transition(refused)) = &error {
            Self::about(code, &refused.allowed)
        } else if let Error::Conflict(Conflict::PaymentSettled { fields }) = &error {
            Self::about(code, fields)
        } else {
            Self::new(code)
        }
    }
}

/// Reads all pages of a list, one after the other.
macro_rules! walk {
    ($service:ident.$list:ident($query:expr) as $record:path) => {{
        let mut query = $query.clone();
        let mut records = Vec::new();
        loop {
            let page = $service.$list(query.clone()).await?;
            records.extend(page.items.into_iter().map(|item| $record(Arc::unwrap_or_clone(item))));
            query.after = page.next;
            if query.after.is_none() {
                break Reply::Listed(records);
            }
        }
    }};
}

impl Operation {
    /// Performs the operation on the service.
    pub async fn perform(&self, service: &SubscriptionService) -> Outcome {
        self.ask(service).await.map_err(Refusal::from)
    }

    async fn ask(&self, service: &SubscriptionService) -> Result<Reply, Error> {
        Ok(match self {
            Self::CreatePlan(new, once) => {
                created(service.create_plan_once(*new.clone(), once.clone()).await?, Record::Plan)
            }
            Self::UpdatePlan(slug, changes, version) => {
                plan(service.update_plan_if(slug, *version, *changes.clone()).await?)
            }
            Self::DeletePlan(slug, version) => done(service.delete_plan_if(slug, *version).await?),
            Self::ReadPlan(slug) => plan(service.plan(slug).await?),
            Self::ListPlans(query) => walk!(service.plans(**query) as Record::Plan),
            Self::CreateSubscription(new, once) => created(
                service.create_subscription_once(*new.clone(), once.clone()).await?,
                Record::Subscription,
            ),
            Self::UpdateSubscription(id, changes, version) => {
                subscription(service.update_subscription_if(*id, *version, *changes.clone()).await?)
            }
            Self::Cancel(id, Some(user)) => {
                subscription(service.act_of(*user, *id, Action::Cancel(None)).await?.record)
            }
            Self::Cancel(id, None) => subscription(service.cancel(*id).await?),
            Self::Resume(id, Some(user)) => {
                subscription(service.act_of(*user, *id, Action::Resume).await?.record)
            }
            Self::Resume(id, None) => subscription(service.resume(*id).await?),
            Self::DeleteSubscription(id, version) => {
                done(service.delete_subscription_if(*id, *version).await?)
            }
            Self::ReadSubscription(id) => subscription(service.subscription(*id).await?),
            Self::ListSubscriptions(query) => {
                walk!(service.subscriptions(**query) as Record::Subscription)
            }
            Self::CreatePayment(new, once) => created(
                service.create_payment_once(*new.clone(), once.clone()).await?,
                Record::Payment,
            ),
            Self::UpdatePayment(id, changes, version) => {
                payment(service.update_payment_if(*id, *version, *changes.clone()).await?)
            }
            Self::DeletePayment(id, version) => {
                done(service.delete_payment_if(*id, *version).await?)
            }
            Self::ReadPayment(id) => payment(service.payment(*id).await?),
            Self::ListPayments(query) => walk!(service.payments(query) as Record::Payment),
            Self::LookUpEntitlement(user) => entitled(service, *user).await?,
            Self::ForgetExpiredIdempotency => {
                Reply::Forgotten(service.forget_expired_idempotency().await?)
            }
            Self::ForgetEvents(up_to) => done(service.forget_events(*up_to).await?),
            Self::TurnClock(_) => Reply::Done,
        })
    }

    /// The idempotency key of a request. `None` if it has no key.
    pub fn key(&self) -> Option<IdempotencyKey> {
        let (operation, once) = match self {
            Self::CreatePlan(_, once) => (Repeatable::CreatePlan, once),
            Self::CreateSubscription(_, once) => (Repeatable::CreateSubscription, once),
            Self::CreatePayment(_, once) => (Repeatable::CreatePayment, once),
            Self::UpdatePlan(..)
            | Self::DeletePlan(..)
            | Self::ReadPlan(_)
            | Self::ListPlans(_)
            | Self::UpdateSubscription(..)
            | Self::Cancel(..)
            | Self::Resume(..)
            | Self::DeleteSubscription(..)
            | Self::ReadSubscription(_)
            | Self::ListSubscriptions(_)
            | Self::UpdatePayment(..)
            | Self::DeletePayment(..)
            | Self::ReadPayment(_)
            | Self::ListPayments(_)
            | Self::LookUpEntitlement(_)
            | Self::ForgetExpiredIdempotency
            | Self::ForgetEvents(_)
            | Self::TurnClock(_) => return None,
        };
        let Idempotency { client, key } = once.clone()?;
        Some(IdempotencyKey { operation, client, key })
    }
}

fn created<T: Clone>(created: Created<T>, record: impl FnOnce(T) -> Record) -> Reply {
    Reply::Created {
        record: record(Arc::unwrap_or_clone(created.record)),
        replayed: created.replayed,
    }
}

fn plan(plan: Arc<Plan>) -> Reply {
    Reply::Found(Record::Plan(Arc::unwrap_or_clone(plan)))
}

fn subscription(subscription: Arc<Subscription>) -> Reply {
    Reply::Found(Record::Subscription(Arc::unwrap_or_clone(subscription)))
}

fn payment(payment: Arc<Payment>) -> Reply {
    Reply::Found(Record::Payment(Arc::unwrap_or_clone(payment)))
}

const fn done((): ()) -> Reply {
    Reply::Done
}

async fn entitled(service: &SubscriptionService, user: UserId) -> Result<Reply, Error> {
    let entitlement = service.entitlement(user).await?;
    let features = entitlement.features().map(str::to_owned).collect();
    let node_quota = entitlement.node_quota();
    let grants = entitlement.grants.into_iter().map(|grant| {
        let subscription = Record::Subscription(Arc::unwrap_or_clone(grant.subscription));
        (subscription, Record::Plan(Arc::unwrap_or_clone(grant.plan)))
    });
    Ok(Reply::Entitled { grants: grants.collect(), features, node_quota })
}

/// The [`Subject`] that names a record in events.
pub const fn subject(record: &Record) -> Subject {
    match record {
        Record::Plan(plan) => Subject::Plan(plan.id),
        Record::Subscription(subscription) => Subject::Subscription(subscription.id),
        Record::Payment(payment) => Subject::Payment(payment.id),
    }
}

/// When a record was created.
pub const fn made_at(record: &Record) -> Timestamp {
    match record {
        Record::Plan(plan) => plan.created_at,
        Record::Subscription(subscription) => subscription.created_at,
        Record::Payment(payment) => payment.created_at,
    }
}

/// The version of a record: the number of its writes.
pub const fn version(record: &Record) -> Version {
    match record {
        Record::Plan(plan) => plan.version,
        Record::Subscription(subscription) => subscription.version,
        Record::Payment(payment) => payment.version,
    }
}
