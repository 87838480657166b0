//! Snapshots, restores and clones, of volumes at rest and in use.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::gettid;
use stowage_csi::proto::csi::volume_content_source::Type;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateVolumeRequest, GetSnapshotRequest, VolumeCapability,
};
use tonic::Code;

use crate::lifecycle::SIZES;
use crate::rig::{Rig, block, exactly, filesystem, from_snapshot, from_volume, text};
use crate::support::{MIB, disk, isolated, noise, unmount};

/// Makes a volume from a source and hands back what is in its `file`.
async fn content_of(
    rig: &Rig,
    name: &str,
    bytes: u64,
    capability: &VolumeCapability,
    source: Type,
) -> (String, Vec<u8>) {
    let id = rig
        .create_from(name, bytes, capability, source)
        .await
        .unwrap()
        .volume_id;
    rig.stage(&id, capability).await.unwrap();
    let target = rig.publish(&id, name, capability).await.unwrap();
    (id, fs::read(target.join("file")).unwrap())
}

/// The whole life of copies of a volume that is in use all the time.
async fn copies_of_a_live_filesystem(rig: &Rig, kind: &str, bytes: u64, more: u64) {
    let capability = filesystem(kind);
    let (id, target) = rig.in_use(kind, bytes, &capability).await;
    let data = noise(3 * MIB as usize, 42);
    // Written and not synced: a snapshot holds what was written before it.
    fs::write(target.join("file"), &data).unwrap();

    let snapshot = rig.snapshot("snap", &id).await.unwrap();
    assert!(snapshot.ready_to_use && snapshot.creation_time.is_some());
    assert_eq!(snapshot.size_bytes, i64::try_from(bytes).unwrap());
    fs::write(target.join("file"), "changed").unwrap();
    assert_eq!(rig.snapshot("snap", &id).await.unwrap(), snapshot);

    // All mounted beside their source, and one of them larger.
    let same = content_of(
        rig,
        "same",
        0,
        &capability,
        from_snapshot(&snapshot.snapshot_id),
    )
    .await;
    let larger = content_of(
        rig,
        "larger",
        more,
        &capability,
        from_snapshot(&snapshot.snapshot_id),
    )
    .await;
    let clone = content_of(rig, "clone", bytes, &capability, from_volume(&id)).await;
    assert!(
        same.1 == data && larger.1 == data,
        "{kind}: the snapshot has the old data"
    );
    assert_eq!(clone.1, b"changed", "{kind}");
    let total = async |id: &str, pod: &str| {
        rig.stats(id, &text(&rig.target(pod))).await.unwrap().usage[0].total
    };
    let (small, large) = (
        total(&same.0, "same").await,
        total(&larger.0, "larger").await,
    );
    assert!(
        large > small + (more - bytes) as i64 / 2,
        "{kind}: {small} -> {large}"
    );

    // Copies stand for themselves.
    rig.put_away(&id, kind).await;
    rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
    fs::write(rig.target("clone").join("file"), "still writable").unwrap();
    for (id, pod) in [(same.0, "same"), (larger.0, "larger"), (clone.0, "clone")] {
        rig.put_away(&id, pod).await;
    }
    assert_eq!(rig.files(), Vec::<PathBuf>::new(), "{kind}");
}

