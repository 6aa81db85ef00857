//! Ordered lists of records, and iterators over the records that are in several of these lists.
//!
//! A record is in every list that it belongs to: the list of its user, of its plan, and so on. The lists of all
//! users in one order are one ordered map, and the list of one user is a range of that map.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::sync::Arc;

use crate::store::query::{Direction, PageLimit, Position, SortKey};
use crate::values::Timestamp;

/// A value that lists are sorted by, with the smallest and the largest value of its type.
pub(super) trait SortValue: Ord + Clone {
    const LOWEST: Self;
    const HIGHEST: Self;
}

/// Without a value, the list is sorted by the id alone, which is the order of creation.
impl SortValue for () {
    const LOWEST: Self = ();
    const HIGHEST: Self = ();
}

/// A time in microseconds. A subscription that never renews has the largest value.
impl SortValue for i64 {
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;
}

/// The sort keys of plans. In the order of the variants of `SortKey`, the first of these keys is `CreatedAt`, and all
/// of them come before `NeverRenews`.
impl SortValue for SortKey {
    const LOWEST: Self = Self::CreatedAt;
    const HIGHEST: Self = Self::NeverRenews;
}

/// A place in a list: the sort value, and the record's id as a number, which compares faster than its bytes.
pub(super) type IndexKey<V> = (V, u128);

/// The name of the list that has all records.
pub(super) const ALL: u128 = 0;

/// Records in lists that are named by numbers (the id of a user, say) and sorted by `V`.
#[derive(Debug)]
pub(super) struct Lists<V, T>(BTreeMap<Entry<V>, Arc<T>>);

/// A place in a named list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<V> {
    list: u128,
    value: V,
    id: u128,
}

/// This comparison is not derived: maps compare their entries often, and the derived comparison costs twice as much.
impl<V: Ord> Ord for Entry<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.list != other.list {
            return if self.list < other.list { Ordering::Less } else { Ordering::Greater };
        }
        match self.value.cmp(&other.value) {
            Ordering::Equal => self.id.cmp(&other.id),
            differ @ (Ordering::Less | Ordering::Greater) => differ,
        }
    }
}

impl<V: Ord> PartialOrd for Entry<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lists of a [`Lists`] that have these names. A record that is in any of them satisfies the filter.
pub(super) type Filter<'a, V, T> = (&'a Lists<V, T>, Vec<u128>);

impl<V, T> Default for Lists<V, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: SortValue, T> Lists<V, T> {
    pub(super) fn insert(&mut self, list: u128, (value, id): IndexKey<V>, record: &Arc<T>) {
        self.0.insert(Entry { list, value, id }, Arc::clone(record));
    }

    pub(super) fn remove(&mut self, list: u128, (value, id): IndexKey<V>) {
        self.0.remove(&Entry { list, value, id });
    }

    /// All records of one list, in ascending order.
    pub(super) fn all(&self, list: u128) -> impl Iterator<Item = &Arc<T>> {
        self.ahead(list, Direction::Ascending, &(V::LOWEST, 0)).map(|(_, record)| record)
    }

    /// The records of one list whose value is at least `low` and less than `high`.
    pub(super) fn between(
        &self,
        list: u128,
        low: V,
        high: V,
    ) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        // `BTreeMap::range` panics if a range ends before it begins.
        let high = high.max(low.clone());
        let from = Entry { list, value: low, id: 0 };
        let to = Entry { list, value: high, id: 0 };
        self.0.range(from..to).map(|(_, record)| record)
    }

    fn ahead(
        &self,
        list: u128,
        direction: Direction,
        (value, id): &IndexKey<V>,
    ) -> Range<'_, Entry<V>, Arc<T>> {
        let from = Entry { list, value: value.clone(), id: *id };
        match direction {
            Direction::Ascending => {
                self.0.range(from..=Entry { list, value: V::HIGHEST, id: u128::MAX })
            }
            Direction::Descending => self.0.range(Entry { list, value: V::LOWEST, id: 0 }..=from),
        }
    }
}

