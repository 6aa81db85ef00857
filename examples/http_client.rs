//! A client that walks the whole HTTP interface, and asserts on every answer.
//!
//!     cargo run --example http_client                          # against a server of its own
//!     cargo run --example http_client http://127.0.0.1:8080    # against one in development mode
//!
//! Shows what a client in production needs: creates that are repeated safely, lists walked by cursor,
//! changes that overwrite nobody else's, and errors told apart by their code. At the end it holds what it
//! has called against the server's own document: nothing may be left out.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{
    Amount, MemoryStore, Randomness as _, SubscriptionService, SystemRandomness,
};
use subscription_http::{Api, Limits, Server};
use tokio::net::TcpStream;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// How often a request is sent before it is given up.
const ATTEMPTS: u32 = 4;

/// The longest `Retry-After` that is waited for.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A plan, as far as this client looks at it; unknown fields are no concern of a client.
#[derive(Debug, Deserialize)]
struct Plan {
    id: String,
    slug: String,
    price: Amount,
    tier: u32,
}

#[derive(Debug, Deserialize)]
struct Subscription {
    id: String,
    status: String,
    is_active: bool,
    ends_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Payment {
    id: String,
    status: String,
    amount: Amount,
}

/// The response of sign-up, sign-in and refresh.
#[derive(Debug, Deserialize)]
struct Tokens {
    access_token: String,
    refresh_token: String,
    auth_id: String,
}

#[derive(Debug, Deserialize)]
struct LoggedIn {
    logged_in: bool,
}

/// How many sessions were ended.
#[derive(Debug, Deserialize)]
struct Ended {
    revoked: usize,
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// An error as the server tells it (RFC 9457).
#[derive(Debug, Deserialize)]
struct Problem {
    status: u16,
    code: Code,
    detail: String,
    request_id: String,
    /// Of 422: what is wrong with which field.
    #[serde(default)]
    errors: Vec<Fault>,
    /// Of `external_id_taken`: who has the id.
    holder: Option<String>,
    /// In how many seconds to come back, from the header.
    #[serde(skip)]
    retry_after: Option<u64>,
}

/// The codes that this client does something about; docs/errors.md lists all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Code {
    AccountNotFound,
    ExternalIdTaken,
    IdempotencyInProgress,
    InvalidTransition,
    PreconditionFailed,
    SessionRevoked,
    ValidationFailed,
    /// One that came with a newer server is no reason to fail: its status still tells what to do.
    #[serde(untagged)]
    Other(String),
}

#[derive(Debug, Deserialize)]
struct Fault {
    field: String,
    code: String,
}

/// Why there is no answer to go on with.
#[derive(Debug)]
enum Failure {
    /// The server said no, and why.
    Refused(Box<Problem>),
    /// Nobody answered, or what answered made no sense.
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => {
                let Problem { status, code, detail, request_id, .. } = &**problem;
                write!(f, "{status} {code:?}: {detail} (request {request_id})")
            }
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// How long to wait before the same request may do better, if it may.
    fn pause(&self, by_default: Duration) -> Option<Duration> {
        match self {
            Self::Refused(problem) => {
                let in_progress = problem.code == Code::IdempotencyInProgress;
                let may_pass = in_progress || matches!(problem.status, 408 | 429 | 503);
                let asked = problem.retry_after.map_or(by_default, Duration::from_secs);
                may_pass.then_some(asked)
            }
            Self::Broken(_) => Some(by_default),
        }
    }

    /// The problem, where one of this code was expected.
    fn expect(self, code: &Code) -> Result<Problem> {
        match self {
            Self::Refused(problem) if problem.code == *code => Ok(*problem),
            other @ (Self::Refused(_) | Self::Broken(_)) => Err(other),
        }
    }
}

/// A request, to be sent as often as need be.
#[derive(Debug, Clone)]
struct Ask {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<String>,
}

impl Ask {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: None }
    }

    fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path).json(body)
    }

    fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path).json(body)
    }

    fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn json(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string());
        self.header("content-type", "application/json")
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn bearer(self, tokens: &Tokens) -> Self {
        self.header("authorization", format!("Bearer {}", tokens.access_token))
    }

    /// True if sending it twice does no more than sending it once. (Of two deletes the second may find
    /// nothing, which is as good.)
    fn is_repeatable(&self) -> bool {
        self.method != Method::POST || self.headers.iter().any(|(name, _)| *name == KEY)
    }
}

const KEY: &str = "idempotency-key";

/// A good answer.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The version of the record, for `If-Match`.
    fn etag(&self) -> Result<String> {
        Ok(self.header("etag").ok_or("a record has an ETag")?.to_owned())
    }
}

struct Client {
    authority: String,
    /// The calls so far, as `METHOD /path`.
    called: BTreeSet<(Method, String)>,
}