isolated! {
    async fn a_live_filesystem_is_copied_while_it_is_frozen(directory: &Path) {
        // The state directory is on an ext4 here, which cannot share blocks.
        let state = disk(directory, "ext4", 4096 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        for (kind, bytes, more) in SIZES {
            copies_of_a_live_filesystem(&rig, kind, bytes, more).await;
        }
        rig.stop().await;
        unmount(&state);
    }

    async fn a_live_filesystem_is_copied_by_reflink(directory: &Path) {
        let state = disk(directory, "btrfs", 4096 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        for (kind, bytes, more) in SIZES {
            copies_of_a_live_filesystem(&rig, kind, bytes, more).await;
        }
        rig.stop().await;
        unmount(&state);
    }

    async fn a_copy_that_shares_blocks_freezes_nobody(directory: &Path) {
        let state = disk(directory, "xfs", 1024 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        let (id, target) = rig.in_use("pvc", 400 * MIB, &filesystem("")).await;
        fs::write(target.join("file"), noise(200 * MIB as usize, 3)).unwrap();
        let writer = Writer::start(&target);
        for number in 0..3 {
            rig.snapshot(&format!("snap-{number}"), &id).await.unwrap();
        }
        assert_eq!(fs::read_dir(rig.state.join("frozen")).unwrap().count(), 0);
        println!("longest write: {:?}", writer.stop());
        for snapshot in rig.snapshots(Default::default()).await {
            rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        }
        rig.put_away(&id, "pvc").await;
        rig.stop().await;
        unmount(&state);
    }

    async fn a_raw_block_volume_in_use_is_copied_by_reflink_or_not_at_all(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, target) = rig.in_use("disk", 8 * MIB, &block()).await;
        let data = noise(MIB as usize, 5);
        File::options().write(true).open(&target).unwrap().write_all(&data).unwrap();
        for status in [
            rig.snapshot("snap", &id).await.unwrap_err(),
            rig.create_from("clone", 0, &block(), from_volume(&id)).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(status.message().contains("unpublish it first"), "{status}");
        }
        assert_eq!(rig.files().len(), 2, "nothing but the volume is left");
        rig.unpublish(&id, "disk").await.unwrap();
        rig.unstage(&id).await.unwrap();
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        let copy = rig.create_from("copy", 16 * MIB, &block(), from_snapshot(&snapshot.snapshot_id)).await.unwrap();
        assert_eq!(copy.capacity_bytes, 16 * MIB as i64);
        assert!(first_bytes(&rig, &copy.volume_id, "copy", data.len()).await == data);
        rig.put_away(&copy.volume_id, "copy").await;
        rig.stop().await;

        let state = disk(directory, "btrfs", 512 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        let (id, target) = rig.in_use("disk", 8 * MIB, &block()).await;
        File::options().write(true).open(&target).unwrap().write_all(&data).unwrap();
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        File::options().write(true).open(&target).unwrap().write_all(&[0; 4096]).unwrap();
        let copy = rig.create_from("copy", 0, &block(), from_snapshot(&snapshot.snapshot_id)).await.unwrap();
        assert!(first_bytes(&rig, &copy.volume_id, "copy", data.len()).await == data);
        rig.put_away(&copy.volume_id, "copy").await;
        rig.put_away(&id, "disk").await;
        rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        rig.stop().await;
        unmount(&state);
    }

    async fn sources_that_do_not_fit_are_refused(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let (ext4, xfs) = (filesystem("ext4"), filesystem("xfs"));
        let id = rig.create("source", 64 * MIB, &ext4).await.unwrap().volume_id;
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        let elsewhere = snapshot.snapshot_id.replace("node-1", "node-2");
        let key = "0".repeat(32);
        for (source, capability, bytes, code) in [
            (from_snapshot("nonsense"), &ext4, 0, Code::NotFound),
            (from_snapshot(&format!("snap-{key}-node-1")), &ext4, 0, Code::NotFound),
            (from_volume(&format!("vol-{key}-node-1")), &ext4, 0, Code::NotFound),
            (from_volume(&snapshot.snapshot_id), &ext4, 0, Code::NotFound),
            (from_snapshot(&elsewhere), &ext4, 0, Code::ResourceExhausted),
            (from_snapshot(&snapshot.snapshot_id), &ext4, 32 * MIB, Code::OutOfRange),
            (from_snapshot(&snapshot.snapshot_id), &xfs, 300 * MIB, Code::InvalidArgument),
        ] {
            let status = rig.create_from("copy", bytes, capability, source.clone()).await.unwrap_err();
            assert_eq!(status.code(), code, "{source:?}: {status}");
        }
        assert_eq!(rig.files().len(), 4, "nothing is left of what was refused");

        let other = rig.create("other", 64 * MIB, &ext4).await.unwrap().volume_id;
        let status = rig.snapshot("snap", &other).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        let copy = rig.create_from("copy", 0, &ext4, from_snapshot(&snapshot.snapshot_id)).await.unwrap();
        assert!(copy.content_source.is_some());
        for source in [None, Some(from_volume(&id))] {
            let status = rig.create_from("copy", 64 * MIB, &ext4, source).await.unwrap_err();
            assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        }
        let found = rig.controller.get_snapshot(GetSnapshotRequest {
            snapshot_id: snapshot.snapshot_id.clone(),
            ..GetSnapshotRequest::default()
        }).await.unwrap();
        assert_eq!(found.into_inner().snapshot, Some(snapshot));
        rig.stop().await;
    }

    async fn a_copy_that_outlasts_its_callers_deadline_is_finished(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("source", 400 * MIB, &block()).await.unwrap().volume_id;
        let image = rig.files().into_iter().find(|path| path.extension().unwrap() == "img").unwrap();
        fs::write(&image, noise(400 * MIB as usize, 31)).unwrap();
        let call = async |deadline| {
            let mut request = tonic::Request::new(CreateSnapshotRequest { name: "snap".to_owned(), source_volume_id: id.clone(), ..Default::default() });
            request.set_timeout(deadline);
            rig.controller.clone().create_snapshot(request).await
        };
        let status = call(Duration::from_millis(30)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        // A call that began the copy anew would have the time for it and would not be told to come back.
        let mut codes = Vec::new();
        let copy = loop {
            match call(Duration::from_secs(30)).await {
                Ok(copy) => break copy.into_inner().snapshot.unwrap(),
                Err(status) => codes.push(status.code()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        // On a busy machine the copy may be finished before it is asked for again.
        assert!(codes.iter().all(|code| *code == Code::Aborted), "{codes:?}");
        assert_eq!(copy.size_bytes, 400 * MIB as i64);
        rig.stop().await;
    }

    async fn many_volumes_are_restored_from_one_snapshot_at_once(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, target) = rig.in_use("source", 64 * MIB, &filesystem("")).await;
        fs::write(target.join("file"), noise(20 * MIB as usize, 9)).unwrap();
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        let calls = (0..8).map(|number| {
            let mut controller = rig.controller.clone();
            let request = CreateVolumeRequest {
                name: format!("copy-{number}"),
                capacity_range: exactly(64 * MIB),
                volume_capabilities: vec![filesystem("")],
                volume_content_source: Some(stowage_csi::proto::csi::VolumeContentSource {
                    r#type: Some(from_snapshot(&snapshot.snapshot_id)),
                }),
                ..CreateVolumeRequest::default()
            };
            tokio::spawn(async move { controller.create_volume(request).await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        rig.put_away(&id, "source").await;
        rig.stop().await;
    }
}

async fn first_bytes(rig: &Rig, id: &str, pod: &str, length: usize) -> Vec<u8> {
    rig.stage(id, &block()).await.unwrap();
    let target = rig.publish(id, pod, &block()).await.unwrap();
    let mut found = vec![0; length];
    File::open(target).unwrap().read_exact(&mut found).unwrap();
    found
}

/// Writes small files until it is told to stop.
pub struct Writer {
    pub written: Arc<AtomicUsize>,
    id: Pid,
    told: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Writer {
    pub fn start(target: &Path) -> Self {
        let path = target.join("beat");
        let (written, told) = (Arc::new(AtomicUsize::new(0)), Arc::<AtomicBool>::default());
        let (count, stop) = (written.clone(), told.clone());
        let (begins, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            begins.send(gettid()).unwrap();
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                fs::write(&path, "beat").unwrap();
                longest = longest.max(started.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
            }
            longest
        });
        let id = begun.recv().unwrap();
        Self {
            written,
            id,
            told,
            thread,
        }
    }

    /// Whether it waits for what no signal interrupts, such as a frozen filesystem.
    pub fn is_held_by_the_kernel(&self) -> bool {
        let stat = format!("/proc/self/task/{}/stat", self.id.as_raw_nonzero());
        let stat = fs::read_to_string(stat).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.trim_start().starts_with('D')
    }

    /// How long the longest write took.
    pub fn stop(self) -> Duration {
        self.told.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
