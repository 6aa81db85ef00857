//! Faults that are planted below the workers, to see that the simulation finds them.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An event that is set aside is not stored.
    DropsParked,
    /// A new leader does not see the events that are set aside.
    HidesParked,
    /// Records are shown as they were first read.
    ShowsOldRecords,
    /// The cursor is not stored.
    LosesCursors,
    /// Bodies have the actor of the event.
    TellsActors,
    /// An endpoint that was deleted is still found.
    RemembersEndpoints,
}
