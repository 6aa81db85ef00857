//! A receiver of webhooks in hyper: it verifies each delivery, stores the highest version of each record, and acts once
//! on each event.
//!
//!     WEBHOOK_SECRET=whsec_… cargo run --example webhook_receiver
//!
//! It listens at 127.0.0.1:3000. Without a secret it sends a few deliveries to itself, prints the responses, and ends.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use subscription_core::webhooks::{Secret, SignatureHeaders, TOLERANCE, sign, verify};
use subscription_core::{Clock as _, SystemClock};
use tokio::net::{TcpListener, TcpStream};

#[derive(Deserialize)]
struct Delivery {
    #[serde(rename = "type")]
    event_type: String,
    data: Data,
}

/// The `data` of an event. A `webhook.ping` has none of these fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    id: String,
    version: u64,
    /// The record as it is now; null if it is deleted.
    object: Value,
}

/// The state of the receiver. In your program these are tables of a database, written in one transaction.
#[derive(Default)]
struct Receiver {
    /// The highest version of each record, by its id.
    records: HashMap<String, (u64, Value)>,
    /// The ids of the events that were acted on.
    seen: HashSet<String>,
    /// The mails that were sent.
    mails: Vec<String>,
}

fn receive(
    secret: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    receiver: &mut Receiver,
) -> StatusCode {
    let header = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let signed = SignatureHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    if verify(std::slice::from_ref(secret), &signed, body, SystemClock.now(), TOLERANCE).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(Delivery { event_type, data }) = serde_json::from_slice(body) else {
        return StatusCode::BAD_REQUEST;
    };
    if event_type == "webhook.ping" {
        return StatusCode::NO_CONTENT;
    }
    // A record that was changed since the event has a higher version than the event.
    let version = data.object.get("version").and_then(Value::as_u64).unwrap_or(data.version);
    if version > receiver.records.get(&data.id).map_or(0, |(stored, _)| *stored) {
        println!("{event_type}: version {version} is stored");
        receiver.records.insert(data.id, (version, data.object));
    }
    // Once for each event, also if its version is not new.
    if receiver.seen.insert(signed.id.to_owned()) {
        println!("{event_type}: here you send the mail");
        receiver.mails.push(event_type);
    }
    StatusCode::NO_CONTENT
}

async fn serve(listener: TcpListener, secret: Secret, receiver: Arc<Mutex<Receiver>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let secret = secret.clone();
        let receiver = Arc::clone(&receiver);
        let service = service_fn(move |request: Request<Incoming>| {
            let secret = secret.clone();
            let receiver = Arc::clone(&receiver);
            async move {
                let (head, body) = request.into_parts();
                let status = match Limited::new(body, 65_536).collect().await {
                    Ok(body) => {
                        let mut receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                        receive(&secret, &head.headers, &body.to_bytes(), &mut receiver)
                    }
                    Err(_) => StatusCode::BAD_REQUEST,
                };
                let mut response = Response::new(Empty::<Bytes>::new());
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let receiver = Arc::<Mutex<Receiver>>::default();
    if let Ok(text) = std::env::var("WEBHOOK_SECRET") {
        serve(TcpListener::bind("127.0.0.1:3000").await?, text.parse()?, receiver).await;
        return Ok(());
    }
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, secret.clone(), Arc::clone(&receiver)));

    let id = "0194b9e4-7a5c-7cc0-8f3e-2d9c5b1a4e77";
    let plan = |kind: &str, version: u64| {
        format!(
            r#"{{"type":"plan.{kind}","data":{{"id":"{id}","version":{version},"object":{{"version":{version}}}}}}}"#
        )
    };
    let deliveries = [
        ("the newest version comes first", "event-2", plan("updated", 2), 0, 204),
        ("an older one is acted on and not stored", "event-1", plan("created", 1), 0, 204),
        ("it is sent again", "event-1", plan("created", 1), 0, 204),
        ("a ping", "ping", r#"{"type":"webhook.ping","data":{}}"#.to_owned(), 0, 204),
        ("a delivery of an hour ago, sent again", "event-3", plan("updated", 3), 3_600, 401),
    ];
    for (name, event, body, age, expected) in deliveries {
        let sent_at = SystemClock.now().micros() / 1_000_000 - age;
        let signature = sign(std::slice::from_ref(&secret), event, sent_at, body.as_bytes());
        let request = Request::post("/")
            .header("webhook-id", event)
            .header("webhook-timestamp", sent_at)
            .header("webhook-signature", signature)
            .body(Full::new(Bytes::from(body)))?;

        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        let status = sender.send_request(request).await?.status();
        println!("{name}: {status}");
        if status != expected {
            return Err(format!("{name}: not {expected}").into());
        }
    }
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let stored: Vec<_> = receiver.records.values().map(|(version, _)| *version).collect();
    if receiver.mails != ["plan.updated", "plan.created"] || stored != [2] {
        return Err(format!("mails: {:?}, versions: {stored:?}", receiver.mails).into());
    }
    Ok(())
}