impl Client {
    fn new(url: &str) -> Result<Self> {
        let uri: Uri = url.parse()?;
        let authority = uri.authority().ok_or("the URL names no host")?.to_string();
        Ok(Self { authority, called: BTreeSet::new() })
    }

    /// Sends a request; again, where that is safe, if the answer got lost or the server asks to wait.
    async fn call(&mut self, ask: Ask) -> Result<Answer> {
        let path = ask.path.split('?').next().unwrap_or_default();
        self.called.insert((ask.method.clone(), path.to_owned()));
        let mut backoff = Duration::from_millis(100);
        for _ in 1..ATTEMPTS {
            let answer = self.send(&ask).await;
            let pause = answer.as_ref().err().and_then(|failure| failure.pause(backoff));
            match pause.filter(|pause| ask.is_repeatable() && *pause <= PAUSE_MAX) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return answer,
            }
            backoff *= 2;
        }
        self.send(&ask).await
    }

    /// The same, and reads the record that the answer holds.
    async fn record<T: DeserializeOwned>(&mut self, ask: Ask) -> Result<T> {
        self.call(ask).await?.json()
    }

    /// Sends a request that must be refused with this code.
    async fn refused(&mut self, ask: Ask, code: &Code) -> Result<Problem> {
        match self.call(ask).await {
            Ok(answer) => Err(format!("expected {code:?}, got {}", answer.status).into()),
            Err(failure) => failure.expect(code),
        }
    }

    async fn send(&self, ask: &Ask) -> Result<Answer> {
        let answer = self.connect().await?.send_request(self.request(ask)?).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
        let is_good = head.status.is_success() || head.status == StatusCode::NOT_MODIFIED;
        if is_good {
            return Ok(Answer { status: head.status, headers: head.headers, body });
        }
        let mut problem: Problem = serde_json::from_slice(&body)?;
        let after = head.headers.get("retry-after").and_then(|value| value.to_str().ok());
        problem.retry_after = after.and_then(|seconds| seconds.parse().ok());
        assert_eq!(problem.status, head.status.as_u16());
        assert!(!problem.request_id.is_empty() && !problem.detail.is_empty());
        Err(Failure::Refused(Box::new(problem)))
    }

    /// Sends a request and goes away before it is answered, as a client does that loses its network.
    async fn lose(&self, ask: &Ask) -> Result<()> {
        let mut sender = self.connect().await?;
        let answer = sender.send_request(self.request(ask)?);
        tokio::time::timeout(Duration::from_millis(1), answer).await.ok();
        Ok(())
    }

    async fn connect(&self) -> Result<http1::SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(&ask.method).uri(&ask.path);
        request = request.header("host", &self.authority).header("client-id", "example");
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        Ok(request.body(Full::from(ask.body.clone().unwrap_or_default()))?)
    }

    /// All of a list, page by page.
    async fn walk<T: DeserializeOwned>(&mut self, list: &str) -> Result<Vec<T>> {
        let (mut all, mut path) = (Vec::new(), list.to_owned());
        loop {
            let page: Page<T> = self.record(Ask::get(path)).await?;
            all.extend(page.data);
            let Some(cursor) = page.next_cursor else { return Ok(all) };
            path = format!("{list}&cursor={cursor}");
        }
    }
}

/// The calls of an operator.
async fn look_around(client: &mut Client) -> Result<Value> {
    for path in ["/health/live", "/health/ready", "/metrics", "/docs", "/.well-known/jwks.json"] {
        assert_eq!(client.call(Ask::get(path)).await?.status, 200, "{path}");
    }
    client.record(Ask::get("/openapi.json")).await
}

