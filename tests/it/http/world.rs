//! An API with its parts in hand: clock, ids, store, clients and identity provider.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_core::auth::{AuthSettings, ClientKind, NewClient, Scope};
use subscription_core::billing::{Billing, Policy};
use subscription_core::figures::Figures;
use subscription_core::store::{ChangeSet, Record, StoreExt as _};
use subscription_core::{
    CheckoutHosts, CheckoutProvider, Clock as _, Error, ManualClock, MemoryStore, OneLivePer,
    SeededRandomness, Slug, Store, Subscription, SubscriptionService, Timestamp,
};
use subscription_http::{
    Advanced, Api, JobSignal, PaymentReports, ProviderMetrics, RateLimits, SelfService, Timeouts,
    TurnedClock,
};
use test_support::logs;
use test_support::service_world::of;
use url::Url;

use super::providers::providers_of;
use crate::auth::world::{AuthWorld, SERVER_KEY, authentication, secret, server_key};
use crate::webhooks::managed::world::{Receiver, webhooks_of};

/// The client of a browser: it may authenticate and read plans, and its id is no secret.
pub(crate) const WEB: &str = "web";

/// The page on which people manage their subscriptions.
pub(crate) const PORTAL: &str = "https://account.example/subscriptions";

pub(crate) const CURSOR_KEY: &[u8] = b"the key of all cursors, 32 bytes";

/// An API on 31 January 2025, in memory; people prove who they are with HS256.
pub(crate) struct HttpWorld {
    pub(crate) api: Api,
    pub(crate) auth: AuthWorld,
    /// The credential of a client with every scope but `assert-ip`.
    pub(crate) server: String,
    pub(crate) billing: Billing,
    /// Where deliveries to endpoints go.
    pub(crate) receiver: Receiver,
    pub(crate) webhook_signal: JobSignal,
}

/// The world's clock, which callers can turn; nothing falls due by it.
#[derive(Debug)]
struct WorldClock(ManualClock);

#[async_trait]
impl TurnedClock for WorldClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn advance(&self, to: Timestamp, payments: PaymentReports) -> Result<Advanced, Error> {
        self.0.set(to);
        // So that a test sees what was asked for.
        Ok(Advanced { now: to, steps: payments as u64, done: true })
    }
}

/// The request of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    /// Empty if it was sent as something else than bytes.
    pub(crate) body: Bytes,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) sent: Sent,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Tokens of somebody who signed up.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) bearer: String,
    pub(crate) refresh_token: String,
}

/// The changes that people may make.
const SELF_SERVICE: [SelfService; 3] =
    [SelfService::Resume, SelfService::Cancel, SelfService::ChangePlan];

