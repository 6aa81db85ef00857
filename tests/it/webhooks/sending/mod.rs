//! The sending job, with a receiver that answers as a test says, and a clock that a test turns.

mod bodies;
mod changes;
mod cost;
mod failures;
mod leaders;
mod order;
mod world;
