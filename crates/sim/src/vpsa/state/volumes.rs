//! Volumes: create, clone, expand, rename, delete.

use super::objects::Volume;
use super::{
    Change, DataType, Decision, Kind, Moment, Object, Parameters, Refusal, State, options, pools,
    snapshots,
};
use crate::moment::Millis;

/// The volume with this identity, if it is seen.
pub fn get<'a>(state: &'a State, id: &str, now: Millis) -> Result<&'a Volume, Refusal> {
    let volume = state.volumes.get(id).filter(|volume| volume.is_seen(now));
    volume.ok_or_else(|| Refusal::VolumeMissing(id.to_owned()))
}

/// The same if nothing is being done with it.
pub fn get_calm<'a>(state: &'a State, id: &str, now: Millis) -> Result<&'a Volume, Refusal> {
    let volume = get(state, id, now)?;
    let doing = match (&volume.removed_at, volume.growth) {
        (Some(_), _) => "it is being deleted",
        (None, Some((_, at))) if at > now => "it is being expanded",
        _ if volume.ready_at > now || !volume.filled => "it is being created",
        _ => return Ok(volume),
    };
    Err(Refusal::Busy {
        what: format!("Volume {id}"),
        doing,
    })
}

/// The volume of a consistency group.
pub fn of_group<'a>(state: &'a State, cg: &str, now: Millis) -> Result<&'a Volume, Refusal> {
    let mut volumes = state.volumes.values();
    let found = volumes.find(|volume| volume.cg == cg && volume.is_seen(now));
    found.ok_or_else(|| Refusal::GroupMissing(cg.to_owned()))
}

/// Makes a volume.
pub fn create(state: &State, parameters: &Parameters, moment: &Moment) -> Decision<Volume> {
    let name = parameters.name("name")?;
    check_name(state, name, None)?;
    let capacity = parameters.gigabytes("capacity")?;
    let pool = pools::get(state, parameters.required("pool")?)?;
    let data_type = if parameters.switch("block", false)? {
        DataType::Block
    } else {
        DataType::Nas
    };
    let options = options::check(state, parameters, data_type)?;
    let export_name = match (parameters.get("export_name"), data_type) {
        (None, _) => name,
        (Some(_), DataType::Nas) => parameters.name("export_name")?,
        (Some(_), DataType::Block) => {
            let reason = "it is not allowed for a block volume";
            return Err(Refusal::invalid("export_name", reason));
        }
    };
    check_export(state, data_type, export_name)?;
    pools::check_open(pool)?;
    pools::check_room(state, pool, capacity)?;
    let (id, counted) = state.next_id("volume");
    let volume = Volume {
        cg: group_of(&id),
        id,
        display_name: name.to_owned(),
        pool: pool.id.clone(),
        data_type,
        capacity,
        growth: None,
        export_name: export_name.to_owned(),
        options,
        comment: String::new(),
        source: None,
        filled: false,
        created_at: moment.now,
        seen_at: moment.now,
        ready_at: moment.now + moment.delays.creation,
        removed_at: None,
        recycled_at: None,
        failure: None,
    };
    Ok((vec![counted, put(&volume)], volume))
}

