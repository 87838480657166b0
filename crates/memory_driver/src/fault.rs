//! Promises that the driver can be told to break, each until it is mended. RPCs are named as in the specification.

/// Names every fault once, and makes those without arguments known by name.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A promise that is broken from now on. The names say how; a comment says where a name does not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are the documentation")]
        pub enum Fault {
            /// The call does nothing and says OK where it should refuse.
            Accepts(&'static str),
            /// The call refuses, with a code that says nothing.
            Miscodes(&'static str),
            /// The call never works.
            Fails(&'static str),
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// The fault of this name; those of one RPC are better said with a [`Mishap`](super::Mishap).
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

faults! {
    // ---- what the driver says about itself ----
    /// `Probe` answers that it is not ready.
    NeverReady,
    UnknownPluginCapability,
    UnknownControllerCapability,
    UnknownGroupCapability,
    NoGroupCapability,
    UnknownNodeCapability,
    NameMissing,
    NameTooLong,
    NameOfOtherCharacters,
    /// Another driver answers at the socket.
    NameChanged,
    NodeIdMissing,
    NodeIdTooLong,
    NegativeLimit,
    TopologyMissing,
    NegativeCapacity,
    /// `GetCapacity` answers zero, yet volumes can be made.
    NoCapacity,

    // ---- volumes ----
    VolumeWithoutId,
    /// The id has ten thousand bytes.
    VolumeIdTooLong,
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
    /// `ControllerExpandVolume` says OK and a size that is less than asked for.
    ExpandedTooLittle,
    AnyReadonly,
    NoLimit,
    PublishedOnlyOnce,
    CannotBeUnpublished,
    /// The first `CreateVolume` makes a volume and never answers.
    FirstVolumeNotAnswered,
    /// All sockets end, for good, at the first `CreateVolume`.
    Dies,
    /// An error message repeats the secrets of the request.
    TellsSecrets,

    // ---- snapshots ----
    SnapshotWithoutTime,
    NewSnapshotEachTime,
    /// Snapshots are not ready, as long as this lasts.
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

/// The faults that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn set(&mut self, fault: Fault) {
        if !self.has(fault) {
            self.0.push(fault);
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }
}
