//! A client that calls every endpoint of the server, and checks every response.
//!
//!     cargo run --example http_client                          # starts a server itself
//!     cargo run --example http_client http://127.0.0.1:8080    # calls one in development mode, started
//!                                                              # with --self-service cancel,resume
//!                                                              # --portal-url http://localhost:3000/
//!
//! Shows what a client in production needs: creates that are safe to retry, lists read page by page,
//! changes that overwrite nobody else's, and errors handled by their code. At the end it compares its calls
//! with the server's OpenAPI document: no endpoint may be left out.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::billing::{Billing, Policy};
use subscription_core::{MemoryStore, SubscriptionService, SystemRandomness, UserId};
use subscription_http::{Api, Limits, SelfService, Server};
use tokio::net::TcpStream;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How often a request is sent, at most.
const ATTEMPTS: u32 = 4;
/// A longer `Retry-After` is not waited for.
const PAUSE_MAX: Duration = Duration::from_secs(10);
const BODY_BYTES_MAX: usize = 1 << 20;
const KEY: &str = "idempotency-key";

/// A request, which can be sent several times.
#[derive(Clone)]
struct Ask {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

fn ask(method: Method, path: impl Into<String>) -> Ask {
    Ask { method, path: path.into(), headers: Vec::new(), body: String::new() }
}

fn get(path: impl Into<String>) -> Ask {
    ask(Method::GET, path)
}

fn post(path: impl Into<String>, body: &Value) -> Ask {
    Ask { body: body.to_string(), ..ask(Method::POST, path) }.header("content-type", JSON)
}

fn put(path: impl Into<String>, body: &Value) -> Ask {
    Ask { method: Method::PUT, ..post(path, body) }
}

const JSON: &str = "application/json";

impl Ask {
    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn bearer(self, tokens: &Answer) -> Self {
        let token = tokens.text("access_token");
        self.header("authorization", format!("Bearer {token}"))
    }

    /// True if sending it twice does no more than sending it once.
    fn is_repeatable(&self) -> bool {
        self.method != Method::POST || self.headers.iter().any(|(name, _)| *name == KEY)
    }
}

/// A response, with its body as JSON. An error is `application/problem+json` (docs/errors.md).
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    /// A text field of the body, or an empty text.
    fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// How long to wait before a retry; `None` if a retry cannot succeed. Codes that a newer server adds are handled by
    /// their status.
    fn pause(&self, default: Duration) -> Option<Duration> {
        let may_succeed = matches!(self.status.as_u16(), 408 | 429 | 503)
            || self.text("code") == "idempotency_in_progress";
        let after = self.header("retry-after").parse().map(Duration::from_secs);
        may_succeed.then(|| after.unwrap_or(default))
    }
}

struct Client {
    authority: String,
    /// The methods and paths that were called.
    called: BTreeSet<(String, String)>,
}

impl Client {
    /// Sends a request. Retries, where that is safe, if the connection fails or the server asks to wait.
    async fn send(&mut self, ask: &Ask) -> Result<Answer> {
        let path = ask.path.split('?').next().unwrap_or_default();
        self.called.insert((ask.method.to_string(), path.to_owned()));
        let mut pause = Duration::from_millis(100);
        for _ in 1..ATTEMPTS {
            let answer = self.attempt(ask).await;
            let wait = answer.as_ref().map_or(Some(pause), |answer| answer.pause(pause));
            match wait.filter(|wait| ask.is_repeatable() && *wait <= PAUSE_MAX) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return answer,
            }
            pause *= 2;
        }
        self.attempt(ask).await
    }

    async fn attempt(&self, ask: &Ask) -> Result<Answer> {
        let answer = self.connect().await?.send_request(self.request(ask)?).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Sends a request and does not wait for the response, like a client that loses its network.
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
        Ok(request.body(Full::from(ask.body.clone()))?)
    }

    /// Sends a request that must succeed.
    async fn call(&mut self, ask: Ask) -> Result<Answer> {
        let answer = self.send(&ask).await?;
        let is_good = answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED;
        let told = || format!("{} {}: {} {}", ask.method, ask.path, answer.status, answer.body);
        if is_good { Ok(answer) } else { Err(told().into()) }
    }

    /// Sends a request that must be refused with this code.
    async fn refused(&mut self, ask: Ask, code: &str) -> Result<Answer> {
        let answer = self.send(&ask).await?;
        assert_eq!(answer.text("code"), code, "{}", answer.body);
        assert!(!answer.text("request_id").is_empty() && !answer.text("detail").is_empty());
        Ok(answer)
    }

    /// Reads all pages of a list.
    async fn all(&mut self, list: &str) -> Result<Vec<Value>> {
        let (mut all, mut path) = (Vec::new(), list.to_owned());
        loop {
            let page = self.call(get(path)).await?;
            all.extend(
                page.body.get("data").and_then(Value::as_array).into_iter().flatten().cloned(),
            );
            match page.text("next_cursor") {
                "" => return Ok(all),
                cursor => path = format!("{list}&cursor={cursor}"),
            }
        }
    }
}

