use super::*;

#[test]
fn links_tell_target_and_number_and_those_to_partitions_do_not_count() {
    for (link, expected) in [
        ("ip-10.0.0.1:3260-iscsi-iqn.a:b-lun-3", Some(("iqn.a:b", 3))),
        ("ip-fd00::1:3260-iscsi-iqn.a-lun-0", Some(("iqn.a", 0))),
        ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-3-part1", None),
        (
            "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100000000000000",
            Some(("iqn.a", 256)),
        ),
        (
            "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x012c000000000000",
            Some(("iqn.a", 300)),
        ),
        (
            "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100000000000000-part1",
            None,
        ),
        ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-0xc101000000000000", None),
        ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100", None),
        ("pci-0000:00:1f.2-ata-1", None),
    ] {
        assert_eq!(place(link), expected, "{link}");
    }
}

/// A table with a filesystem of device 253:3, and a raw device.
const TABLE: &str = "\
    30 1 253:3 / /staged rw - xfs /dev/mapper/mpatha rw\n\
    31 1 0:6 /sdc /staged-raw rw - devtmpfs udev rw\n";

fn device(path: &str, numbers: (u32, u32)) -> Device {
    let (major, minor) = numbers;
    Device {
        path: path.into(),
        number: Some(mountinfo::Device { major, minor }),
    }
}

fn disk(paths: Vec<Device>, map: Option<Device>, held: bool) -> Disk {
    Disk {
        target: "iqn.a".to_owned(),
        lun: 1,
        paths,
        held,
        map: map.map(|device| Map {
            name: "mpatha".to_owned(),
            device,
            working: 2,
        }),
        is_linked: true,
    }
}

#[test]
fn a_disk_is_in_use_by_its_map_by_a_path_or_by_somebody_nobody_knows() {
    let table = MountTable::parse(TABLE).unwrap();
    let (sda, sdb, sdc) = (
        device("/dev/sda", (8, 0)),
        device("/dev/sdb", (8, 16)),
        device("/dev/sdc", (8, 32)),
    );
    let (used, free) = (device("/dev/dm-3", (253, 3)), device("/dev/dm-4", (253, 4)));
    for (disk, is_used) in [
        (disk(vec![sda.clone(), sdb.clone()], Some(used), true), true),
        (
            disk(vec![sda.clone(), sdb.clone()], Some(free), true),
            false,
        ),
        (disk(vec![sda.clone()], None, false), false),
        (disk(vec![sda], None, true), true),
        (disk(vec![sdb, sdc], None, false), true),
    ] {
        assert_eq!(disk.is_used(&table), is_used, "{disk:?}");
    }
}
