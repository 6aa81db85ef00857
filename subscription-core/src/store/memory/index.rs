//! Ordered lists of records, by bucket.
//!
//! An index orders records by `(bucket, sort value, id)`: those of one bucket (a user's, a plan's) lie
//! side by side in order. It holds the numbers of their slots in chunks, and only the key that a chunk
//! starts at; other keys are read off the records. So an entry takes little more than its four bytes.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Bound, Range};
use std::slice;

use uuid::Uuid;

use super::records::{Record, Records, Slot};
use super::scan::{Place, Stop};
use crate::store::query::Direction;

/// The most entries of a chunk. More would take less room, and looking one up would look at more
/// records.
const CHUNK: usize = 64;

/// A bucket, a sort value or a whole key, as a record has it.
pub(super) trait ReadOff<R> {
    fn read_off(record: &R) -> Self;
}

/// The one bucket of all, or no sort value.
impl<R> ReadOff<R> for () {
    fn read_off(_: &R) -> Self {}
}

/// By what an index orders.
pub(super) type Key<B, V> = (B, V, Uuid);

impl<R: Record, B: ReadOff<R>, V: ReadOff<R>> ReadOff<R> for Key<B, V> {
    fn read_off(record: &R) -> Self {
        (B::read_off(record), V::read_off(record), record.id())
    }
}

/// The slots of records by bucket, each bucket in order.
///
/// The key of a chunk is not after any key in it, and after all in the chunks before it. No chunk is
/// empty.
#[derive(Debug)]
pub(super) struct Index<B, V> {
    chunks: BTreeMap<Key<B, V>, Vec<Slot>>,
}

impl<B, V> Default for Index<B, V> {
    fn default() -> Self {
        Self { chunks: BTreeMap::new() }
    }
}

impl<B: Ord + Clone, V: Ord + Clone> Index<B, V> {
    /// Moves a slot from the place of its `old` record to that of the one which it has now.
    pub(super) fn relist<R: Record>(&mut self, records: &Records<R>, slot: Slot, old: Option<&R>)
    where
        Key<B, V>: ReadOff<R>,
    {
        let (old, new) = (old.map(Key::read_off), records.at(slot).map(Key::read_off));
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.remove(&old, slot);
        }
        if let Some(new) = new {
            self.insert(records, new, slot);
        }
    }

    fn insert<R: Record>(&mut self, records: &Records<R>, new: Key<B, V>, slot: Slot)
    where
        Key<B, V>: ReadOff<R>,
    {
        let Some((_, chunk)) = self.chunks.range_mut(..=&new).next_back() else {
            return self.insert_first(new, slot);
        };
        let is_before =
            |other: &Slot| records.at(*other).is_some_and(|other| Key::read_off(other) < new);
        let at = match chunk.last() {
            // New records come last in most lists.
            Some(last) if is_before(last) => chunk.len(),
            Some(_) | None => chunk.partition_point(is_before),
        };
        if chunk.len() < CHUNK {
            chunk.insert(at, slot);
        } else if at == CHUNK {
            // Lists that grow at an end are made of full chunks, not of halves.
            self.insert_between(new, slot);
        } else {
            let mut half = chunk.split_off(CHUNK / 2);
            chunk.shrink_to_fit();
            match at.checked_sub(CHUNK / 2) {
                Some(at) => half.insert(at, slot),
                None => chunk.insert(at, slot),
            }
            let first = half.first().and_then(|first| records.at(*first));
            self.chunks.extend(first.map(|first| (Key::read_off(first), half)));
        }
    }

    /// Inserts what is after all in a full chunk: before those of its bucket that come next, if they are
    /// few, or each that comes before the one before would be a chunk of its own.
    fn insert_between(&mut self, new: Key<B, V>, slot: Slot) {
        let next = self.chunks.range(&new..).next();
        let next = next.filter(|(next, chunk)| next.0 == new.0 && chunk.len() < CHUNK / 2);
        let next = next.map(|(next, _)| next.clone());
        let mut chunk = next.and_then(|next| self.chunks.remove(&next)).unwrap_or_default();
        chunk.insert(0, slot);
        self.chunks.insert(new, chunk);
    }

    /// Inserts what is before the first chunk.
    fn insert_first(&mut self, new: Key<B, V>, slot: Slot) {
        let mut chunk = match self.chunks.first_entry() {
            Some(first) if first.get().len() < CHUNK => first.remove(),
            Some(_) | None => Vec::new(),
        };
        chunk.insert(0, slot);
        self.chunks.insert(new, chunk);
    }

    fn remove(&mut self, old: &Key<B, V>, slot: Slot) {
        let Some((first, chunk)) = self.chunks.range_mut(..=old).next_back() else { return };
        let Some(at) = chunk.iter().position(|other| *other == slot) else { return };
        chunk.remove(at);
        if chunk.len() <= chunk.capacity() / 4 {
            let first = first.clone();
            self.gather(&first);
        }
    }

    /// Sees to a chunk of which little is left: it joins the one before it or the one after it, or gives
    /// room back.
    fn gather(&mut self, first: &Key<B, V>) {
        let Some(mut chunk) = self.chunks.remove(first) else { return };
        // Not to the brim, or the next insertion would part them again.
        let room = (CHUNK / 2).saturating_sub(chunk.len());
        let before = self.chunks.range_mut(..first).next_back().map(|(_, before)| before);
        match before {
            Some(before) if before.len() <= room => before.append(&mut chunk),
            Some(_) | None if chunk.is_empty() => {}
            Some(_) | None => {
                let after = self.chunks.range(first..).next();
                let after = after.filter(|(_, after)| after.len() <= room);
                let after = after.map(|(after, _)| after.clone());
                if let Some(mut after) = after.and_then(|after| self.chunks.remove(&after)) {
                    chunk.append(&mut after);
                }
                chunk.shrink_to(2 * chunk.len());
                self.chunks.insert(first.clone(), chunk);
            }
        }
    }

    /// The places of one bucket, from one place on.
    pub(super) fn along<'a, R: Record>(
        &'a self,
        records: &'a Records<R>,
        bucket: B,
        direction: Direction,
        (value, id): &Place<V>,
    ) -> impl Iterator<Item = Stop<V>> + Clone + use<'a, R, B, V>
    where
        Key<B, V>: ReadOff<R>,
    {
        let from = (bucket.clone(), value.clone(), *id);
        self.ahead(records, direction, &from).map_while(move |slot| {
            let (of, value, id) = Key::read_off(records.at(slot)?);
            (of == bucket).then_some(Stop { place: (value, id), slot })
        })
    }

    fn ahead<R: Record>(
        &self,
        records: &Records<R>,
        direction: Direction,
        from: &Key<B, V>,
    ) -> Ahead<'_, B, V>
    where
        Key<B, V>: ReadOff<R>,
    {
        let mut before = self.chunks.range(..=from);
        let chunk = before.next_back().map_or(&[][..], |(_, chunk)| chunk);
        let is_before = |slot: &Slot| match (records.at(*slot).map(Key::read_off), direction) {
            (Some(key), Direction::Ascending) => key < *from,
            (Some(key), Direction::Descending) => key <= *from,
            (None, _) => false,
        };
        let (behind, ahead) = chunk.split_at(chunk.partition_point(is_before));
        let (within, beyond) = match direction {
            Direction::Ascending => {
                (ahead, self.chunks.range((Bound::Excluded(from), Bound::Unbounded)))
            }
            Direction::Descending => (behind, before),
        };
        Ahead { direction, within: within.iter(), beyond }
    }

    /// True if more than so many are surely between two keys. Looks at no record.
    pub(super) fn has_more_than(&self, count: usize, keys: Range<Key<B, V>>) -> bool {
        let mut chunks = self.chunks.range(keys);
        // Of the last one a part may be beyond.
        chunks.next_back();
        let mut counted = 0;
        chunks.any(|(_, chunk)| {
            counted += chunk.len();
            counted > count
        })
    }
}

