//! The notifications by which instances invalidate each other's caches (`NOTIFY`).
//!
//! Only changes of cached records are sent. A commit with a notification waits for every other such commit, so frequent
//! commits send no notification.

use crate::store::{ChangeSet, Key};
use crate::values::Version;

pub(super) const CHANNEL: &str = "subscription_changes";

/// The notifications for the cached records that a change set changes. Each has the new version of its record.
pub(super) fn notifications(changes: &ChangeSet) -> impl Iterator<Item = String> {
    let written = changes.writes.iter().map(|write| (write.key(), write.version()));
    let deleted = changes.deletes.iter().map(|delete| (delete.key.clone(), delete.version.next()));
    written.chain(deleted).filter_map(|(key, version)| match key {
        Key::Plan(id) => Some(format!("plan {id} {version}")),
        Key::Client(id) => Some(format!("client {id} {version}")),
        Key::Subscription(_)
        | Key::Payment(_)
        | Key::User(_)
        | Key::Session(_)
        | Key::Idempotency(_)
        | Key::Document(_) => None,
    })
}

/// The record of a notification and its new version; `None` if this release does not know its kind.
pub(super) fn parse(notification: &str) -> Option<(Key, Version)> {
    let mut words = notification.split(' ');
    let key = match (words.next()?, words.next()?) {
        ("plan", id) => Key::Plan(id.parse().ok()?),
        ("client", id) => Key::Client(id.parse().ok()?),
        _ => return None,
    };
    let version: u64 = words.next()?.parse().ok()?;
    Some((key, Version::from(version)))
}
