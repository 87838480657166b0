//! Snapshots: take, rename, delete.

use super::{
    Change, Decision, Moment, Object, Parameters, Refusal, Snapshot, State, pools, volumes,
};
use crate::moment::Millis;

/// The snapshot with this identity.
pub fn get<'a>(state: &'a State, id: &str) -> Result<&'a Snapshot, Refusal> {
    let snapshot = state.snapshots.get(id);
    snapshot.ok_or_else(|| Refusal::SnapshotMissing(id.to_owned()))
}

/// The same if nothing is being done with it.
pub fn get_calm<'a>(state: &'a State, id: &str, now: Millis) -> Result<&'a Snapshot, Refusal> {
    let snapshot = get(state, id)?;
    let doing = match snapshot.removed_at {
        Some(_) => "it is being deleted",
        None if snapshot.ready_at > now || !snapshot.filled => "it is being taken",
        None => return Ok(snapshot),
    };
    Err(Refusal::Busy {
        what: format!("Snapshot {id}"),
        doing,
    })
}

/// The snapshots of a consistency group.
pub fn of_group<'a>(state: &'a State, cg: &str) -> impl Iterator<Item = &'a Snapshot> {
    let all = state.snapshots.values();
    all.filter(move |snapshot| snapshot.cg == cg)
}

/// Takes a snapshot.
pub fn create(
    state: &State,
    cg: &str,
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Snapshot> {
    parameters.only(&["display_name"])?;
    let name = parameters.name("display_name")?;
    let volume = volumes::of_group(state, cg, moment.now)?;
    let volume = volumes::get_calm(state, &volume.id, moment.now)?;
    check_name(state, cg, name, None)?;
    pools::check_open(pools::get(state, &volume.pool)?)?;
    let (id, counted) = state.next_id("snap");
    let snapshot = Snapshot {
        id,
        display_name: name.to_owned(),
        cg: cg.to_owned(),
        volume: volume.id.clone(),
        capacity: volume.capacity_at(moment.now),
        filled: false,
        created_at: moment.now,
        ready_at: moment.now + moment.delays.snapshot,
        removed_at: None,
    };
    Ok((vec![counted, put(&snapshot)], snapshot))
}

/// The files of a snapshot are there.
pub fn filled(state: &State, id: &str) -> Decision<()> {
    let Some(snapshot) = state.snapshots.get(id) else {
        return Ok((Vec::new(), ()));
    };
    let filled = Snapshot {
        filled: true,
        ..snapshot.clone()
    };
    Ok((vec![put(&filled)], ()))
}

/// Gives a snapshot another name.
pub fn rename(state: &State, id: &str, parameters: &Parameters) -> Decision<Snapshot> {
    parameters.only(&["newname"])?;
    let name = parameters.name("newname")?;
    let snapshot = get(state, id)?;
    check_name(state, &snapshot.cg, name, Some(id))?;
    let snapshot = Snapshot {
        display_name: name.to_owned(),
        ..snapshot.clone()
    };
    Ok((vec![put(&snapshot)], snapshot))
}

/// Deletes a snapshot.
pub fn delete(
    state: &State,
    id: &str,
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Snapshot> {
    parameters.only(&[])?;
    let snapshot = get_calm(state, id, moment.now)?;
    let snapshot = Snapshot {
        removed_at: Some(moment.now + moment.delays.removal),
        ..snapshot.clone()
    };
    Ok((vec![put(&snapshot)], snapshot))
}

fn check_name(state: &State, cg: &str, name: &str, but: Option<&str>) -> Result<(), Refusal> {
    let mut others = of_group(state, cg);
    match others.find(|other| other.display_name == name && Some(other.id.as_str()) != but) {
        None => Ok(()),
        Some(_) => Err(Refusal::NameTaken {
            what: "Snapshot",
            name: name.to_owned(),
        }),
    }
}

fn put(snapshot: &Snapshot) -> Change {
    Change::Put(Object::Snapshot(snapshot.clone()))
}

#[cfg(test)]
mod tests;
