//! Broken promises and the cases that must find them. A case is named by as many words as tell it from all others.

use stowage_memory_driver::Fault;

/// Calls that must refuse something. Each is tried twice: with a driver that says OK instead, and with one that
/// refuses with a code that says nothing.
pub const REFUSALS: &[(&str, &[&str])] = &[
    ("ListVolumes", &["ListVolumes: refuses an invalid"]),
    (
        "CreateVolume",
        &[
            "CreateVolume: refuses a request without a name",
            "CreateVolume: refuses a request without capabilities",
            "CreateVolume: refuses a known name with another size",
            "CreateVolume: does not find a snapshot",
            "CreateVolume: does not find a source volume",
            "CreateVolume: refuses an unknown mutable",
        ],
    ),
    ("DeleteVolume", &["DeleteVolume: refuses"]),
    (
        "ValidateVolumeCapabilities",
        &[
            "ValidateVolumeCapabilities: refuses a request without a volume id",
            "ValidateVolumeCapabilities: refuses a request without capabilities",
            "ValidateVolumeCapabilities: does not find",
        ],
    ),
    (
        "ControllerPublishVolume",
        &[
            "ControllerPublishVolume: refuses a request without a volume id",
            "ControllerPublishVolume: refuses a request without a node id",
            "ControllerPublishVolume: refuses a request without a capability",
            "ControllerPublishVolume: does not find a volume",
            "ControllerPublishVolume: does not find a node",
            "ControllerPublishVolume: refuses a published volume",
        ],
    ),
    ("ControllerUnpublishVolume", &["ControllerUnpublishVolume:"]),
    ("DeleteSnapshot", &["DeleteSnapshot: refuses"]),
    (
        "CreateSnapshot",
        &[
            "CreateSnapshot: refuses a request without a name",
            "CreateSnapshot: refuses a request without a source",
            "CreateSnapshot: refuses a known name",
        ],
    ),
    (
        "ControllerExpandVolume",
        &[
            "ControllerExpandVolume: refuses a request without a volume id",
            "ControllerExpandVolume: refuses a request without a capacity_range",
        ],
    ),
    (
        "ControllerModifyVolume",
        &[
            "ControllerModifyVolume: refuses a request",
            "ControllerModifyVolume: does not find",
            "ControllerModifyVolume: refuses an unknown parameter for a plain",
            "ControllerModifyVolume: refuses an unknown parameter for a volume",
        ],
    ),
    (
        "CreateVolumeGroupSnapshot",
        &["CreateVolumeGroupSnapshot refuses"],
    ),
    (
        "GetVolumeGroupSnapshot",
        &[
            "GetVolumeGroupSnapshot refuses",
            "GetVolumeGroupSnapshot does not",
        ],
    ),
    (
        "DeleteVolumeGroupSnapshot",
        &["DeleteVolumeGroupSnapshot refuses"],
    ),
    (
        "NodePublishVolume",
        &[
            "NodePublishVolume: refuses a request without a volume id",
            "NodePublishVolume: refuses a request without a target",
            "NodePublishVolume: refuses a request without a capability",
            "NodePublishVolume: refuses a second target",
        ],
    ),
    (
        "NodeUnpublishVolume",
        &[
            "NodeUnpublishVolume: refuses a request without a volume id",
            "NodeUnpublishVolume: refuses a request without a target",
        ],
    ),
    (
        "NodeStageVolume",
        &[
            "NodeStageVolume: refuses a request without a volume id",
            "NodeStageVolume: refuses a request without a staging",
            "NodeStageVolume: refuses a request without a capability",
        ],
    ),
    (
        "NodeUnstageVolume",
        &[
            "NodeUnstageVolume: refuses a request without a volume id",
            "NodeUnstageVolume: refuses a request without a staging",
        ],
    ),
    (
        "NodeGetVolumeStats",
        &[
            "NodeGetVolumeStats: refuses a request without a volume id",
            "NodeGetVolumeStats: refuses a request without a volume path",
            "NodeGetVolumeStats: does not find a volume that",
            "NodeGetVolumeStats: does not find a volume at",
        ],
    ),
    (
        "NodeExpandVolume",
        &[
            "NodeExpandVolume: refuses a request without a volume id",
            "NodeExpandVolume: refuses a request without a volume path",
            "NodeExpandVolume: does not find",
        ],
    ),
];

