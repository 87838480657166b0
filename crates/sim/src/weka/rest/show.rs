//! How objects look: the array's field names, snake_case for filesystems and quotas, camelCase for snapshots.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::weka::state::{Filesystem, Millis, Quota, Snapshot};

/// A filesystem that holds `used` bytes.
pub fn filesystem(filesystem: &Filesystem, used: u64, now: Millis) -> Value {
    let total = filesystem.total_budget;
    let free = total.saturating_sub(used);
    let ssd = filesystem.thin.map_or(total, |thin| thin.max);
    let status = match (filesystem.is_removing(), filesystem.is_creating(now)) {
        (true, _) => "REMOVING",
        (false, true) => "CREATING",
        (false, false) => "READY",
    };
    json!({
        "id": format!("FSId: {}", filesystem.number),
        "uid": filesystem.uid,
        "name": filesystem.name,
        "group_id": "FSGroupId: 0",
        "group_name": filesystem.group_name,
        "status": status,
        "is_creating": filesystem.is_creating(now),
        "is_ready": filesystem.is_ready(now),
        "is_removing": filesystem.is_removing(),
        "is_encrypted": filesystem.encrypted,
        "auth_required": filesystem.auth_required,
        "total_budget": total,
        "used_total": used,
        "free_total": free,
        "available_total": total,
        "ssd_budget": ssd,
        "available_ssd": ssd,
        "free_ssd": ssd.saturating_sub(used),
        "is_thinly_provisioned": filesystem.thin.is_some(),
        "thin_provisioning_min_ssd": filesystem.thin.map(|thin| thin.min),
        "thin_provisioning_max_ssd": filesystem.thin.map(|thin| thin.max),
        "kms_key_identifier": filesystem.kms_key_identifier,
        "kms_namespace": filesystem.kms_namespace,
        "kms_role": null,
        "obs_buckets": [],
        "object_storages": [],
    })
}

/// One quota, of a directory that holds `used` bytes.
pub fn quota(quota: &Quota, used: u64, now: Millis) -> Value {
    json!({
        "quota_id": format!("QuotaId: {}", quota.number),
        "inode_id": quota.inode,
        "snap_view_id": snap_view(quota),
        "total_bytes": used,
        "used_bytes": used,
        "hard_limit_bytes": quota.hard_limit_bytes,
        "soft_limit_bytes": quota.soft_limit_bytes,
        "grace_seconds": quota.grace_seconds,
        "status": quota.status(now).text(),
    })
}

/// One quota of a list, with where its directory is.
pub fn listed_quota(of: &Quota, used: u64, filesystem: &str, path: &str, now: Millis) -> Value {
    let mut shown = quota(of, used, now);
    shown["fsName"] = json!(filesystem);
    shown["path"] = json!(path);
    shown["full_path"] = json!(format!("{filesystem}:{path}"));
    shown
}

/// A snapshot of the filesystem with this name.
pub fn snapshot(snapshot: &Snapshot, filesystem: &Filesystem) -> Value {
    let created = i64::try_from(snapshot.created_at)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or_default();
    json!({
        "uid": snapshot.uid,
        "id": format!("SnapshotId: {}", snapshot.number),
        "name": snapshot.name,
        "accessPoint": snapshot.access_point,
        "filesystem": filesystem.name,
        "filesystemId": format!("FSId: {}", filesystem.number),
        "filesystemUid": filesystem.uid,
        "isWritable": snapshot.writable,
        "isRemoving": snapshot.removed_at.is_some(),
        "creationTime": created.to_string(),
        "locator": "",
        "stowStatus": "NONE",
        "progress": "N/A",
        "type": if snapshot.writable { "WRITABLE" } else { "READ_ONLY" },
    })
}

/// The live filesystem is view 0.
fn snap_view(quota: &Quota) -> u64 {
    u64::from(quota.snapshot.is_some())
}
