//! The API of a provider over real sockets: every status, and providers that hang, lie, redirect or never stop.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subscription_core::Timestamp;
use subscription_core::http_client::retry_after;
use subscription_core::providers::{
    ApiFailed, HttpProviderApi, ObjectKind, ObjectList, ProviderApi as _, ProviderKind,
};
use subscription_http::{FetchSettings, HttpFetch};
use test_support::service_world::{at, of};

use crate::fetch::provider::{Provider, SHORT, Script};

const KEY: &str = "rk_test_NobodyMaySeeThis";
/// The key and a colon in Base64.
const KEY_ENCODED: &str = "cmtfdGVzdF9Ob2JvZHlNYXlTZWVUaGlzOg==";
const ANSWER_BYTES_MAX: usize = 4_194_304;

fn api_of(kind: ProviderKind, provider: &Provider, settings: &FetchSettings) -> HttpProviderApi {
    let fetch = Arc::new(HttpFetch::new(settings).unwrap());
    HttpProviderApi::new(kind, KEY.into(), fetch).with_base(&provider.url("/"))
}

fn api(provider: &Provider) -> HttpProviderApi {
    api_of(ProviderKind::LemonSqueezy, provider, &FetchSettings::default())
}

fn subscription(id: &str) -> Value {
    json!({
        "links": { "self": "https://elsewhere.example/v1/subscriptions/1" },
        "data": { "type": "subscriptions", "id": id, "attributes": { "status": "active" } },
    })
}

/// Reads the subscription 1.
async fn read(api: &HttpProviderApi) -> Result<Option<Value>, ApiFailed> {
    let result = api.object(ObjectKind::Subscription, &of("1")).await;
    if let Err(failed) = &result {
        assert_no_key(failed);
    }
    result
}

/// Neither the error nor its causes show the key.
fn assert_no_key(failed: &ApiFailed) {
    let mut shown = format!("{failed:?} {failed:#?}");
    let mut cause: Option<&dyn Error> = Some(failed);
    while let Some(error) = cause {
        shown.extend([" ", &error.to_string()]);
        cause = error.source();
    }
    assert!(!shown.contains("NobodyMaySeeThis") && !shown.contains(KEY_ENCODED), "{shown}");
}

/// The failure in short: its name, and the time to wait.
async fn failure(api: &HttpProviderApi) -> (&'static str, Option<Duration>) {
    match read(api).await {
        Err(ApiFailed::Unavailable { retry_after, .. }) => ("unavailable", retry_after),
        Err(ApiFailed::KeyRefused) => ("key refused", None),
        Err(ApiFailed::Unreadable(_)) => ("unreadable", None),
        Ok(Some(_)) => ("found", None),
        Ok(None) => ("not found", None),
    }
}

#[tokio::test]
async fn an_object_is_read_with_the_key_and_without_its_envelope() {
    let provider = Provider::new(Script::json(&subscription("1"))).await;

    let found = read(&api(&provider)).await.unwrap().unwrap();

    assert_eq!(found, subscription("1")["data"]);
    let asked = provider.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("GET /v1/subscriptions/1 HTTP/1.1\r\n"), "{asked:?}");
    for header in [&format!("authorization: Bearer {KEY}"), "accept: application/vnd.api+json"] {
        assert_eq!(asked[0].lines().filter(|line| *line == header).count(), 1, "{asked:?}");
    }
    assert_eq!(asked[0].matches("accept:").count(), 1, "{asked:?}");
}

#[tokio::test]
async fn every_kind_of_object_has_its_path() {
    let provider = Provider::new(Script::body(404, "", "{}")).await;
    let api = api(&provider);
    for (kind, path) in [
        (ObjectKind::Customer, "/v1/customers/1"),
        (ObjectKind::Subscription, "/v1/subscriptions/1"),
        (ObjectKind::Invoice, "/v1/subscription-invoices/1"),
        (ObjectKind::Order, "/v1/orders/1"),
    ] {
        assert_eq!(api.object(kind, &of("1")).await.unwrap(), None);

        let asked = provider.asked().pop().unwrap();
        assert!(asked.starts_with(&format!("GET {path} HTTP/1.1")), "{asked}");
    }
    for kind in [ObjectKind::CheckoutSession, ObjectKind::PaymentIntent] {
        let failed = api.object(kind, &of("1")).await.unwrap_err();
        assert!(matches!(failed, ApiFailed::Unreadable(_)), "{kind:?}: {failed:?}");
    }
    assert_eq!(provider.asked().len(), 4);
}