/// Publishes five plans, finds them again page by page, and changes one.
async fn plans(client: &mut Client, run: &str) -> Result<Vec<Plan>> {
    for tier in 1..=5 {
        let slug = format!("{run}-{tier}");
        // Written as text, so that no program on the way can round it.
        let new = json!({ "name": "Plan", "slug": slug, "price": "19.90", "tier": tier,
            "billing_cycle": "monthly", "product_id": run });
        let ask = Ask::post("/subscription-plans", &new).header(KEY, slug.clone());
        let made = client.call(ask).await?;
        assert_eq!(made.status, StatusCode::CREATED);
        // Relative to where it was sent, so that it holds wherever the service is mounted.
        assert_eq!(made.header("location"), Some(format!("subscription-plans/{slug}").as_str()));
    }
    let list = format!("/subscription-plans?product_id={run}&sort=-tier&limit=2");
    let plans: Vec<Plan> = client.walk(&list).await?;
    assert_eq!(plans.iter().map(|plan| plan.tier).collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    assert!(plans.iter().all(|plan| plan.price.to_string() == "19.90"));

    // Two who change the same plan: the second is told, and decides anew.
    let path = format!("/subscription-plans/{run}-1");
    let read = client.call(Ask::get(&path)).await?.etag()?;
    let dearer = Ask::put(&path, &json!({ "price": "24.90" })).header("if-match", &read);
    let changed: Plan = client.record(dearer.clone()).await?;
    assert_eq!(changed.price.to_string(), "24.90");
    client.refused(dearer, &Code::PreconditionFailed).await?;

    let gone = client.call(Ask::delete(format!("/subscription-plans/{run}-5"))).await?;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    println!("plans: 5 made, walked 2 by 2, one changed, one deleted");
    Ok(plans.into_iter().filter(|plan| plan.tier < 5).collect())
}

/// Lets a person in, and shows what becomes of tokens.
async fn sign_in(client: &mut Client, email: &str) -> Result<Tokens> {
    let proof = json!({ "access_token": "what the identity provider gave", "email": email });
    let sign_in = Ask::post("/authentication/sign-in", &proof);
    client.refused(sign_in.clone(), &Code::AccountNotFound).await?;
    let sign_up = Ask::post("/authentication/sign-up", &proof);
    let phone: Tokens = client.record(sign_up).await?;
    let laptop: Tokens = client.record(sign_in).await?;
    assert_eq!(phone.auth_id, laptop.auth_id);

    let refresh = json!({ "refresh_token": laptop.refresh_token });
    let laptop: Tokens =
        client.record(Ask::post("/authentication/refresh-token", &refresh)).await?;
    let who = Ask::new(Method::POST, "/authentication/user-logged-in").bearer(&laptop);
    assert!(client.record::<LoggedIn>(who).await?.logged_in);
    let sessions = Ask::get("/authentication/tokens").bearer(&laptop);
    assert_eq!(client.record::<Page<Value>>(sessions).await?.data.len(), 2);

    let others = "/authentication/tokens/revoke-all-except-current";
    let ended: Ended = client.record(Ask::new(Method::POST, others).bearer(&laptop)).await?;
    assert_eq!(ended.revoked, 1);
    let who = Ask::new(Method::POST, "/authentication/user-logged-in").bearer(&phone);
    client.refused(who, &Code::SessionRevoked).await?;
    println!("sign-in: two sessions, one refreshed, the other ended");
    Ok(laptop)
}

/// Subscribes a person, over a network that loses answers.
async fn subscriptions(client: &mut Client, user: &str, plan: &Plan, run: &str) -> Result<String> {
    let new = json!({ "user_id": user, "subscription_plan_id": plan.id,
        "external_subscription_id": run });
    let create = Ask::post("/subscriptions", &new).header(KEY, run);
    client.lose(&create).await?;
    let made: Subscription = client.record(create.clone()).await?;
    assert!(made.is_active && made.status == "active");
    let again = client.call(create).await?;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json::<Subscription>()?.id, made.id);
    let list = format!("/subscriptions?user_id={user}&limit=1");
    assert_eq!(client.walk::<Subscription>(&list).await?.len(), 1);

    // Another key, the same id from outside: the server says whose it is.
    let twin = Ask::post("/subscriptions", &new).header(KEY, format!("{run}-twin"));
    let taken = client.refused(twin, &Code::ExternalIdTaken).await?;
    assert_eq!(taken.holder.as_ref(), Some(&made.id));

    // All faults are reported at once, field by field.
    let path = format!("/subscriptions/{}", made.id);
    let wrong = json!({ "status": "sleeping", "renews_at": "soon", "colour": "red" });
    let told = client.refused(Ask::put(&path, &wrong), &Code::ValidationFailed).await?;
    let told: BTreeSet<_> =
        told.errors.iter().map(|f| (f.field.as_str(), f.code.as_str())).collect();
    let expected =
        [("colour", "unknown_field"), ("renews_at", "bad_format"), ("status", "not_allowed_value")];
    assert_eq!(told, BTreeSet::from(expected));

    let read = client.call(Ask::get(&path)).await?;
    let unchanged = Ask::get(&path).header("if-none-match", read.etag()?);
    assert_eq!(client.call(unchanged).await?.status, StatusCode::NOT_MODIFIED);
    let cancel = Ask::put(&path, &json!({ "status": "cancelled" }));
    let cancelled: Subscription = client.record(cancel).await?;
    assert!(cancelled.is_active && cancelled.ends_at.is_some());
    println!("subscriptions: made once of three tries, cancelled to {:?}", cancelled.ends_at);
    Ok(made.id)
}

