//! Which volumes of a CSI driver are mounted below a kubelet's directory: found in the kernel's table of mounts and in the notes that
//! the kubelet keeps beside each mount. No mount is touched, so that one that hangs hangs nobody.

mod place;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::place::Place;
use crate::mountinfo::MountTable;

/// A note is a few hundred bytes.
const LONGEST_NOTE: u64 = 64 << 10;

/// A volume that is mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mounted {
    /// Where, below the kubelet's directory.
    pub path: PathBuf,
    /// The uid of the pod that it is for, if it is for one.
    pub pod: Option<String>,
    /// Its PersistentVolume, or its name in the pod, where that is known.
    pub volume: Option<String>,
}

/// The mounts of a driver's volumes below a kubelet's directory. What looks like a volume's and bears no name counts: nobody else
/// would miss it. Reads files.
pub fn mounts_of(driver: &str, table: &MountTable, root: &Path) -> Vec<Mounted> {
    found(driver, table, root, Note::read)
}

/// The directories of kubelets that have volumes of CSI drivers mounted, wherever they are.
pub fn roots(table: &MountTable) -> BTreeSet<PathBuf> {
    let points = table.iter().map(|mount| mount.point());
    points
        .filter_map(Place::root)
        .map(ToOwned::to_owned)
        .collect()
}

/// What the kubelet notes down beside a mount.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Note {
    /// The driver's name.
    #[serde(rename = "driverName")]
    pub driver: String,
    /// The PersistentVolume, or the volume's name in the pod.
    #[serde(rename = "specVolID")]
    pub volume: Option<String>,
    /// What the driver calls it.
    #[serde(rename = "volumeHandle")]
    pub handle: Option<String>,
}

impl Note {
    /// The note beside the target of a pod; none where there is none that can be read. Reads a file.
    pub fn beside(target: &Path) -> Option<Self> {
        Self::read(&target.parent()?.join(place::NOTE))
    }

    fn read(path: &Path) -> Option<Self> {
        let known = std::fs::symlink_metadata(path).ok()?;
        let is_plain = known.is_file() && known.len() <= LONGEST_NOTE;
        let text = is_plain.then(|| std::fs::read(path).ok())??;
        serde_json::from_slice(&text).ok()
    }
}

fn found(
    driver: &str,
    table: &MountTable,
    root: &Path,
    note: impl Fn(&Path) -> Option<Note>,
) -> Vec<Mounted> {
    let below = table.under(root);
    let mut mounts: Vec<_> = below
        .filter_map(|mount| {
            let path = mount.point().strip_prefix(root).ok()?;
            let place = Place::of(path)?;
            let note = note(&root.join(&place.note));
            let of = place.driver.or(note.as_ref().map(|it| it.driver.clone()));
            let is_ours = match of {
                Some(of) => of == driver,
                None => place.is_certain,
            };
            is_ours.then(|| Mounted {
                path: path.to_owned(),
                pod: place.pod,
                volume: note.and_then(|it| it.volume),
            })
        })
        .collect();
    mounts.sort_unstable();
    mounts.dedup();
    mounts
}

#[cfg(test)]
mod tests;
