//! Every rule, broken once: start from a request that passes, spoil one field, expect one code.

use super::*;
use crate::proto::csi::{volume_capability as cap, volume_content_source as source, *};

/// A driver with everything.
const RULES: Rules<'_> = Rules::new(
    &[
        ControllerRpc::CreateDeleteSnapshot,
        ControllerRpc::CloneVolume,
        ControllerRpc::PublishReadonly,
        ControllerRpc::ModifyVolume,
    ],
    &[NodeRpc::StageUnstageVolume],
);
/// A driver with nothing.
const PLAIN: Rules<'_> = Rules::new(&[], &[]);

const INVALID: Code = Code::InvalidArgument;

fn mount() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(cap::AccessType::Mount(cap::MountVolume::default())),
        access_mode: Some(cap::AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
    }
}

fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(cap::AccessType::Block(cap::BlockVolume {})),
        ..mount()
    }
}

fn gigabytes(required: i64, limit: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: required << 30,
        limit_bytes: limit << 30,
    }
}

fn large_map() -> BTreeMap<String, String> {
    BTreeMap::from([("k".to_owned(), "v".repeat(4096))])
}

fn from_snapshot(id: &str) -> VolumeContentSource {
    let snapshot_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(source::Type::Snapshot(source::SnapshotSource {
            snapshot_id,
        })),
    }
}

fn from_volume(id: &str) -> VolumeContentSource {
    let volume_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(source::Type::Volume(source::VolumeSource { volume_id })),
    }
}

/// `valid` passes; spoiled, it breaks a rule about `field` with `code`.
#[track_caller]
fn breaks<R: Check + Clone>(valid: &R, spoil: impl FnOnce(&mut R), code: Code, field: &str) {
    assert_eq!(valid.check(&RULES), Ok(()));
    let mut request = valid.clone();
    spoil(&mut request);
    let status = Status::from(request.check(&RULES).expect_err("a broken rule"));
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(field), "{status}");
    assert!(status.details().is_empty());
}

#[track_caller]
fn passes<R: Check + Clone>(valid: &R, change: impl FnOnce(&mut R)) {
    let mut request = valid.clone();
    change(&mut request);
    assert_eq!(request.check(&RULES), Ok(()));
}

#[track_caller]
fn unsupported<R: Check + Clone>(valid: &R, change: impl FnOnce(&mut R), what: &str) {
    let mut request = valid.clone();
    change(&mut request);
    assert_eq!(request.check(&RULES), Ok(()));
    let violation = request.check(&PLAIN).expect_err("not advertised");
    assert_eq!(violation.code(), INVALID);
    assert!(violation.to_string().starts_with(what), "{violation}");
}

/// The rules of an id that must be there.
macro_rules! id_rules {
    ($valid:expr, $field:ident) => {
        let field = stringify!($field);
        breaks($valid, |r| r.$field.clear(), INVALID, field);
        breaks($valid, |r| r.$field = "x".repeat(129), INVALID, field);
        passes($valid, |r| r.$field = "x".repeat(128));
    };
}

macro_rules! map_rules {
    ($valid:expr, $($field:ident),+) => {$(
        breaks($valid, |r| r.$field = large_map(), INVALID, stringify!($field));
    )+};
}

macro_rules! path_rules {
    ($valid:expr, $field:ident) => {
        let field = stringify!($field);
        breaks($valid, |r| r.$field.clear(), INVALID, field);
        breaks($valid, |r| r.$field = "/a\0b".to_owned(), INVALID, field);
        breaks(
            $valid,
            |r| r.$field = format!("/{}", "x".repeat(4095)),
            INVALID,
            field,
        );
        passes($valid, |r| r.$field = format!("/{}", "x".repeat(4094)));
    };
}

/// The rules of a required capability; `$set` puts one into the request.
macro_rules! capability_rules {
    ($valid:expr, $set:expr) => {
        let set: fn(&mut _, VolumeCapability) = $set;
        passes($valid, |r| set(r, block()));
        let spoiled = |spoil: fn(&mut VolumeCapability)| {
            let mut capability = mount();
            spoil(&mut capability);
            capability
        };
        let without_type = spoiled(|c| c.access_type = None);
        breaks($valid, |r| set(r, without_type), INVALID, "block or mount");
        let without_mode = spoiled(|c| c.access_mode = None);
        breaks($valid, |r| set(r, without_mode), INVALID, "access_mode");
        let unknown_mode = spoiled(|c| c.access_mode = Some(cap::AccessMode { mode: 0 }));
        breaks($valid, |r| set(r, unknown_mode), INVALID, "access_mode");
        let future_mode = spoiled(|c| c.access_mode = Some(cap::AccessMode { mode: 8 }));
        breaks($valid, |r| set(r, future_mode), INVALID, "unknown value 8");
        let mounted = |mount| VolumeCapability {
            access_type: Some(cap::AccessType::Mount(mount)),
            ..self::mount()
        };
        let flags = mounted(cap::MountVolume {
            mount_flags: vec!["x".repeat(2048), "y".repeat(2049)],
            ..Default::default()
        });
        breaks($valid, |r| set(r, flags), INVALID, "mount_flags");
        let fs_type = mounted(cap::MountVolume {
            fs_type: "x".repeat(129),
            ..Default::default()
        });
        breaks($valid, |r| set(r, fs_type), INVALID, "fs_type");
        let group = mounted(cap::MountVolume {
            volume_mount_group: "x".repeat(129),
            ..Default::default()
        });
        breaks($valid, |r| set(r, group), INVALID, "volume_mount_group");
    };
}

macro_rules! range_rules {
    ($valid:expr) => {
        for (required, limit, code, field) in [
            (-1, 0, INVALID, "required_bytes"),
            (0, -1, INVALID, "limit_bytes"),
            (0, 0, INVALID, "capacity_range"),
            (2, 1, Code::OutOfRange, "limit_bytes"),
        ] {
            let range = Some(gigabytes(required, limit));
            breaks($valid, |r| r.capacity_range = range, code, field);
        }
        for (required, limit) in [(1, 0), (0, 1), (1, 1), (1, 2)] {
            passes($valid, |r| {
                r.capacity_range = Some(gigabytes(required, limit))
            });
        }
    };
}

macro_rules! name_rules {
    ($valid:expr) => {
        id_rules!($valid, name);
        for control in [
            '\0', '\u{8}', '\u{b}', '\u{c}', '\u{e}', '\u{1f}', '\u{7f}', '\u{9f}',
        ] {
            breaks(
                $valid,
                |r| r.name.push(control),
                INVALID,
                "control character",
            );
        }
        for character in ['\t', '\n', '\r', ' ', '\u{a0}', 'ß', '船'] {
            passes($valid, |r| r.name.push(character));
        }
    };
}

// Below the macros, which they use.
mod controller;
mod node;
mod snapshots;
