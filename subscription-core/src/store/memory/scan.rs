//! Walks along ordered indexes, and their joins.
//!
//! A walk goes along one bucket of an index (a user's records, a plan's) and can jump ahead. Several
//! buckets together are walked as their union; several filters together as their intersection, where
//! each walk jumps to where the others are, so that the smallest decides what it costs.

use uuid::Uuid;

use super::records::Slot;
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
            | SortKey::NeverRenews
            | SortKey::Document { .. } => Self::MAX,
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

/// A place where a record is.
#[derive(Debug, Clone)]
pub(super) struct Stop<V> {
    pub(super) place: Place<V>,
    pub(super) slot: Slot,
}

/// Goes through places in one direction.
pub(super) trait Walk<V> {
    /// The first stop that is not before `from`; later calls never go back.
    fn seek(&mut self, from: &Place<V>) -> Option<&Stop<V>>;
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
        Some(Position { key, id }) => successor(direction, &(V::of(key), *id)),
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

/// A walk along one bucket. `open` gives its stops from a place on.
pub(super) struct Bucket<V, O, S> {
    open: O,
    direction: Direction,
    ahead: S,
    at: Option<Stop<V>>,
}

impl<V, O, S> Bucket<V, O, S>
where
    O: Fn(&Place<V>) -> S,
    S: Iterator<Item = Stop<V>> + Clone,
{
    pub(super) fn new(direction: Direction, from: &Place<V>, open: O) -> Self {
        let mut ahead = open(from);
        let at = ahead.next();
        Self { open, direction, ahead, at }
    }

    /// True if no more than so many places are ahead.
    pub(super) fn has_at_most(&self, places: usize) -> bool {
        self.ahead.clone().nth(places).is_none()
    }
}

impl<V, O, S> Walk<V> for Bucket<V, O, S>
where
    V: Ord + Clone,
    O: Fn(&Place<V>) -> S,
    S: Iterator<Item = Stop<V>> + Clone,
{
    fn seek(&mut self, from: &Place<V>) -> Option<&Stop<V>> {
        for _ in 0..STEPS_BEFORE_JUMP {
            match &self.at {
                Some(at) if before(self.direction, &at.place, from) => self.at = self.ahead.next(),
                Some(_) | None => return self.at.as_ref(),
            }
        }
        if self.at.as_ref().is_some_and(|at| before(self.direction, &at.place, from)) {
            self.ahead = (self.open)(from);
            self.at = self.ahead.next();
        }
        self.at.as_ref()
    }
}

/// A walk over places that are in any of several walks.
pub(super) struct Union<'a, V> {
    pub(super) walks: Vec<Box<dyn Walk<V> + 'a>>,
    pub(super) direction: Direction,
}

impl<V: Ord> Walk<V> for Union<'_, V> {
    fn seek(&mut self, from: &Place<V>) -> Option<&Stop<V>> {
        let direction = self.direction;
        let firsts = self.walks.iter_mut().filter_map(|walk| walk.seek(from));
        firsts.reduce(|a, b| if before(direction, &b.place, &a.place) { b } else { a })
    }
}

/// A walk over places that are in all of several walks; over nothing if there are none.
pub(super) struct Intersection<'a, V> {
    pub(super) walks: Vec<Box<dyn Walk<V> + 'a>>,
}

impl<V: Ord + Clone> Walk<V> for Intersection<'_, V> {
    fn seek(&mut self, from: &Place<V>) -> Option<&Stop<V>> {
        let all = self.walks.len();
        if all == 1 {
            return self.walks.first_mut()?.seek(from);
        }
        let mut place = from.clone();
        let mut agreed = 0;
        // Round and round until every walk in turn has stopped at the same place.
        while agreed < all {
            let found = self.walks.first_mut()?.seek(&place)?;
            if found.place == place {
                agreed += 1;
            } else {
                (place, agreed) = (found.place.clone(), 1);
            }
            self.walks.rotate_left(1);
        }
        self.walks.first_mut()?.seek(&place)
    }
}

