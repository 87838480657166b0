use super::*;

fn create_volume() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: Some(gigabytes(1, 0)),
        volume_capabilities: vec![mount()],
        ..Default::default()
    }
}

#[test]
fn create_volume_rules() {
    let valid = &create_volume();
    name_rules!(valid);
    range_rules!(valid);
    passes(valid, |r| r.capacity_range = None);
    breaks(
        valid,
        |r| r.volume_capabilities.clear(),
        INVALID,
        "volume_capabilities",
    );
    // Not only the first of them counts.
    capability_rules!(valid, |r: &mut CreateVolumeRequest, c| r
        .volume_capabilities
        .push(c));
    map_rules!(valid, parameters, mutable_parameters);
    passes(valid, |r| r.secrets = large_map());

    let empty = Some(VolumeContentSource { r#type: None });
    breaks(
        valid,
        |r| r.volume_content_source = empty,
        INVALID,
        "volume_content_source",
    );
    for (id, code) in [("", INVALID), (&"x".repeat(129), INVALID)] {
        let (snapshot, volume) = (Some(from_snapshot(id)), Some(from_volume(id)));
        breaks(
            valid,
            |r| r.volume_content_source = snapshot,
            code,
            "snapshot_id",
        );
        breaks(
            valid,
            |r| r.volume_content_source = volume,
            code,
            "volume_id",
        );
    }
}

#[test]
fn what_is_not_advertised_is_refused() {
    let create = &create_volume();
    let tier = || BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    unsupported(
        create,
        |r| r.volume_content_source = Some(from_snapshot("s")),
        "a snapshot as source",
    );
    unsupported(
        create,
        |r| r.volume_content_source = Some(from_volume("v")),
        "a volume as source",
    );
    unsupported(
        create,
        |r| r.mutable_parameters = tier(),
        "mutable_parameters",
    );
    unsupported(&controller_publish(), |r| r.readonly = true, "readonly");
}

fn controller_publish() -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        node_id: "node-1".to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    }
}

#[test]
fn controller_publish_and_unpublish_rules() {
    let valid = &controller_publish();
    id_rules!(valid, volume_id);
    breaks(valid, |r| r.node_id.clear(), INVALID, "node_id");
    breaks(valid, |r| r.node_id = "x".repeat(257), INVALID, "node_id");
    passes(valid, |r| r.node_id = "x".repeat(256));
    breaks(
        valid,
        |r| r.volume_capability = None,
        INVALID,
        "volume_capability",
    );
    capability_rules!(valid, |r: &mut ControllerPublishVolumeRequest, c| {
        r.volume_capability = Some(c);
    });
    map_rules!(valid, volume_context);

    let valid = &ControllerUnpublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    breaks(valid, |r| r.node_id = "x".repeat(257), INVALID, "node_id");
}

#[test]
fn rules_of_calls_that_need_one_id() {
    let id = || "id-1".to_owned();
    id_rules!(
        &DeleteVolumeRequest {
            volume_id: id(),
            ..Default::default()
        },
        volume_id
    );
    id_rules!(&ControllerGetVolumeRequest { volume_id: id() }, volume_id);
    id_rules!(
        &DeleteSnapshotRequest {
            snapshot_id: id(),
            ..Default::default()
        },
        snapshot_id
    );
    id_rules!(
        &GetSnapshotRequest {
            snapshot_id: id(),
            ..Default::default()
        },
        snapshot_id
    );
    let valid = &ControllerModifyVolumeRequest {
        volume_id: id(),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    map_rules!(valid, mutable_parameters);
}

#[test]
fn validate_capacity_and_list_rules() {
    let valid = &ValidateVolumeCapabilitiesRequest {
        volume_id: "vol-1".to_owned(),
        volume_capabilities: vec![mount()],
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    breaks(
        valid,
        |r| r.volume_capabilities.clear(),
        INVALID,
        "volume_capabilities",
    );
    capability_rules!(valid, |r: &mut ValidateVolumeCapabilitiesRequest, c| {
        r.volume_capabilities = vec![c];
    });
    map_rules!(valid, volume_context, parameters, mutable_parameters);

    let valid = &GetCapacityRequest::default();
    capability_rules!(valid, |r: &mut GetCapacityRequest, c| r
        .volume_capabilities
        .push(c));
    map_rules!(valid, parameters);

    breaks(
        &ListVolumesRequest::default(),
        |r| r.max_entries = -1,
        INVALID,
        "max_entries",
    );
    let valid = &ListSnapshotsRequest::default();
    breaks(valid, |r| r.max_entries = -1, INVALID, "max_entries");
    breaks(
        valid,
        |r| r.snapshot_id = "x".repeat(129),
        INVALID,
        "snapshot_id",
    );
    breaks(
        valid,
        |r| r.source_volume_id = "x".repeat(129),
        INVALID,
        "source_volume_id",
    );
}

#[test]
fn expand_rules() {
    let valid = &ControllerExpandVolumeRequest {
        volume_id: "vol-1".to_owned(),
        capacity_range: Some(gigabytes(1, 0)),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    breaks(
        valid,
        |r| r.capacity_range = None,
        INVALID,
        "capacity_range",
    );
    range_rules!(valid);
    capability_rules!(valid, |r: &mut ControllerExpandVolumeRequest, c| {
        r.volume_capability = Some(c);
    });

    let valid = &NodeExpandVolumeRequest {
        volume_id: "vol-1".to_owned(),
        volume_path: "/target".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, volume_path);
    passes(valid, |r| r.volume_path = "some/path".to_owned());
    range_rules!(valid);
    capability_rules!(valid, |r: &mut NodeExpandVolumeRequest, c| r
        .volume_capability =
        Some(c));
}

#[test]
fn a_driver_can_allow_longer_ids() {
    let request = DeleteVolumeRequest {
        volume_id: "x".repeat(1920),
        ..Default::default()
    };
    let rules = Rules {
        id_bytes: 1920,
        ..PLAIN
    };
    assert_eq!(request.check(&rules), Ok(()));
    assert!(request.check(&PLAIN).is_err());
}