#[tokio::test]
async fn every_status_has_its_meaning() {
    let provider = Provider::new(Script::body(200, "", "{}")).await;
    let api = api(&provider);
    for (statuses, expected) in [
        (&[404][..], "not found"),
        (&[401, 403], "key refused"),
        (&[429, 500, 501, 502, 503, 504, 529, 599], "unavailable"),
        (
            &[201, 202, 204, 300, 301, 302, 303, 304, 307, 308, 400, 402, 405, 409, 410, 422],
            "unreadable",
        ),
    ] {
        for status in statuses {
            provider.plays(Script::body(*status, "", ""));
            assert_eq!(failure(&api).await, (expected, None), "{status}");
        }
    }
    let told = read(&api).await.unwrap_err();
    let cause = told.source().unwrap().source().unwrap().to_string();
    assert!(cause.starts_with("the server returned 422"), "{cause}");
}

#[tokio::test]
async fn the_time_to_wait_is_in_seconds_or_a_date() {
    let provider = Provider::new(Script::body(200, "", "{}")).await;
    let date = "date: Mon, 05 Jan 2026 09:00:00 GMT\r\n";
    for (headers, seconds) in [
        ("retry-after: 7\r\n".to_owned(), Some(7)),
        ("retry-after: 0\r\n".to_owned(), Some(0)),
        ("retry-after: 99999999999\r\n".to_owned(), Some(3_600)),
        ("retry-after: 99999999999999999999\r\n".to_owned(), None),
        ("retry-after: -1\r\n".to_owned(), None),
        ("retry-after: soon\r\n".to_owned(), None),
        ("retry-after:\r\n".to_owned(), None),
        (format!("{date}retry-after: Mon, 05 Jan 2026 09:01:30 GMT\r\n"), Some(90)),
        (format!("{date}retry-after: Mon, 05 Jan 2026 08:00:00 GMT\r\n"), Some(0)),
        (format!("{date}retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n"), Some(3_600)),
        ("retry-after: Mon, 05 Jan 2026 09:01:30 GMT\r\n".to_owned(), None),
    ] {
        for status in [429, 503] {
            provider.plays(Script::body(status, &headers, ""));
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(failure(&api(&provider)).await, ("unavailable", expected), "{headers}");
        }
    }
    assert_eq!(retry_after("", None), None);
    assert_eq!(retry_after(" 5 ", None), Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn another_object_than_the_one_that_was_asked_for_is_refused() {
    let provider = Provider::new(Script::body(200, "", "{}")).await;
    for answer in [
        subscription("2"),
        subscription("01"),
        json!({ "data": { "type": "subscriptions", "id": 1 } }),
        json!({ "data": null }),
        json!({ "data": [subscription("1")["data"]] }),
        subscription("1")["data"].clone(),
        json!({ "id": "1" }),
        json!([]),
        json!(null),
        json!("1"),
    ] {
        provider.plays(Script::json(&answer));
        assert_eq!(failure(&api(&provider)).await, ("unreadable", None), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_json_is_unreadable() {
    let provider = Provider::new(Script::body(200, "", "{}")).await;
    let deep = "[".repeat(100_000);
    for body in ["", "<html>maintenance</html>", "{\"data\":", "{} {}", deep.as_str()] {
        provider.plays(Script::body(200, "", body));
        assert_eq!(failure(&api(&provider)).await, ("unreadable", None));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Provider::new(Script::json(&subscription("1"))).await;
    let provider = Provider::new(Script::body(200, "", "{}")).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", elsewhere.url("/v1/subscriptions/1"));
        provider.plays(Script::body(status, &location, ""));
        assert_eq!(failure(&api(&provider)).await, ("unreadable", None), "{status}");
    }
    assert_eq!(elsewhere.asked(), [""; 0]);
}

/// An address in an answer is not followed either, of an object or of a page.
#[tokio::test]
async fn no_address_in_an_answer_is_followed() {
    let elsewhere = Provider::new(Script::json(&subscription("1"))).await;
    let url = elsewhere.url("/v1/subscriptions/1");
    let links = json!({ "self": url, "next": url, "related": url });
    let mut answer = subscription("1");
    answer["links"] = links.clone();
    answer["data"]["links"] = links.clone();
    answer["data"]["related_object"] = json!({ "url": url });
    let page = json!({
        "links": links, "meta": { "page": { "total": 2, "lastPage": 2 } },
        "data": [answer["data"]],
    });
    let provider = Provider::new(Script::json(&answer)).await;

    read(&api(&provider)).await.unwrap().unwrap();
    provider.plays(Script::json(&page));
    api(&provider).page(&ObjectList::Subscriptions, None).await.unwrap();

    assert_eq!(provider.asked().len(), 2);
    assert_eq!(elsewhere.asked(), [""; 0]);
}

#[tokio::test]
async fn a_provider_that_hangs_or_breaks_off_is_unavailable() {
    let settings = FetchSettings::default().with_timeout(SHORT);
    let mut provider = Provider::new(Script::Hold(Vec::new())).await;
    let api = api_of(ProviderKind::LemonSqueezy, &provider, &settings);
    for script in [
        Script::Hold(Vec::new()),
        Script::Hold(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\":".into()),
        Script::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\":".into()),
        Script::Send(Vec::new()),
        Script::Send(b"SSH-2.0-OpenSSH_9.9\r\n".into()),
    ] {
        let shown = format!("{script:?}");
        provider.plays(script);
        let since = Instant::now();
        assert_eq!(failure(&api).await, ("unavailable", None), "{shown}");
        assert!(since.elapsed() < Duration::from_mins(1), "{shown}");
    }

    provider.gone().await;

    assert_eq!(failure(&api).await, ("unavailable", None));
}

/// The provider counts the bytes that it could send: a client that goes on reading takes them all.
#[tokio::test]
async fn an_answer_is_read_to_4_mebibytes_and_no_further() {
    let padded = |bytes: usize| {
        let mut text = subscription("1").to_string();
        text += &" ".repeat(bytes - text.len());
        Script::body(200, "", text)
    };
    let provider = Provider::new(padded(ANSWER_BYTES_MAX)).await;
    assert_eq!(failure(&api(&provider)).await, ("found", None));

    provider.plays(padded(ANSWER_BYTES_MAX + 1));
    assert_eq!(failure(&api(&provider)).await, ("unavailable", None));

    let gibibyte = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
    for head in [&gibibyte[..], b"HTTP/1.1 200 OK\r\n\r\n"] {
        provider.plays(Script::Endless(head.into(), vec![b' '; 65_536]));
        assert_eq!(failure(&api(&provider)).await, ("unavailable", None));
        let sent = provider.sent();
        // The rest lies in the buffers of the two sockets.
        assert!(sent < 4 * ANSWER_BYTES_MAX, "{sent} bytes were taken");
    }
}

#[tokio::test]
async fn the_key_is_never_shown() {
    let provider = Provider::new(Script::json(&subscription("1"))).await;
    for kind in ProviderKind::ALL {
        let api = api_of(kind, &provider, &FetchSettings::default());
        let shown = format!("{api:?} {api:#?}");
        assert!(!shown.contains("NobodyMaySeeThis"), "{shown}");
    }
    let fetch = Arc::new(HttpFetch::new(&FetchSettings::default()).unwrap());
    for key in ["line\nNobodyMaySeeThis", "NobodyMaySeeThis\u{0}"] {
        let api = HttpProviderApi::new(
            ProviderKind::LemonSqueezy,
            key.into(),
            Arc::<HttpFetch>::clone(&fetch),
        );
        let api = api.with_base(&provider.url("/"));
        assert_eq!(failure(&api).await.0, "unavailable");
    }
    assert_eq!(provider.asked(), [""; 0]);
}

fn page_of(count: i64, last: i64, created_at: &[&str]) -> Script {
    let item =
        |at: &&str| json!({ "type": "orders", "id": "1", "attributes": { "created_at": at } });
    Script::json(&json!({
        "meta": { "page": { "currentPage": 1, "lastPage": last, "perPage": 100, "total": count } },
        "data": created_at.iter().map(item).collect::<Vec<_>>(),
    }))
}

#[tokio::test]
async fn lists_are_paged_by_number_with_the_newest_first() {
    let day = "2026-01-05T09:00:00Z";
    let provider = Provider::new(page_of(201, 3, &[day, day])).await;
    let api = api(&provider);
    let all = Timestamp::MIN;
    for (list, path) in [
        (ObjectList::Subscriptions, "subscriptions"),
        (ObjectList::Invoices(all), "subscription-invoices"),
        (ObjectList::Orders(all), "orders"),
    ] {
        for (after, number, next) in
            [(None, 1, Some("2")), (Some("2"), 2, Some("3")), (Some("3"), 3, None)]
        {
            let page = api.page(&list, after).await.unwrap();

            assert_eq!(page.items.len(), 2);
            assert_eq!((page.next.as_deref(), page.total), (next, Some(201)), "{list:?} {after:?}");
            let asked = provider.asked().pop().unwrap();
            let query = format!("page%5Bsize%5D=100&page%5Bnumber%5D={number}&sort=-createdAt");
            assert!(asked.starts_with(&format!("GET /v1/{path}?{query} HTTP/1.1")), "{asked}");
        }
    }
    provider.plays(page_of(0, 1, &[]));
    assert_eq!(api.page(&ObjectList::Subscriptions, None).await.unwrap().next, None);
    provider.plays(page_of(900, 9, &[]));
    let page = api.page(&ObjectList::Subscriptions, None).await.unwrap();
    assert_eq!(page.next, None, "a page without objects is the last one");
}

#[tokio::test]
async fn a_list_ends_at_the_first_object_that_is_too_old() {
    let (old, since, new) =
        ("2026-01-04T23:59:59Z", "2026-01-05T00:00:00Z", "2026-01-05T00:00:01Z");
    let provider = Provider::new(page_of(900, 9, &[new, since])).await;
    let api = api(&provider);
    for list in [ObjectList::Invoices(at(since)), ObjectList::Orders(at(since))] {
        provider.plays(page_of(900, 9, &[new, since]));
        let page = api.page(&list, None).await.unwrap();
        assert_eq!((page.items.len(), page.next.as_deref(), page.total), (2, Some("2"), None));

        provider.plays(page_of(900, 9, &[new, "unknown", old, new]));
        let page = api.page(&list, None).await.unwrap();
        assert_eq!((page.items.len(), page.next.as_deref(), page.total), (3, None, None));
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_refused() {
    let provider = Provider::new(Script::body(404, "", "{}")).await;
    let api = api(&provider);
    let answers = [
        json!({}),
        json!({ "data": [] }),
        json!({ "meta": { "page": { "total": 1, "lastPage": "9" } }, "data": [] }),
        json!({ "meta": { "page": { "total": 1, "lastPage": 1 } }, "data": {} }),
    ];
    let scripts = answers.iter().map(Script::json).chain([Script::body(404, "", "{}")]);
    for script in scripts {
        let shown = format!("{script:?}");
        provider.plays(script);
        let failed = api.page(&ObjectList::Subscriptions, None).await.unwrap_err();
        assert!(matches!(failed, ApiFailed::Unreadable(_)), "{shown}: {failed:?}");
    }
    let asked = provider.asked().len();
    for (list, after) in [
        (ObjectList::Subscriptions, Some("2&page[size]=1")),
        (ObjectList::Subscriptions, Some("-1")),
        (ObjectList::Refunds(Timestamp::MIN), None),
        (ObjectList::Disputes(Timestamp::MIN), None),
        (ObjectList::InvoicePaymentsOf(of("pi_1")), None),
        (ObjectList::SessionsOf(of("sub_1")), None),
    ] {
        let failed = api.page(&list, after).await.unwrap_err();
        assert!(matches!(failed, ApiFailed::Unreadable(_)), "{list:?}: {failed:?}");
    }
    assert_eq!(provider.asked().len(), asked, "nothing was sent");
}

fn stripe(provider: &Provider) -> HttpProviderApi {
    api_of(ProviderKind::Stripe, provider, &FetchSettings::default())
}

#[tokio::test]
async fn the_key_of_stripe_is_the_user_of_basic_authentication() {
    let provider = Provider::new(Script::json(&json!({ "id": "sub_1" }))).await;

    let found = stripe(&provider).object(ObjectKind::Subscription, &of("sub_1")).await.unwrap();

    assert_eq!(found, Some(json!({ "id": "sub_1" })));
    let asked = provider.asked().pop().unwrap();
    assert!(asked.starts_with("GET /v1/subscriptions/sub_1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("\r\nauthorization: Basic {KEY_ENCODED}\r\n")), "{asked}");
    assert!(asked.contains("\r\nstripe-version: "), "{asked}");
}

/// An invoice of Stripe with one payment, whose charge is disputed or not.
fn invoice(disputed: bool) -> Script {
    let charge = json!({ "id": "ch_1", "disputed": disputed });
    let payment = json!({ "payment_intent": { "id": "pi_1", "latest_charge": charge } });
    let list = |entry: Value| Script::json(&json!({ "data": [entry], "has_more": false }));
    Script::ByPath(vec![
        ("/v1/invoices/in_1", Script::json(&json!({ "id": "in_1" }))),
        ("/v1/invoice_payments?invoice=in_1&", list(json!({ "payment": payment }))),
        ("/v1/disputes?", list(json!({ "id": "dp_1", "charge": "ch_1" }))),
    ])
}

#[tokio::test]
async fn an_invoice_of_stripe_comes_with_its_payments_and_disputes() {
    for (disputed, disputes, requests) in [(false, 0, 2), (true, 1, 3)] {
        let provider = Provider::new(invoice(disputed)).await;

        let found = stripe(&provider).object(ObjectKind::Invoice, &of("in_1")).await.unwrap();

        let found = found.unwrap();
        assert_eq!(found["payments"].as_array().unwrap().len(), 1, "{found}");
        assert_eq!(found["disputes"].as_array().unwrap().len(), disputes, "{found}");
        assert_eq!(provider.asked().len(), requests);
    }
}

#[tokio::test]
async fn an_invoice_of_stripe_whose_parts_cannot_be_read_is_not_returned() {
    let provider = Provider::new(invoice(true)).await;
    for (path, script, expected) in [
        ("/v1/invoice_payments?", Script::body(429, "retry-after: 3\r\n", ""), "unavailable"),
        ("/v1/disputes?", Script::body(503, "", ""), "unavailable"),
        ("/v1/disputes?", Script::body(403, "", ""), "key refused"),
        ("/v1/disputes?", Script::json(&json!({ "data": {} })), "unreadable"),
    ] {
        let Script::ByPath(mut all) = invoice(true) else { panic!("it is by path") };
        all.insert(0, (path, script));
        provider.plays(Script::ByPath(all));

        let failed = stripe(&provider).object(ObjectKind::Invoice, &of("in_1")).await.unwrap_err();

        assert_no_key(&failed);
        let name = match failed {
            ApiFailed::Unavailable { .. } => "unavailable",
            ApiFailed::KeyRefused => "key refused",
            ApiFailed::Unreadable(_) => "unreadable",
        };
        assert_eq!(name, expected, "{path}");
    }
}
