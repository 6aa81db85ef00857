//! The states that an object has had.

/// The states of an object, each with the number of the change that made it.
#[derive(Debug, Clone)]
pub struct History<T> {
    states: Vec<(u64, T)>,
}

impl<T: Clone + PartialEq> History<T> {
    pub fn new(change: u64, state: T) -> Self {
        Self { states: vec![(change, state)] }
    }

    /// The present state.
    pub fn last(&self) -> &T {
        &self.states.last().unwrap().1
    }

    /// The place of the present state.
    pub fn last_place(&self) -> usize {
        self.states.len() - 1
    }

    /// The state at a place.
    pub fn at(&self, place: usize) -> Option<&T> {
        self.states.get(place).map(|(_, state)| state)
    }

    /// The states from a place on.
    pub fn since(&self, place: usize) -> impl Iterator<Item = &T> {
        self.states.iter().skip(place).map(|(_, state)| state)
    }

    /// The place of the state after a change, which is none if the object was made later.
    pub fn place_after(&self, change: u64) -> Option<usize> {
        self.states.iter().rposition(|(made, _)| *made <= change)
    }

    /// Makes a state the present one; the same state again makes no new one.
    pub fn push(&mut self, change: u64, state: T) {
        if *self.last() != state {
            self.states.push((change, state));
        }
    }
}