impl HttpWorld {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default())).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        Self::with(AuthWorld::over(store, AuthSettings::default()), Timeouts::default()).await
    }

    pub(crate) async fn with(auth: AuthWorld, timeouts: Timeouts) -> Self {
        Self::limited(auth, timeouts, &RateLimits::NONE).await
    }

    /// With limits that count by the world's own clock.
    pub(crate) async fn limited(auth: AuthWorld, timeouts: Timeouts, limits: &RateLimits) -> Self {
        let key = secret(CURSOR_KEY);
        let billing = Billing::new(auth.service.clone(), Policy::default());
        let (receiver, webhook_signal) = (Receiver::default(), JobSignal::default());
        let webhooks = webhooks_of(&auth.service, &auth.clock, &receiver);
        let api = Api::builder(auth.service.clone(), auth.auth.clone(), key)
            .billing(billing.clone())
            .figures(Figures::aged_by(billing.service().clone(), auth.clock.clone()))
            .webhooks(webhooks, &webhook_signal)
            .timeouts(timeouts)
            .rate_limits_by(limits, auth.clock.clone())
            .trust_proxies(vec!["10.0.0.1".parse().unwrap()])
            .self_service(&SELF_SERVICE, &["pro".parse().unwrap()])
            .console()
            .portal(PORTAL.parse::<Url>().unwrap())
            .turned_clock(WorldClock(auth.clock.clone()))
            .providers(
                providers_of(billing.service()),
                &JobSignal::default(),
                &ProviderMetrics::default(),
            )
            .build();
        let server = String::new();
        let mut world = Self { api, auth, server, billing, receiver, webhook_signal };
        world.client(WEB, ClientKind::Public, Scope::is_public).await;
        world.server = world
            .client("server", ClientKind::Confidential, |scope| scope != Scope::AssertIp)
            .await;
        world
    }

    /// The same parts in development: every client is believed.
    pub(crate) fn in_development(self) -> Self {
        let (service, auth) = (self.auth.service.clone(), self.auth.auth.clone());
        let api = Api::builder(service, auth, secret(CURSOR_KEY)).believe_every_client().build();
        Self { api, ..self }
    }

    /// The same parts behind an API that answers to some names alone.
    pub(crate) fn answering_to(self, hosts: &[&str]) -> Self {
        let (service, auth) = (self.auth.service.clone(), self.auth.auth.clone());
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let api = Api::builder(service, auth, secret(CURSOR_KEY)).allowed_hosts(hosts).build();
        Self { api, ..self }
    }

    /// The same parts where people may make these changes themselves.
    pub(crate) fn allowing(self, changes: &[SelfService]) -> Self {
        let (service, auth) = (self.auth.service.clone(), self.auth.auth.clone());
        let api =
            Api::builder(service, auth, secret(CURSOR_KEY)).self_service(changes, &[]).build();
        Self { api, ..self }
    }

    /// The same parts where people may cancel, resume, and change to these plans.
    pub(crate) fn changing_to(self, plans: &[&str], limits: &RateLimits) -> Self {
        let plans: Vec<Slug> = plans.iter().map(|plan| plan.parse().unwrap()).collect();
        let key = secret(CURSOR_KEY);
        let api = Api::builder(self.auth.service.clone(), self.auth.auth.clone(), key)
            .billing(self.billing.clone())
            .self_service(&SELF_SERVICE, &plans)
            .rate_limits_by(limits, self.auth.clock.clone())
            .portal(PORTAL.parse::<Url>().unwrap())
            .build();
        Self { api, ..self }
    }

    /// The same parts, with checkout pages at these hosts.
    pub(crate) fn paying_at(self, hosts: &[(&str, CheckoutProvider)]) -> Self {
        let (service, auth) = (self.auth.service.clone(), self.auth.auth.clone());
        let hosts = hosts.iter().map(|(host, provider)| ((*host).to_owned(), *provider));
        let hosts = CheckoutHosts::try_from(hosts.collect::<BTreeMap<_, _>>()).unwrap();
        let api = Api::builder(service, auth, secret(CURSOR_KEY)).checkout_hosts(hosts).build();
        Self { api, ..self }
    }

    /// The same parts behind an API that logs addresses.
    pub(crate) fn logging_addresses(self) -> Self {
        let (service, auth) = (self.auth.service.clone(), self.auth.auth.clone());
        let api = Api::builder(service, auth, secret(CURSOR_KEY)).log_addresses();
        Self { api: api.portal(PORTAL.parse::<Url>().unwrap()).build(), ..self }
    }

    /// The same store for users who are not looked up.
    pub(crate) fn with_users_of_others(self) -> Self {
        let service = SubscriptionService::builder(Arc::clone(&self.auth.store));
        let service = service.clock(self.auth.clock.clone()).build();
        let auth = authentication(&service, server_key(1, SERVER_KEY), AuthSettings::default());
        let api = Api::builder(service, auth, secret(CURSOR_KEY));
        Self { api: api.portal(PORTAL.parse::<Url>().unwrap()).build(), ..self }
    }

    /// The same store where a user may have one live subscription.
    pub(crate) fn with_one_live(self) -> Self {
        let service = SubscriptionService::builder(Arc::clone(&self.auth.store));
        let service = service
            .clock(self.auth.clock.clone())
            .randomness(SeededRandomness::new(2))
            .one_live_per(OneLivePer::User)
            .build();
        let api = Api::builder(service, self.auth.auth.clone(), secret(CURSOR_KEY)).build();
        Self { api, ..self }
    }

    /// Changes a stored subscription in ways that no request has, and gives it.
    pub(crate) async fn rewrite(
        &self,
        subscription: &Value,
        change: impl FnOnce(&mut Subscription),
    ) -> Value {
        let id = of(&text(&subscription["id"]));
        let stored = self.auth.store.get_as::<Subscription>(&id).await.unwrap().unwrap();
        let mut next = Subscription { version: stored.version.next(), ..(*stored).clone() };
        change(&mut next);
        let writes = vec![Record::from(next)];
        let set = ChangeSet { writes, ..ChangeSet::default() };
        self.auth.store.commit(set).await.unwrap();
        self.server("GET", &path_of(subscription), &[], "").await.json()
    }

    /// Makes a client for the pages of some origins.
    pub(crate) async fn pages(&self, id: &str, origins: &[&str]) {
        let (kind, scopes) = (ClientKind::Public, [Scope::Auth, Scope::PlansRead].into());
        let origins = origins.iter().map(|origin| of(origin)).collect();
        let new = NewClient { id: of(id), name: of(id), kind, scopes, origins };
        self.auth.auth.create_client(new).await.unwrap();
    }

    /// Makes a client with the scopes that `may` picks, and gives what it calls with.
    pub(crate) async fn client(
        &self,
        id: &str,
        kind: ClientKind,
        may: impl Fn(Scope) -> bool,
    ) -> String {
        let scopes = Scope::ALL.into_iter().filter(|scope| may(*scope)).collect();
        let new = NewClient { id: of(id), name: of(id), kind, scopes, origins: [].into() };
        let created = self.auth.auth.create_client(new).await.unwrap();
        let credential = created.credential.expose_secret();
        if kind == ClientKind::Confidential {
            logs::note(credential);
        }
        credential.to_owned()
    }

    /// Sends a request just as it is, but for a `Host` and the type of a body, where not given.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        self.call_from("127.0.0.1", method, path, headers, body).await
    }

    /// The same from another address.
    pub(crate) async fn call_from(
        &self,
        peer: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let body = Bytes::from(body.into());
        let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let mut request = Request::builder().method(method).uri(path);
        if !given("host") {
            request = request.header("host", "localhost");
        }
        if !given("content-type") && !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.body(Full::new(body.clone())).unwrap();
        let mut answer = self.send(request, Some(peer.parse().unwrap())).await;
        answer.sent.body = body;
        answer
    }

    /// Sends a request just as it is, and holds the answer against the OpenAPI document.
    pub(crate) async fn send<B>(&self, request: Request<B>, peer: Option<IpAddr>) -> Answer
    where
        B: hyper::body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path().to_owned();
        let sent = Sent {
            method: request.method().to_string(),
            uri: request.uri().to_string(),
            headers: request.headers().clone(),
            body: Bytes::new(),
        };
        let (head, body) = self.api.answer(request, peer).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        for name in ["access_token", "refresh_token", "secret"] {
            told[name].as_str().map(logs::note);
        }
        if let Some((_, token)) = told["url"].as_str().and_then(|url| url.split_once("#token=")) {
            logs::note(token);
        }
        let answer = Answer { sent, status: head.status.as_u16(), headers: head.headers, body };
        super::documented::is_documented(&answer.sent.method, &path, &answer);
        answer
    }

    /// A call of the server.
    pub(crate) async fn server(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let mut all = vec![("client-id", self.server.as_str())];
        all.extend_from_slice(headers);
        self.call(method, path, &all, body).await
    }

    /// A call of somebody at the browser's client.
    pub(crate) async fn person(&self, method: &str, path: &str, bearer: &str) -> Answer {
        self.call(method, path, &[("client-id", WEB), ("authorization", bearer)], "").await
    }

    /// The `Authorization` of a new link to the portal for somebody.
    pub(crate) async fn portal_link(&self, user: &str) -> String {
        let made = self.server("POST", &format!("/users/{user}/portal-links"), &[], "").await;
        assert_eq!(made.status, 201, "{made:?}");
        let url = text(&made.json()["url"]);
        format!("Bearer {}", url.strip_prefix(PORTAL).unwrap().strip_prefix("#token=").unwrap())
    }

    /// A call with a portal token, and without a client.
    pub(crate) async fn portal(&self, method: &str, path: &str, link: &str) -> Answer {
        self.call(method, path, &[("authorization", link)], "").await
    }

    /// The body of a sign-in or sign-up, with what `change` makes of the identity token.
    pub(crate) fn proof(&self, name: &str, change: impl FnOnce(&mut Value)) -> String {
        let token = self.auth.identity_token(name, change);
        let email = format!("{name}@example.com");
        json!({ "access_token": token.expose_secret(), "email": email }).to_string()
    }

    /// Somebody new with a session at the browser's client.
    pub(crate) async fn sign_up(&self, name: &str) -> Person {
        let body = self.proof(name, |_| {});
        let made = self.call("POST", "/authentication/sign-up", &[("client-id", WEB)], body).await;
        assert_eq!(made.status, 201, "{made:?}");
        Person::from(&made.json())
    }

    /// One more session of somebody.
    pub(crate) async fn sign_in(&self, name: &str) -> Person {
        let body = self.proof(name, |_| {});
        let made = self.call("POST", "/authentication/sign-in", &[("client-id", WEB)], body).await;
        assert_eq!(made.status, 200, "{made:?}");
        Person::from(&made.json())
    }

    /// Makes a record that must be made, and gives it.
    pub(crate) async fn made(&self, path: &str, body: &Value) -> Value {
        let made = self.server("POST", path, &[], body.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()
    }

    /// A monthly plan for 19.99.
    pub(crate) async fn plan(&self, slug: &str) -> Value {
        self.made("/subscription-plans", &plan_body(slug)).await
    }

    /// A subscription of a new user to a new plan, with what `more` adds.
    pub(crate) async fn subscription(&self, name: &str, more: &Value) -> Value {
        let (user, plan) = (self.sign_up(name).await.id, self.plan(&format!("of-{name}")).await);
        let mut body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
        add(&mut body, more);
        self.made("/subscriptions", &body).await
    }

    /// A subscription of a new user that the clock bills for 19.99 USD a month, with what `more` adds.
    pub(crate) async fn on_clock(&self, name: &str, more: &Value) -> Value {
        let mut plan = plan_body(&format!("of-{name}"));
        plan["currency"] = json!("USD");
        let plan = self.made("/subscription-plans", &plan).await;
        let user = self.sign_up(name).await.id;
        let mut body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
        add(&mut body, more);
        self.made("/subscriptions", &body).await
    }

    /// The newest payment of a subscription.
    pub(crate) async fn newest_payment(&self, subscription: &Value) -> Value {
        let path = format!("{}/payments", path_of(subscription));
        self.server("GET", &path, &[], "").await.json()["data"][0].clone()
    }

    /// Reports the status of the newest payment of a subscription, and gives the payment.
    pub(crate) async fn report(&self, subscription: &Value, status: &str) -> Value {
        let payment = self.newest_payment(subscription).await;
        let path = format!("/subscription-payments/{}", text(&payment["id"]));
        let body = json!({ "status": status }).to_string();
        let reported = self.server("PUT", &path, &[], body).await;
        assert_eq!(reported.status, 200, "{reported:?}");
        reported.json()
    }

    /// A payment of 19.99 USD for a new subscription, with what `more` adds.
    pub(crate) async fn payment(&self, name: &str, more: &Value) -> Value {
        let subscription = self.subscription(name, &json!({})).await;
        let mut body = payment_body(&subscription);
        add(&mut body, more);
        self.made("/subscription-payments", &body).await
    }
}

