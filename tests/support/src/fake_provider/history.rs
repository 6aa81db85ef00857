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

    /// The current state.
    pub fn last(&self) -> &T {
        &self.states.last().unwrap().1
    }

    /// The index of the current state.
    pub fn last_place(&self) -> usize {
        self.states.len() - 1
    }

    /// The state at an index. `None` if there is no such state.
    pub fn at(&self, place: usize) -> Option<&T> {
        self.states.get(place).map(|(_, state)| state)
    }

    /// The states from an index to the last.
    pub fn since(&self, place: usize) -> impl Iterator<Item = &T> {
        self.states.iter().skip(place).map(|(_, state)| state)
    }

    /// The index of the state that the object had after a change. `None` if the object was created later.
    pub fn place_after(&self, change: u64) -> Option<usize> {
        self.states.iter().rposition(|(made, _)| *made <= change)
    }

    /// Adds a state as the current one. Does nothing if it equals the current state.
    pub fn push(&mut self, change: u64, state: T) {
        if *self.last() != state {
            self.states.push((change, state));
        }
    }
}