/// Everything else.
pub const FAULTS: &[(Fault, &[&str])] = &[
    // ---- what the driver says about itself ----
    (
        Fault::UnknownPluginCapability,
        &["Identity: GetPluginCapabilities"],
    ),
    (
        Fault::Fails("GetPluginCapabilities"),
        &["Identity: GetPluginCapabilities"],
    ),
    (Fault::Fails("Probe"), &["Identity: Probe"]),
    (Fault::NameMissing, &["Identity: GetPluginInfo"]),
    (Fault::NameTooLong, &["Identity: GetPluginInfo"]),
    (Fault::NameOfOtherCharacters, &["Identity: GetPluginInfo"]),
    (Fault::Fails("GetPluginInfo"), &["Identity: GetPluginInfo"]),
    (
        Fault::UnknownControllerCapability,
        &["ControllerGetCapabilities:"],
    ),
    (
        Fault::Fails("ControllerGetCapabilities"),
        &[
            "ControllerGetCapabilities:",
            "CreateVolume: makes a volume of the size",
        ],
    ),
    (Fault::NegativeCapacity, &["GetCapacity:"]),
    (Fault::Fails("GetCapacity"), &["GetCapacity:"]),
    (Fault::UnknownGroupCapability, &["GroupController: lists"]),
    (Fault::NoGroupCapability, &["GroupController: lists"]),
    (Fault::UnknownNodeCapability, &["NodeGetCapabilities:"]),
    (Fault::NodeIdMissing, &["NodeGetInfo:"]),
    (Fault::NodeIdTooLong, &["NodeGetInfo:"]),
    (Fault::NegativeLimit, &["NodeGetInfo:"]),
    (Fault::TopologyMissing, &["NodeGetInfo:"]),
    // ---- lists of volumes ----
    (Fault::ListedWithoutId, &["ListVolumes: gives every volume"]),
    (
        Fault::SameTokenForEver,
        &["ListVolumes: gives every volume"],
    ),
    (Fault::AnyToken, &["ListVolumes: refuses an invalid"]),
    (Fault::NewVolumesNotListed, &["ListVolumes: shows a volume"]),
    (
        Fault::DeletedVolumesListed,
        &["ListVolumes: shows a volume"],
    ),
    // ---- volumes ----
    (
        Fault::Fails("CreateVolume"),
        &["CreateVolume: makes a volume of a size of its choice"],
    ),
    (
        Fault::VolumeWithoutId,
        &["CreateVolume: makes a volume of a size of its choice"],
    ),
    (
        Fault::VolumeTooSmall,
        &["CreateVolume: makes a volume of the size"],
    ),
    (
        Fault::NewVolumeEachTime,
        &[
            "CreateVolume: gives the same",
            "Volume lifecycle: gives the same",
        ],
    ),
    (
        Fault::AnySizeForAKnownName,
        &["CreateVolume: refuses a known name"],
    ),
    (
        Fault::LongNamesRefused,
        &[
            "CreateVolume: takes a name of 128",
            "CreateSnapshot: takes a name of 128",
        ],
    ),
    (
        Fault::SourceNotNamed,
        &["CreateVolume: makes a volume from a snapshot"],
    ),
    (
        Fault::WrongSourceNamed,
        &[
            "CreateVolume: makes a volume from a snapshot",
            "CreateVolume: makes a volume from a volume",
        ],
    ),
    (
        Fault::NeverReadyToUse,
        &["CreateVolume: makes a volume from a snapshot"],
    ),
    (
        Fault::MutableParametersRefused,
        &[
            "CreateVolume: takes mutable",
            "ControllerModifyVolume: modifies a plain",
            "ControllerModifyVolume: modifies a volume",
        ],
    ),
    (
        Fault::AnyMutableParameter,
        &[
            "CreateVolume: refuses an unknown mutable",
            "ControllerModifyVolume: refuses an unknown parameter for a plain",
            "ControllerModifyVolume: refuses an unknown parameter for a volume",
        ],
    ),
    (
        Fault::MissingVolumeCannotBeDeleted,
        &["DeleteVolume: succeeds"],
    ),
    (Fault::VolumeCannotBeDeleted, &["DeleteVolume: deletes"]),
    (
        Fault::VolumeStaysWhenDeleted,
        &["ListVolumes: shows a volume"],
    ),
    (
        Fault::NothingConfirmed,
        &["ValidateVolumeCapabilities: names"],
    ),
    (
        Fault::AnyReadonly,
        &["ControllerPublishVolume: refuses a published volume"],
    ),
    (
        Fault::NoLimit,
        &["ControllerPublishVolume: refuses one volume more"],
    ),
    (
        Fault::Fails("ControllerPublishVolume"),
        &["Volume lifecycle: creates", "Node flow: creates"],
    ),
    (
        Fault::PublishedOnlyOnce,
        &["Volume lifecycle: gives the same"],
    ),
    (Fault::CannotBeUnpublished, &["Volume lifecycle: creates"]),
    // ---- snapshots ----
    (
        Fault::SnapshotWithoutTime,
        &[
            "ListSnapshots: lists complete",
            "CreateSnapshot: gives the same",
        ],
    ),
    (
        Fault::SnapshotFilterIgnored,
        &[
            "ListSnapshots: finds one snapshot by its id",
            "ListSnapshots: finds one snapshot by its source",
            "ListSnapshots: finds nothing for a snapshot",
            "ListSnapshots: finds nothing for a source",
        ],
    ),
    (
        Fault::Fails("ListSnapshots"),
        &["ListSnapshots: lists complete"],
    ),
    (
        Fault::NewSnapshotsNotListed,
        &[
            "ListSnapshots: shows a snapshot",
            "ListSnapshots: finds one snapshot by its id",
        ],
    ),
    (
        Fault::DeletedSnapshotsListed,
        &["ListSnapshots: shows a snapshot"],
    ),
    (Fault::PagesTooLong, &["ListSnapshots: gives the pages"]),
    (Fault::NoNextToken, &["ListSnapshots: gives the pages"]),
    (Fault::TokenIgnored, &["ListSnapshots: gives the pages"]),
    (
        Fault::Accepts("GetSnapshot"),
        &["GetSnapshot: refuses", "GetSnapshot: does not find"],
    ),
    (Fault::OtherSnapshotFound, &["GetSnapshot: finds"]),
    (
        Fault::MissingSnapshotCannotBeDeleted,
        &["DeleteSnapshot: succeeds"],
    ),
    (Fault::Fails("DeleteSnapshot"), &["DeleteSnapshot: deletes"]),
    (
        Fault::NewSnapshotEachTime,
        &[
            "CreateSnapshot: gives the same",
            "CreateSnapshot: takes a name of 128",
        ],
    ),
    (
        Fault::AnySourceForAKnownName,
        &["CreateSnapshot: refuses a known name"],
    ),
    (
        Fault::ExpandedBeyondTheLimit,
        &["ControllerExpandVolume: expands"],
    ),
    (
        Fault::Fails("DeleteVolumeGroupSnapshot"),
        &["GroupController: DeleteVolumeGroupSnapshot succeeds"],
    ),
    // ---- the node ----
    (
        Fault::SecondTarget,
        &["NodePublishVolume: refuses a second target"],
    ),
    (Fault::TargetNotMade, &["NodeUnpublishVolume: removes"]),
    (
        Fault::TargetStays,
        &["NodeUnpublishVolume: removes", "Node flow: creates"],
    ),
    (Fault::StagedOnlyOnce, &["Node flow: gives the same"]),
    (
        Fault::AnyPathHasStats,
        &["NodeGetVolumeStats: does not find a volume at"],
    ),
    (
        Fault::StatsWithoutUsage,
        &["Node flow: creates", "Node flow: gives the same"],
    ),
    (
        Fault::Fails("NodeExpandVolume"),
        &["NodeExpandVolume: expands"],
    ),
];