/// Creates three plans, reads them page by page, and changes one.
async fn plans(client: &mut Client, run: &str) -> Result<String> {
    let mut ids = Vec::new();
    for tier in 1..=3 {
        let slug = format!("{run}-{tier}");
        // A string, so that no JSON parser on the way can round it.
        let new = json!({ "name": "Plan", "slug": slug, "price": "19.90", "tier": tier,
            "billing_cycle": "monthly", "product_id": run });
        let plan = client.call(post("/subscription-plans", &new).header(KEY, &slug)).await?;
        assert_eq!(plan.status, StatusCode::CREATED);
        // The location is relative to the request, so that it is right wherever the service is mounted.
        assert_eq!(plan.header("location"), format!("subscription-plans/{slug}"));
        ids.push(plan.text("id").to_owned());
    }
    let list = format!("/subscription-plans?product_id={run}&sort=-tier&limit=2");
    let tiers: Vec<_> =
        client.all(&list).await?.iter().map(|plan| plan.get("tier").cloned()).collect();
    assert_eq!(tiers, [Some(3.into()), Some(2.into()), Some(1.into())]);

    // Of two clients that change the same version, the second is refused.
    let path = format!("/subscription-plans/{run}-1");
    let etag = client.call(get(&path)).await?.header("etag").to_owned();
    let change = put(&path, &json!({ "price": "24.90" })).header("if-match", etag);
    client.call(change.clone()).await?;
    client.refused(change, "precondition_failed").await?;

    client.call(ask(Method::DELETE, format!("/subscription-plans/{run}-3"))).await?;
    println!("plans: 3 created, read page by page, one changed, one deleted");
    Ok(ids.into_iter().next().unwrap_or_default())
}

/// Signs a user up on one device and in on another, and returns the tokens of the second.
async fn sign_in(client: &mut Client, email: &str) -> Result<Answer> {
    let proof = json!({ "access_token": "from the identity provider", "email": email });
    let sign_in = post("/authentication/sign-in", &proof);
    client.refused(sign_in.clone(), "account_not_found").await?;
    let phone = client.call(post("/authentication/sign-up", &proof)).await?;
    let laptop = client.call(sign_in).await?;
    assert_eq!(phone.text("auth_id"), laptop.text("auth_id"));

    let refresh = json!({ "refresh_token": laptop.text("refresh_token") });
    let laptop = client.call(post("/authentication/refresh-token", &refresh)).await?;
    let who = ask(Method::POST, "/authentication/user-logged-in");
    client.call(who.clone().bearer(&laptop)).await?;
    client.call(get("/authentication/tokens").bearer(&laptop)).await?;
    let others = ask(Method::POST, "/authentication/tokens/revoke-all-except-current");
    let ended = client.call(others.bearer(&laptop)).await?;
    assert_eq!(ended.body, json!({ "revoked": 1 }));
    client.refused(who.bearer(&phone), "session_revoked").await?;
    println!("sign-in: two sessions, one refreshed, the other ended");
    Ok(laptop)
}

