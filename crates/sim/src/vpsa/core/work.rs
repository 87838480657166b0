//! Work on data that decisions ask for. Each step may be repeated, and is, after a crash.

use std::io;

use super::{Core, Failure};
use crate::vpsa::state::{Change, DataType, Kind, Snapshot, State, Volume, snapshots, volumes};

impl Core {
    /// Makes the data of a new volume, empty or as a copy.
    pub(in crate::vpsa) async fn fill_volume(&self, volume: &Volume) -> Result<(), Failure> {
        let (backing, new) = (self.backing.clone(), volume.clone());
        blocking(move || {
            if let Some(source) = &new.source {
                backing.fill(source, &new.id)?;
            }
            backing.make(&new.id, new.data_type == DataType::Block, new.capacity)
        })
        .await?;
        self.change(|state, _| volumes::filled(state, &volume.id))
            .await
    }

    /// Makes the data of a new snapshot.
    pub(in crate::vpsa) async fn fill_snapshot(&self, snapshot: &Snapshot) -> Result<(), Failure> {
        let (backing, new) = (self.backing.clone(), snapshot.clone());
        blocking(move || backing.take_snapshot(&new.volume, &new.id)).await?;
        self.change(|state, _| snapshots::filled(state, &snapshot.id))
            .await
    }

    /// Makes the data of a volume as large as it is by now.
    pub(in crate::vpsa) fn resize(&self, volume: &Volume) -> io::Result<()> {
        let is_disk = volume.data_type == DataType::Block;
        let size = volume.capacity_at(crate::moment::now());
        self.backing.resize(&volume.id, is_disk, size)
    }

    /// Finishes what was under way when the simulator died.
    pub(super) async fn finish_all(&self) -> Result<(), Failure> {
        let (unfilled, untaken, sizes) = self.read(|state, _| {
            let volumes = state.volumes.values();
            let snapshots = state.snapshots.values();
            (
                volumes
                    .clone()
                    .filter(|v| !v.filled)
                    .cloned()
                    .collect::<Vec<_>>(),
                snapshots.filter(|s| !s.filled).cloned().collect::<Vec<_>>(),
                volumes.filter(|v| v.filled).cloned().collect::<Vec<_>>(),
            )
        });
        for snapshot in untaken {
            self.fill_snapshot(&snapshot).await?;
        }
        for volume in unfilled {
            self.fill_volume(&volume).await?;
        }
        for volume in sizes {
            self.resize(&volume)?;
        }
        Ok(())
    }

    /// Lets go of what is done with being removed, and of its data.
    pub(in crate::vpsa) async fn sweep(&self) -> Result<(), Failure> {
        let outdated = self.read(State::outdated);
        if outdated.is_empty() {
            return Ok(());
        }
        // Data first: what the state has forgotten nobody would look for again.
        for change in &outdated {
            self.carry_out(change)?;
        }
        self.put(outdated).await
    }

    fn carry_out(&self, change: &Change) -> io::Result<()> {
        use crate::vpsa::state::Object;
        match change {
            Change::Remove {
                kind: Kind::Volume,
                key,
            } => self.backing.remove_volume(key),
            Change::Remove {
                kind: Kind::Snapshot,
                key,
            } => self.backing.remove_snapshot(key),
            Change::Put(Object::Volume(grown)) => self.resize(grown),
            Change::Put(_) | Change::Remove { .. } => Ok(()),
        }
    }
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
