use super::*;

#[test]
fn snapshot_and_group_rules() {
    let valid = &CreateSnapshotRequest {
        name: "snap-1".to_owned(),
        source_volume_id: "vol-1".to_owned(),
        ..Default::default()
    };
    name_rules!(valid);
    id_rules!(valid, source_volume_id);
    map_rules!(valid, parameters);

    let valid = &CreateVolumeGroupSnapshotRequest {
        name: "group-1".to_owned(),
        source_volume_ids: vec!["vol-1".to_owned()],
        ..Default::default()
    };
    name_rules!(valid);
    map_rules!(valid, parameters);
    breaks(
        valid,
        |r| r.source_volume_ids.clear(),
        INVALID,
        "source_volume_ids",
    );
    breaks(
        valid,
        |r| r.source_volume_ids.push(String::new()),
        INVALID,
        "source_volume_ids",
    );

    let valid = &DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: "group-1".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, group_snapshot_id);
    breaks(
        valid,
        |r| r.snapshot_ids.push(String::new()),
        INVALID,
        "snapshot_ids",
    );
    let valid = &GetVolumeGroupSnapshotRequest {
        group_snapshot_id: "group-1".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, group_snapshot_id);
    breaks(
        valid,
        |r| r.snapshot_ids.push("x".repeat(129)),
        INVALID,
        "snapshot_ids",
    );
}

#[test]
fn metadata_rules() {
    let valid = &GetMetadataAllocatedRequest {
        snapshot_id: "snap-1".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, snapshot_id);
    breaks(
        valid,
        |r| r.starting_offset = -1,
        Code::OutOfRange,
        "starting_offset",
    );
    breaks(valid, |r| r.max_results = -1, INVALID, "max_results");

    let valid = &GetMetadataDeltaRequest {
        base_snapshot_id: "snap-1".to_owned(),
        target_snapshot_id: "snap-2".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, base_snapshot_id);
    id_rules!(valid, target_snapshot_id);
    breaks(
        valid,
        |r| r.starting_offset = -1,
        Code::OutOfRange,
        "starting_offset",
    );
    breaks(valid, |r| r.max_results = -1, INVALID, "max_results");
}
