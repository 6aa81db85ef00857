//! Groups of change sets that can be committed together by one statement.

use std::collections::{BTreeMap, HashSet};

use super::super::commit::guarded;
use super::super::table::Table;
use super::commit_statement::{is_of_versions, is_small};
use super::notify::notifications;
use crate::store::{ChangeSet, Key, Record};
use crate::values::Version;

/// The largest number of change sets in one statement.
const SETS_MAX: usize = 200;

/// How a change set uses the records of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The change set requires that the records have not changed.
    Guarded,
    /// The change set updates the records.
    Updated,
    /// The change set creates the records.
    Created,
}

/// Change sets that can be committed by one statement. All sets that name a table use its records in the same [`Role`].
/// Otherwise the text of the statement would depend on the order of the keys, and a new record could take a unique
/// value that only a later set frees (the statement updates records before it creates records). If only some of the
/// sets name a table, they create records in it: this rule keeps the number of prepared texts small. A record that a
/// set writes is neither written nor guarded by a later set.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) sets: Vec<ChangeSet>,
    /// How the sets use the records of each table. `None` if the group is a single set that must have a statement or a
    /// transaction of its own.
    roles: Option<Roles>,
    /// The records that the sets write.
    written: HashSet<Key>,
}

impl Group {
    pub(super) fn of(changes: ChangeSet) -> Self {
        let written = changes.writes.iter().map(Record::key).collect();
        Self { roles: roles(&changes), written, sets: vec![changes] }
    }

    /// Adds a set, or returns it if it cannot be part of the statement.
    pub(super) fn add(&mut self, changes: ChangeSet) -> Result<(), ChangeSet> {
        let (Some(known), Some(roles)) = (&mut self.roles, roles(&changes)) else {
            return Err(changes);
        };
        let is_alike = fits(&roles, known) && fits(known, &roles);
        if !is_alike || self.sets.len() == SETS_MAX || names_one_of(&self.written, &changes) {
            return Err(changes);
        }
        known.extend(roles);
        self.written.extend(changes.writes.iter().map(Record::key));
        self.sets.push(changes);
        Ok(())
    }

    /// True if a set of the group writes a record that `changes` writes or guards.
    pub(super) fn is_before(&self, changes: &ChangeSet) -> bool {
        names_one_of(&self.written, changes)
    }
}

/// True if each table of `roles` has the same role in `others`, or is missing there and has the role [`Role::Created`].
fn fits(roles: &Roles, others: &Roles) -> bool {
    roles.iter().all(|(table, role)| {
        others.get(table).map_or(*role == Role::Created, |other| other == role)
    })
}

/// True if a set writes or guards one of these records.
fn names_one_of(written: &HashSet<Key>, changes: &ChangeSet) -> bool {
    guarded(changes).any(|key| written.contains(key))
        || changes.writes.iter().any(|write| written.contains(&write.key()))
}

/// How a set uses the records of each of its tables.
type Roles = BTreeMap<&'static str, Role>;

/// How a change set uses the records of each of its tables; `None` if the set cannot share a statement with others. A
/// commit that sends a notification waits for every other commit that sends one. So a set with a notification does not
/// share a statement: the other sets would wait too.
fn roles(changes: &ChangeSet) -> Option<Roles> {
    if !is_small(changes) || !is_of_versions(changes) || notifications(changes).next().is_some() {
        return None;
    }
    let guards = guarded(changes).map(|key| (Table::of(key).name, Role::Guarded));
    let writes = changes.writes.iter().map(|write| {
        let is_new = write.version() == Version::FIRST;
        let role = if is_new { Role::Created } else { Role::Updated };
        (Table::of(&write.key()).name, role)
    });
    let mut roles = Roles::new();
    for (table, role) in guards.chain(writes) {
        if roles.insert(table, role).is_some_and(|other| other != role) {
            return None;
        }
    }
    Some(roles)
}

/// True if a change set can share a statement with others.
pub(super) fn can_join(changes: &ChangeSet) -> bool {
    roles(changes).is_some()
}

/// True if a change set updates a payment or a user. The unique values of these records depend on several columns, so
/// the update may free such a value, such as the period of a payment.
fn gives_up(changes: &ChangeSet) -> bool {
    let is_such = |write: &Record| matches!(write, Record::Payment(_) | Record::User(_));
    changes.writes.iter().any(|write| is_such(write) && write.version() != Version::FIRST)
}

/// Divides change sets into groups that can be committed by one statement each, and keeps the order of the sets. A set
/// that cannot share a statement is a group of one.
pub(super) fn groups(sets: Vec<ChangeSet>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for changes in sets {
        // One statement for several change sets checks unique values (the period of a payment, the identity of a user)
        // against the rows as they were before it. It does not see that an earlier set frees a value that a later set
        // takes. So a set that may free such a value does not share a statement.
        let is_alone = gives_up(&changes);
        let joined = match groups.last_mut() {
            Some(group) if !is_alone => group.add(changes),
            _ => Err(changes),
        };
        if let Err(changes) = joined {
            let group = Group::of(changes);
            groups.push(if is_alone { Group { roles: None, ..group } } else { group });
        }
    }
    groups
}
