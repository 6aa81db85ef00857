//! Walks along ordered indexes, and their joins.
//!
//! An index is a set of `(bucket, sort key, id)`: the records of one bucket (a user's, a plan's) lie
//! side by side in order. A walk goes along one bucket and can jump ahead. Several buckets together
//! are walked as their union; several filters together as their intersection, where each walk jumps
//! to where the others are, so that the smallest decides what it costs.

use std::collections::BTreeSet;
use std::collections::btree_set;
use std::ops::Bound;

use uuid::Uuid;

use crate::store::query::{Direction, Page, PageLimit, Position, SortKey};

/// What an index sorts by, with a value below and one above all others.
pub(super) trait SortValue: Ord + Clone {
    const LOWEST: Self;
    const HIGHEST: Self;

    /// The value that stands for a key.
    fn of(key: &SortKey) -> Self;
}

/// Sorted by nothing but the id.
impl SortValue for () {
    const LOWEST: Self = ();
    const HIGHEST: Self = ();

    fn of(_: &SortKey) -> Self {}
}

/// The microseconds of a renewal; one that is never comes after all others.
impl SortValue for i64 {
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;

    fn of(key: &SortKey) -> Self {
        match key {
            SortKey::RenewsAt(at) => at.micros(),
            SortKey::CreatedAt
            | SortKey::Tier(_)
            | SortKey::Price(_)
            | SortKey::Name(_)
            | SortKey::NeverRenews => Self::MAX,
        }
    }
}

/// Any key; those of one index are all of one kind.
impl SortValue for SortKey {
    const LOWEST: Self = Self::CreatedAt;
    const HIGHEST: Self = Self::NeverRenews;

    fn of(key: &SortKey) -> Self {
        key.clone()
    }
}

/// A place along a walk.
pub(super) type Place<V> = (V, Uuid);

/// An index of records by bucket, each bucket in order.
pub(super) type Index<B, V> = BTreeSet<(B, V, Uuid)>;

/// Goes through places in one direction.
pub(super) trait Walk<V> {
    /// The first place that is not before `from`; later calls never go back.
    fn seek(&mut self, from: &Place<V>) -> Option<Place<V>>;
}

/// True if `a` comes before `b`.
fn before<V: Ord>(direction: Direction, a: &Place<V>, b: &Place<V>) -> bool {
    match direction {
        Direction::Ascending => a < b,
        Direction::Descending => a > b,
    }
}

/// The place from which a walk that goes on after `position` starts.
pub(super) fn after<V: SortValue>(
    position: Option<&Position>,
    direction: Direction,
) -> Option<Place<V>> {
    match position {
        None => Some(start(direction)),
        Some(Position { key, id }) => successor(direction, (V::of(key), *id)),
    }
}

/// The place from which a walk over everything starts.
pub(super) fn start<V: SortValue>(direction: Direction) -> Place<V> {
    match direction {
        Direction::Ascending => (V::LOWEST, Uuid::nil()),
        Direction::Descending => (V::HIGHEST, Uuid::max()),
    }
}

/// How many places are passed one by one before a jump is worth its search from the root.
const STEPS_BEFORE_JUMP: usize = 4;

/// A walk along one bucket.
pub(super) struct Bucket<'a, B, V> {
    index: &'a Index<B, V>,
    name: B,
    direction: Direction,
    ahead: btree_set::Range<'a, (B, V, Uuid)>,
    at: Option<Place<V>>,
}

impl<'a, B: Ord + Clone, V: SortValue> Bucket<'a, B, V> {
    pub(super) fn new(
        index: &'a Index<B, V>,
        bucket: B,
        direction: Direction,
        from: &Place<V>,
    ) -> Self {
        let ahead = Self::ahead(index, &bucket, direction, from);
        let mut walk = Self { index, name: bucket, direction, ahead, at: None };
        walk.step();
        walk
    }