/// Pays, and cannot unpay.
async fn payments(client: &mut Client, subscription: &str, run: &str) -> Result<()> {
    let new = json!({ "subscription_id": subscription, "amount": "19.90", "currency": "eur",
        "external_payment_id": run });
    let create = Ask::post("/subscription-payments", &new).header(KEY, format!("{run}-payment"));
    let made: Payment = client.record(create).await?;
    let path = format!("/subscription-payments/{}", made.id);
    let pay = Ask::put(&path, &json!({ "status": "succeeded" }));
    assert_eq!(client.record::<Payment>(pay).await?.status, "succeeded");
    let unpay = Ask::put(&path, &json!({ "status": "pending" }));
    client.refused(unpay, &Code::InvalidTransition).await?;
    let paid: Payment = client.record(Ask::get(&path)).await?;
    assert_eq!((paid.amount.to_string(), paid.status), ("19.90".into(), "succeeded".into()));
    assert_eq!(client.call(Ask::delete(&path)).await?.status, StatusCode::NO_CONTENT);
    println!("payments: one made, paid, and deleted");
    Ok(())
}

/// Takes back what was made.
async fn leave(
    client: &mut Client,
    ada: &Tokens,
    subscription: &str,
    plans: &[Plan],
) -> Result<()> {
    client.call(Ask::delete(format!("/subscriptions/{subscription}"))).await?;
    for plan in plans {
        client.call(Ask::delete(format!("/subscription-plans/{}", plan.slug))).await?;
    }
    let account = format!("/authentication/delete-my-account/{}", ada.auth_id);
    let gone = client.call(Ask::delete(account).bearer(ada)).await?;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    Ok(())
}

/// Signs a second person in and out, in both ways that there are.
async fn sign_out(client: &mut Client, email: &str) -> Result<()> {
    let proof = json!({ "access_token": "another", "email": email });
    let grace: Tokens = client.record(Ask::post("/authentication/sign-up", &proof)).await?;
    let logout = Ask::new(Method::POST, "/authentication/tokens/logout").bearer(&grace);
    assert_eq!(client.record::<Ended>(logout).await?.revoked, 1);
    let grace: Tokens = client.record(Ask::post("/authentication/sign-in", &proof)).await?;
    let revoke = Ask::new(Method::POST, "/authentication/tokens/revoke-all").bearer(&grace);
    assert_eq!(client.record::<Ended>(revoke).await?.revoked, 1);
    Ok(())
}

/// The operations of the document that were not called.
fn left_out(document: &Value, called: &BTreeSet<(Method, String)>) -> Vec<String> {
    let fits = |pattern: &str, path: &str| {
        let (pattern, path) = (pattern.split('/'), path.split('/'));
        pattern.clone().count() == path.clone().count()
            && pattern.zip(path).all(|(part, name)| part == name || part.starts_with('{'))
    };
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = paths.flat_map(|(pattern, item)| {
        let methods = item.as_object().into_iter().flatten().map(|(name, _)| name.to_uppercase());
        methods.map(move |method| (method, pattern))
    });
    let was_called = |(method, pattern): &(String, &String)| {
        called.iter().any(|(by, path)| by.as_str() == method && fits(pattern, path))
    };
    let missing = operations.filter(|operation| !was_called(operation));
    missing.map(|(method, pattern)| format!("{method} {pattern}")).collect()
}

/// A server in this process, as it runs in development.
async fn server() -> Result<String> {
    let service = SubscriptionService::builder(MemoryStore::default()).check_users();
    let service = service.build();
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
    let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    let api = Api::builder(service, auth, vec![3; 32].into()).believe_every_client().build();
    let server = Server::bind(api, ([127, 0, 0, 1], 0).into(), Limits::default()).await?;
    let url = format!("http://{}", server.address()?);
    tokio::spawn(server.run(std::future::pending()));
    Ok(url)
}

/// All of it, from the first plan to the last sign-out.
async fn walk(url: Option<String>) -> Result<()> {
    let url = match url {
        Some(url) => url,
        None => server().await?,
    };
    let mut client = Client::new(&url)?;
    // Names that no run before had.
    let mut random = [0; 8];
    SystemRandomness.fill(&mut random)?;
    let run = format!("run-{:x}", u64::from_le_bytes(random));

    let document = look_around(&mut client).await?;
    let plans = plans(&mut client, &run).await?;
    let ada = sign_in(&mut client, &format!("ada-{run}@example.com")).await?;
    let plan = plans.first().ok_or("there are plans")?;
    let subscription = subscriptions(&mut client, &ada.auth_id, plan, &run).await?;
    payments(&mut client, &subscription, &run).await?;
    sign_out(&mut client, &format!("grace-{run}@example.com")).await?;
    leave(&mut client, &ada, &subscription, &plans).await?;

    let left_out = left_out(&document, &client.called);
    assert!(left_out.is_empty(), "the server does more: {left_out:?}");
    println!("called all that the server's document has");
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), String> {
    walk(std::env::args().nth(1)).await.map_err(|failure| failure.to_string())
}
