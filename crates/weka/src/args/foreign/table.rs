//! The flags, and what each means when it is switched on.

use super::Meaning::{self, AlwaysOn, Refused};
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
        "allowasyncobjectdeletion",
        "Always on: filesystems and snapshots are removed by the array, unless --waitforobjectdeletion is set",
        AlwaysOn,
    ),
    text(
        "tracingurl",
        "",
        "Refused: no traces are sent",
        Refused(
            "this driver sends no traces: leave the flag out; its metrics have the time of every call",
        ),
    ),
    switch(
        "allowautoseedsnapshotcreation",
        "Always on: the empty snapshot from which snapshot volumes are made is created where it is missing",
        AlwaysOn,
    ),
    switch(
        "allowprotocolcontainers",
        "Always on: containers are chosen by name",
        AlwaysOn,
    ),
];
