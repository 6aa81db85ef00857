//! Webhooks with the provider's signature. They are delivered late, twice, in any order, or never.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subscription_core::providers::{ObjectKind, ProviderKind};

use super::model::{Account, Moment};
use crate::rng::Rng;

/// The secret that signs webhooks.
pub const SECRET: &str = "whsec_of_the_fake_provider";

/// An event that a webhook reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: &'static str,
    pub body: Vec<u8>,
    /// The type and the id of the object that the event is about.
    pub kind: ObjectKind,
    pub object: String,
}

/// A request to our server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The header with the signature.
    pub header: &'static str,
    pub signature: String,
    pub body: Vec<u8>,
}

impl Event {
    /// The signed request that delivers the event at this moment.
    pub fn signed(&self, kind: ProviderKind, secret: &str, now: Moment) -> Webhook {
        Webhook::of(kind, secret, now, self.body.clone())
    }
}

impl Webhook {
    /// A signed request with this body.
    pub fn of(kind: ProviderKind, secret: &str, now: Moment, body: Vec<u8>) -> Self {
        let (header, signature) = match kind {
            ProviderKind::Stripe => {
                let signed = [format!("{now}.").as_bytes(), &body].concat();
                ("stripe-signature", format!("t={now},v1={}", mac(secret, &signed)))
            }
            ProviderKind::LemonSqueezy => ("x-signature", mac(secret, &body)),
        };
        Self { header, signature, body }
    }
}

/// The HMAC-SHA256 of a text in hexadecimal digits.
pub fn mac(secret: &str, text: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text);
    hex(&mac.finalize().into_bytes())
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// An unreliable network between the provider and our server.
#[derive(Debug)]
pub struct Courier {
    rng: Rng,
    /// The percentage of webhooks that are lost, and the percentage that are delivered a second time later.
    pub lost: u32,
    pub twice: u32,
}

impl Courier {
    pub fn new(rng: Rng, lost: u32, twice: u32) -> Self {
        Self { rng, lost, twice }
    }

    /// Removes a random webhook from the outbox and returns it. `None` if the outbox is empty, or if the webhook is
    /// lost.
    pub fn take(&self, account: &mut Account) -> Option<Event> {
        let place = self.rng.below(account.outbox.len());
        if account.outbox.is_empty() {
            return None;
        }
        if self.rng.percent(self.lost) {
            account.outbox.swap_remove(place);
            return None;
        }
        if self.rng.percent(self.twice) {
            return Some(account.outbox[place].clone());
        }
        Some(account.outbox.swap_remove(place))
    }
}
