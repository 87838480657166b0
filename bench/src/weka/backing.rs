//! What the volumes of a run are.

use super::round::Step;

/// What a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backing {
    /// A directory of a filesystem
    Directory,
    /// A writable snapshot of a filesystem
    Snapshot,
    /// A filesystem of its own
    Filesystem,
}

impl Backing {
    /// The parameters of its class.
    pub fn class(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Directory => &[("volumeType", "dir/v1"), ("filesystemName", "default")],
            Self::Snapshot => &[("filesystemName", "default")],
            Self::Filesystem => &[("filesystemGroupName", "default")],
        }
    }

    /// What happens to a volume, and what it should take: made, published, unpublished, deleted.
    pub fn steps(self) -> [Step; 4] {
        let [made, published, deleted] = match self {
            // Whether the volume exists, by which number the array knows its directory, and its quota.
            Self::Directory => [
                ("mkdir, number, quota", 3.0),
                ("mkdir, bind", 0.0),
                ("rename", 0.0),
            ],
            // Whether the volume and the seed exist, the snapshot, its number, its quota; and whether it is a volume.
            Self::Snapshot => [
                ("snapshot, number, quota", 5.0),
                ("mkdir, bind", 0.0),
                ("delete", 2.0),
            ],
            // Whether the volume exists and fits, the filesystem, a token to mount it, its number, its quota; which
            // filesystem and whose token to publish it; and whether it exists and somebody has snapshots of it.
            Self::Filesystem => [
                ("filesystem, mount, number, quota", 6.0),
                ("mount", 2.0),
                ("delete", 3.0),
            ],
        };
        let step = |done, (least, requests)| Step {
            done,
            least,
            requests,
        };
        [
            step("created", made),
            step("published", published),
            step("unpublished", ("umount, rmdir", 0.0)),
            step("deleted", deleted),
        ]
    }
}
