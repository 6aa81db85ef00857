//! Faults that are planted between the workers and their store or network, to test that the simulation finds them.

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A parked event is not stored.
    DropsParked,
    /// A new leader does not see the parked events.
    HidesParked,
    /// Records are shown in the state in which they were first read.
    ShowsOldRecords,
    /// The cursor is not stored.
    LosesCursors,
    /// The body of a delivery contains the actor of the event.
    TellsActors,
    /// A deleted endpoint is still found.
    RemembersEndpoints,
}
