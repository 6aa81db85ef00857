//! Faults that are planted between the workers and their store or API, to test that the simulation finds them.

use std::sync::Arc;

use subscription_core::store::{ChangeSet, Record};
use subscription_core::{SubscriptionId, UserId, Version};
use uuid::Uuid;

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An observation that finds no difference does not write the link between the object and our record.
    LeavesLinks,
    /// The API shows the state before the last change, as an older payload would.
    ShowsOldStates,
    /// An event is acknowledged, but not stored.
    DropsEvents,
    /// A new subscription is stored twice.
    StoresTwice,
    /// A change of a subscription is not stored.
    LosesChanges,
    /// A new subscription is stored for another user.
    MakesForAnother,
}

impl Fault {
    /// The change set that is stored in place of `changes`.
    pub(super) fn applied(self, mut changes: ChangeSet) -> ChangeSet {
        let is_new = |record: &Record| record.version() == Version::FIRST;
        let in_collection = |record: &Record, name: &str| matches!(record, Record::Document(document) if document.key.collection.as_str() == name);
        match self {
            Self::LeavesLinks => {
                changes
                    .writes
                    .retain(|record| is_new(record) || !in_collection(record, "provider_link"));
            }
            Self::DropsEvents => {
                changes
                    .writes
                    .retain(|record| !is_new(record) || !in_collection(record, "provider_event"));
            }
            Self::LosesChanges => {
                let lost =
                    |record: &Record| matches!(record, Record::Subscription(_)) && !is_new(record);
                if changes.writes.iter().any(lost) {
                    changes.writes.retain(|record| !lost(record));
                    changes.events.clear();
                }
            }
            Self::StoresTwice => {
                let made = changes.writes.iter().find_map(|record| match record {
                    Record::Subscription(made) if is_new(record) => Some(Arc::clone(made)),
                    _ => None,
                });
                if let Some(mut second) = made {
                    let copy = Arc::make_mut(&mut second);
                    let id = u128::from_be_bytes(*copy.id.uuid().as_bytes()) ^ 1;
                    copy.id = SubscriptionId::from(Uuid::from_u128(id));
                    copy.live_key = None;
                    let external = copy.external_subscription_id.as_ref();
                    copy.external_subscription_id =
                        external.and_then(|external| format!("{external}_2").parse().ok());
                    changes.writes.push(Record::Subscription(second));
                }
            }
            Self::MakesForAnother => {
                for record in &mut changes.writes {
                    let first = is_new(record);
                    if let Record::Subscription(made) = record
                        && first
                    {
                        let user = u128::from_be_bytes(*made.user_id.uuid().as_bytes()) ^ 1;
                        Arc::make_mut(made).user_id = UserId::from(Uuid::from_u128(user));
                    }
                }
            }
            Self::ShowsOldStates => {}
        }
        changes
    }
}
