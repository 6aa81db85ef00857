//! Payment providers: their webhooks, and the events, links and syncs for operators.

use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;
use subscription_core::auth::Scope::{ProvidersRead, ProvidersWrite};
use subscription_core::input::{Fields, string};
use subscription_core::providers::{
    EventFilter, EventState, EventStatus, LinkFilter, ObjectId, ObjectKind, ObjectRef, ObservedNow,
    ProviderKind, Providers, Received, SourceOverview, signature_header,
};
use subscription_core::store::DocumentId;
use subscription_core::{
    FaultCode, InputError, InvalidValue, NoInput, Slug, SubscriptionId, UserId,
};

use crate::api::admission::rate::{RateStatus, RouteLimit};
use crate::api::input::bounds::WEBHOOK_BYTES_MAX;
use crate::api::routes::{
    ApiPart, Area, Needs, Route, get, list, of_part, post, post_optional, scope,
};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/provider",
    &of_part(
        ApiPart::Providers,
        [
            Route {
                body_bytes_max: Some(WEBHOOK_BYTES_MAX),
                limit: Some(RouteLimit::Webhook),
                ..post("/provider-webhooks/{source}", Needs::Signature, &receive)
            },
            get("/providers", scope(ProvidersRead), &overview),
            list("/provider-events", scope(ProvidersRead), &events),
            get("/provider-events/{event_id}", scope(ProvidersRead), &event),
            post_optional("/provider-events/{event_id}/replay", scope(ProvidersWrite), &replay),
            list("/provider-links", scope(ProvidersRead), &links),
            post("/provider-links", scope(ProvidersWrite), &link),
            post("/provider-syncs", scope(ProvidersWrite), &sync),
        ],
    ),
);

fn providers(call: &Call) -> Result<&Providers, ApiError> {
    call.state.providers.as_ref().ok_or_else(|| Refusal::RouteUnknown.into())
}

async fn receive(call: Box<Call>) -> Result<Reply, ApiError> {
    let (source, kind) = call.state.provider_source(&call)?;
    let signatures = call.headers.get_all(signature_header(kind));
    let signatures: Vec<_> = signatures.iter().map(HeaderValue::as_bytes).collect();
    match providers(&call)?.receive_webhook(&source, &signatures, &call.body).await? {
        Received::UnknownSource => return Err(Refusal::RouteUnknown.into()),
        Received::SignatureInvalid => return Err(Refusal::SignatureInvalid.into()),
        Received::Stored => call.state.provider_signal.notify(),
        Received::Unlisted | Received::Known => {}
    }
    Reply::ok(&json!({ "received": true }))
}

#[derive(Serialize)]
struct SourcesBody {
    data: Vec<SourceOverview>,
}

async fn overview(call: Box<Call>) -> Result<Reply, ApiError> {
    Reply::ok(&SourcesBody { data: providers(&call)?.overview().await? })
}

async fn events(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "source", "state", "reason", "object"], &[])?;
    let filter = EventFilter::default()
        .with_source(query.read::<Slug>("source")?)
        .with_state(query.read("state")?)
        .with_reason(query.read("reason")?)
        .with_object(query.read::<ObjectId>("object")?);
    let after = call.after()?;
    let page = providers(&call)?.events(&filter, after, query.limit()?).await?;
    call.page_of(&page, &page.items)
}

async fn event(call: Box<Call>) -> Result<Reply, ApiError> {
    Reply::ok(&providers(&call)?.event(&call.path::<DocumentId>("event_id")?).await?)
}

async fn replay(call: Box<Call>) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    Reply::ok(&providers(&call)?.replay(&call.path::<DocumentId>("event_id")?).await?)
}

async fn links(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "source", "subscription_id", "user_id"], &[])?;
    let filter = LinkFilter::default()
        .with_source(query.read::<Slug>("source")?)
        .with_subscription_id(query.read::<SubscriptionId>("subscription_id")?)
        .with_user_id(query.read::<UserId>("user_id")?);
    let after = call.after()?;
    let page = providers(&call)?.links(&filter, after, query.limit()?).await?;
    call.page_of(&page, &page.items)
}

async fn link(call: Box<Call>) -> Result<Reply, ApiError> {
    let providers = providers(&call)?;
    let shown = match call.input(|json| LinkInput::read(json, providers))? {
        LinkInput::Customer { source, customer, user_id } => {
            providers.bind_customer(&source, &customer, user_id).await?;
            json!({ "source": source, "customer": customer, "user_id": user_id })
        }
        LinkInput::Subscription { source, subscription_id } => {
            providers.attach(&source, subscription_id).await?;
            json!({ "source": source, "subscription_id": subscription_id })
        }
    };
    // Stored events that waited for this link can be applied now. The signal wakes the job that applies them.
    call.state.provider_signal.notify();
    Reply::json(StatusCode::CREATED, &shown)
}