/// The slots from a place on, in one direction.
#[derive(Clone)]
struct Ahead<'a, B, V> {
    direction: Direction,
    within: slice::Iter<'a, Slot>,
    beyond: btree_map::Range<'a, Key<B, V>, Vec<Slot>>,
}

impl<B, V> Iterator for Ahead<'_, B, V> {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        loop {
            let slot = match self.direction {
                Direction::Ascending => self.within.next(),
                Direction::Descending => self.within.next_back(),
            };
            if let Some(slot) = slot {
                return Some(*slot);
            }
            let chunk = match self.direction {
                Direction::Ascending => self.beyond.next(),
                Direction::Descending => self.beyond.next_back(),
            };
            let (_, chunk) = chunk?;
            self.within = chunk.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::values::randomness::Randomness as _;
    use crate::values::randomness::SeededRandomness;

    type Item = Key<u8, i64>;

    impl Record for Item {
        fn id(&self) -> Uuid {
            self.2
        }

        fn name(&self) -> Option<&str> {
            None
        }
    }

    impl ReadOff<Item> for u8 {
        fn read_off(item: &Item) -> Self {
            item.0
        }
    }

    impl ReadOff<Item> for i64 {
        fn read_off(item: &Item) -> Self {
            item.1
        }
    }

    #[derive(Default)]
    struct Listed {
        records: Records<Item>,
        index: Index<u8, i64>,
        model: BTreeSet<Item>,
    }

    impl Listed {
        fn put(&mut self, bucket: u8, value: i64, id: u128) {
            let (slot, old) = self.records.put((bucket, value, Uuid::from_u128(id)));
            self.index.relist(&self.records, slot, old.as_ref());
            old.inspect(|old| assert!(self.model.remove(old)));
            self.model.insert((bucket, value, Uuid::from_u128(id)));
        }

        fn remove(&mut self, id: u128) {
            let Some((slot, old)) = self.records.remove(Uuid::from_u128(id)) else { return };
            self.index.relist(&self.records, slot, Some(&old));
            self.model.remove(&old);
        }

        fn along(&self, direction: Direction, (bucket, value, id): Item) -> Vec<Item> {
            let stops = self.index.along(&self.records, bucket, direction, &(value, id));
            let item = |stop: Stop<i64>| *self.records.at(stop.slot).unwrap();
            stops.inspect(|stop| assert_eq!(stop.place.1, item(stop.clone()).2)).map(item).collect()
        }

        fn check(&self, from: Item, context: &str) {
            let in_bucket = |item: &&Item| item.0 == from.0;
            let after: Vec<_> =
                self.model.range(from..).copied().take_while(|i| in_bucket(&i)).collect();
            let before = self.model.range(..=from).rev().copied().take_while(|i| in_bucket(&i));
            assert_eq!(self.along(Direction::Ascending, from), after, "{context}");
            assert_eq!(
                self.along(Direction::Descending, from),
                before.collect::<Vec<_>>(),
                "{context}"
            );

            let chunks: Vec<_> = self.index.chunks.iter().collect();
            let item = |slot: Option<&Slot>| self.records.at(*slot.unwrap()).unwrap();
            for (key, chunk) in &chunks {
                assert!((1..=CHUNK).contains(&chunk.len()), "{context}: {}", chunk.len());
                assert!(*key <= item(chunk.first()), "{context}");
            }
            for pair in chunks.windows(2) {
                assert!(item(pair[0].1.last()) < pair[1].0, "{context}");
            }
        }

        fn chunks(&self) -> Vec<usize> {
            self.index.chunks.values().map(Vec::len).collect()
        }
    }

    #[test]
    fn an_index_agrees_with_a_set_whatever_is_listed_moved_and_removed() {
        for seed in 0..8 {
            let ids = SeededRandomness::new(seed);
            let any = |below: u64| {
                let mut bytes = [0; 8];
                ids.fill(&mut bytes).unwrap();
                u64::from_le_bytes(bytes) % below
            };
            let mut listed = Listed::default();
            for step in 0..6_000 {
                // It grows, and shrinks, and grows again, and in the end all of it goes.
                let grows = step % 3_000 < 1_800;
                let id = u128::from(any(1_500));
                if any(4) < if grows { 3 } else { 1 } {
                    let value = if seed % 2 == 0 { any(40) } else { 6_000 - step };
                    let value = i64::try_from(value).unwrap();
                    listed.put(u8::try_from(any(1 + 3 * seed)).unwrap(), value, id);
                } else {
                    listed.remove(id);
                }
                if step % 50 == 0 {
                    let from = i64::try_from(any(40)).unwrap();
                    let bucket = u8::try_from(any(2 + 3 * seed)).unwrap();
                    let context = format!("seed {seed}, step {step}");
                    listed.check((bucket, from, Uuid::from_u128(u128::from(any(1_500)))), &context);
                }
            }
            (0..1_500).for_each(|id| listed.remove(id));
            assert!(listed.index.chunks.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn lists_that_grow_at_either_end_are_made_of_full_chunks() {
        for direction in [Direction::Ascending, Direction::Descending] {
            let mut listed = Listed::default();
            for nth in 0..10 * i64::try_from(CHUNK).unwrap() {
                let value = if direction == Direction::Ascending { nth } else { -nth };
                listed.put(0, value, nth.unsigned_abs().into());
            }
            assert_eq!(listed.chunks(), [CHUNK; 10], "{direction:?}");
        }
    }

    #[test]
    fn a_bucket_that_grows_at_its_start_takes_no_chunk_for_each_entry() {
        let mut listed = Listed::default();
        let all = 10 * i64::try_from(CHUNK).unwrap();
        (0..all).for_each(|nth| listed.put(0, nth, nth.unsigned_abs().into()));

        (all..2 * all).for_each(|nth| listed.put(1, -nth, nth.unsigned_abs().into()));

        listed.check((1, -all, Uuid::nil()), "grown at the start");
        assert!(listed.chunks().len() <= 30, "{:?}", listed.chunks());
    }

    #[test]
    fn what_is_left_of_many_chunks_comes_together() {
        let all = 100 * u128::try_from(CHUNK).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let mut listed = Listed::default();
            (0..all).for_each(|id| listed.put(0, 0, id));

            for nth in 0..all {
                let id = if direction == Direction::Ascending { nth } else { all - 1 - nth };
                if id % 50 != 0 {
                    listed.remove(id);
                }
            }

            listed.check((0, 0, Uuid::nil()), "thinned out");
            assert!(listed.chunks().len() <= 16, "{direction:?}: {:?}", listed.chunks());
            let room: usize = listed.index.chunks.values().map(Vec::capacity).sum();
            assert!(room <= 4 * listed.model.len(), "{direction:?}: {room}");
        }
    }

    #[test]
    fn more_than_so_many_is_said_only_where_it_is_so() {
        let mut listed = Listed::default();
        (0..1_000).for_each(|value| listed.put(0, value, value.unsigned_abs().into()));
        let window = |low, high| (0, low, Uuid::nil())..(0, high, Uuid::nil());

        assert!(listed.index.has_more_than(500, window(0, 1_000)));
        assert!(!listed.index.has_more_than(500, window(100, 600)));
        assert!(!listed.index.has_more_than(0, window(1_000, 2_000)));
        assert!(!listed.index.has_more_than(0, window(10, 11)));
    }
}
