//! The table of mounts while it changes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use stowage_host::mount::{Mounter, Propagation};
use stowage_host::mountinfo::Reader;

use super::support::{bind, directories, isolated, mounter, tmpfs};

isolated! {
    async fn each_change_is_seen_and_nothing_is_read_twice(directory: &Path) {
        let [one, two] = directories(directory, ["one", "two"]);
        let (reader, mounter) = (Reader::default(), mounter());
        let unchanged = |reader: &Reader| Arc::ptr_eq(&reader.table().unwrap(), &reader.table().unwrap());
        assert!(unchanged(&reader) && reader.table().unwrap().at(&one).is_none());
        mounter.mount(&tmpfs(&one, &[])).await.unwrap();
        assert!(reader.table().unwrap().at(&one).is_some(), "mount");
        mounter.bind(&bind(&one, &two)).await.unwrap();
        assert!(reader.table().unwrap().at(&two).is_some(), "bind");
        mounter.make_read_only(&two).await.unwrap();
        assert!(reader.table().unwrap().at(&two).unwrap().read_only(), "remount");
        mounter.unmount(&two, stowage_host::mount::Unmount::Lazy).await.unwrap();
        assert!(reader.table().unwrap().at(&two).is_none(), "unmount");
        mounter.set_propagation(&one, Propagation::Shared).await.unwrap();
        assert!(Reader::default().table().unwrap().at(&one).unwrap().peer_group().is_some(), "propagation");
        assert!(unchanged(&reader));
    }

    async fn what_stays_mounted_is_in_every_reading(directory: &Path) {
        const STAYING: usize = 300;
        let points: Vec<_> = (0..STAYING).map(|n| directories(directory, [&format!("stays-{n}")])[0].clone()).collect();
        for point in &points {
            mount("stays", point, "tmpfs", MountFlags::empty(), None).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for churner in 0..2 {
                let [point] = directories(directory, [&format!("comes-and-goes-{churner}")]);
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        mount("comes and goes", &point, "tmpfs", MountFlags::empty(), None).unwrap();
                        unmount(&point, UnmountFlags::DETACH).unwrap();
                    }
                });
            }
            let reader = Reader::default();
            for reading in 0..300 {
                let table = reader.table().unwrap();
                let lost = points.iter().filter(|point| table.at(point).is_none()).count();
                assert_eq!(lost, 0, "reading {reading} lacks mounts");
                let ids: HashSet<_> = table.iter().map(|mount| mount.id()).collect();
                assert_eq!(ids.len(), table.len(), "reading {reading} has a mount twice");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    async fn thousands_of_mounts_are_read_once_and_not_again_before_one_changes(directory: &Path) {
        const COUNT: usize = 2000;
        let [source] = directories(directory, ["source"]);
        mount("source", &source, "tmpfs", MountFlags::empty(), None).unwrap();
        for n in 0..COUNT {
            let [point] = directories(&source, [&format!("target-{n}")]);
            rustix::mount::mount_bind(&source, &point).unwrap();
        }
        let size = fs::read("/proc/self/mountinfo").unwrap().len();
        let reader = Reader::default();
        let before = bytes_read();
        assert!(reader.table().unwrap().len() > COUNT);
        let first = bytes_read() - before;
        assert!((size..2 * size).contains(&first), "{first} bytes read of a table of {size}");
        let before = bytes_read();
        for _ in 0..1000 {
            reader.table().unwrap();
        }
        let again = bytes_read() - before;
        assert!(again < size, "{again} bytes read of a table that did not change");
    }
}

/// How much this thread has read so far, a few bytes of this count among it.
fn bytes_read() -> usize {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar:"));
    read.unwrap().trim().parse().unwrap()
}
