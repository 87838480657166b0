//! The flags, and what each means when it is switched on.

use super::Meaning::{self, AlwaysOn, NoEffect, Refused};
use super::{Flag, Kind};

const fn switch(name: &'static str, help: &'static str, meaning: Meaning) -> Flag {
    let kind = Kind::Switch { default: false };
    Flag {
        name,
        kind,
        help,
        meaning,
    }
}

const fn text(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    meaning: Meaning,
) -> Flag {
    let kind = Kind::Text { default };
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
        "Refused: SELinux labels are not supported",
        Refused(
            "SELinux labels are not supported, and pods on an enforcing node could not use the volumes: leave the flag out \
             and keep the driver off such nodes",
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
        "Refused: a local directory is not a Weka filesystem",
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
    text(
        "interfacegroupname",
        "",
        "No effect: NFS is not supported",
        NoEffect,
    ),
    text(
        "clientgroupname",
        "",
        "No effect: NFS is not supported",
        NoEffect,
    ),
    text(
        "nfsprotocolversion",
        "4.1",
        "No effect: NFS is not supported",
        NoEffect,
    ),
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
        kind: Kind::Switch { default: true },
        help: "No effect: filesystems keep their size",
        meaning: NoEffect,
    },
    switch(
        "setownershipondynamicfilesystems",
        "No effect: no filesystem is created",
        NoEffect,
    ),
    switch(
        "allowencryptionwithoutkms",
        "No effect: no filesystem is created",
        NoEffect,
    ),
    switch(
        "waitforobjectdeletion",
        "No effect: deleted directories are moved to the trash at once",
        NoEffect,
    ),
    switch(
        "allowasyncobjectdeletion",
        "No effect: deleted directories are moved to the trash at once",
        NoEffect,
    ),
    switch(
        "allowsnapshotsoflegacyvolumes",
        "No effect: snapshots are not supported",
        NoEffect,
    ),
    switch(
        "allowsnapshotsofdirectoryvolumes",
        "No effect: snapshots are not supported",
        NoEffect,
    ),
    switch(
        "alwaysallowsnapshotvolumes",
        "No effect: snapshot volumes are not supported",
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
        "No effect: snapshots are not supported",
        NoEffect,
    ),
    text(
        "seedsnapshotprefix",
        "csisnp-seed-",
        "No effect: snapshots are not supported",
        NoEffect,
    ),
    text("tracingurl", "", "No effect: no traces are sent", NoEffect),
    text(
        "concurrency.createSnapshot",
        "",
        "Always on: snapshots are not supported",
        AlwaysOn,
    ),
    text(
        "concurrency.deleteSnapshot",
        "",
        "Always on: snapshots are not supported",
        AlwaysOn,
    ),
    text(
        "concurrency.nodeUnpublishVolume",
        "5",
        "No effect: unpublishing is not limited",
        NoEffect,
    ),
    switch(
        "suppresssnapshotcapability",
        "Always on: snapshots are not supported",
        AlwaysOn,
    ),
    switch(
        "suppressrvolumeclonecapability",
        "Always on: clones are not supported",
        AlwaysOn,
    ),
    switch(
        "allowprotocolcontainers",
        "Always on: containers are chosen by name",
        AlwaysOn,
    ),
    switch(
        "advertisevolumehealthsupport",
        "Always on: volumes report their condition if the legacy secret is set",
        AlwaysOn,
    ),
];