/// Subscribes a user over a network that loses responses, and cancels.
async fn subscription(client: &mut Client, user: &str, plan: &str, run: &str) -> Result<String> {
    let new = json!({ "user_id": user, "subscription_plan_id": plan,
        "external_subscription_id": run });
    let create = post("/subscriptions", &new).header(KEY, run);
    client.lose(&create).await?;
    let first = client.call(create.clone()).await?;
    let again = client.call(create).await?;
    assert_eq!((again.text("id"), again.text("status")), (first.text("id"), "active"));
    assert_eq!(again.header("idempotency-replayed"), "true");
    let list = format!("/subscriptions?user_id={user}&limit=1");
    assert_eq!(client.all(&list).await?.len(), 1);

    // Does this user have access, and the feature `sso`?
    let access = get(format!("/users/{user}/entitlement?feature=sso"));
    let access = client.call(access).await?.body;
    assert_eq!(access.get("has_access").and_then(Value::as_bool), Some(true), "{access}");

    // With another key, the external id is taken: the error names the record that has it.
    let twin = post("/subscriptions", &new).header(KEY, format!("{run}-twin"));
    let taken = client.refused(twin, "external_id_taken").await?;
    assert_eq!(taken.text("holder"), first.text("id"));

    // All invalid fields are reported at once.
    let path = format!("/subscriptions/{}", first.text("id"));
    let wrong = json!({ "status": "sleeping", "renews_at": "soon", "colour": "red" });
    let invalid = client.refused(put(&path, &wrong), "validation_failed").await?;
    assert_eq!(invalid.body.get("errors").and_then(Value::as_array).map(Vec::len), Some(3));

    let etag = client.call(get(&path)).await?.header("etag").to_owned();
    let unchanged = client.call(get(&path).header("if-none-match", etag)).await?;
    assert_eq!(unchanged.status, StatusCode::NOT_MODIFIED);
    let cancelled = client.call(put(&path, &json!({ "status": "cancelled" }))).await?;
    println!("subscription: created once by three requests, ends {}", cancelled.text("ends_at"));
    Ok(path)
}

/// Calls the routes for the signed-in person: access, subscriptions, payments, checkout link, and self-service changes.
async fn me(client: &mut Client, tokens: &Answer, run: &str) -> Result<()> {
    let user = tokens.text("auth_id");
    let path = format!("/me/checkout-link?plan={run}-1");
    let mine = client.call(get(path).bearer(tokens)).await?;
    let link = format!("/subscription-plans/{run}-1/checkout-link?user_id={user}");
    assert_eq!(client.call(get(link)).await?.body, mine.body);
    client.call(get("/me/entitlement?feature=sso").bearer(tokens)).await?;
    let page = client.call(get("/me/subscriptions").bearer(tokens)).await?;
    let id = page.body.pointer("/data/0/id").and_then(Value::as_str).unwrap_or_default();
    // The backend undoes its own cancellation itself: users can undo only cancellations that they chose.
    client.call(ask(Method::POST, format!("/subscriptions/{id}/resume"))).await?;
    for (verb, status) in [("cancel", "cancelled"), ("resume", "active"), ("cancel", "cancelled")] {
        // There is a route for each change that the setting `self_service` lists.
        let change = ask(Method::POST, format!("/me/subscriptions/{id}/{verb}"));
        assert_eq!(client.call(change.bearer(tokens)).await?.text("status"), status);
    }
    // A server redirects the browser to a link. The page there calls without a client.
    let link = client.call(ask(Method::POST, format!("/users/{user}/portal-links"))).await?;
    let token = link.text("url").split_once("#token=").ok_or("a link has no token")?.1;
    let payments = get("/me/payments").header("authorization", format!("Bearer {token}"));
    client.call(payments).await?;
    println!("me: access, subscriptions, payments, where to pay; cancelled and resumed");
    Ok(())
}

/// Records a payment, which cannot be undone.
async fn payment(client: &mut Client, subscription: &str, run: &str) -> Result<()> {
    let id = subscription.rsplit('/').next();
    let new = json!({ "subscription_id": id, "amount": "19.90", "currency": "eur" });
    let create = post("/subscription-payments", &new).header(KEY, format!("{run}-payment"));
    let path = format!("/subscription-payments/{}", client.call(create).await?.text("id"));
    client.call(put(&path, &json!({ "status": "succeeded" }))).await?;
    let undo = put(&path, &json!({ "status": "pending" }));
    client.refused(undo, "invalid_transition").await?;
    assert_eq!(client.call(get(&path)).await?.text("status"), "succeeded");
    assert_eq!(client.all(&format!("{subscription}/payments?limit=1")).await?.len(), 1);
    client.call(ask(Method::DELETE, &path)).await?;
    // The feed has every change. With `wait` a request waits for the next one.
    let history = path.replace("/subscription-payments/", "/events?wait=1&subject_id=");
    let history = client.call(get(history)).await?.body;
    assert_eq!(history.get("data").and_then(Value::as_array).map(Vec::len), Some(3), "{history}");
    println!("payment: created, paid, deleted");
    Ok(())
}