impl From<&Value> for Person {
    fn from(body: &Value) -> Self {
        Self {
            id: text(&body["auth_id"]),
            session: text(&body["session_id"]),
            bearer: format!("Bearer {}", text(&body["access_token"])),
            refresh_token: text(&body["refresh_token"]),
        }
    }
}

impl Answer {
    /// A header that stands there at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        assert!(self.headers.get_all(name).iter().count() <= 1, "{name} twice");
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The code of a problem, once it is seen to have the right form.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["type"], "about:blank", "{body}");
        assert_eq!(body["status"], self.status, "{body}");
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"), "{body}");
        (self.status, text(&body["code"]))
    }

    /// The fields at fault, each with its code.
    pub(crate) fn faults(&self) -> Vec<String> {
        assert_eq!(self.problem(), (422, "validation_failed".into()), "{self:?}");
        let body = self.json();
        let faults = body["errors"].as_array().unwrap();
        let told = |fault: &Value| {
            assert!(fault["message"].is_string(), "{fault}");
            format!("{} {}", text(&fault["field"]), text(&fault["code"]))
        };
        faults.iter().map(told).collect()
    }
}

/// The text of a JSON string.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// The path of a subscription.
pub(crate) fn path_of(subscription: &Value) -> String {
    format!("/subscriptions/{}", text(&subscription["id"]))
}

pub(crate) fn plan_body(slug: &str) -> Value {
    json!({ "name": "Pro", "slug": slug, "price": "19.99", "billing_cycle": "monthly" })
}

pub(crate) fn payment_body(subscription: &Value) -> Value {
    json!({ "subscription_id": subscription["id"], "amount": "19.99", "currency": "USD" })
}

/// Sets the members of `more` in `body`.
pub(crate) fn add(body: &mut Value, more: &Value) {
    for (name, value) in more.as_object().unwrap() {
        body[name.as_str()] = value.clone();
    }
}

/// A status and a code.
pub(crate) fn problem(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
