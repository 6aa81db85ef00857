//! Telling the other instances what to forget.
//!
//! Only what they keep in memory is told of. A commit with a notification waits for every other such
//! commit, so those that are made all day long go without.

use crate::store::{ChangeSet, Key};
use crate::values::version::Version;

pub(super) const CHANNEL: &str = "subscription_changes";

/// What the others may have in memory and must read again, with the version that they must not have
/// less of.
pub(super) fn announcements(changes: &ChangeSet) -> impl Iterator<Item = String> {
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

/// What was announced, if it is something that this version knows of.
pub(super) fn announced(text: &str) -> Option<(Key, Version)> {
    let mut words = text.split(' ');
    let key = match (words.next()?, words.next()?) {
        ("plan", id) => Key::Plan(id.parse().ok()?),
        ("client", id) => Key::Client(id.parse().ok()?),
        _ => return None,
    };
    let version: u64 = words.next()?.parse().ok()?;
    Some((key, Version::from(version)))
}