/// Iterates over the records that satisfy every filter, beginning at the place `from`; `None` gives no records. A
/// filter is several lists; a record that is in any of them satisfies it.
pub(super) fn walk<'a, V: SortValue, T>(
    filters: &[Filter<'a, V, T>],
    direction: Direction,
    from: Option<IndexKey<V>>,
) -> Box<dyn Iterator<Item = (&'a V, &'a Arc<T>)> + 'a> {
    let Some(from) = from else { return Box::new(std::iter::empty()) };
    if let [(lists, names)] = filters
        && let [list] = names.as_slice()
    {
        let found = lists.ahead(*list, direction, &from);
        let found = found.map(|(entry, record)| (&entry.value, record));
        return match direction {
            Direction::Ascending => Box::new(found),
            Direction::Descending => Box::new(found.rev()),
        };
    }
    let cursors = |(lists, names): &Filter<'a, V, T>| {
        let lists = *lists;
        names.iter().map(|list| Cursor::new(lists, *list, direction, &from)).collect()
    };
    let filters = filters.iter().map(cursors).collect();
    Box::new(Walk { filters, direction, from: Some(from) })
}

/// The place from which [`walk`] continues after `position`: the start of the list if `position` is `None`. Returns
/// `None` if no place can follow.
pub(super) fn after<V: SortValue>(
    position: Option<&Position>,
    direction: Direction,
    value: impl Fn(&SortKey) -> V,
) -> Option<IndexKey<V>> {
    match (position, direction) {
        (Some(Position { key, id }), _) => successor(direction, &(value(key), id.as_u128())),
        (None, Direction::Ascending) => Some((V::LOWEST, 0)),
        (None, Direction::Descending) => Some((V::HIGHEST, u128::MAX)),
    }
}

/// The next place after `place` in this direction: the id plus one, or minus one.
fn successor<V: Clone>(direction: Direction, (value, id): &IndexKey<V>) -> Option<IndexKey<V>> {
    let id = match direction {
        Direction::Ascending => id.checked_add(1)?,
        Direction::Descending => id.checked_sub(1)?,
    };
    Some((value.clone(), id))
}

/// The number of records over which a cursor moves one by one before it searches the map for the place instead.
const STEPS_MAX: usize = 4;

/// A place in one list, which moves in one direction.
struct Cursor<'a, V, T> {
    lists: &'a Lists<V, T>,
    list: u128,
    direction: Direction,
    ahead: Range<'a, Entry<V>, Arc<T>>,
    at: Option<(&'a V, u128, &'a Arc<T>)>,
}

impl<'a, V: SortValue, T> Cursor<'a, V, T> {
    fn new(lists: &'a Lists<V, T>, list: u128, direction: Direction, from: &IndexKey<V>) -> Self {
        let ahead = lists.ahead(list, direction, from);
        let mut cursor = Self { lists, list, direction, ahead, at: None };
        cursor.step();
        cursor
    }

    fn step(&mut self) {
        let entry = match self.direction {
            Direction::Ascending => self.ahead.next(),
            Direction::Descending => self.ahead.next_back(),
        };
        self.at = entry.map(|(entry, record)| (&entry.value, entry.id, record));
    }

    fn is_before(&self, place: &IndexKey<V>) -> bool {
        self.at.is_some_and(|(value, id, _)| is_before(self.direction, (value, id), of(place)))
    }

    /// Moves to the first record that is not before `place`.
    fn seek(&mut self, place: &IndexKey<V>) -> Option<(&'a V, u128, &'a Arc<T>)> {
        for _ in 0..STEPS_MAX {
            if !self.is_before(place) {
                break;
            }
            self.step();
        }
        if self.is_before(place) {
            self.ahead = self.lists.ahead(self.list, self.direction, place);
            self.step();
        }
        self.at
    }
}

