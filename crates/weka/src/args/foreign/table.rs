//! The flags, and what each means when it is switched on.

use super::Meaning::{self, AlwaysSo, NoEffect, Refused};
use super::{Flag, Kind};

const fn switch(name: &'static str, help: &'static str, meaning: Meaning) -> Flag {
    let kind = Kind::Switch { off: false };
    Flag {
        name,
        kind,
        help,
        meaning,
    }
}

const fn text(name: &'static str, off: &'static str, help: &'static str, meaning: Meaning) -> Flag {
    let kind = Kind::Text { off };
    Flag {
        name,
        kind,
        help,
        meaning,
    }
}

pub(super) const FLAGS: &[Flag] = &[
    switch(
        "usenfs",
        "Refused: volumes are mounted by the Weka client",
        Refused(
            "volumes are mounted by the Weka client, not over NFS: leave the flag out and run a Weka client on every node",
        ),
    ),
    switch(
        "selinux-support",
        "Refused: mounts get no SELinux label",
        Refused(
            "mounts get no SELinux label from this driver, and pods on an enforcing node could not use them: leave the flag \
             out and keep the driver off such nodes",
        ),
    ),
    switch(
        "enforcedirvoltotalcapacity",
        "Refused: the sum of all volumes is not limited",
        Refused(
            "this driver limits each volume, not the sum of all volumes of a filesystem: leave the flag out and watch how \
             full filesystems are",
        ),
    ),
    text(
        "debugpath",
        "",
        "Refused: a local directory is no Weka filesystem",
        Refused(
            "a local directory in place of a Weka filesystem is not supported: leave the flag out; `stowage sim weka` \
             simulates a cluster",
        ),
    ),
    switch(
        "allownfsfailback",
        "No effect: a node without a Weka client mounts nothing",
        NoEffect,
    ),
    text("interfacegroupname", "", "No effect: NFS", NoEffect),
    text("clientgroupname", "", "No effect: NFS", NoEffect),
    text("nfsprotocolversion", "4.1", "No effect: NFS", NoEffect),
    switch(
        "allowautofscreation",
        "No effect: volumes are directories of existing filesystems",
        NoEffect,
    ),
    switch(
        "allowautofsexpansion",
        "No effect: filesystems keep their size",
        NoEffect,
    ),
    Flag {
        name: "keepthinprovisioningratioonexpand",
        kind: Kind::Switch { off: true },
        help: "No effect: filesystems keep their size",
        meaning: NoEffect,
    },
    switch(
        "setownershipondynamicfilesystems",
        "No effect: no filesystem is made",
        NoEffect,
    ),
    switch(
        "allowencryptionwithoutkms",
        "No effect: no filesystem is made",
        NoEffect,
    ),
    switch(
        "waitforobjectdeletion",
        "No effect: directories are moved away at once",
        NoEffect,
    ),
    switch(
        "allowasyncobjectdeletion",
        "No effect: directories are moved away at once",
        NoEffect,
    ),
    switch(
        "allowsnapshotsoflegacyvolumes",
        "No effect: no snapshots are taken",
        NoEffect,
    ),
    switch(
        "allowsnapshotsofdirectoryvolumes",
        "No effect: no snapshots are taken",
        NoEffect,
    ),
    switch(
        "alwaysallowsnapshotvolumes",
        "No effect: no volume is a snapshot",
        NoEffect,
    ),
    text(
        "newvolumeprefix",
        "csivol-",
        "No effect: directories have no prefix",
        NoEffect,
    ),
    text(
        "newsnapshotprefix",
        "csisnp-",
        "No effect: no snapshots are taken",
        NoEffect,
    ),
    text(
        "seedsnapshotprefix",
        "csisnp-seed-",
        "No effect: no snapshots are taken",
        NoEffect,
    ),
    text("tracingurl", "", "No effect: no traces are sent", NoEffect),
    text(
        "concurrency.createSnapshot",
        "",
        "Always so: no snapshots are taken",
        AlwaysSo,
    ),
    text(
        "concurrency.deleteSnapshot",
        "",
        "Always so: no snapshots are taken",
        AlwaysSo,
    ),
    text(
        "concurrency.nodeUnpublishVolume",
        "5",
        "No effect: a pod that goes away waits for nobody",
        NoEffect,
    ),
    switch(
        "suppresssnapshotcapability",
        "Always so: no snapshots are offered",
        AlwaysSo,
    ),
    switch(
        "suppressrvolumeclonecapability",
        "Always so: no clones are offered",
        AlwaysSo,
    ),
    switch(
        "allowprotocolcontainers",
        "Always so: containers are chosen by name",
        AlwaysSo,
    ),
    switch(
        "advertisevolumehealthsupport",
        "Always so: with the legacy secret volumes tell their condition",
        AlwaysSo,
    ),
];
