//! The program beside a fake payment provider: it takes the provider's webhooks and reads its API.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subscription_core::providers::ProviderKind;
use subscription_core::{Clock as _, SystemClock, SystemRandomness, UserId};
use test_support::fake_provider::{Account, FakeProvider, KEY, PRICES, SECRET, Webhook, shared};

use crate::running::{Running, command_in, folder};

const DEADLINE: Duration = Duration::from_mins(1);

/// The program and its provider.
pub(crate) struct Shop {
    pub(crate) folder: PathBuf,
    pub(crate) running: Running,
    pub(crate) provider: FakeProvider,
    pub(crate) kind: ProviderKind,
}

/// The status and the body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

/// The seconds since 1970.
pub(crate) fn now() -> i64 {
    let begin = "1970-01-01T00:00:00Z".parse().unwrap();
    i64::try_from(SystemClock.now().since(begin).as_secs()).unwrap()
}

/// A user nobody else is.
pub(crate) fn user() -> String {
    UserId::new(SystemClock.now(), &SystemRandomness).unwrap().to_string()
}

/// Looks until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not in {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Shop {
    pub(crate) fn of(kind: ProviderKind) -> Self {
        Self::with(kind, "", |_| {})
    }

    /// With more settings of the source, and more flags.
    pub(crate) fn with(
        kind: ProviderKind,
        settings: &str,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let provider = FakeProvider::start(Account::new(kind, now()).into_shared());
        let folder = folder();
        let (price, base) = (PRICES[0].id(kind), provider.base());
        let file = format!(
            "[providers.shop]\nkind = \"{kind}\"\nsigning_secrets = [\"{SECRET}\"]\napi_key = \"{KEY}\"\n\
             api_base = \"{base}\"\n{settings}\n[providers.shop.plans]\n{price} = \"monthly\"\n"
        );
        std::fs::write(folder.join("settings.toml"), file).unwrap();
        let running = Running::start_as(command_in(&folder), |command| {
            command.args(["--config", "settings.toml", "--users", "any"]);
            change(command);
        });
        let shop = Self { folder, running, provider, kind };
        let plan = json!({
            "name": "Monthly", "slug": "monthly", "price": 19.99, "currency": "USD",
            "billing_cycle": "monthly",
        });
        let made = shop.post("/subscription-plans", &plan);
        assert_eq!(made.status, 201, "{made:?}");
        shop
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let text = self.running.ask([head.as_bytes(), body].concat());
        let status = text.get(9..12).and_then(|status| status.parse().ok()).expect(&text);
        Answer { status, text }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "client-id: server\r\n", b"")
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = "client-id: server\r\nContent-Type: application/json\r\n";
        self.ask(method, path, headers, body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body)
    }

    /// Sends a body to the webhook's route with these headers.
    pub(crate) fn webhook(&self, headers: &str, body: &[u8]) -> Answer {
        self.ask("POST", "/provider-webhooks/shop", headers, body)
    }

    /// Sends a body that is signed now.
    pub(crate) fn signed(&self, body: impl Into<Vec<u8>>) -> Answer {
        let Webhook { header, signature, body } =
            Webhook::of(self.kind, SECRET, now(), body.into());
        self.webhook(&format!("{header}: {signature}\r\n"), &body)
    }

    /// Delivers all webhooks of the account.
    pub(crate) fn deliver(&self) {
        let outbox = std::mem::take(&mut shared(&self.provider.account).outbox);
        for event in outbox {
            let answer = self.signed(event.body);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.json(), json!({ "received": true }));
        }
    }

    /// A subscription that is active at the provider, and followed here; its id there, and our record.
    pub(crate) fn subscribed(&self, user: &str) -> (String, Value) {
        let id = {
            let mut account = shared(&self.provider.account);
            account.now = now();
            let customer = account.customer();
            account.subscribe(&customer, Some(user), 0, None)
        };
        self.deliver();
        until("it is followed", || self.record(&id).is_some());
        let record = self.record(&id).unwrap();
        (id, record)
    }

    /// Our record of a subscription of the provider.
    pub(crate) fn record(&self, id: &str) -> Option<Value> {
        let id = test_support::fake_provider::oracle::external_id(self.kind, id);
        let found = self.get(&format!("/subscriptions?external_subscription_id={id}")).json();
        found["data"].as_array().unwrap().first().cloned()
    }

    /// The events with their states, as in `failed:unreadable`.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.get("/provider-events?limit=100").json()["data"].as_array().unwrap().clone()
    }

    /// The states of all events, as in `failed:unreadable`.
    pub(crate) fn states(&self) -> Vec<String> {
        let state = |event: &Value| {
            let reason = event["reason"].as_str().map(|reason| format!(":{reason}"));
            format!("{}{}", event["state"].as_str().unwrap(), reason.unwrap_or_default())
        };
        let mut states: Vec<_> = self.events().iter().map(state).collect();
        states.sort();
        states
    }

    /// Waits until an event has this state.
    #[track_caller]
    pub(crate) fn until_state(&self, state: &str) {
        until(&format!("{state}, but {:?}", self.states()), || {
            self.states().iter().any(|other| other == state)
        });
    }
}
