//! Requests that are good but for a few bytes, of every endpoint: nothing panics, nothing is the server's
//! fault, and every answer is one of the document's.
//!
//! `SUBSCRIPTION_TEST_SEED` repeats a run, `SUBSCRIPTION_TEST_STEPS` says how many there are.

use std::net::{IpAddr, Ipv4Addr};

use http::Request;
use http_body_util::Full;
use serde_json::json;
use test_support::rng::Rng;
use test_support::seed;

use super::world::{Answer, HttpWorld, WEB, path_of, payment_body, plan_body, text};

/// After so many a world is made anew: some of them delete what others need.
const A_WORLD: u64 = 100;

const PEER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// A request that can be taken apart.
#[derive(Debug, Clone)]
struct Parts {
    method: &'static str,
    target: Vec<u8>,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

/// Inputs that are known to break parsers.
const WORDS: [&[u8]; 36] = [
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x92\xb8",
    b"\xe2\x80\xae",
    b"%",
    b"%0",
    b"%00",
    b"%2F",
    b"%2e%2e",
    b"/../",
    b"//",
    b"?",
    b"&",
    b"=",
    b"+",
    b";",
    b",",
    b"\"",
    b"\\",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"]",
    b"[[[[[[[[",
    b"null",
    b"true",
    b"-0",
    b"1e309",
    b"1e-7",
    b"999999999999999999999",
    b"0.1234567",
    b"9999-12-31T23:59:59.000000Z",
    b"W/\"1\"",
    b"*",
];

fn place(rng: &Rng, length: usize) -> usize {
    rng.below(length + 1)
}

/// Changes a few bytes.
fn mutate(rng: &Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(2) {
        let (one, other) = (place(rng, bytes.len()), place(rng, bytes.len()));
        let (from, to) = (one.min(other), one.max(other));
        match rng.below(7) {
            0 => bytes.truncate(from),
            1 => drop(bytes.drain(from..to)),
            2 => bytes.extend_from_within(from..to),
            3 if from < bytes.len() => bytes[from] ^= 1 << rng.below(8),
            4 => bytes.insert(from, u8::try_from(rng.below(256)).unwrap()),
            _ => {
                let word = rng.pick(&WORDS).unwrap();
                drop(bytes.splice(from..from, word.iter().copied()));
            }
        }
    }
}

impl Parts {
    fn new(method: &'static str, target: impl Into<Vec<u8>>, client: &str) -> Self {
        let headers = [("host", "localhost"), ("client-id", client)];
        let headers = headers.map(|(name, value)| (name, value.as_bytes().to_vec())).to_vec();
        Self { method, target: target.into(), headers, body: Vec::new() }
    }

    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn body(self, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { body, ..self.header("content-type", "application/json") }
    }

    fn mutate(&mut self, rng: &Rng) {
        let rolled = rng.below(10);
        match rolled {
            0..2 => mutate(rng, &mut self.target),
            2..4 => {
                let nth = rng.below(self.headers.len());
                mutate(rng, &mut self.headers[nth].1);
            }
            4 => {
                // The same line twice is a way to be misread, too.
                let nth = rng.below(self.headers.len());
                let line = self.headers[nth].clone();
                self.headers.push(line);
            }
            _ if self.body.is_empty() => mutate(rng, &mut self.target),
            _ => mutate(rng, &mut self.body),
        }
    }