/// A walk over stops that were gathered and sorted in its direction.
pub(super) struct Gathered<V> {
    stops: std::iter::Peekable<std::vec::IntoIter<Stop<V>>>,
    direction: Direction,
}

impl<V: Ord> Gathered<V> {
    pub(super) fn new(mut stops: Vec<Stop<V>>, direction: Direction) -> Self {
        stops.sort_unstable_by(|a, b| match direction {
            Direction::Ascending => a.place.cmp(&b.place),
            Direction::Descending => b.place.cmp(&a.place),
        });
        Self { stops: stops.into_iter().peekable(), direction }
    }
}

impl<V: Ord + Clone> Walk<V> for Gathered<V> {
    fn seek(&mut self, from: &Place<V>) -> Option<&Stop<V>> {
        while self.stops.next_if(|stop| before(self.direction, &stop.place, from)).is_some() {}
        self.stops.peek()
    }
}

/// The place right after `place`, if there can be one.
fn successor<V: Clone>(direction: Direction, (value, id): &Place<V>) -> Option<Place<V>> {
    // Ids have neighbours, so that a walk needs to know of inclusive bounds only. A value that has no
    // neighbour (the last id of all) ends the walk; ids are random, nobody has it.
    let id = match direction {
        Direction::Ascending => id.as_u128().checked_add(1)?,
        Direction::Descending => id.as_u128().checked_sub(1)?,
    };
    Some((value.clone(), Uuid::from_u128(id)))
}

/// Collects a page along a walk.
///
/// `record` gives what is at a stop if it belongs on the page; `position` names where it stands.
pub(super) fn page<V: Clone, T>(
    walk: &mut dyn Walk<V>,
    mut from: Option<Place<V>>,
    direction: Direction,
    limit: PageLimit,
    record: impl Fn(&Stop<V>) -> Found<T>,
    position: impl Fn(&T) -> Position,
) -> Page<T> {
    let mut items = Vec::with_capacity(limit.get());
    while let Some(stop) = from.as_ref().and_then(|from| walk.seek(from)) {
        match record(stop) {
            Found::End => break,
            Found::Other => {}
            Found::Item(_) if items.len() == limit.get() => {
                let next = items.last().map(position);
                return Page { items, next };
            }
            Found::Item(item) => items.push(item),
        }
        from = successor(direction, &stop.place);
    }
    Page { items, next: None }
}

/// What is at a stop.
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

    fn stops(ids: impl IntoIterator<Item = u128>) -> Vec<Stop<()>> {
        let stop = |id| Stop { place: ((), Uuid::from_u128(id)), slot: Slot(0) };
        ids.into_iter().map(stop).collect()
    }

    fn bucket(ids: &[u128], direction: Direction) -> Box<dyn Walk<()>> {
        let mut stops = stops(ids.iter().copied());
        if direction == Direction::Descending {
            stops.reverse();
        }
        let open = move |from: &Place<()>| {
            let ahead = stops.iter().filter(|stop| !before(direction, &stop.place, from));
            ahead.cloned().collect::<Vec<_>>().into_iter()
        };
        Box::new(Bucket::new(direction, &start(direction), open))
    }

    fn walked(walk: &mut dyn Walk<()>, direction: Direction) -> Vec<u128> {
        let mut ids = Vec::new();
        let mut from = Some(start(direction));
        while let Some(Stop { place, .. }) = from.as_ref().and_then(|from| walk.seek(from)) {
            ids.push(place.1.as_u128());
            from = successor(direction, place);
        }
        ids
    }

    #[test]
    fn joins_agree_with_sets_in_both_directions() {
        let evens: Vec<u128> = (1..500).filter(|n| n % 2 == 0).collect();
        let threes: Vec<u128> = (1..500).filter(|n| n % 3 == 0).collect();

        for direction in [Direction::Ascending, Direction::Descending] {
            let walks = || vec![bucket(&evens, direction), bucket(&threes, direction)];
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
        for (direction, expected) in
            [(Direction::Ascending, [1, 2, 3]), (Direction::Descending, [3, 2, 1])]
        {
            assert_eq!(
                walked(&mut Gathered::new(stops([3, 1, 2]), direction), direction),
                expected
            );
        }
    }
}