/// Copies a volume, or one of its snapshots. The copy is seen, and has a volume's identity, only later.
pub fn clone(
    state: &State,
    cg: &str,
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Volume> {
    parameters.only(&["name", "snapshot", "snapshot_id"])?;
    let name = parameters.name("name")?;
    let source = of_group(state, cg, moment.now)?;
    let source = get_calm(state, &source.id, moment.now)?;
    check_name(state, name, None)?;
    let snapshot = parameters.get("snapshot").or(parameters.get("snapshot_id"));
    let (from, capacity) = match snapshot {
        None => (source.id.clone(), source.capacity_at(moment.now)),
        Some(id) => {
            let snapshot = snapshots::get_calm(state, id, moment.now)?;
            if snapshot.cg != cg {
                let reason = "it must be a snapshot of this consistency group";
                return Err(Refusal::invalid("snapshot", reason));
            }
            (snapshot.id.clone(), snapshot.capacity)
        }
    };
    check_export(state, source.data_type, name)?;
    let pool = pools::get(state, &source.pool)?;
    pools::check_open(pool)?;
    pools::check_room(state, pool, capacity)?;
    let (id, counted) = state.next_id("volume");
    let appears = moment.now + moment.delays.clone;
    let volume = Volume {
        cg: group_of(&id),
        id,
        display_name: name.to_owned(),
        capacity,
        growth: None,
        export_name: name.to_owned(),
        comment: String::new(),
        source: Some(from),
        filled: false,
        created_at: moment.now,
        seen_at: appears,
        ready_at: appears,
        ..source.clone()
    };
    Ok((vec![counted, put(&volume)], volume))
}

/// The files of a volume are there.
pub fn filled(state: &State, id: &str) -> Decision<()> {
    let Some(volume) = state.volumes.get(id) else {
        return Ok((Vec::new(), ()));
    };
    let filled = Volume {
        filled: true,
        ..volume.clone()
    };
    Ok((vec![put(&filled)], ()))
}

/// Makes a volume larger by what is asked for; returns how it will be.
pub fn expand(
    state: &State,
    id: &str,
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Volume> {
    parameters.only(&["capacity"])?;
    let more = parameters.gigabytes("capacity")?;
    let volume = get_calm(state, id, moment.now)?;
    let pool = pools::get(state, &volume.pool)?;
    pools::check_open(pool)?;
    pools::check_room(state, pool, more)?;
    let capacity = volume.capacity_at(moment.now);
    let volume = Volume {
        capacity,
        growth: Some((capacity + more, moment.now + moment.delays.expansion)),
        ..volume.clone()
    };
    Ok((vec![put(&volume)], volume))
}

/// Gives a volume another name; its share stays where it is.
pub fn rename(state: &State, id: &str, parameters: &Parameters, now: Millis) -> Decision<Volume> {
    parameters.only(&["new_name"])?;
    let name = parameters.name("new_name")?;
    let volume = get(state, id, now)?;
    check_name(state, name, Some(id))?;
    let volume = Volume {
        display_name: name.to_owned(),
        ..volume.clone()
    };
    Ok((vec![put(&volume)], volume))
}

/// Says something else about a volume.
pub fn comment(state: &State, id: &str, parameters: &Parameters, now: Millis) -> Decision<Volume> {
    parameters.only(&["new_comment"])?;
    let comment = parameters.get("new_comment").unwrap_or_default();
    if comment.contains('\'') {
        return Err(Refusal::invalid(
            "new_comment",
            "it must not have a single quote",
        ));
    }
    let volume = Volume {
        comment: comment.to_owned(),
        ..get(state, id, now)?.clone()
    };
    Ok((vec![put(&volume)], volume))
}

/// Deletes a volume, into the recycle bin if that is on.
pub fn delete(
    state: &State,
    id: &str,
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Volume> {
    parameters.only(&[])?;
    let now = moment.now;
    let gone = || Refusal::VolumeGone(id.to_owned());
    let volume = get(state, id, now).map_err(|_| gone())?;
    if volume.removed_at.is_some() {
        return Err(gone());
    }
    let servers: Vec<_> = state
        .attachments_of(id)
        .map(|attachment| attachment.server.clone())
        .collect();
    if !servers.is_empty() {
        return Err(Refusal::VolumeAttached {
            volume: id.to_owned(),
            servers: servers.join(","),
        });
    }
    if snapshots::of_group(state, &volume.cg).next().is_some() {
        return Err(Refusal::HasSnapshots(id.to_owned()));
    }
    let volume = removed(state, volume, moment);
    Ok((vec![put(&volume)], volume))
}

/// Deletes a volume whoever uses it, with its snapshots: nobody knows what arrays do with `force`, and this is the worst.
pub fn delete_by_force(state: &State, id: &str, moment: &Moment) -> Decision<Volume> {
    let volume = get(state, id, moment.now).map_err(|_| Refusal::VolumeGone(id.to_owned()))?;
    let remove = |kind, key| Change::Remove { kind, key };
    let detached = state
        .attachments_of(id)
        .map(|it| remove(Kind::Attachment, it.key()));
    let dropped = snapshots::of_group(state, &volume.cg).map(|it| remove(Kind::Snapshot, it.key()));
    let volume = removed(state, volume, moment);
    let changes = detached.chain(dropped).chain([put(&volume)]).collect();
    Ok((changes, volume))
}

/// A volume as it is once it is deleted: in the recycle bin, if that is on.
fn removed(state: &State, volume: &Volume, moment: &Moment) -> Volume {
    let mut volume = volume.clone();
    if state.vpsa().recycle_bin {
        volume.recycled_at = Some(moment.now);
    } else {
        volume.removed_at = Some(moment.now + moment.delays.removal);
    }
    volume
}

/// Removes a volume from the recycle bin for good.
pub fn purge(state: &State, id: &str) -> Decision<()> {
    let volume = state.volumes.get(id).filter(|volume| volume.is_recycled());
    let volume = volume.ok_or_else(|| Refusal::VolumeGone(id.to_owned()))?;
    let removed = Change::Remove {
        kind: Kind::Volume,
        key: volume.key(),
    };
    Ok((vec![removed], ()))
}

/// Names are unique among volumes; those in the recycle bin have let go of theirs.
fn check_name(state: &State, name: &str, but: Option<&str>) -> Result<(), Refusal> {
    let mut others = state
        .volumes
        .values()
        .filter(|volume| !volume.is_recycled());
    match others.find(|volume| volume.display_name == name && Some(volume.id.as_str()) != but) {
        None => Ok(()),
        Some(_) => Err(Refusal::VolumeNameTaken(name.to_owned())),
    }
}

/// Exports are unique among shares: a renamed volume keeps its own.
fn check_export(state: &State, data_type: DataType, name: &str) -> Result<(), Refusal> {
    let mut others = state.volumes.values().filter(|volume| {
        volume.data_type == DataType::Nas && !volume.is_recycled() && volume.export_name == name
    });
    match others.next() {
        Some(_) if data_type == DataType::Nas => Err(Refusal::NameTaken {
            what: "Export",
            name: name.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn group_of(volume: &str) -> String {
    volume.replace("volume-", "cg-")
}

fn put(volume: &Volume) -> Change {
    Change::Put(Object::Volume(volume.clone()))
}

#[cfg(test)]
mod tests;
