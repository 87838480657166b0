//! How much of a filesystem is promised to its directory volumes: with `--enforcedirvoltotalcapacity`, not more than it has.
//!
//! What is promised is what quotas say, from one list for the filesystem, and for volumes without one what their PersistentVolumes
//! say, where Kubernetes can be asked. It may be a few seconds old: this process adds what it promises itself, and nobody is
//! refused before the list was read again. Deleted volumes are in the list until then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Driver;
use super::filesystem::{Managed, WekaFilesystem};
use crate::capacity::SizeError;
use crate::error::{Error, FullError};
use crate::handle::{Backing, Handle};
use crate::quota::Size;
use crate::rest::Api;

/// How long a list counts.
const FRESH: Duration = Duration::from_secs(5);

/// What needs the API.
const WHAT: &str = "limits for all volumes of a filesystem together (--enforcedirvoltotalcapacity)";

/// Cluster and uid of a filesystem.
type Key = [String; 2];

/// What is promised on all filesystems.
#[derive(Default)]
pub(crate) struct Promises(Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Promised>>>>);

/// What is promised on one filesystem.
#[derive(Debug, Default)]
struct Promised {
    listed: Option<Instant>,
    by_volume: HashMap<String, u64>,
    /// What is being made by this process, whether or not the list has it yet.
    pending: HashMap<String, u64>,
}

impl Promised {
    /// What all volumes but this one may use.
    fn to_others(&self, volume: &str) -> u64 {
        let pending = self.pending.iter();
        let listed = self.by_volume.iter();
        let listed = listed.filter(|(name, _)| !self.pending.contains_key(*name));
        let others = pending.chain(listed).filter(|(name, _)| *name != volume);
        others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn learn(&mut self, listed: HashMap<String, u64>, now: Instant) {
        (self.by_volume, self.listed) = (listed, Some(now));
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let listed = self.listed;
        listed.is_some_and(|listed| now.saturating_duration_since(listed) < FRESH)
    }
}

/// Room for a volume that is being made or enlarged. Dropped, it is free again; kept, the volume has it.
pub(crate) struct Reservation {
    promised: Arc<tokio::sync::Mutex<Promised>>,
    volume: String,
    bytes: u64,
    is_kept: bool,
}

impl Reservation {
    /// The volume has its size.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (promised, volume) = (self.promised.clone(), std::mem::take(&mut self.volume));
        let kept = self.is_kept.then_some(self.bytes);
        let settle = move |promised: &mut Promised| {
            promised.pending.remove(&volume);
            if let Some(bytes) = kept {
                promised.by_volume.insert(volume, bytes);
            }
        };
        match self.promised.try_lock() {
            Ok(mut promised) => settle(&mut promised),
            // Somebody reads the list; they must not be waited for here.
            Err(_) => drop(tokio::spawn(async move {
                settle(&mut *promised.lock().await);
            })),
        }
    }
}

impl Driver {
    /// Keeps room for a directory volume, if volumes are limited together. A filesystem that may grow is enlarged, others
    /// refuse what does not fit.
    pub(crate) async fn reserve(
        &self,
        filesystem: &mut WekaFilesystem,
        volume: &Handle,
        bytes: u64,
    ) -> Result<Option<Reservation>, Error> {
        let rules = &self.config.volumes;
        if !rules.limit_directories || volume.backing() != Backing::Directory {
            return Ok(None);
        }
        let managed = filesystem.api_for(WHAT)?.clone();
        let key = [filesystem.cluster(), filesystem.uid()].map(str::to_owned);
        let promised = self.promises.0.lock().entry(key).or_default().clone();
        let mut known = promised.lock().await;
        let name = volume.path();
        let name = name.to_string_lossy();
        let mut is_to_be_read = !known.is_fresh(Instant::now());
        loop {
            if is_to_be_read {
                known.learn(self.list_promises(&managed).await?, Instant::now());
            }
            let promised = known.to_others(&name);
            let needed = promised.saturating_add(bytes);
            let room = self.make_room(filesystem, needed, rules.enlarge_filesystems);
            match room.await {
                Err(Error::Size(_)) if !is_to_be_read => is_to_be_read = true,
                Err(Error::Size(SizeError::AboveFilesystem {
                    filesystem, total, ..
                })) => {
                    return Err(FullError::Overprovisioned {
                        filesystem,
                        bytes,
                        promised,
                        total,
                    }
                    .into());
                }
                room => break room?,
            }
        }
        known.pending.insert(name.clone().into_owned(), bytes);
        drop(known);
        Ok(Some(Reservation {
            promised,
            volume: name.into_owned(),
            bytes,
            is_kept: false,
        }))
    }