    /// The request, if one that came over a socket could be so.
    fn request(&self) -> Option<Request<Full<bytes::Bytes>>> {
        let mut request = Request::builder().method(self.method).uri(self.target.as_slice());
        for (name, value) in &self.headers {
            request = request.header(*name, value.as_slice());
        }
        request.body(Full::new(self.body.clone().into())).ok()
    }
}

/// A good request of each endpoint, and of each way to ask for a list.
#[expect(clippy::too_many_lines, reason = "a request for each route")]
async fn good(world: &HttpWorld) -> Vec<Parts> {
    let person = world.sign_up("ada").await;
    world.plan("unused").await;
    let (payment, other) = (
        world.payment("bob", &json!({ "external_payment_id": "pay_1" })).await,
        world.subscription("eve", &json!({ "external_subscription_id": "sub_1" })).await,
    );
    let first = world.server("GET", "/subscriptions?limit=1", &[], "").await.json();
    let cursor = text(&first["next_cursor"]);
    let (subscription, payment) = (text(&payment["subscription_id"]), text(&payment["id"]));
    let server = |method, target: String| Parts::new(method, target, &world.server);
    let web = |method, target: &str| Parts::new(method, target, WEB);
    let signed = |method, target: &str| web(method, target).header("authorization", &person.bearer);
    let new = json!({
        "user_id": person.id, "subscription_plan_id": other["subscription_plan_id"],
        "external_subscription_id": "sub_2", "billing_cycle": "P18M", "status": "on_trial",
        "is_active": true, "renews_at": "2025-02-14T00:00:00+01:00", "ends_at": null,
    });
    let by_clock = world.on_clock("fay", &json!({})).await;
    let failed = text(&world.report(&by_clock, "failed").await["id"]);
    let by_clock = world.on_clock("gus", &json!({})).await;
    let billed_at = path_of(&by_clock);
    let billed = json!({
        "user_id": person.id, "subscription_plan_id": by_clock["subscription_plan_id"],
        "quantity": 2, "price": "5.00", "currency": "usd", "credit": 1, "managed_by": "clock",
        "trial_ends_at": "2025-02-14T00:00:00Z",
    });
    let refresh = json!({ "refresh_token": person.refresh_token });
    let list = format!(
        "/subscriptions?user_id={}&status=active&is_active=true&sort=-created_at&limit=2",
        person.id
    );
    vec![
        web("POST", "/authentication/sign-up").body(world.proof("cyd", |_| {})),
        web("POST", "/authentication/sign-in").body(world.proof("ada", |_| {})),
        web("POST", "/authentication/refresh-token").body(refresh.to_string()),
        signed("POST", "/authentication/user-logged-in"),
        signed("GET", "/authentication/tokens").header("x-forwarded-for", "203.0.113.9, 10.0.0.1"),
        signed("POST", "/authentication/tokens/revoke-all-except-current"),
        signed("DELETE", &format!("/authentication/delete-my-account/{}", person.id)),
        server("GET", "/subscription-plans?is_active=true&sort=price&limit=1".into()),
        server("GET", "/subscription-plans/of-bob".into()).header("if-none-match", "\"1\""),
        server("POST", "/subscription-plans".into())
            .header("idempotency-key", "order-4711")
            .body(plan_body("new").to_string()),
        server("PUT", "/subscription-plans/of-bob".into())
            .header("if-match", "\"1\"")
            .body(r#"{"price": 0.10, "features": "a, b", "tier": 10000}"#),
        server("DELETE", "/subscription-plans/unused".into()),
        server("GET", list),
        server("GET", format!("/subscriptions?limit=1&cursor={cursor}")),
        server("GET", format!("/subscriptions/{subscription}")),
        server("POST", "/subscriptions".into())
            .header("idempotency-key", "k")
            .body(new.to_string()),
        server("PUT", format!("/subscriptions/{subscription}"))
            .header("if-match", "\"1\"")
            .body(r#"{"status": "cancelled", "ends_at": "2025-06-30T00:00:00.000000Z"}"#),
        server("GET", format!("/subscriptions/{subscription}/payments?limit=2")),
        server("GET", "/users?email=bob%40example.com&limit=1".into()),
        server("GET", "/users?email_starts_with=bob%40".into()),
        server("POST", "/subscription-payments".into()).body(payment_body(&other).to_string()),
        server("PUT", format!("/subscription-payments/{payment}")).body(r#"{"status": "paid"}"#),
        server("DELETE", format!("/subscription-payments/{payment}")),
        server("POST", "/subscriptions".into()).body(billed.to_string()),
        server("PUT", billed_at.clone())
            .body(r#"{"price": "0.10", "quantity": 3, "credit": null, "metadata": {"a": "b"}}"#),
        server("POST", format!("{billed_at}/pause"))
            .header("idempotency-key", "k-1")
            .body(r#"{"effective": "period_end", "resumes_at": "2025-04-01T00:00:00Z"}"#),
        server("POST", format!("{billed_at}/change-plan"))
            .header("idempotency-key", "k-2")
            .body(r#"{"quantity": 2, "billing_cycle": "yearly", "effective": "period_end"}"#),
        server("POST", format!("{billed_at}/change-plan/preview")).body(
            r#"{"quantity": 3, "effective": "period_end", "at": "2025-01-31T00:00:00Z", "amount_due": "0.00", "next_amount": 59.97}"#,
        ),
        server("POST", format!("{billed_at}/cancel")).body(r#"{"effective": "now"}"#),
        server("POST", format!("{billed_at}/resume")).header("if-match", "*"),
        server(
            "GET",
            format!("{billed_at}/timeline?after=2025-02-01T00:00:00Z&until=2026-01-01T00:00:00Z"),
        ),
        server("GET", "/due-payments?before=2025-12-31T00:00:00%2B01:00&limit=1".into()),
        server("POST", format!("/subscription-payments/{failed}/retry")).body("{}"),
    ]
}

/// Checks that hold for every answer, beside the check against the OpenAPI document.
fn check(parts: &Parts, answer: &Answer) {
    assert!(answer.status < 500, "{parts:?}\n{answer:?}");
    if answer.status >= 400 {
        answer.problem();
    }
}

#[tokio::test]
async fn a_request_with_a_few_other_bytes_is_never_the_servers_fault() {
    let (rng, requests) = (Rng::new(seed::seed()), seed::steps(4_000));
    let (mut sent, mut taken, mut refused) = (0, 0, 0);

    while sent < requests {
        let world = HttpWorld::new().await;
        let good = good(&world).await;
        for _ in 0..A_WORLD {
            let mut parts = rng.pick(&good).unwrap().clone();
            parts.mutate(&rng);
            sent += 1;
            let Some(request) = parts.request() else { continue };
            let answer = world.send(request, PEER).await;
            check(&parts, &answer);
            if answer.status < 400 {
                taken += 1;
                continue;
            }
            refused += 1;
            // A refused request has changed nothing, so it is refused again.
            let again = world.send(parts.request().unwrap(), PEER).await;
            assert_eq!(again.status, answer.status, "{parts:?}\n{answer:?}\n{again:?}");
        }
    }

    // Some of both, or the mutations are too tame or too wild to tell anything.
    println!("{sent} requests: {taken} were taken, {refused} refused, the others were none");
    assert!(taken > requests / 50 && refused > requests / 5, "{taken} {refused} of {sent}");
}

#[tokio::test]
async fn what_is_mutated_is_good_to_begin_with() {
    let many = good(&HttpWorld::new().await).await.len();
    for nth in 0..many {
        // Each in a world where no other has ended a session or deleted a record.
        let world = HttpWorld::new().await;
        let parts = good(&world).await.swap_remove(nth);

        let answer = world.send(parts.request().unwrap(), PEER).await;

        assert!(answer.status < 400, "{parts:?}\n{answer:?}");
    }
}
