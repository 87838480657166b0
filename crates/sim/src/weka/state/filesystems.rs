//! Filesystems: create, change, delete.

use serde::Deserialize;

use super::objects::{Cluster, Thin};
use super::{Change, Filesystem, Millis, Object, ROOT, Refusal, State, User, access};
use crate::weka::release::{Feature, Release};

/// The longest name of a filesystem.
const NAME_MAX: usize = 32;

/// What happens around a decision.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time.
    pub now: Millis,
    /// An identity that nothing has yet.
    pub uid: String,
    /// How long things take.
    pub delays: Delays,
}

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// A new filesystem.
    pub creation: Millis,
    /// A removal.
    pub removal: Millis,
    /// A quota until it is ACTIVE; none: it ends in status ERROR.
    pub quota: Option<Millis>,
}

/// The body of `POST fileSystems`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFilesystem {
    name: String,
    group_name: String,
    total_capacity: u64,
    #[serde(default)]
    encrypted: bool,
    #[serde(default)]
    auth_required: bool,
    #[serde(default)]
    allow_no_kms: bool,
    has_permissions: Option<bool>,
    kms_vault_key_identifier: Option<String>,
    kms_vault_namespace: Option<String>,
    kms_vault_role_id: Option<String>,
    kms_vault_secret_id: Option<String>,
    thin_provision_min_ssd: Option<u64>,
    thin_provision_max_ssd: Option<u64>,
}

/// The body of `PUT fileSystems/{uid}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemUpdate {
    total_capacity: Option<u64>,
    thin_provision_min_ssd: Option<u64>,
    thin_provision_max_ssd: Option<u64>,
    auth_required: Option<bool>,
}

impl Filesystem {
    /// Whether it is on its way out.
    pub fn is_removing(&self) -> bool {
        self.removed_at.is_some()
    }

    /// Whether it is being made.
    pub fn is_creating(&self, now: Millis) -> bool {
        now < self.ready_at
    }

    /// Whether it can be used.
    pub fn is_ready(&self, now: Millis) -> bool {
        !self.is_creating(now) && !self.is_removing()
    }

    /// Refuses to work on one that cannot be used.
    pub fn check_ready(&self, now: Millis) -> Result<(), Refusal> {
        let doing = match (self.is_removing(), self.is_creating(now)) {
            (true, _) => "being removed",
            (false, true) => "being created",
            (false, false) => return Ok(()),
        };
        Err(Refusal::Busy {
            what: format!("Filesystem `{}`", self.name),
            doing,
        })
    }
}

/// Makes a filesystem.
pub fn create(
    state: &State,
    user: &User,
    request: NewFilesystem,
    moment: &Moment,
) -> Result<(Vec<Change>, Filesystem), Refusal> {
    let cluster = state.cluster();
    check_name(&request.name)?;
    if request.total_capacity == 0 {
        return Err(Refusal::Invalid(
            "total_capacity: must be larger than 0".to_owned(),
        ));
    }
    if !cluster.filesystem_groups.contains(&request.group_name) {
        return Err(Refusal::FilesystemGroupMissing(request.group_name));
    }
    check_encryption(state, &request)?;
    check_owner(&cluster.release, &request)?;
    let taken = state
        .filesystems
        .values()
        .any(|f| f.org_id == user.org_id && f.name == request.name);
    if taken {
        return Err(Refusal::NameTaken {
            what: "Filesystem",
            name: request.name,
        });
    }
    check_capacity(state, 0, request.total_capacity)?;
    let thin = thin(
        request.thin_provision_min_ssd,
        request.thin_provision_max_ssd,
        request.total_capacity,
    )?;
    let (number, counted) = next_number(cluster);
    let filesystem = Filesystem {
        uid: moment.uid.clone(),
        number,
        name: request.name,
        group_name: request.group_name,
        org_id: user.org_id,
        total_budget: request.total_capacity,
        thin,
        encrypted: request.encrypted,
        kms_key_identifier: request.kms_vault_key_identifier,
        kms_namespace: request.kms_vault_namespace,
        auth_required: request.auth_required,
        ready_at: moment.now + moment.delays.creation,
        removed_at: None,
    };
    let changes = vec![counted, Change::Put(Object::Filesystem(filesystem.clone()))];
    Ok((changes, filesystem))
}

/// Changes the size of a filesystem, or whether it asks for tokens.
///
/// A thin filesystem whose thin fields are not given becomes a thick one.
pub fn update(
    state: &State,
    user: &User,
    uid: &str,
    request: &FilesystemUpdate,
    held: u64,
    now: Millis,
) -> Result<(Vec<Change>, Filesystem), Refusal> {
    let mut filesystem = access::filesystem(state, user, uid)?.clone();
    filesystem.check_ready(now)?;
    let thin_given = [
        request.thin_provision_min_ssd,
        request.thin_provision_max_ssd,
    ];
    if request.total_capacity.is_none() && thin_given.iter().any(Option::is_some) {
        return Err(Refusal::Invalid(
            "total_capacity: must be given with thin_provision_min_ssd and thin_provision_max_ssd"
                .to_owned(),
        ));
    }
    if request.total_capacity.is_none() && request.auth_required.is_none() {
        return Err(Refusal::Invalid("body: nothing to change".to_owned()));
    }
    if let Some(total) = request.total_capacity {
        if total < held.max(1) {
            return Err(Refusal::Invalid(format!(
                "total_capacity: the filesystem holds {held} bytes"
            )));
        }
        check_capacity(state, filesystem.total_budget, total)?;
        filesystem.total_budget = total;
        filesystem.thin = thin(
            request.thin_provision_min_ssd,
            request.thin_provision_max_ssd,
            total,
        )?;
    }
    if let Some(auth_required) = request.auth_required {
        filesystem.auth_required = auth_required;
    }
    let change = Change::Put(Object::Filesystem(filesystem.clone()));
    Ok((vec![change], filesystem))
}