    /// What is promised to directory volumes of a filesystem, by their paths: a directory may have several handles.
    async fn list_promises(&self, managed: &Managed) -> Result<HashMap<String, u64>, Error> {
        let name = &managed.filesystem.name;
        let quotas = managed.api.quotas(&managed.filesystem).await?;
        let volumes = quotas.iter().filter_map(|quota| {
            let path = quota.path_on(name)?;
            let handle = Handle::of_path(name, path, &self.config.dynamic_paths)?;
            let bytes = Size::from(quota.limits()).bytes;
            (handle.backing() == Backing::Directory).then(|| (path_of(&handle), bytes))
        });
        let mut promises: HashMap<_, _> = volumes.collect();
        let enforced: HashSet<_> = promises.keys().cloned().collect();
        for (path, bytes) in self.promises_of_kubernetes(managed).await {
            if !enforced.contains(&path) {
                let known = promises.entry(path).or_default();
                *known = bytes.max(*known);
            }
        }
        Ok(promises)
    }

    /// What PersistentVolumes promise of a filesystem. Which cluster one is on is known by its secret: where that cannot be used,
    /// it is left out.
    async fn promises_of_kubernetes(&self, managed: &Managed) -> Vec<(String, u64)> {
        let Some(inventory) = &self.inventory else {
            return Vec::new();
        };
        let volumes = inventory.volumes();
        let on_filesystem = volumes.iter().filter(|volume| {
            let handle = &volume.handle;
            handle.filesystem() == managed.filesystem.name && handle.backing() == Backing::Directory
        });
        let mut by_secret: HashMap<_, Vec<_>> = HashMap::new();
        for volume in on_filesystem {
            let of_secret = by_secret.entry(volume.secret_name()).or_default();
            of_secret.push(volume);
        }
        let mut promises = Vec::new();
        for volumes in by_secret.into_values() {
            let secret = volumes.first().and_then(|volume| volume.secret.as_ref());
            let deadline = managed.api.deadline();
            let cluster = self.cluster_of_secret(inventory, secret, deadline).await;
            if let Ok(Some(api)) = cluster
                && is_same_cluster(&api, managed).await
            {
                let of_cluster = volumes
                    .iter()
                    .filter_map(|volume| Some((path_of(&volume.handle), volume.bytes?)));
                promises.extend(of_cluster);
            }
        }
        promises
    }
}

fn path_of(handle: &Handle) -> String {
    handle.path().to_string_lossy().into_owned()
}

/// Whether a filesystem of the same name is the same one.
async fn is_same_cluster(api: &Api, managed: &Managed) -> bool {
    let organization = |api: &Api| api.client().credentials.organization.clone();
    let facts = api.facts().await;
    facts.is_ok_and(|facts| facts.guid == managed.facts.guid)
        && organization(api) == organization(&managed.api)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promised(listed: &[(&str, u64)], pending: &[(&str, u64)]) -> Promised {
        let owned = |(name, bytes): &(&str, u64)| ((*name).to_owned(), *bytes);
        Promised {
            listed: None,
            by_volume: listed.iter().map(owned).collect(),
            pending: pending.iter().map(owned).collect(),
        }
    }

    #[test]
    fn each_volume_counts_once_and_the_one_in_question_not_at_all() {
        let listed = [("a", 10), ("b", 20)];
        assert_eq!(promised(&listed, &[]).to_others("new"), 30);
        assert_eq!(promised(&listed, &[]).to_others("a"), 20, "it grows");
        // Listed already, and larger in a moment.
        assert_eq!(
            promised(&listed, &[("b", 25), ("c", 5)]).to_others("new"),
            40
        );
        assert_eq!(
            promised(&[("a", u64::MAX)], &[("b", 2)]).to_others("c"),
            u64::MAX
        );
    }

    #[tokio::test]
    async fn room_that_nobody_took_is_free_again() {
        let shared = Arc::new(tokio::sync::Mutex::new(promised(
            &[],
            &[("a", 5), ("b", 7)],
        )));
        let reservation = |volume: &str, bytes| Reservation {
            promised: shared.clone(),
            volume: volume.to_owned(),
            bytes,
            is_kept: false,
        };
        drop(reservation("a", 5));
        assert_eq!(shared.lock().await.to_others("new"), 7);
        reservation("b", 7).keep();
        let known = shared.lock().await;
        assert!(known.pending.is_empty());
        assert_eq!(known.to_others("new"), 7);
    }
}