/// Lets the clock bill a subscription, and collects its payment at the second attempt.
async fn billing(client: &mut Client, user: &str, run: &str) -> Result<()> {
    let plan = json!({ "name": "Billed", "slug": format!("{run}-billed"), "price": "19.90",
        "currency": "usd", "billing_cycle": "monthly" });
    let plan = client.call(post("/subscription-plans", &plan)).await?;
    let new = json!({ "user_id": user, "subscription_plan_id": plan.text("id") });
    let held = client.call(post("/subscriptions", &new)).await?;
    assert_eq!(held.text("managed_by"), "clock");
    let path = format!("/subscriptions/{}", held.text("id"));

    // A collector lists what is due. Of several collectors, the one whose change is accepted charges.
    let due = client.all("/due-payments?limit=100").await?;
    let mine = due.iter().find(|due| due.get("subscription_id") == held.body.get("id"));
    let id = mine.and_then(|payment| payment.get("id")?.as_str()).ok_or("nothing is due")?;
    let payment = format!("/subscription-payments/{id}");
    let charge = put(&payment, &json!({ "status": "processing" })).header("if-match", "\"1\"");
    client.call(charge.clone()).await?;
    client.refused(charge, "precondition_failed").await?;
    client.call(put(&payment, &json!({ "status": "failed" }))).await?;
    assert_eq!(client.call(get(&path)).await?.text("status"), "past_due");

    // The user has a new card.
    client.call(ask(Method::POST, format!("{payment}/retry")).header(KEY, id)).await?;
    client.call(put(&payment, &json!({ "status": "succeeded" }))).await?;
    assert_eq!(client.call(get(&path)).await?.text("status"), "active");

    // The user sees what more seats cost, and agrees to just that.
    let preview = post(format!("{path}/change-plan/preview"), &json!({ "quantity": 2 }));
    let quote = client.call(preview).await?.body;
    let agreed =
        json!({ "quantity": 2, "at": quote.get("at"), "amount_due": quote.get("amount_due") });
    let seats = post(format!("{path}/change-plan"), &agreed).header(KEY, format!("{run}-seats"));
    let changed = client.call(seats).await?.body;
    assert_eq!(changed.get("quantity"), Some(&json!(2)));

    // Half the price for three months.
    let half = json!({ "percent": 50, "periods": 3 });
    let given = client.call(post(format!("{path}/discount"), &half)).await?.body;
    assert_eq!(given.pointer("/discount/periods_left"), Some(&json!(3)));
    client.call(ask(Method::DELETE, format!("{path}/discount"))).await?;

    let steps = client.call(get(format!("{path}/timeline?limit=2"))).await?;
    assert_eq!(steps.body.pointer("/data/1/step"), Some(&json!("period_started")));
    client.call(ask(Method::POST, format!("{path}/pause"))).await?;
    client.call(ask(Method::DELETE, format!("{path}/scheduled-change"))).await?;
    client.call(ask(Method::POST, format!("{path}/cancel"))).await?;
    client.call(ask(Method::POST, format!("{path}/resume"))).await?;
    let now = post(format!("{path}/cancel"), &json!({ "effective": "now" }));
    assert_eq!(client.call(now).await?.text("status"), "expired");
    client.call(ask(Method::DELETE, path)).await?;
    client.call(ask(Method::DELETE, format!("/subscription-plans/{run}-billed"))).await?;
    println!(
        "billing: due, failed, asked for again, paid; two seats; paused, cancelled and resumed"
    );
    Ok(())
}