async fn sync(call: Box<Call>) -> Result<Reply, ApiError> {
    let providers = providers(&call)?;
    let SyncInput { source, object, user_id } =
        call.input(|json| SyncInput::read(json, providers))?;
    let accepted = |status: EventStatus| Reply::json(StatusCode::ACCEPTED, &status);
    let Some(object) = object else {
        providers.request_sync(&source).await?;
        call.state.provider_signal.notify();
        return accepted(EventStatus { state: EventState::Pending, reason: None });
    };
    match providers.observe_now(&source, &object, user_id).await? {
        ObservedNow::Subscription(subscription) => call.whole_record(StatusCode::OK, &subscription),
        ObservedNow::EventStatus(status) => accepted(status),
        ObservedNow::Limited(wait) => {
            Err(Refusal::RateLimited(RateStatus::provider_syncs(wait)).into())
        }
    }
}

/// The body of a request that links a customer of a source (a configured payment provider) to a user, or a subscription
/// to a source.
enum LinkInput {
    Customer { source: Slug, customer: ObjectId, user_id: UserId },
    Subscription { source: Slug, subscription_id: SubscriptionId },
}

impl LinkInput {
    fn read(json: &[u8], providers: &Providers) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let source = read_source(&mut fields, providers).map(|(source, _)| source);
        if fields.has("subscription_id") {
            for name in ["customer", "user_id"] {
                if fields.has(name) {
                    let message = "must not be sent together with subscription_id";
                    fields.note(InvalidValue::new(FaultCode::NotAllowedValue, message).at(name));
                }
            }
            fields.optional("customer", string::<ObjectId>);
            fields.optional("user_id", string::<UserId>);
            let id = fields.optional("subscription_id", string);
            let both = source.zip(id);
            return fields.finish(
                both.map(|(source, subscription_id)| Self::Subscription {
                    source,
                    subscription_id,
                }),
            );
        }
        let customer = fields.required("customer", string);
        let user_id = fields.required("user_id", string);
        let all = source.zip(customer).zip(user_id);
        fields.finish(all.map(|((source, customer), user_id)| Self::Customer {
            source,
            customer,
            user_id,
        }))
    }
}

/// The body of a request for a sync: of one object, or of all objects of a source.
struct SyncInput {
    source: Slug,
    object: Option<ObjectRef>,
    user_id: Option<UserId>,
}

impl SyncInput {
    /// The members of the body that can name an object: each with the kind of its object, and the only payment provider
    /// that has this kind. `None` means that every provider has it.
    const OBJECTS: [(&str, ObjectKind, Option<ProviderKind>); 3] = [
        ("subscription", ObjectKind::Subscription, None),
        ("checkout_session", ObjectKind::CheckoutSession, Some(ProviderKind::Stripe)),
        ("order", ObjectKind::Order, Some(ProviderKind::LemonSqueezy)),
    ];

    fn read(json: &[u8], providers: &Providers) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let source = read_source(&mut fields, providers);
        let refused = |message| InvalidValue::new(FaultCode::NotAllowedValue, message);
        let mut named: Option<&str> = None;
        let mut object = None;
        for (name, kind, only) in Self::OBJECTS {
            if !fields.has(name) {
                continue;
            }
            let id = fields.optional(name, string);
            if let Some(other) = named.replace(name) {
                let message = format!("must not be sent together with {other}");
                fields.note(InvalidValue::new(FaultCode::NotAllowedValue, message).at(name));
            }
            if let Some((_, provider)) = &source
                && only.is_some_and(|only| only != *provider)
            {
                fields.note(refused("is not an object of this provider").at(name));
            }
            object = id.map(|id| ObjectRef { kind, id });
        }
        let has_user = fields.has("user_id");
        let user_id = fields.optional("user_id", string);
        if has_user && named.is_none() {
            fields.note(refused("must be sent with the id of an object").at("user_id"));
        }
        fields.finish(source.map(|(source, _)| Self { source, object, user_id }))
    }
}

/// Reads the name of the source and finds its kind. A source that is not configured is a fault.
fn read_source(fields: &mut Fields<'_>, providers: &Providers) -> Option<(Slug, ProviderKind)> {
    let name: Slug = fields.required("source", string)?;
    let source = providers.sources().find(|source| source.name == name);
    if source.is_none() {
        let message = "must be the name of a configured provider";
        fields.note(InvalidValue::new(FaultCode::UnknownReference, message).at("source"));
    }
    source.map(|source| (name, source.kind))
}
