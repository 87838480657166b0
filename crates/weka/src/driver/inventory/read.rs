//! How volumes are read from their arrays. One that cannot be asked hides no other: each filesystem fails by itself, and has its own
//! time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};

use super::sweep::{Failures, Group, Part};
use super::{Inventory, KnownVolume, Reading, State};
use crate::driver::Driver;
use crate::error::{Error, chain};
use crate::handle::{Backing, Handle};
use crate::rest::facts::Facts;
use crate::rest::wire::{Filesystem, Quota};
use crate::rest::{Api, Deadline};

/// How long one filesystem may take for all its volumes, and a cluster to list its filesystems.
const TIME: Duration = Duration::from_secs(300);

/// How many volumes of a filesystem are asked about one by one in a sweep.
const ASKED_IN_A_SWEEP: usize = 500;

/// A cluster whose volumes are read.
struct Asked<'a> {
    api: &'a Api,
    facts: Arc<Facts>,
}

/// What lists of quotas say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    /// Every quota of a directory outside of snapshots, with its path.
    Complete,
    /// Nothing that counts: there is none, or it does not say what the quotas are of.
    Useless,
}

impl Driver {
    /// Reads the volumes of one secret; returns how that went, for each part of it.
    pub(super) async fn read_group(
        &self,
        inventory: &Inventory,
        failures: &Failures,
        (name, volumes): Group,
    ) -> Vec<(Part, Result<(), Error>)> {
        let whole = (name.clone(), None);
        let secret = volumes.first().and_then(|volume| volume.secret.as_ref());
        let all = || volumes.iter().map(|volume| &**volume);
        let deadline = Deadline::after(TIME);
        let found = self.cluster_of_secret(inventory, secret, deadline).await;
        let api = match found {
            Ok(Some(api)) => api,
            Ok(None) => {
                let reason = "it was made without the API of the cluster";
                inventory.note_unknown(all(), "", reason);
                return vec![(whole, Ok(()))];
            }
            Err(error) => {
                inventory.note_unknown(all(), "", &chain(&error));
                return vec![(whole, Err(error))];
            }
        };
        let (facts, filesystems) = match list_filesystems(&api).await {
            Ok(listed) => listed,
            Err(error) => {
                inventory.note_unknown(all(), "", &chain(&error));
                return vec![(whole, Err(error))];
            }
        };
        let asked = Asked { api: &api, facts };
        let now = Instant::now();
        let due = by_filesystem(&volumes).into_iter().filter(|(fs, _)| {
            let part = (name.clone(), Some((*fs).to_owned()));
            failures.is_due(&part, now)
        });
        let reads = due.map(|(fs, volumes)| {
            let part = (name.clone(), Some(fs.to_owned()));
            let found = filesystems.iter().find(|one| one.name == fs);
            let read = self.read_filesystem(inventory, &asked, fs, found, volumes);
            async { (part, read.await) }
        });
        let reads: Vec<_> = reads.collect();
        let at_a_time = self.config.figures.filesystems_at_a_time;
        let mut outcomes: Vec<_> = stream::iter(reads)
            .buffer_unordered(at_a_time)
            .collect()
            .await;
        outcomes.push((whole, Ok(())));
        outcomes
    }

    /// Reads the volumes of one filesystem. Those that are in no list and whose turn it is not are left as they were.
    async fn read_filesystem(
        &self,
        inventory: &Inventory,
        cluster: &Asked<'_>,
        name: &str,
        found: Option<&Filesystem>,
        volumes: Vec<&KnownVolume>,
    ) -> Result<(), Error> {
        let guid = &cluster.facts.guid;
        let Some(filesystem) = found else {
            let reason = format!("filesystem `{name}` does not exist on the Weka cluster");
            for volume in volumes {
                inventory.note(volume, guid, State::Missing(reason.clone()));
            }
            return Ok(());
        };
        let api = cluster.api.until(Deadline::after(TIME));
        let listed = if self.config.figures.by_lists {
            api.quotas(filesystem).await
        } else {
            Ok(Vec::new())
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                inventory.note_unknown(volumes, guid, &chain(&error));
                return Err(error.into());
            }
        };
        let mut unlisted = Vec::new();
        let by_path = by_path(&listed, name);
        for volume in volumes {
            let path = volume.handle.path();
            match path.to_str().and_then(|path| by_path.get(path)) {
                Some(quota) => inventory.note(volume, guid, State::of_quota(quota)),
                None => unlisted.push((inventory.reading(volume).map(|it| it.at), volume)),
            }
        }
        let lists = self.lists(&listed, name);
        let asked = Asked {
            api: &api,
            facts: cluster.facts.clone(),
        };
        self.read_unlisted(inventory, &asked, filesystem, lists, unlisted)
            .await
    }

    /// Reads what is in no list: the array lists no quotas in snapshots, and a volume may have none.
    async fn read_unlisted(
        &self,
        inventory: &Inventory,
        cluster: &Asked<'_>,
        filesystem: &Filesystem,
        lists: Lists,
        volumes: Vec<(Option<Instant>, &KnownVolume)>,
    ) -> Result<(), Error> {
        let mut turn = in_turn(volumes, ASKED_IN_A_SWEEP);
        let guid = &cluster.facts.guid;
        while let Some(volume) = turn.next() {
            let asked = inventory.ask(cluster, filesystem, lists, &volume.handle);
            let mut state = match asked.await {
                Ok(state) => state,
                Err(error) => {
                    let left = std::iter::once(volume).chain(turn);
                    inventory.note_unknown(left, guid, &chain(&error));
                    return Err(error);
                }
            };
            if let State::Unlimited { inode: Some(inode) } = state {
                state = self.backfill(cluster.api, filesystem, volume, inode).await;
            }
            inventory.note(volume, guid, state);
        }
        Ok(())
    }

    /// What a list says about volumes that are not in it. Older releases list quotas without paths.
    fn lists(&self, listed: &[Quota], filesystem: &str) -> Lists {
        let has_paths = listed.iter().all(|it| it.path_on(filesystem).is_some());
        if self.config.figures.by_lists && has_paths {
            Lists::Complete
        } else {
            Lists::Useless
        }
    }
}

