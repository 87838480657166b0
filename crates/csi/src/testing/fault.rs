//! Promises that the driver can be told to break. RPCs are named as in the specification.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    // ---- any call ----
    /// The call does nothing and says OK where it should refuse.
    Accepts(&'static str),
    /// The call refuses, with a code that says nothing.
    Miscodes(&'static str),
    /// The call never works.
    Fails(&'static str),

    // ---- what the driver says about itself ----
    NeverReady,
    UnknownPluginCapability,
    UnknownControllerCapability,
    UnknownGroupCapability,
    NoGroupCapability,
    UnknownNodeCapability,
    NameMissing,
    NameTooLong,
    NameOfOtherCharacters,
    NodeIdMissing,
    NodeIdTooLong,
    NegativeLimit,
    TopologyMissing,
    NegativeCapacity,

    // ---- volumes ----
    VolumeWithoutId,
    VolumeTooSmall,
    NewVolumeEachTime,
    AnySizeForAKnownName,
    LongNamesRefused,
    SourceNotNamed,
    WrongSourceNamed,
    MutableParametersRefused,
    AnyMutableParameter,
    MissingVolumeCannotBeDeleted,
    VolumeCannotBeDeleted,
    VolumeStaysWhenDeleted,
    ListedWithoutId,
    AnyToken,
    SameTokenForEver,
    NewVolumesNotListed,
    DeletedVolumesListed,
    NothingConfirmed,
    ExpandedBeyondTheLimit,
    AnyReadonly,
    NoLimit,
    PublishedOnlyOnce,
    CannotBeUnpublished,
    /// The first `CreateVolume` makes a volume and never answers.
    FirstVolumeNotAnswered,
    /// The process ends at the first `CreateVolume`.
    Dies,
    /// An error message repeats the secrets of the request.
    TellsSecrets,

    // ---- snapshots ----
    SnapshotWithoutTime,
    NewSnapshotEachTime,
    NeverReadyToUse,
    AnySourceForAKnownName,
    MissingSnapshotCannotBeDeleted,
    OtherSnapshotFound,
    SnapshotFilterIgnored,
    NewSnapshotsNotListed,
    DeletedSnapshotsListed,
    PagesTooLong,
    NoNextToken,
    TokenIgnored,

    // ---- node ----
    SecondTarget,
    TargetNotMade,
    TargetStays,
    StagedOnlyOnce,
    AnyPathHasStats,
    StatsWithoutUsage,
}
