//! Loop devices. Others on this machine use some at the same time: only what concerns our own files is asserted.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use stowage_host::flush::Flushes;
use stowage_host::loopdev::{BackingFile, Detached, LoopDevice, LoopError, LoopOptions, Loops};
use stowage_host::mount::{Unmount, ensure_mounted, ensure_unmounted};
use stowage_host::stat::Stats;
use stowage_host::{Calls, Outcome};

use super::support::{Attached, MIB, directories, filesystem, image, isolated, mounter};

const BOTH: [Calls; 2] = [Calls::Best, Calls::Old];

isolated! {
    async fn a_file_is_attached_once_and_found_by_its_inode(directory: &Path) {
        for calls in BOTH {
            let loops = Loops::default().calls(calls);
            let file = image(directory, "image", 3 * MIB);
            let device = loops.ensure_attached(&file, LoopOptions::default()).unwrap();
            let again = loops.ensure_attached(&file, LoopOptions::default()).unwrap();
            assert_eq!(device.number(), again.number());
            assert_eq!(Stats::default().device_bytes(device.path()).await.unwrap(), 3 * MIB);

            // What the path says does not matter.
            fs::rename(directory.join("image"), directory.join("renamed")).unwrap();
            let other = image(directory, "image", MIB);
            assert!(loops.find(&other).unwrap().is_empty());
            let found = loops.find(&File::open(directory.join("renamed")).unwrap()).unwrap();
            assert_eq!(found.iter().map(LoopDevice::number).collect::<Vec<_>>(), [device.number()]);

            OpenOptions::new().write(true).open(device.path()).unwrap().write_all_at(b"through", 4096).unwrap();
            File::open(device.path()).unwrap().sync_all().unwrap();
            let mut read = [0; 7];
            file.read_at(&mut read, 4096).unwrap();
            assert_eq!(&read, b"through");
            drop((again, found));
            assert_eq!(device.detach(&loops).unwrap(), Detached::Done);
            assert!(is_free(&loops, &file));
        }
    }

    async fn what_is_only_in_memory_of_a_device_is_in_its_file_after_a_flush(directory: &Path) {
        let attached = Attached::new(directory, "image", MIB);
        let device = attached.device().path();
        OpenOptions::new().write(true).open(device).unwrap().write_all_at(b"through", 4096).unwrap();
        let read = || {
            let mut read = [0; 7];
            attached.file.read_at(&mut read, 4096).unwrap();
            read
        };
        assert_ne!(&read(), b"through", "another user keeps it in memory");
        let flushed = Flushes::default().flush(device, Duration::from_secs(60)).await.unwrap();
        assert_eq!((flushed, &read()), (Outcome::Done, b"through"));
    }

    async fn a_device_of_another_file_is_never_touched(directory: &Path) {
        let loops = Loops::default();
        let ours = Attached::new(directory, "ours", MIB);
        let other = BackingFile::of(&image(directory, "other", MIB)).unwrap();
        assert!(loops.at(ours.device().number(), other).unwrap().is_none());
        let same = loops.at(ours.device().number(), ours.device().backing()).unwrap().unwrap();
        // The same device is detached twice; meanwhile it may be anybody's.
        assert_eq!(same.detach(&loops).unwrap(), Detached::WhenClosed, "a second descriptor is open");
        assert!(loops.at(1_000_000, other).unwrap().is_none(), "no such device");
        assert!(!Path::new("/dev/loop1000000").exists());
    }

    async fn a_read_only_device_refuses_writes(directory: &Path) {
        for calls in BOTH {
            let loops = Loops::default().calls(calls);
            let file = image(directory, "image", MIB);
            let options = LoopOptions { read_only: true, autoclear: true, ..LoopOptions::default() };
            let device = loops.attach(&file, options).unwrap();
            assert!(device.status().unwrap().unwrap().read_only, "{calls:?}");
            let written = OpenOptions::new().write(true).open(device.path()).and_then(|node| node.write_all_at(b"x", 0));
            assert!(written.is_err(), "{calls:?}");
            let error = loops.ensure_attached(&file, LoopOptions::default()).unwrap_err();
            assert!(matches!(error, LoopError::OtherAccess { read_only: true, .. }), "{error:?}");
            assert_eq!(loops.ensure_attached(&file, options).unwrap().number(), device.number());
        }
    }

    async fn an_autoclear_device_goes_with_its_last_user(directory: &Path) {
        for calls in BOTH {
            let loops = Loops::default().calls(calls);
            let file = image(directory, "image", MIB);
            let device = loops.attach(&file, LoopOptions { autoclear: true, ..LoopOptions::default() }).unwrap();
            assert!(device.status().unwrap().unwrap().autoclear, "{calls:?}");
            drop(device);
            assert!(is_free(&loops, &file), "{calls:?}");

            let device = loops.attach(&file, LoopOptions::default()).unwrap();
            drop(device);
            let device = loops.find(&file).unwrap().pop().expect("a device without autoclear stays");
            assert!(!device.status().unwrap().unwrap().autoclear);
            assert_eq!(device.detach(&loops).unwrap(), Detached::Done);
        }
    }

    async fn a_device_in_use_is_detached_when_it_is_unmounted(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        let (loops, mounter) = (Loops::default(), mounter());
        let mut attached = Attached::new(directory, "image", 8 * MIB);
        let made = std::process::Command::new("mkfs.ext4").arg("-q").arg(&attached.path).status().unwrap();
        assert!(made.success());
        ensure_mounted(&mounter, &filesystem("ext4", &attached.path, &point, &[])).await.unwrap();
        assert_eq!(attached.device.take().unwrap().detach(&loops).unwrap(), Detached::WhenClosed);
        fs::write(point.join("file"), "still usable").unwrap();
        ensure_unmounted(&mounter, &point, Unmount::Normal).await.unwrap();
        assert!(is_free(&loops, &attached.file));
    }

    async fn a_device_grows_with_its_file(directory: &Path) {
        let attached = Attached::new(directory, "image", MIB);
        let stats = Stats::default();
        attached.file.set_len(5 * MIB).unwrap();
        assert_eq!(stats.device_bytes(&attached.path).await.unwrap(), MIB);
        for _ in 0..2 {
            attached.device().refresh_size().unwrap();
            assert_eq!(stats.device_bytes(&attached.path).await.unwrap(), 5 * MIB);
        }
    }

    async fn direct_io_is_a_wish(directory: &Path) {
        let [point] = directories(directory, ["tmpfs"]);
        rustix::mount::mount("t", &point, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        for calls in BOTH {
            let loops = Loops::default().calls(calls);
            let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
            // Where it cannot be done the device works all the same.
            for place in [directory, &point] {
                let attached = Attached::by(&loops, image(place, "image", MIB), options);
                let status = attached.device().status().unwrap().unwrap();
                println!("{calls:?}, {}: {}", place.display(), status.direct_io);
                let node = OpenOptions::new().write(true).open(&attached.path).unwrap();
                node.write_all_at(b"data", 0).unwrap();
                node.sync_all().unwrap();
                let mut read = [0; 4];
                attached.file.read_at(&mut read, 0).unwrap();
                assert_eq!(&read, b"data");
            }
        }
    }

    async fn many_attach_at_the_same_time(directory: &Path) {
        for calls in BOTH {
            let loops = Loops::default().calls(calls);
            let devices: Vec<_> = std::thread::scope(|scope| {
                let attaching: Vec<_> = (0..24).map(|n| {
                    let (loops, file) = (&loops, image(directory, &format!("image-{n}"), MIB));
                    let options = LoopOptions { autoclear: true, ..LoopOptions::default() };
                    scope.spawn(move || loops.attach(&file, options).unwrap())
                }).collect();
                attaching.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let numbers: HashSet<_> = devices.iter().map(LoopDevice::number).collect();
            assert_eq!(numbers.len(), 24);
        }
    }

    async fn missing_nodes_are_made(directory: &Path) {
        let [dev] = directories(directory, ["dev"]);
        let loops = Loops::default().dev(&dev);
        let file = image(directory, "image", MIB);
        let device = loops.attach(&file, LoopOptions { autoclear: true, ..LoopOptions::default() }).unwrap();
        assert_eq!(device.path(), dev.join(format!("loop{}", device.number())));
        assert_eq!(loops.find(&file).unwrap().len(), 1);
        drop(device);
        // Files of these names are not devices.
        for number in 0..256 {
            let node = dev.join(format!("loop{number}"));
            let _ = fs::remove_file(&node);
            fs::write(node, "").unwrap();
        }
        let error = loops.attach(&file, LoopOptions::default()).unwrap_err();
        assert!(matches!(error, LoopError::Node { .. }), "{error:?}");
        fs::remove_file(dev.join("loop-control")).unwrap();
        fs::write(dev.join("loop-control"), "").unwrap();
        let error = loops.attach(&file, LoopOptions::default()).unwrap_err();
        assert!(error.to_string().contains("loop-control: loop devices need"), "{error}");
    }

    async fn partitions_are_not_looked_for(directory: &Path) {
        for calls in BOTH {
            let options = LoopOptions { direct_io: true, autoclear: true, ..LoopOptions::default() };
            let attached = Attached::by(&Loops::default().calls(calls), image(directory, "image", MIB), options);
            let scans = fs::read_to_string(format!("/sys/block/loop{}/loop/partscan", attached.device().number()));
            assert_eq!(scans.unwrap(), "0\n", "{calls:?}");
        }
    }
}

/// Whether no device stands for the file any more. A parallel test may still look at it.
fn is_free(loops: &Loops, file: &File) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        loops.find(file).unwrap().is_empty()
    })
}
