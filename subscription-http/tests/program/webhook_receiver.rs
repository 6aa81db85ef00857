//! The program beside a receiver of its webhooks.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_support::receiver::{Received, Receiver};

use crate::provider_shop::{Answer, until};
use crate::running::{Running, command_in, folder};

/// The program and a receiver.
pub(crate) struct Hooks {
    pub(crate) folder: PathBuf,
    pub(crate) running: Running,
    pub(crate) receiver: Receiver,
}

/// Starts the program in a folder, with a settings file.
pub(crate) fn start(folder: &Path, settings: &str, change: impl FnOnce(&mut Command)) -> Running {
    std::fs::write(folder.join("settings.toml"), settings).unwrap();
    Running::start_as(command_in(folder), |command| {
        command.args(["--config", "settings.toml"]);
        change(command);
    })
}

impl Hooks {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    pub(crate) fn with(settings: &str) -> Self {
        let folder = folder();
        let running = start(&folder, settings, |_| {});
        Self { folder, running, receiver: Receiver::start() }
    }

    /// Ends the program and starts it again with other settings.
    pub(crate) fn again(self, settings: &str) -> Self {
        let Self { folder, running, receiver } = self;
        stop(running);
        let running = start(&folder, settings, |_| {});
        Self { folder, running, receiver }
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let length = body.len();
        let text = self.running.ask(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nclient-id: server\r\n{kind}\
             Content-Length: {length}\r\n\r\n{body}"
        ));
        let status = text.get(9..12).and_then(|status| status.parse().ok()).expect(&text);
        Answer { status, text }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.send("GET", path, &Value::Null);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Creates an endpoint at a path of the receiver; its id and its secret.
    pub(crate) fn endpoint(&self, path: &str) -> (String, String) {
        let new = json!({ "url": self.receiver.url(path), "types": ["*"] });
        let made = self.send("POST", "/webhook-endpoints", &new);
        assert_eq!(made.status, 201, "{made:?}");
        let text = |field: &str| made.json()[field].as_str().unwrap().to_owned();
        (text("id"), text("secret"))
    }

    /// Creates a plan, which is an event.
    pub(crate) fn plan(&self, slug: &str) {
        let plan = json!({ "name": slug, "slug": slug, "price": 1, "billing_cycle": "daily" });
        let made = self.send("POST", "/subscription-plans", &plan);
        assert_eq!(made.status, 201, "{made:?}");
    }

    /// Waits until so many deliveries came to a path.
    #[track_caller]
    pub(crate) fn deliveries(&self, path: &str, count: usize) -> Vec<Received> {
        until(&format!("{count} deliveries at {path}"), || {
            self.receiver.received(path).len() >= count
        });
        self.receiver.received(path)
    }

    /// The tries that an endpoint shows, the newest first.
    pub(crate) fn recent(&self, id: &str) -> Vec<Value> {
        self.get(&format!("/webhook-endpoints/{id}"))["recent"].as_array().unwrap().clone()
    }
}

/// Ends the program in order.
pub(crate) fn stop(running: Running) {
    running.signal("TERM");
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
}
