//! Deliveries of webhooks over real sockets, to receivers that count connections.

mod answers;
mod guard;
mod times;
mod tls;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use subscription_core::webhooks::{AddressRules, Deliver as _, DeliveryRequest, DeliveryResult};
use subscription_http::{DeliverSettings, HttpDeliver, ResolveName};
use test_support::receiver::Receiver;

/// Answers each look-up with the next list of addresses, and every later one with the last.
#[derive(Debug)]
struct Names(Mutex<VecDeque<Vec<IpAddr>>>);

impl Names {
    fn of<const COUNT: usize>(answers: [&[&str]; COUNT]) -> Arc<Self> {
        let addresses =
            |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(answers.iter().map(addresses).collect())))
    }
}

#[async_trait]
impl ResolveName for Names {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        next.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Rules that allow and deny networks, in production.
fn rules(allow: &[&str], deny: &[&str]) -> AddressRules {
    let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    AddressRules::default().with_allow(networks(allow)).with_deny(networks(deny))
}

/// A client that may send to this machine.
fn local() -> HttpDeliver {
    over(&DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[])))
}

fn over(settings: &DeliverSettings) -> HttpDeliver {
    HttpDeliver::new(settings).unwrap()
}

async fn send(client: &HttpDeliver, url: &str) -> DeliveryResult {
    let body = br#"{"type":"webhook.ping"}"#;
    client.deliver(DeliveryRequest::new(url.parse().unwrap(), "msg_1", 17, "v1,c2ln", body)).await
}

async fn receiver() -> Receiver {
    Receiver::here([127, 0, 0, 1].into(), 0).await
}
