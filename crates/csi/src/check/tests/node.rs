use super::*;

#[test]
fn node_stage_rules() {
    let valid = &NodeStageVolumeRequest {
        volume_id: "vol-1".to_owned(),
        staging_target_path: "/staging".to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, staging_target_path);
    breaks(
        valid,
        |r| r.staging_target_path = "a/b".to_owned(),
        INVALID,
        "staging_target_path",
    );
    breaks(
        valid,
        |r| r.volume_capability = None,
        INVALID,
        "volume_capability",
    );
    capability_rules!(valid, |r: &mut NodeStageVolumeRequest, c| r
        .volume_capability =
        Some(c));
    map_rules!(valid, publish_context, volume_context);

    let valid = &NodeUnstageVolumeRequest {
        volume_id: "vol-1".to_owned(),
        staging_target_path: "/staging".to_owned(),
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, staging_target_path);
    breaks(
        valid,
        |r| r.staging_target_path = "a/b".to_owned(),
        INVALID,
        "staging_target_path",
    );
}

#[test]
fn node_publish_rules() {
    let valid = &NodePublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        target_path: "/target".to_owned(),
        staging_target_path: "/staging".to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, target_path);
    breaks(
        valid,
        |r| r.target_path = "a/b".to_owned(),
        INVALID,
        "target_path",
    );
    breaks(
        valid,
        |r| r.volume_capability = None,
        INVALID,
        "volume_capability",
    );
    capability_rules!(valid, |r: &mut NodePublishVolumeRequest, c| r
        .volume_capability =
        Some(c));
    map_rules!(valid, publish_context, volume_context);
    let tokens = BTreeMap::from([(SERVICE_ACCOUNT_TOKENS.to_owned(), "t".repeat(9000))]);
    passes(valid, |r| r.volume_context = tokens);

    breaks(
        valid,
        |r| r.staging_target_path = "a/b".to_owned(),
        INVALID,
        "staging_target_path",
    );
    let not_staged = |r: &mut NodePublishVolumeRequest| r.staging_target_path.clear();
    breaks(
        valid,
        not_staged,
        Code::FailedPrecondition,
        "staging_target_path",
    );
    let mut unstaged = valid.clone();
    not_staged(&mut unstaged);
    assert_eq!(
        unstaged.check(&PLAIN),
        Ok(()),
        "a driver that does not stage"
    );
    // The suite sends nothing but an id here and expects the missing target to be named first.
    unstaged.target_path.clear();
    assert_eq!(
        unstaged.check(&RULES),
        Err(Violation::Missing("target_path"))
    );
}

#[test]
fn other_node_rules() {
    let valid = &NodeUnpublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        target_path: "/target".to_owned(),
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, target_path);
    breaks(
        valid,
        |r| r.target_path = "a/b".to_owned(),
        INVALID,
        "target_path",
    );

    let valid = &NodeGetVolumeStatsRequest {
        volume_id: "vol-1".to_owned(),
        volume_path: "/target".to_owned(),
        ..Default::default()
    };
    id_rules!(valid, volume_id);
    path_rules!(valid, volume_path);
    passes(valid, |r| r.volume_path = "some/path".to_owned());
}
