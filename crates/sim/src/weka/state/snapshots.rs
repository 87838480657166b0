//! Snapshots: create, delete.

use serde::Deserialize;

use super::filesystems::{Moment, next_number};
use super::{Change, Object, Refusal, Snapshot, State, User, access};

/// The longest name and access point.
const NAME_MAX: usize = 50;

/// The body of `POST snapshots`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    fs_uid: String,
    name: String,
    access_point: String,
    source_snap_uid: Option<String>,
    #[serde(default)]
    is_writable: bool,
}

/// Makes a snapshot. What it holds is copied by whoever carries the decision out.
pub fn create(
    state: &State,
    user: &User,
    request: NewSnapshot,
    moment: &Moment,
) -> Result<(Vec<Change>, Snapshot), Refusal> {
    let now = moment.now;
    let filesystem = access::filesystem(state, user, &request.fs_uid)?;
    filesystem.check_ready(now)?;
    check_text("name", &request.name)?;
    check_text("access_point", &request.access_point)?;
    if let Some(source) = &request.source_snap_uid {
        let source = get(state, user, source)?;
        if source.filesystem != request.fs_uid {
            return Err(Refusal::Invalid(format!(
                "source_snap_uid: snapshot `{}` belongs to another filesystem",
                source.name
            )));
        }
        check_staying(source)?;
    }
    let mut others = state
        .snapshots
        .values()
        .filter(|s| s.filesystem == request.fs_uid);
    if let Some(other) =
        others.find(|s| s.name == request.name || s.access_point == request.access_point)
    {
        let (what, name) = if other.name == request.name {
            ("Snapshot", request.name)
        } else {
            ("Access point", request.access_point)
        };
        return Err(Refusal::NameTaken { what, name });
    }
    let (number, counted) = next_number(state.cluster());
    let snapshot = Snapshot {
        uid: moment.uid.clone(),
        number,
        name: request.name,
        access_point: request.access_point,
        filesystem: request.fs_uid,
        source: request.source_snap_uid,
        writable: request.is_writable,
        created_at: now,
        removed_at: None,
    };
    let changes = vec![counted, Change::Put(Object::Snapshot(snapshot.clone()))];
    Ok((changes, snapshot))
}

/// The snapshot with this identity, if the user's organization has it.
pub fn get<'a>(state: &'a State, user: &User, uid: &str) -> Result<&'a Snapshot, Refusal> {
    let missing = || Refusal::SnapshotMissing(uid.to_owned());
    let snapshot = state.snapshots.get(uid).ok_or_else(missing)?;
    access::filesystem(state, user, &snapshot.filesystem).map_err(|_| missing())?;
    Ok(snapshot)
}

/// Begins to remove a snapshot, with the quotas of its directories.
pub fn delete(
    state: &State,
    user: &User,
    uid: &str,
    moment: &Moment,
) -> Result<Vec<Change>, Refusal> {
    let mut snapshot = get(state, user, uid)?.clone();
    check_staying(&snapshot)?;
    let gone = Some(moment.now + moment.delays.removal);
    snapshot.removed_at = gone;
    let quotas = state.quotas.values();
    let quotas = quotas.filter(|quota| quota.snapshot.as_deref() == Some(uid));
    let mut changes: Vec<_> = quotas.cloned().map(|quota| quota.removed(gone)).collect();
    changes.push(Change::Put(Object::Snapshot(snapshot)));
    Ok(changes)
}

fn check_staying(snapshot: &Snapshot) -> Result<(), Refusal> {
    if snapshot.removed_at.is_none() {
        return Ok(());
    }
    Err(Refusal::Busy {
        what: format!("Snapshot `{}`", snapshot.name),
        doing: "being removed",
    })
}

/// Both become names of directories or look like it.
fn check_text(field: &str, text: &str) -> Result<(), Refusal> {
    let fits = (1..=NAME_MAX).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.contains(['/', '\0']);
    if fits {
        return Ok(());
    }
    Err(Refusal::Invalid(format!(
        "{field}: `{text}` must have 1 to {NAME_MAX} characters and no `/`"
    )))
}

#[cfg(test)]
mod tests;