const fn of<V>((value, id): &IndexKey<V>) -> (&V, u128) {
    (value, *id)
}

fn is_before<V: Ord>(direction: Direction, a: (&V, u128), b: (&V, u128)) -> bool {
    match direction {
        Direction::Ascending => a < b,
        Direction::Descending => a > b,
    }
}

/// An iterator over the records that satisfy every filter. Each filter jumps to the place that the others
/// have reached, so the filter with the fewest records determines the cost.
struct Walk<'a, V, T> {
    filters: Vec<Vec<Cursor<'a, V, T>>>,
    direction: Direction,
    from: Option<IndexKey<V>>,
}

impl<'a, V: SortValue, T> Iterator for Walk<'a, V, T> {
    type Item = (&'a V, &'a Arc<T>);

    fn next(&mut self) -> Option<Self::Item> {
        let direction = self.direction;
        let count = self.filters.len();
        let mut place = self.from.take()?;
        let mut agreed = 0;
        // Move the filters forward in turn until all of them are at the same place.
        loop {
            let filter = self.filters.first_mut()?;
            let firsts = filter.iter_mut().filter_map(|cursor| cursor.seek(&place));
            let first = firsts
                .reduce(|a, b| if is_before(direction, (b.0, b.1), (a.0, a.1)) { b } else { a });
            let (value, id, record) = first?;
            agreed = if (value, id) == of(&place) { agreed + 1 } else { 1 };
            place = (value.clone(), id);
            if agreed == count {
                self.from = successor(direction, &place);
                return Some((value, record));
            }
            self.filters.rotate_left(1);
        }
    }
}

/// The records of a page, and one more if more follow.
pub(super) fn first<'a, T: 'a>(
    found: impl Iterator<Item = &'a Arc<T>>,
    limit: PageLimit,
) -> Vec<Arc<T>> {
    found.take(limit.get() + 1).cloned().collect()
}

/// The records of a list that are due at `until` or before, after a position.
pub(super) fn due<'a, T>(
    lists: &'a Lists<i64, T>,
    list: u128,
    until: Timestamp,
    position: Option<&Position>,
) -> impl Iterator<Item = &'a Arc<T>> {
    let from = after(position, Direction::Ascending, |key| {
        if let SortKey::DueAt(at) = key { at.micros() } else { i64::LOWEST }
    });
    let found = walk(&[(lists, vec![list])], Direction::Ascending, from);
    found.take_while(move |(at, _)| **at <= until.micros()).map(|(_, record)| record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_agrees_with_sets_in_both_directions() {
        let mut lists: Lists<(), u128> = Lists::default();
        for n in 1..500_u128 {
            for divisor in [2, 3, 5, 7].into_iter().filter(|divisor| n.is_multiple_of(*divisor)) {
                lists.insert(divisor, ((), n), &Arc::new(n));
            }
        }
        let walked = |filters: &[&[u128]], direction| {
            let filters: Vec<_> = filters.iter().map(|names| (&lists, names.to_vec())).collect();
            let walk = walk(&filters, direction, after(None, direction, |_| ()));
            walk.map(|((), n)| **n).collect::<Vec<_>>()
        };
        for filters in [&[&[2][..]][..], &[&[2], &[3]], &[&[2, 3]], &[&[2, 3], &[5, 7]], &[]] {
            let fits =
                |n: &u128| filters.iter().all(|any| any.iter().any(|d| n.is_multiple_of(*d)));
            let expected: Vec<_> = (1..500).filter(|n| !filters.is_empty() && fits(n)).collect();

            assert_eq!(walked(filters, Direction::Ascending), expected, "{filters:?}");
            let backwards: Vec<_> = expected.into_iter().rev().collect();
            assert_eq!(walked(filters, Direction::Descending), backwards, "{filters:?}");
        }
    }
}
