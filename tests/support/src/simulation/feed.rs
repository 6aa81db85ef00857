//! The feed of events, as one reader has read it so far.
//!
//! A run may have millions of steps, and most records of a long run are deleted. So a step checks only the records that
//! may still change, those that it changed, and a few others. Only sometimes it checks all records.

use std::collections::{BTreeMap, BTreeSet};
use subscription_core::store::EventQuery;

use subscription_core::events::{Change, Event, Subject};
use subscription_core::store::PageLimit;
use subscription_core::{Store, Timestamp};

use super::invariants::Broken;
use crate::rng::Rng;

/// How many records that cannot change any more are checked in each step.
const RELICS: u32 = 3;

/// An event that was read, and the previous event of the same record. `None` if it is the first.
#[derive(Debug, Clone)]
pub struct Told {
    pub event: Event,
    pub before: Option<Event>,
}

/// The feed, up to the last event that was read.
#[derive(Debug)]
pub struct Feed {
    /// The last sequence that was read.
    pub place: u64,
    /// The last event of every record that ever existed.
    pub latest: BTreeMap<Subject, Event>,
    /// When each record was created.
    pub made_at: BTreeMap<Subject, Timestamp>,
    /// Returns true for an event after which its record cannot change any more.
    is_last: fn(&Event) -> bool,
    /// The records that may still change.
    open: BTreeSet<Subject>,
    /// The records that cannot change any more, in the order in which they ended.
    over: Vec<Subject>,
}

impl Default for Feed {
    /// A feed in which a record cannot change after its deletion.
    fn default() -> Self {
        Self::until(|event| event.change == Change::Deleted)
    }
}

impl Feed {
    /// A feed in which a record cannot change after an event for which `is_last` returns true.
    pub fn until(is_last: fn(&Event) -> bool) -> Self {
        Self {
            place: 0,
            latest: BTreeMap::new(),
            made_at: BTreeMap::new(),
            is_last,
            open: BTreeSet::new(),
            over: Vec::new(),
        }
    }

    /// Reads the new events up to the end of the feed, and returns them.
    pub async fn read_on(&mut self, store: &dyn Store) -> Result<Vec<Told>, Broken> {
        let mut fresh = Vec::new();
        loop {
            let recorded = store
                .events(&EventQuery::after(self.place, PageLimit::MAX))
                .await
                .expect("the feed reads")
                .items;
            if recorded.is_empty() {
                return Ok(fresh);
            }
            for recorded in recorded {
                if recorded.sequence <= self.place {
                    let detail = format!("{recorded:?} comes after place {}", self.place);
                    return Err(Broken::new("every_change_has_one_event", detail));
                }
                self.place = recorded.sequence;
                fresh.push(self.remember(recorded.event));
            }
        }
    }

    fn remember(&mut self, event: Event) -> Told {
        let name = &event.subject;
        if event.change == Change::Created {
            self.made_at.insert(name.clone(), event.at);
        }
        if !(self.is_last)(&event) {
            self.open.insert(name.clone());
        } else if self.open.remove(name) {
            self.over.push(name.clone());
        }
        let before = self.latest.insert(name.clone(), event.clone());
        Told { event, before }
    }

    /// The records to check in a step that read these events.
    pub fn names(&self, fresh: &[Told], rng: &Rng) -> BTreeSet<Subject> {
        let mut names = self.open.clone();
        names.extend(fresh.iter().map(|told| told.event.subject.clone()));
        let over = u32::try_from(self.over.len()).unwrap_or(u32::MAX);
        let relics = (0..RELICS).filter_map(|_| self.over.get(rng.below(over) as usize));
        names.extend(relics.cloned());
        names
    }

    /// Every record that ever existed.
    pub fn all_names(&self) -> BTreeSet<Subject> {
        self.latest.keys().cloned().collect()
    }
}