/// Begins to remove a filesystem, with its snapshots. One that somebody may mount over NFS stays. Called twice: it is on
/// its way out already, which is refused.
pub fn delete(
    state: &State,
    user: &User,
    uid: &str,
    moment: &Moment,
) -> Result<Vec<Change>, Refusal> {
    let mut filesystem = access::filesystem(state, user, uid)?.clone();
    filesystem.check_ready(moment.now)?;
    let mut permissions = state.nfs_permissions.values();
    if filesystem.org_id == ROOT && permissions.any(|it| it.filesystem == filesystem.name) {
        return Err(Refusal::Busy {
            what: format!("Filesystem `{}`", filesystem.name),
            doing: "exported over NFS",
        });
    }
    let gone = Some(moment.now + moment.delays.removal);
    filesystem.removed_at = gone;
    let snapshots = state
        .snapshots
        .values()
        .filter(|snapshot| snapshot.filesystem == uid)
        .cloned()
        .map(|mut snapshot| {
            snapshot.removed_at = gone;
            Change::Put(Object::Snapshot(snapshot))
        });
    let quotas = state.quotas.values();
    let quotas = quotas.filter(|quota| quota.filesystem == uid);
    let quotas = quotas.cloned().map(|quota| quota.removed(gone));
    let mut changes: Vec<Change> = snapshots.chain(quotas).collect();
    changes.push(Change::Put(Object::Filesystem(filesystem)));
    Ok(changes)
}

/// A number that nothing has yet, and the change that remembers it.
pub fn next_number(cluster: &Cluster) -> (u64, Change) {
    let mut counted = cluster.clone();
    counted.next_number += 1;
    (cluster.next_number, Change::Put(Object::Cluster(counted)))
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = (1..=NAME_MAX).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'));
    if fits {
        return Ok(());
    }
    Err(Refusal::Invalid(format!(
        "name: `{name}` must have 1 to {NAME_MAX} of the characters A-Z, a-z, 0-9, `-`, `_`, `.` and `:`"
    )))
}

fn check_capacity(state: &State, had: u64, asked: u64) -> Result<(), Refusal> {
    let available = state.unprovisioned() + had;
    if asked > available {
        return Err(Refusal::CapacityExceeded { asked, available });
    }
    Ok(())
}

fn check_encryption(state: &State, request: &NewFilesystem) -> Result<(), Refusal> {
    let release = &state.cluster().release;
    let own_key = [
        &request.kms_vault_key_identifier,
        &request.kms_vault_namespace,
        &request.kms_vault_role_id,
        &request.kms_vault_secret_id,
    ]
    .iter()
    .any(|field| field.is_some());
    if !request.encrypted {
        return if own_key || request.allow_no_kms {
            Err(Refusal::Invalid(
                "encrypted: must be true where keys or allow_no_kms are given".to_owned(),
            ))
        } else {
            Ok(())
        };
    }
    if !release.has(Feature::Encryption) {
        return Err(unknown_field("encrypted", release));
    }
    let server = state.kms.values().next();
    if own_key {
        if !release.has(Feature::FilesystemKey) {
            return Err(unknown_field("kms_vault_key_identifier", release));
        }
        if server.is_none_or(|kms| kms.kms_type != "HashiCorpVault") {
            return Err(Refusal::Invalid(
                "kms_vault_key_identifier: needs a KMS of type HashiCorpVault".to_owned(),
            ));
        }
    }
    if server.is_none_or(|kms| kms.kms_type == "Local") && !request.allow_no_kms {
        return Err(Refusal::Invalid(
            "encrypted: no KMS is configured; set allow_no_kms to do without".to_owned(),
        ));
    }
    Ok(())
}

fn check_owner(release: &Release, request: &NewFilesystem) -> Result<(), Refusal> {
    if request.has_permissions.is_some() && !release.has(Feature::FilesystemOwner) {
        return Err(unknown_field("has_permissions", release));
    }
    Ok(())
}

fn unknown_field(field: &str, release: &Release) -> Refusal {
    Refusal::Invalid(format!(
        "{field}: release {release} does not have this field"
    ))
}

fn thin(min: Option<u64>, max: Option<u64>, total: u64) -> Result<Option<Thin>, Refusal> {
    match (min, max) {
        (None, None) => Ok(None),
        (Some(min), Some(max)) if 0 < min && min <= max && max <= total => {
            Ok(Some(Thin { min, max }))
        }
        _ => Err(Refusal::Invalid(
            "thin_provision_min_ssd, thin_provision_max_ssd: give both, the first no larger than the second, the \
             second no larger than total_capacity"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