impl Inventory {
    /// Asks about a volume that is in no list.
    async fn ask(
        &self,
        cluster: &Asked<'_>,
        filesystem: &Filesystem,
        lists: Lists,
        handle: &Handle,
    ) -> Result<State, Error> {
        let api = cluster.api;
        let is_listed = matches!(handle.backing(), Backing::Directory | Backing::Filesystem);
        if !cluster.facts.resolves_paths() {
            return Ok(if is_listed && lists == Lists::Complete {
                State::Unlimited { inode: None }
            } else {
                State::Unknown(format!(
                    "the Weka cluster (release {}) does not tell this user where its quota is",
                    cluster.facts.release
                ))
            });
        }
        let remembered = self.inodes.lock().get(handle.as_str()).copied();
        if let (Some(inode), false) = (remembered, is_listed)
            && let Some(quota) = api.quota(filesystem, inode).await?
        {
            return Ok(State::of_quota(&quota));
        }
        self.inodes.lock().remove(handle.as_str());
        let path = handle.path();
        let Some(inode) = api.inode(filesystem, &path).await? else {
            let (path, name) = (path.display(), &filesystem.name);
            let reason = format!("path `/{path}` does not exist on filesystem `{name}`");
            return Ok(State::Missing(reason));
        };
        match api.quota(filesystem, inode).await? {
            None => Ok(State::Unlimited { inode: Some(inode) }),
            Some(quota) => {
                let mut inodes = self.inodes.lock();
                inodes.insert(handle.to_string(), inode);
                Ok(State::of_quota(&quota))
            }
        }
    }

    fn note(&self, volume: &KnownVolume, cluster: &str, state: State) {
        let reading = Reading {
            cluster: cluster.to_owned(),
            state,
            at: Instant::now(),
        };
        self.readings.lock().insert(volume.name.clone(), reading);
    }

    /// Nobody could be asked about these.
    fn note_unknown<'a>(
        &self,
        volumes: impl IntoIterator<Item = &'a KnownVolume>,
        cluster: &str,
        reason: &str,
    ) {
        for volume in volumes {
            self.note(volume, cluster, State::Unknown(reason.to_owned()));
        }
    }
}

async fn list_filesystems(api: &Api) -> Result<(Arc<Facts>, Vec<Filesystem>), Error> {
    Ok((api.facts().await?, api.filesystems().await?))
}

fn by_filesystem(volumes: &[Arc<KnownVolume>]) -> BTreeMap<&str, Vec<&KnownVolume>> {
    let mut groups: BTreeMap<&str, Vec<&KnownVolume>> = BTreeMap::new();
    for volume in volumes {
        let group = groups.entry(volume.handle.filesystem()).or_default();
        group.push(volume);
    }
    groups
}

fn by_path<'a>(listed: &'a [Quota], filesystem: &str) -> HashMap<&'a str, &'a Quota> {
    let quotas = listed.iter();
    quotas
        .filter_map(|quota| Some((quota.path_on(filesystem)?, quota)))
        .collect()
}

/// Those whose turn it is: the ones that were never read, then those whose reading is oldest.
fn in_turn<T>(mut volumes: Vec<(Option<Instant>, T)>, most: usize) -> impl Iterator<Item = T> {
    volumes.sort_by_key(|(read, _)| *read);
    volumes.into_iter().take(most).map(|(_, volume)| volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_longest_are_asked_first() {
        let now = Instant::now();
        let ago = |seconds| now.checked_sub(Duration::from_secs(seconds));
        let volumes = vec![
            (ago(1), "late"),
            (None, "new"),
            (ago(9), "oldest"),
            (ago(5), "old"),
        ];
        let asked: Vec<_> = in_turn(volumes, 3).collect();
        assert_eq!(asked, ["new", "oldest", "old"]);
    }
}