    fn ahead(
        index: &'a Index<B, V>,
        bucket: &B,
        direction: Direction,
        (value, id): &Place<V>,
    ) -> btree_set::Range<'a, (B, V, Uuid)> {
        let from = Bound::Included((bucket.clone(), value.clone(), *id));
        match direction {
            Direction::Ascending => {
                index.range((from, Bound::Included((bucket.clone(), V::HIGHEST, Uuid::max()))))
            }
            Direction::Descending => {
                index.range((Bound::Included((bucket.clone(), V::LOWEST, Uuid::nil())), from))
            }
        }
    }

    /// True if no more than so many places are ahead.
    pub(super) fn has_at_most(&self, places: usize) -> bool {
        self.ahead.clone().nth(places).is_none()
    }

    fn step(&mut self) {
        let entry = match self.direction {
            Direction::Ascending => self.ahead.next(),
            Direction::Descending => self.ahead.next_back(),
        };
        self.at = entry.map(|(_, value, id)| (value.clone(), *id));
    }
}

impl<B: Ord + Clone, V: SortValue> Walk<V> for Bucket<'_, B, V> {
    fn seek(&mut self, from: &Place<V>) -> Option<Place<V>> {
        for _ in 0..STEPS_BEFORE_JUMP {
            match &self.at {
                Some(at) if before(self.direction, at, from) => self.step(),
                Some(_) | None => return self.at.clone(),
            }
        }
        if self.at.as_ref().is_some_and(|at| before(self.direction, at, from)) {
            self.ahead = Self::ahead(self.index, &self.name, self.direction, from);
            self.step();
        }
        self.at.clone()
    }
}

/// A walk over places that are in any of several walks.
pub(super) struct Union<'a, V> {
    pub(super) walks: Vec<Box<dyn Walk<V> + 'a>>,
    pub(super) direction: Direction,
}

impl<V: Ord> Walk<V> for Union<'_, V> {
    fn seek(&mut self, from: &Place<V>) -> Option<Place<V>> {
        let direction = self.direction;
        let firsts = self.walks.iter_mut().filter_map(|walk| walk.seek(from));
        firsts.reduce(|a, b| if before(direction, &b, &a) { b } else { a })
    }
}

/// A walk over places that are in all of several walks; over nothing if there are none.
pub(super) struct Intersection<'a, V> {
    pub(super) walks: Vec<Box<dyn Walk<V> + 'a>>,
}

impl<V: Ord + Clone> Walk<V> for Intersection<'_, V> {
    fn seek(&mut self, from: &Place<V>) -> Option<Place<V>> {
        let all = self.walks.len();
        let mut place = from.clone();
        let mut agreed = 0;
        // Round and round until every walk in turn has stopped at the same place.
        while agreed < all || all == 0 {
            let walk = self.walks.first_mut()?;
            let found = walk.seek(&place)?;
            agreed = if found == place { agreed + 1 } else { 1 };
            place = found;
            self.walks.rotate_left(1);
        }
        Some(place)
    }
}

/// A walk over places that were gathered and sorted in its direction.
pub(super) struct Gathered<V> {
    places: std::iter::Peekable<std::vec::IntoIter<Place<V>>>,
    direction: Direction,
}

impl<V: Ord> Gathered<V> {
    pub(super) fn new(mut places: Vec<Place<V>>, direction: Direction) -> Self {
        places.sort_unstable();
        if direction == Direction::Descending {
            places.reverse();
        }
        Self { places: places.into_iter().peekable(), direction }
    }
}

impl<V: Ord + Clone> Walk<V> for Gathered<V> {
    fn seek(&mut self, from: &Place<V>) -> Option<Place<V>> {
        while self.places.next_if(|place| before(self.direction, place, from)).is_some() {}
        self.places.peek().cloned()
    }
}