/// Finds the user as an operator does, and ends all sessions.
async fn users(client: &mut Client, tokens: &Answer, email: &str) -> Result<()> {
    let found = client.all(&format!("/users?email={email}")).await?;
    assert_eq!(found.first().and_then(|user| user.get("email")?.as_str()), Some(email));
    let path = format!("/users/{}", tokens.text("auth_id"));
    client.call(get(&path)).await?;
    client.call(get(format!("{path}/sessions"))).await?;
    client.call(get(format!("{path}/payments"))).await?;
    let ended = client.call(ask(Method::POST, format!("{path}/revoke-sessions"))).await?;
    assert_eq!(ended.body, json!({ "revoked": 1 }));
    println!("users: found by address, signed out");
    Ok(())
}

/// Signs out of one session and of all, and deletes the account and all records.
async fn clean_up(client: &mut Client, email: &str, subscription: &str, run: &str) -> Result<()> {
    let proof = json!({ "access_token": "from the identity provider", "email": email });
    for end in ["logout", "revoke-all"] {
        let tokens = client.call(post("/authentication/sign-in", &proof)).await?;
        let end = ask(Method::POST, format!("/authentication/tokens/{end}"));
        client.call(end.bearer(&tokens)).await?;
    }
    client.call(ask(Method::DELETE, subscription)).await?;
    for tier in 1..=2 {
        client.call(ask(Method::DELETE, format!("/subscription-plans/{run}-{tier}"))).await?;
    }
    let tokens = client.call(post("/authentication/sign-in", &proof)).await?;
    let account = format!("/authentication/delete-my-account/{}", tokens.text("auth_id"));
    client.call(ask(Method::DELETE, account).bearer(&tokens)).await?;
    Ok(())
}

/// The operations of the OpenAPI document that were not called.
fn left_out(document: &Value, called: &BTreeSet<(String, String)>) -> Vec<String> {
    let fits = |pattern: &str, path: &str| {
        let (pattern, path) = (pattern.split('/'), path.split('/'));
        pattern.clone().count() == path.clone().count()
            && pattern.zip(path).all(|(part, name)| part == name || part.starts_with('{'))
    };
    let mut missing = Vec::new();
    for (pattern, item) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        for method in item.as_object().into_iter().flatten().map(|(name, _)| name.to_uppercase()) {
            if !called.iter().any(|(by, path)| *by == method && fits(pattern, path)) {
                missing.push(format!("{method} {pattern}"));
            }
        }
    }
    missing
}

/// Starts a server in this process, in development mode.
async fn server() -> Result<String> {
    let service = SubscriptionService::builder(MemoryStore::default()).check_users();
    let billing = Billing::new(service.build(), Policy::default());
    let service = billing.service().clone();
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
    let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    let api = Api::builder(service, auth, vec![3; 32].into()).believe_every_client();
    let api = api.billing(billing).self_service(&[SelfService::Cancel, SelfService::Resume], &[]);
    let api = api.portal("http://localhost:3000/".parse::<url::Url>()?).build();
    let server = Server::bind(api, ([127, 0, 0, 1], 0).into(), Limits::default()).await?;
    let url = format!("http://{}", server.address()?);
    tokio::spawn(server.run(std::future::pending()));
    Ok(url)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => server().await?,
    };
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or("the URL has no host")?.to_string();
    let mut client = Client { authority, called: BTreeSet::new() };
    // Each run has names of its own.
    let now = subscription_core::Clock::now(&subscription_core::SystemClock);
    let run = format!("run-{}", UserId::new(now, &SystemRandomness)?);
    let email = format!("{run}@example.com");

    for path in ["/health/live", "/health/ready", "/metrics", "/docs", "/.well-known/jwks.json"] {
        client.call(get(path)).await?;
    }
    let document = client.call(get("/openapi.json")).await?.body;
    let plan = plans(&mut client, &run).await?;
    let tokens = sign_in(&mut client, &email).await?;
    let subscription = subscription(&mut client, tokens.text("auth_id"), &plan, &run).await?;
    me(&mut client, &tokens, &run).await?;
    payment(&mut client, &subscription, &run).await?;
    billing(&mut client, tokens.text("auth_id"), &run).await?;
    users(&mut client, &tokens, &email).await?;
    clean_up(&mut client, &email, &subscription, &run).await?;

    let left_out = left_out(&document, &client.called);
    assert!(left_out.is_empty(), "endpoints not called: {left_out:?}");
    println!("called every endpoint of the OpenAPI document");
    Ok(())
}
