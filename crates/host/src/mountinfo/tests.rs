use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;

fn table(text: &str) -> MountTable {
    MountTable::parse(text).unwrap()
}

#[test]
fn every_field_is_read() {
    let table = table(
        "36 35 98:1 /vols/a /mnt/a rw,noatime,ro shared:7 master:12 propagate_from:3 - ext3 /dev/root rw,errors=continue\n",
    );
    let mount = table.at(Path::new("/mnt/a")).unwrap();
    assert_eq!((mount.id(), mount.parent()), (36, 35));
    assert_eq!(
        mount.device(),
        Device {
            major: 98,
            minor: 1
        }
    );
    assert_eq!(mount.root(), Path::new("/vols/a"));
    assert_eq!(
        (mount.kind(), mount.source()),
        (OsStr::new("ext3"), OsStr::new("/dev/root"))
    );
    assert_eq!(
        (mount.peer_group(), mount.master_group()),
        (Some(7), Some(12))
    );
    assert!(mount.has_option("noatime") && mount.has_option("ro") && !mount.has_option("time"));
    assert!(mount.has_super_option("errors=continue") && !mount.has_super_option("ro"));
    assert!(mount.read_only());
}

#[test]
fn optional_fields_may_be_missing() {
    let table = table(
        "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / /a rw,relatime unbindable - tmpfs none rw",
    );
    assert_eq!(table.len(), 2);
    let mount = table.at(Path::new("/a")).unwrap();
    assert_eq!((mount.peer_group(), mount.master_group()), (None, None));
    assert!(!mount.read_only());
}

#[test]
fn escapes_are_undone_in_paths_and_sources() {
    let table = table(
        "1 0 0:1 /a\\040b\\134c /mnt/\\011tab\\012line\\043 rw - fuse.a\\040b //host/a\\040share rw,user=a\\054b\n",
    );
    let mount = table.at(Path::new("/mnt/\ttab\nline#")).unwrap();
    assert_eq!(mount.root(), Path::new("/a b\\c"));
    assert_eq!(
        (mount.kind(), mount.source()),
        (OsStr::new("fuse.a b"), OsStr::new("//host/a share"))
    );
}

#[test]
fn a_backslash_that_escapes_nothing_stays() {
    let table = table("1 0 0:1 / /mnt/a\\9x\\04 rw - tmpfs none rw\n");
    assert!(table.at(Path::new("/mnt/a\\9x\\04")).is_some(), "{table:?}");
}

#[test]
fn names_need_not_be_utf8() {
    let text = b"1 0 0:1 / /mnt/\xff\xfe\\377 rw - tmpfs \xc0 rw\n";
    let table = MountTable::parse(text.as_slice()).unwrap();
    let point = OsString::from_vec(b"/mnt/\xff\xfe\xff".to_vec());
    assert_eq!(
        table.at(Path::new(&point)).unwrap().source().as_bytes(),
        b"\xc0"
    );
}

#[test]
fn an_empty_source_is_a_source() {
    let table = table("1 0 0:1 / /mnt rw - tmpfs  rw,size=4k\n");
    let mount = table.iter().next().unwrap();
    assert_eq!(mount.source(), "");
    assert!(mount.has_super_option("size=4k"));
}

#[test]
fn a_removed_root_is_recognised() {
    let table = table("1 0 8:1 /vols/gone//deleted /mnt rw - ext4 /dev/sda rw\n");
    let mount = table.at(Path::new("/mnt")).unwrap();
    assert!(mount.root_deleted());
    assert_eq!(mount.root(), Path::new("/vols/gone"));
}

#[test]
fn a_malformed_line_is_named() {
    for bad in [
        "1 0 0:1 / /mnt rw shared:1",
        "x 0 0:1 / / rw - a b c",
        "1 0 01 / / rw - a b c",
        "",
        " ",
    ] {
        let text = format!("1 0 0:1 / / rw - rootfs rootfs rw\n{bad}\n");
        let error = MountTable::parse(text).unwrap_err();
        assert!(
            matches!(error, MountInfoError::Malformed { line: 2, .. }),
            "{bad:?}: {error:?}"
        );
    }
}

#[test]
fn of_stacked_mounts_the_topmost_counts() {
    // The order of the lines says nothing: the upper one of two comes first at one place and last at the other.
    let table = table(
        "30 20 0:9 / /a rw - tmpfs upper rw\n\
         20 1 0:8 / /a rw - tmpfs lower rw\n\
         21 1 0:8 / /b rw - tmpfs lower rw\n\
         31 21 0:9 / /b rw - tmpfs upper rw\n",
    );
    for place in ["/a", "/b", "/b/"] {
        assert_eq!(
            table.at(Path::new(place)).unwrap().source(),
            "upper",
            "{place}"
        );
        assert_eq!(table.all_at(Path::new(place)).count(), 2, "{place}");
    }
    assert!(table.at(Path::new("/c")).is_none());
}

