//! The faults that a store can have.

use subscription_core::store::Unique;

/// Something that stores get wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stores) enum Fault {
    // Faults of checks.
    IgnoresVersionsOfWrites,
    TakesFirstVersionsAsUpserts,
    IgnoresVersionsOfDeletes,
    IgnoresGuards,
    IgnoresPlanUse,
    IgnoresLiveSubscriptions,
    IgnoresExpiry,
    CountsDeletedSubscriptions,
    SwallowsTaken(Unique),
    NamesAnotherUnique,
    NamesTheFirstRecordInConflicts,
    KeepsValuesOfDeletedRecords,
    RefusesRecordsTheirOwnValue,
    TakesNoneForAValue,
    ComparesValuesWithoutCase,
    ChecksValuesBeforeVersions,
    SplitsLargeSets,
    TakesTheLastOfTwoWrites,

    // Faults of writes.
    AppliesTheFirstHalfOfRefusedSets,
    KeepsAnswersOfRefusedSets,
    DropsEvents,
    KeepsEventsOfRefusedSets,
    ForgetsThoughRefused,
    ForgetsAllEvents,
    ForgetsOneEventTooFew,

    // Faults of reads.
    LosesBlocked,
    LosesSettled,
    SortsTheKeysOfMetadata,
    NormalizesPrices,
    CutsTimesToMilliseconds,
    ServesPlansFromAStaleCache,
    FindsDeletedPlansBySlug,
    ReversesTheFeed,
    NumbersTheFeedAnew,
    RepeatsTheLastEventSeen,
    IgnoresTheLimitOfEvents,
    ListsUnexpiredAnswers,
    ListsAnswersTooLate,
    ListsExpiredAnswersBackwards,

    FindsUsersBySubjectAlone,
    ListsSessionsOldestFirst,
    ListsEndedSessionsAsLive,
    SkipsNoEndedSessions,
    HidesClosingUsers,
    ListsEndedSessionsTooLate,
    LosesRevocations,
    HidesShutOutClients,
    LosesOwners,
    ListsDocumentsBackwards,

    // Faults of lists.
    IgnoresTheProductFilter,
    IgnoresTheSecondOfTwoFilters,
    IgnoresTheTimeOfTheQuestion,
    TakesRenewsBeforeAsInclusive,
    TakesRenewsAfterAsExclusive,
    FindsNeverRenewingInWindows,
    SortsNeverRenewingFirst,
    SortsPricesAsText,
    SortsNamesWithoutCase,
    SortsBackwards,
    BreaksTiesUpwardsAlways,
    SortsByTheFirstVersion,
    SkipsOneAfterThePosition,
    RepeatsThePosition,
    NeedsTheRecordOfThePosition,
    CountsInsteadOfSeeking,
    NamesThePositionAtTheEnd,
    HidesThatMoreFollow,
    GivesOneTooMany,
    MixesPaymentsOfAllSubscriptions,

    // Faults of concurrent calls.
    ChecksVersionsBeforeLocking,
    ChecksGuardsBeforeLocking,
    ChecksPlanUseBeforeLocking,
    ShowsHalfOfACommit,
    NumbersEventsBeforeLocking,
}
