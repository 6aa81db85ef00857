//! Records in numbered slots, found by their id and by a name that no other has.
//!
//! Whatever else refers to a record does so by the number of its slot: four bytes, where an id has
//! sixteen and a name any number. What is to be compared is read off the record itself.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;
use uuid::Uuid;

/// The number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u32);

/// What can be kept in a slot.
pub(super) trait Record: Clone {
    fn id(&self) -> Uuid;

    /// What no other record of its kind has, if it has one. Callers choose it.
    fn name(&self) -> Option<&str>;
}

/// The records of one kind.
#[derive(Debug)]
pub(super) struct Records<R> {
    slots: Vec<Option<R>>,
    free: Vec<Slot>,
    // Callers cannot choose ids: a hash that is quick will do. The records are there too, for which a
    // look-up by id need not go by the slot: one fetch less of what is in no cache.
    by_id: Hashed<foldhash::fast::RandomState, R>,
    by_name: Hashed<RandomState, ()>,
}

impl<R> Default for Records<R> {
    fn default() -> Self {
        let (by_id, by_name) = (Hashed::default(), Hashed::default());
        Self { slots: Vec::new(), free: Vec::new(), by_id, by_name }
    }
}

impl<R: Record> Records<R> {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn at(&self, slot: Slot) -> Option<&R> {
        self.slots.get(slot.0 as usize).and_then(Option::as_ref)
    }

    pub(super) fn by_id(&self, id: Uuid) -> Option<(Slot, &R)> {
        let found = self.by_id.find(&id, |_, record| record.id() == id);
        found.map(|entry| (entry.slot, &entry.with))
    }

    pub(super) fn by_name(&self, name: &str) -> Option<(Slot, &R)> {
        let is = |slot, (): &()| self.at(slot).is_some_and(|record| record.name() == Some(name));
        let slot = self.by_name.find(name, is)?.slot;
        self.at(slot).map(|record| (slot, record))
    }

    /// Keeps a record in the slot of the one with its id, which it gives back, or else in a new one.
    pub(super) fn put(&mut self, record: R) -> (Slot, Option<R>) {
        let old = self.remove(record.id()).map(|(_, old)| old);
        // What was freed last is taken first: the slot of `old`, if there was one.
        let slot = self.free.pop().unwrap_or_else(|| {
            let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.slots.push(None);
            Slot(next)
        });
        self.by_id.insert(&record.id(), slot, record.clone());
        if let Some(name) = record.name() {
            self.by_name.insert(name, slot, ());
        }
        if let Some(place) = self.slots.get_mut(slot.0 as usize) {
            *place = Some(record);
        }
        (slot, old)
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<(Slot, R)> {
        let (slot, _) = self.by_id(id)?;
        let record = self.slots.get_mut(slot.0 as usize).and_then(Option::take)?;
        self.by_id.remove(&id, slot);
        if let Some(name) = record.name() {
            self.by_name.remove(name, slot);
        }
        self.free.push(slot);
        Some((slot, record))
    }
}

/// Slots by the hash of something in their records.
#[derive(Debug)]
struct Hashed<S, W> {
    hasher: S,
    entries: HashTable<Entry<W>>,
}

/// A slot with what is found with it.
#[derive(Debug)]
struct Entry<W> {
    slot: Slot,
    /// Half of the hash, so that no record is looked at for nothing, neither to find another one nor
    /// when the table grows.
    half: u32,
    with: W,
}

impl<S: Default, W> Default for Hashed<S, W> {
    fn default() -> Self {
        Self { hasher: S::default(), entries: HashTable::new() }
    }
}

impl<S: BuildHasher, W> Hashed<S, W> {
    fn find<T: Hash + ?Sized>(
        &self,
        value: &T,
        is: impl Fn(Slot, &W) -> bool,
    ) -> Option<&Entry<W>> {
        let half = self.half(value);
        let is = |entry: &Entry<W>| entry.half == half && is(entry.slot, &entry.with);
        self.entries.find(whole(half), is)
    }

    fn insert<T: Hash + ?Sized>(&mut self, value: &T, slot: Slot, with: W) {
        let half = self.half(value);
        let entry = Entry { slot, half, with };
        self.entries.insert_unique(whole(half), entry, |entry| whole(entry.half));
    }

    fn remove<T: Hash + ?Sized>(&mut self, value: &T, slot: Slot) {
        let hash = whole(self.half(value));
        if let Ok(entry) = self.entries.find_entry(hash, |entry| entry.slot == slot) {
            entry.remove();
        }
    }

    fn half<T: Hash + ?Sized>(&self, value: &T) -> u32 {
        u32::try_from(self.hasher.hash_one(value) >> 32).unwrap_or_default()
    }
}

/// A hash of which the table finds both ends well mixed: it uses no others.
fn whole(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Record for (u128, Option<&'static str>) {
        fn id(&self) -> Uuid {
            Uuid::from_u128(self.0)
        }

        fn name(&self) -> Option<&str> {
            self.1
        }
    }

    fn found<R: Copy>(found: Option<(Slot, &R)>) -> Option<R> {
        found.map(|(_, record)| *record)
    }

    #[test]
    fn a_record_keeps_its_slot_and_loses_its_old_name() {
        let mut records = Records::default();
        let (slot, none) = records.put((1, Some("a")));
        records.put((2, None));

        let (again, old) = records.put((1, Some("b")));

        assert_eq!((again, old, none), (slot, Some((1, Some("a"))), None));
        assert_eq!(found(records.by_id(Uuid::from_u128(1))), Some((1, Some("b"))));
        assert_eq!(found(records.by_name("a")), None);
        assert_eq!(found(records.by_name("b")), Some((1, Some("b"))));
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn what_is_removed_is_found_by_nothing_and_its_slot_is_used_again() {
        let mut records = Records::default();
        let slots: Vec<_> = (0..1_000).map(|id| records.put((id, None)).0).collect();
        records.put((1_000, Some("a")));

        let removed = records.remove(Uuid::from_u128(7));

        assert_eq!(removed, Some((slots[7], (7, None))));
        assert_eq!(records.remove(Uuid::from_u128(7)), None);
        assert_eq!(found(records.by_id(Uuid::from_u128(7))), None);
        assert_eq!(records.at(slots[7]), None);
        assert_eq!(records.put((1_001, None)).0, slots[7]);
        for id in (0..1_000).filter(|id| *id != 7) {
            let slot = records.by_id(Uuid::from_u128(id)).map(|(slot, _)| slot);
            assert_eq!(slot, slots.get(usize::try_from(id).unwrap()).copied(), "{id}");
        }
        assert_eq!(records.len(), 1_001);
    }
}