#[test]
fn mounts_are_found_by_device_directory_and_number() {
    let table = table(
        "1 0 7:3 / /stage rw - ext4 /dev/loop3 rw\n\
         2 1 7:3 / /pod-1 rw - ext4 /dev/loop3 rw\n\
         3 1 7:3 /sub /pod-1/sub rw - ext4 /dev/loop3 rw\n\
         4 1 7:4 /sub /pod-11 rw - ext4 /dev/loop4 rw\n",
    );
    let ids = |mounts: &mut dyn Iterator<Item = Mount<'_>>| {
        mounts.map(|mount| mount.id()).collect::<Vec<_>>()
    };
    let loop3 = Device { major: 7, minor: 3 };
    assert_eq!(ids(&mut table.with_device(loop3)), [1, 2, 3]);
    assert_eq!(ids(&mut table.under(Path::new("/pod-1"))), [2, 3]);
    assert_eq!(table.with_id(4).unwrap().point(), Path::new("/pod-11"));
}

#[test]
fn the_machines_own_table_is_read_and_kept() {
    let reader = Reader::default();
    let table = reader.table().unwrap();
    assert_eq!(
        table.at(Path::new("/proc")).unwrap().kind(),
        OsStr::new("proc")
    );
    // Others may mount meanwhile; then there is one more reading, but not ten in a row.
    let kept = (0..10)
        .filter(|_| Arc::ptr_eq(&reader.table().unwrap(), &reader.table().unwrap()))
        .count();
    assert!(kept > 0);
}

#[test]
fn nfs_has_its_path_in_the_source_or_in_the_root() {
    for (line, export) in [
        (
            "70 1 0:52 / /t rw - nfs4 10.0.0.1:/default rw,vers=4.1",
            Some("/default"),
        ),
        (
            "71 1 0:52 / /t rw - nfs4 10.0.0.1:/default/csi-volumes/a:/b\\040c rw",
            Some("/default/csi-volumes/a:/b c"),
        ),
        (
            "72 1 0:52 / /t rw - nfs 10.0.0.1://default/x rw",
            Some("/default/x"),
        ),
        (
            "73 1 0:52 / /t rw - nfs4 [fd00::1]:/default/x rw",
            Some("/default/x"),
        ),
        (
            "74 1 0:52 /csi-volumes/x /t rw - fuse.nfs 10.0.0.1:/default rw",
            Some("/default/csi-volumes/x"),
        ),
        ("75 1 0:52 /x /t rw - wekafs default rw", None),
        ("76 1 8:1 /x /t rw - ext4 /dev/sda1 rw", None),
    ] {
        let table = table(line);
        let mount = table.at(Path::new("/t")).unwrap();
        assert_eq!(mount.export().as_deref(), export.map(Path::new), "{line}");
        assert_eq!(mount.shown(), Path::new(export.unwrap_or("/x")), "{line}");
    }
}

/// `count` mounts as kubelet makes them: two binds for each volume.
fn many(count: usize) -> String {
    let line = |n: usize| {
        let (id, volume) = (n + 100, n / 2);
        let pod = format!(
            "/var/lib/kubelet/pods/0d9a7a3e-5a0b-4a4e-8f5e-{n:012x}/volumes/kubernetes.io~csi"
        );
        format!(
            "{id} 27 7:{volume} / {pod}/pvc-{n}/mount rw,relatime shared:{id} - ext4 /dev/loop{volume} rw,seclabel"
        )
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

/// The time that this thread computes for something; what others do on the machine does not count.
fn cost(of: impl Fn()) -> Duration {
    let now = || clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap();
    let once = |_| {
        let begun: Duration = now();
        of();
        now().saturating_sub(begun)
    };
    (0..5).map(once).min().unwrap()
}

#[test]
fn ten_times_the_mounts_do_not_cost_a_hundred_times_as_much() {
    let [few, many] = [500, 5000].map(|count| {
        let text = many(count);
        cost(|| assert_eq!(table(&text).len(), count))
    });
    assert!(many < 40 * few, "{few:?} -> {many:?}");
}

#[test]
fn a_look_up_among_ten_thousand_mounts_compares_few() {
    let table = table(&many(10_000));
    let compared = |mount: Mount<'_>| {
        let point = mount.point();
        assert_eq!(table.at(point).unwrap().id(), mount.id());
        let hash = index::hash(point.as_os_str().as_bytes());
        table.points.candidates(hash).count()
    };
    let compared: usize = table.iter().map(compared).sum();
    assert!(compared < 20_000, "{compared} comparisons");
}
