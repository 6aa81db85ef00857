//! HTTP/2, spoken without asking first.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use subscription_http::Limits;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::world::{Hangs, SHORT, Wire, over, plan, within};

type Sender = SendRequest<Full<Bytes>>;

/// A connection, and the task that ends when it does.
async fn connect(wire: &Wire) -> (Sender, JoinHandle<()>) {
    let stream = TcpStream::connect(wire.address).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = within(http2::handshake(TokioExecutor::new(), io)).await.unwrap();
    let task = tokio::spawn(async {
        connection.await.ok();
    });
    (sender, task)
}

fn get(path: &str) -> http::request::Builder {
    Request::get(format!("http://localhost{path}")).header("client-id", "web")
}

async fn send(
    sender: &mut Sender,
    request: http::request::Builder,
    body: &str,
) -> hyper::Result<Response<Incoming>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    within(sender.send_request(request.body(body).unwrap())).await
}

async fn text(answer: Response<Incoming>) -> String {
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn requests_are_answered_many_at_a_time() {
    let wire = Wire::new().await;
    let (mut sender, _task) = connect(&wire).await;
    let post = Request::post("http://localhost/subscription-plans").header("client-id", "web");
    let post = post.header("content-type", "application/json");
    assert_eq!(send(&mut sender, post, &plan("pro")).await.unwrap().status(), 201);

    let mut asked = Vec::new();
    for _ in 0..50 {
        let mut sender = sender.clone();
        asked.push(tokio::spawn(async move {
            text(send(&mut sender, get("/subscription-plans/pro"), "").await.unwrap()).await
        }));
    }

    for answer in asked {
        assert!(within(answer).await.unwrap().contains(r#""slug":"pro""#));
    }
}

#[tokio::test]
async fn endless_time_outs_end_nothing() {
    let endless = Duration::MAX;
    let limits = Limits::default()
        .with_head_timeout(endless)
        .with_idle_timeout(endless)
        .with_send_timeout(endless)
        .with_drain_timeout(endless);
    let mut wire = Wire::limited(limits).await;
    let (mut sender, task) = connect(&wire).await;

    assert_eq!(send(&mut sender, get("/subscription-plans"), "").await.unwrap().status(), 200);

    wire.lives("HTTP/2 with endless time-outs").await;
    drop(sender);
    within(task).await.unwrap();
    wire.stop();
    assert!(wire.ended().await);
}

#[tokio::test]
async fn what_is_refused_over_http_1_is_refused_here_too() {
    let wire = Wire::new().await;
    let (mut sender, _task) = connect(&wire).await;
    let long = format!("/{}", "a".repeat(8_192));
    let large = " ".repeat(65_537);
    let post = Request::post("http://localhost/subscription-plans").header("client-id", "web");
    let cases = [
        ("a doubled client", get("/health/live").header("client-id", "other"), "", 400),
        ("two hosts", get("/health/live").header("host", "a").header("host", "b"), "", 400),
        ("a long URI", get(&long), "", 414),
        ("no such path", get("/nowhere"), "", 404),
        ("a body there", get("/nowhere"), "null", 404),
        ("another name", Request::get("http://evil.example/health/live"), "", 400),
        ("a large body", post.header("content-type", "application/json"), large.as_str(), 413),
        ("nothing", get("/health/live"), "", 200),
    ];
    for (case, request, body, status) in cases {
        let answer = send(&mut sender, request, body).await.unwrap();

        assert_eq!(answer.status(), status, "{case}");
        assert!(answer.headers().contains_key("x-request-id"), "{case}");
        assert!(!answer.headers().contains_key("connection"), "{case}");
    }
}

#[tokio::test]
async fn head_tells_the_length_here_too() {
    let wire = Wire::new().await;
    let (mut sender, _task) = connect(&wire).await;
    let head = Request::head("http://localhost/health/live");

    let answer = send(&mut sender, head, "").await.unwrap();

    assert_eq!(answer.headers()["content-length"], r#"{"status":"live"}"#.len().to_string());
    assert_eq!(text(answer).await, "");
}

#[tokio::test]
async fn a_connection_that_idles_is_closed() {
    let wire = Wire::limited(Limits::default().with_idle_timeout(SHORT)).await;
    let (mut sender, task) = connect(&wire).await;
    assert_eq!(send(&mut sender, get("/health/live"), "").await.unwrap().status(), 200);

    within(task).await.unwrap();
}

#[tokio::test]
async fn requests_given_up_at_once_do_no_harm() {
    let wire = Wire::new().await;
    for _ in 0..5 {
        let (sender, _task) = connect(&wire).await;
        for _ in 0..500 {
            let mut sender = sender.clone();
            let request = get("/health/live").body(Full::default()).unwrap();
            let asked = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
            tokio::task::yield_now().await;
            asked.abort();
        }
    }
    wire.lives("rapid resets").await;
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way() {
    let (mut wire, store) = over(Hangs::default(), Limits::default()).await;
    let (mut sender, task) = connect(&wire).await;
    let asked = tokio::spawn(async move {
        send(&mut sender, get("/subscription-plans/pro"), "").await.unwrap().status()
    });
    store.spy.came.notified().await;

    wire.stop();
    store.spy.go.notify_one();

    assert_eq!(within(asked).await.unwrap(), 404);
    assert!(wire.ended().await);
    within(task).await.unwrap();
}

/// Bytes that a client does not read stay in the memory of the server.
#[tokio::test]
async fn a_client_that_reads_nothing_gets_eight_mebibytes_and_others_get_all() {
    let wire = Wire::new().await;
    let (mut other, _other) = connect(&wire).await;
    let post = || {
        let post = Request::post("http://localhost/subscription-plans").header("client-id", "web");
        post.header("content-type", "application/json")
    };
    let long = |slug: &str| {
        plan(slug).replace('}', &format!(r#","description":"{}"}}"#, "x".repeat(4_000)))
    };
    for nth in 0..80 {
        let made = send(&mut other, post(), &long(&format!("plan-{nth}"))).await.unwrap();
        assert_eq!(made.status(), 201);
    }
    let page = "/subscription-plans?limit=200";
    let length = text(send(&mut other, get(page), "").await.unwrap()).await.len();
    let io = TokioIo::new(TcpStream::connect(wire.address).await.unwrap());
    let mut small_windows = http2::Builder::new(TokioExecutor::new());
    small_windows.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    let (mut sender, connection) = within(small_windows.handshake(io)).await.unwrap();
    let _connection = tokio::spawn(connection);

    let mut unread = Vec::new();
    for _ in 0..30 {
        let answer = send(&mut sender, get(page), "").await.unwrap();
        if answer.status() == 503 {
            assert_eq!(answer.headers()["retry-after"], "1");
            assert!(!answer.headers().contains_key("etag"));
        } else {
            assert_eq!(answer.status(), 200);
            unread.push(answer);
        }
    }

    assert_eq!(unread.len(), (8 << 20) / length, "of {length} bytes each");
    // Short responses, and those to changes, are sent.
    assert_eq!(send(&mut sender, get("/health/live"), "").await.unwrap().status(), 200);
    assert_eq!(send(&mut sender, post(), &long("plan-80")).await.unwrap().status(), 201);
    let whole = send(&mut other, get(page), "").await.unwrap();
    assert!(text(whole).await.len() > length);
    // Once they are gone, the client gets the page again.
    drop(unread);
    within(async { while send(&mut sender, get(page), "").await.unwrap().status() != 200 {} })
        .await;
}