/// The place right after `place`, if there can be one.
pub(super) fn successor<V>(direction: Direction, (value, id): Place<V>) -> Option<Place<V>> {
    // Ids have neighbours, so that a walk needs to know of inclusive bounds only. A value that has no
    // neighbour (the last id of all) ends the walk; ids are random, nobody has it.
    let id = match direction {
        Direction::Ascending => id.as_u128().checked_add(1)?,
        Direction::Descending => id.as_u128().checked_sub(1)?,
    };
    Some((value, Uuid::from_u128(id)))
}

/// Collects a page along a walk.
///
/// `record` gives what is at a place if it belongs on the page; `position` names where it stands.
pub(super) fn page<V: Clone, T>(
    walk: &mut dyn Walk<V>,
    mut from: Option<Place<V>>,
    direction: Direction,
    limit: PageLimit,
    record: impl Fn(&Place<V>) -> Found<T>,
    position: impl Fn(&T) -> Position,
) -> Page<T> {
    let mut items = Vec::with_capacity(limit.get());
    while let Some(place) = from.and_then(|from| walk.seek(&from)) {
        match record(&place) {
            Found::End => break,
            Found::Other => {}
            Found::Item(_) if items.len() == limit.get() => {
                let next = items.last().map(position);
                return Page { items, next };
            }
            Found::Item(item) => items.push(item),
        }
        from = successor(direction, place);
    }
    Page { items, next: None }
}

/// What is at a place.
pub(super) enum Found<T> {
    /// A record that belongs on the page.
    Item(T),
    /// A record that does not.
    Other,
    /// Nothing from here on belongs on the page.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(bucket: u8, ids: &[u128]) -> Index<u8, ()> {
        ids.iter().map(|id| (bucket, (), Uuid::from_u128(*id))).collect()
    }

    fn walked(walk: &mut dyn Walk<()>, direction: Direction) -> Vec<u128> {
        let mut ids = Vec::new();
        let mut from = Some(start(direction));
        while let Some(place) = from.and_then(|from| walk.seek(&from)) {
            ids.push(place.1.as_u128());
            from = successor(direction, place);
        }
        ids
    }

    #[test]
    fn joins_agree_with_sets_in_both_directions() {
        let evens: Vec<u128> = (1..500).filter(|n| n % 2 == 0).collect();
        let threes: Vec<u128> = (1..500).filter(|n| n % 3 == 0).collect();
        let (a, b, other) = (index(1, &evens), index(1, &threes), index(2, &[1, 5, 7]));
        let both: Index<u8, ()> = a.union(&other).copied().collect();

        for direction in [Direction::Ascending, Direction::Descending] {
            let walks = || -> Vec<Box<dyn Walk<()>>> {
                let from = start(direction);
                vec![
                    Box::new(Bucket::new(&both, 1, direction, &from)),
                    Box::new(Bucket::new(&b, 1, direction, &from)),
                ]
            };
            let in_direction = |mut ids: Vec<u128>| {
                if direction == Direction::Descending {
                    ids.reverse();
                }
                ids
            };

            let intersection = walked(&mut Intersection { walks: walks() }, direction);
            let union = walked(&mut Union { walks: walks(), direction }, direction);

            assert_eq!(intersection, in_direction((1..500).filter(|n| n % 6 == 0).collect()));
            assert_eq!(
                union,
                in_direction((1..500).filter(|n| n % 2 == 0 || n % 3 == 0).collect())
            );
        }
        assert_eq!(walked(&mut Intersection { walks: vec![] }, Direction::Ascending), []);
    }

    #[test]
    fn what_was_gathered_is_walked_in_order() {
        let places = || [3, 1, 2].map(|id| ((), Uuid::from_u128(id))).to_vec();

        for (direction, expected) in
            [(Direction::Ascending, [1, 2, 3]), (Direction::Descending, [3, 2, 1])]
        {
            assert_eq!(walked(&mut Gathered::new(places(), direction), direction), expected);
        }
    }
}
