//! Which change sets can be committed together by one statement.

use std::collections::HashSet;

use super::super::commit::guarded;
use super::commit_statement::is_small;
use super::notify::notifications;
use crate::store::{ChangeSet, Key, Record};
use crate::values::Version;

/// The largest number of change sets in one statement.
const SETS_MAX: usize = 200;

/// A shape of which many sets can be one statement. No statement both creates and updates records of a table with unique
/// values: a set could then take a value before an earlier set gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetShape {
    /// A step of the billing clock: a subscription is updated, and at most one payment is created.
    Step,
    /// New records alone.
    Creates,
}

impl SetShape {
    /// `None` if a set has another shape. A commit with a notification waits for every other such commit, so these go
    /// alone.
    pub(super) fn of(changes: &ChangeSet) -> Option<Self> {
        let is_new = |write: &Record| write.version() == Version::FIRST;
        if !is_small(changes) || notifications(changes).next().is_some() {
            return None;
        }
        if changes.writes.iter().all(is_new) {
            return Some(Self::Creates);
        }
        let is_of_step = |write: &Record| {
            let is_subscription = matches!(write, Record::Subscription(_));
            is_subscription && !is_new(write)
                || matches!(write, Record::Payment(_)) && is_new(write)
        };
        let is_step = changes.guards.is_empty() && changes.writes.iter().all(is_of_step);
        is_step.then_some(Self::Step)
    }
}

/// Change sets that can be one statement.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` for a single set of another shape.
    pub(super) shape: Option<SetShape>,
    pub(super) sets: Vec<ChangeSet>,
}

/// Divides change sets into groups that can be one statement each, and keeps their order. A record that a set of a group
/// writes is neither written nor guarded by another set of it.
pub(super) fn groups(sets: Vec<ChangeSet>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // The records that the last group writes.
    let mut named: HashSet<Key> = HashSet::new();
    for changes in sets {
        let shape = SetShape::of(&changes);
        let keys = changes.writes.iter().map(Record::key);
        match groups.last_mut() {
            Some(group)
                if shape.is_some()
                    && group.shape == shape
                    && group.sets.len() < SETS_MAX
                    && !guarded(&changes).any(|key| named.contains(key))
                    && !keys.clone().any(|it| named.contains(&it)) =>
            {
                named.extend(keys);
                group.sets.push(changes);
            }
            _ => {
                named = keys.collect();
                groups.push(Group { shape, sets: vec![changes] });
            }
        }
    }
    groups
}
