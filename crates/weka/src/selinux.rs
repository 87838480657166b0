//! Labels of mounts for nodes with SELinux, and whether such a node is what the kernel says it is.
//!
//! Who starts the driver decides (`--selinux-support`), as the label of the node says. The kernel is only asked to warn of a
//! mismatch, and to refuse mounts whose label would get lost on the way: `mount(8)` takes labels away where it sees no SELinux,
//! and then no pod of an enforcing node could use the volume.

use std::path::Path;

use rustix::fs::{FsWord, StatVfsMountFlags, statfs, statvfs};

use crate::options::{Options, Vocabulary};

/// Where SELinux shows itself, where libraries look for it, and where the kernel lists it in any case.
const SELINUXFS: &str = "/sys/fs/selinux";
const CONFIG: &str = "/etc/selinux/config";

/// The kernel's number for it.
const SELINUX_MAGIC: FsWord = 0xf97c_ff8c;

/// All files of such a mount have this label: wekafs keeps none of its own.
const OF_WEKAFS: &str = "fscontext=system_u:object_r:wekafs_csi_volume_t:s0";
const OF_NFS: &str = "context=system_u:object_r:nfs_t:s0";

/// Options with which people label a mount themselves.
const CONTEXTS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];

/// What is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labelled {
    Wekafs,
    Nfs,
}

impl Labelled {
    /// Adds the label, unless the options have one already.
    pub(crate) fn label(self, options: &mut Options, vocabulary: &Vocabulary) {
        if self == Self::Wekafs {
            options.remove("noacl");
            options.add("acl", vocabulary);
        }
        let is_labelled = options.iter().any(|(name, _)| CONTEXTS.contains(&name));
        if !is_labelled {
            let label = match self {
                Self::Wekafs => OF_WEKAFS,
                Self::Nfs => OF_NFS,
            };
            options.add(label, vocabulary);
        }
    }
}

/// What the kernel of this node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// It has no SELinux, or it is switched off.
    Off,
    /// It has SELinux, but programs in this container take it for switched off.
    Hidden,
    /// It has SELinux.
    On,
}

/// A label would get lost.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node has SELinux, but the driver's container does not show it, so a mount would lose its label, and pods could not use it: give the container the node's `/sys/fs` as a volume at `/sys/fs`, and a file `{CONFIG}`, as deploy/samples/weka-selinux-enforced.yaml does"
)]
pub(crate) struct LabelLost;

impl Kernel {
    /// Looks at the kernel, whose list of filesystems is in a file.
    pub(crate) fn look(filesystems: &Path) -> Self {
        let listed = std::fs::read_to_string(filesystems).unwrap_or_default();
        match (lists_selinux(&listed), is_shown()) {
            (false, _) => Self::Off,
            (true, false) => Self::Hidden,
            (true, true) => Self::On,
        }
    }

    /// Whether the label of a mount reaches the kernel, where it has any use for it.
    pub(crate) fn check_keeps_labels(self) -> Result<(), LabelLost> {
        match self {
            Self::Off | Self::On => Ok(()),
            Self::Hidden => Err(LabelLost),
        }
    }

    /// What a person should know about the node and the driver on it.
    pub(crate) fn mismatch(self, labels_mounts: bool) -> Option<&'static str> {
        match (self, labels_mounts) {
            (Self::Off, true) => Some(
                "The driver labels mounts (--selinux-support), but SELinux is off on this node: switch it on and reboot the node, or remove the node's label `csi.weka.io/selinux_enabled`.",
            ),
            (Self::Hidden, true) => Some(
                "The driver labels mounts (--selinux-support), but its container does not show SELinux, so mounts are refused: give it the node's /sys/fs and a file /etc/selinux/config.",
            ),
            (Self::On | Self::Hidden, false) => Some(
                "SELinux is on on this node, but the driver does not label mounts, so pods may be denied access to volumes: label the node `csi.weka.io/selinux_enabled=true` where two kinds of node pods run, or start the driver with --selinux-support.",
            ),
            (Self::Off, false) | (Self::On, true) => None,
        }
    }
}

/// Whether the kernel has it, whatever is mounted.
fn lists_selinux(filesystems: &str) -> bool {
    let mut lines = filesystems.lines().map(str::split_whitespace);
    lines.any(|mut words| words.any(|word| word == "selinuxfs"))
}

/// Whether the libraries of `mount(8)` see it: with one of the two missing, or not to be written, they take it for switched off.
fn is_shown() -> bool {
    let is_selinux = statfs(SELINUXFS).is_ok_and(|stat| stat.f_type == SELINUX_MAGIC);
    let is_read_only = || {
        let stat = statvfs(SELINUXFS);
        stat.is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    is_selinux && !is_read_only() && Path::new(CONFIG).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_gets_the_label_of_its_kind_unless_it_has_one() {
        for (kind, given, labelled) in [
            (
                Labelled::Wekafs,
                "noacl,writecache",
                "acl,fscontext=system_u:object_r:wekafs_csi_volume_t:s0,writecache",
            ),
            (
                Labelled::Wekafs,
                "context=system_u:object_r:mine_t:s0",
                "acl,context=system_u:object_r:mine_t:s0",
            ),
            (
                Labelled::Nfs,
                "hard",
                "context=system_u:object_r:nfs_t:s0,hard",
            ),
        ] {
            let mut options = Options::parse(given);
            kind.label(&mut options, &Vocabulary::default());
            assert_eq!(options.to_string(), labelled, "{given}");
        }
    }

    #[test]
    fn a_node_that_is_not_what_the_driver_takes_it_for_is_told() {
        for (kernel, labels_mounts, words) in [
            (Kernel::Off, true, Some("SELinux is off on this node")),
            (Kernel::Hidden, true, Some("/etc/selinux/config")),
            (Kernel::On, false, Some("--selinux-support")),
            (Kernel::Hidden, false, Some("--selinux-support")),
            (Kernel::On, true, None),
            (Kernel::Off, false, None),
        ] {
            let told = kernel.mismatch(labels_mounts);
            assert_eq!(told.is_some(), words.is_some(), "{kernel:?}");
            assert!(
                told.unwrap_or_default().contains(words.unwrap_or_default()),
                "{told:?}"
            );
        }
    }

    #[test]
    fn the_kernel_lists_what_it_has() {
        assert!(lists_selinux("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
        assert!(!lists_selinux("nodev\tsysfs\n\text4\n"));
        let nowhere = Kernel::look(Path::new("/nowhere/filesystems"));
        assert_eq!(nowhere, Kernel::Off);
    }
}
