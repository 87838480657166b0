//! A volume from its creation to its end.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::io::Errno;
use stowage_csi::proto::csi::volume_usage::Unit;
use tonic::Code;

use crate::rig::{Rig, block, filesystem, text};
use crate::support::{MIB, isolated, noise};

/// Each filesystem with a size it can be made at, and one it can grow to.
pub const SIZES: [(&str, u64, u64); 3] = [
    ("ext4", 64 * MIB, 128 * MIB),
    ("xfs", 300 * MIB, 400 * MIB),
    ("btrfs", 256 * MIB, 384 * MIB),
];

/// Whether the kernel lets this process grow a mounted ext4.
pub fn may_grow_ext4() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(effective.unwrap().trim(), 16).unwrap() >> CAP_SYS_RESOURCE & 1 == 1
}

isolated! {
    async fn a_filesystem_volume_is_made_used_grown_and_removed(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        for (kind, bytes, more) in SIZES {
            let capability = filesystem(kind);
            let volume = rig.create(kind, bytes, &capability).await.unwrap();
            let id = volume.volume_id;
            assert_eq!(volume.capacity_bytes, i64::try_from(bytes).unwrap());
            assert_eq!(volume.accessible_topology.len(), 1);
            let image = fs::metadata(rig.files().iter().find(|path| path.extension().unwrap() == "img").unwrap()).unwrap();
            assert_eq!(image.len(), bytes);
            assert!(image.blocks() * 512 < MIB, "the image is sparse");

            for _ in 0..2 {
                rig.stage(&id, &capability).await.unwrap();
            }
            for pod in ["a", "b", "a"] {
                rig.publish(&id, pod, &capability).await.unwrap();
            }
            let (a, b) = (rig.target("a"), rig.target("b"));
            fs::write(a.join("file"), "content").unwrap();
            assert_eq!(fs::read_to_string(b.join("file")).unwrap(), "content");

            let stats = rig.stats(&id, &text(&a)).await.unwrap();
            let total = stats.usage.iter().find(|usage| usage.unit() == Unit::Bytes).unwrap().total;
            assert!(total as u64 <= bytes && total as u64 > bytes / 2, "{kind}: {total}");
            assert_eq!(stats.usage.len(), if kind == "btrfs" { 1 } else { 2 });
            assert!(!stats.volume_condition.unwrap().abnormal);

            let error = write_too_much(&a.join("large"), bytes);
            assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC), "{kind}: {error}");
            fs::remove_file(a.join("large")).unwrap();

            for _ in 0..2 {
                assert_eq!(rig.expand(&id, more).await.unwrap(), i64::try_from(more).unwrap());
            }
            match rig.node_expand(&id, &a, more).await {
                Err(status) if kind == "ext4" && !may_grow_ext4() => {
                    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
                    rig.unpublish(&id, "a").await.unwrap();
                    rig.unpublish(&id, "b").await.unwrap();
                    rig.unstage(&id).await.unwrap();
                    rig.stage(&id, &capability).await.unwrap();
                    rig.publish(&id, "a", &capability).await.unwrap();
                    rig.node_expand(&id, &a, more).await.unwrap();
                }
                expanded => expanded.unwrap(),
            }
            let grown = rig.stats(&id, &text(&a)).await.unwrap().usage[0].total;
            assert!(grown > total + (more - bytes) as i64 / 2, "{kind}: {total} -> {grown}");
            assert_eq!(fs::read_to_string(a.join("file")).unwrap(), "content");

            let status = rig.delete(&id).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            for pod in ["a", "b", "a"] {
                rig.unpublish(&id, pod).await.unwrap();
                assert!(!rig.target(pod).exists());
            }
            for _ in 0..2 {
                rig.unstage(&id).await.unwrap();
            }
            rig.stage(&id, &capability).await.unwrap();
            assert_eq!(fs::read_to_string(rig.staging(&id).join("file")).unwrap(), "content");
            rig.unstage(&id).await.unwrap();
            for _ in 0..2 {
                rig.delete(&id).await.unwrap();
            }
            assert_eq!(rig.files(), Vec::<std::path::PathBuf>::new());
        }
        rig.stop().await;
    }

    async fn a_raw_block_volume_is_made_used_grown_and_removed(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, target) = rig.in_use("disk", 8 * MIB, &block()).await;
        rig.stage(&id, &block()).await.unwrap();
        rig.publish(&id, "disk", &block()).await.unwrap();
        assert!(fs::metadata(&target).unwrap().file_type().is_block_device());

        let data = noise(MIB as usize, 1);
        let mut device = File::options().read(true).write(true).open(&target).unwrap();
        assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 8 * MIB);
        assert_eq!(Errno::from_io_error(&device.write_all(b"x").unwrap_err()), Some(Errno::NOSPC));
        device.seek(SeekFrom::Start(0)).unwrap();
        device.write_all(&data).unwrap();
        device.sync_all().unwrap();

        let stats = rig.stats(&id, &text(&target)).await.unwrap();
        assert_eq!((stats.usage.len(), stats.usage[0].total), (1, 8 * MIB as i64));
        rig.expand(&id, 16 * MIB).await.unwrap();
        rig.node_expand(&id, &target, 16 * MIB).await.unwrap();
        assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 16 * MIB);
        drop(device);

        assert_eq!(rig.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition);
        rig.unpublish(&id, "disk").await.unwrap();
        rig.unstage(&id).await.unwrap();
        assert!(!target.exists());

        rig.stage(&id, &block()).await.unwrap();
        rig.publish(&id, "disk", &block()).await.unwrap();
        let mut found = vec![0; data.len()];
        File::open(&target).unwrap().read_exact(&mut found).unwrap();
        assert!(found == data, "the data is there after another staging");
        rig.put_away(&id, "disk").await;
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn a_volume_outlives_the_driver(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, target) = rig.in_use("pvc", 32 * MIB, &filesystem("")).await;
        let (disk, device) = rig.in_use("disk", 8 * MIB, &block()).await;
        fs::write(target.join("file"), "content").unwrap();
        rig.stop().await;

        fs::write(target.join("more"), "written while there is no driver").unwrap();
        let rig = Rig::start(directory, &[]);
        assert_eq!(rig.volumes().await.len(), 2);
        // The kubelet repeats its calls after a restart.
        for (id, pod, capability) in [(&id, "pvc", filesystem("")), (&disk, "disk", block())] {
            rig.stage(id, &capability).await.unwrap();
            rig.publish(id, pod, &capability).await.unwrap();
        }
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "content");
        assert!(device.exists());
        rig.put_away(&id, "pvc").await;
        rig.put_away(&disk, "disk").await;
        rig.stop().await;
    }

    async fn the_driver_says_who_it_is(directory: &Path) {
        let mut rig = Rig::start(directory, &["--maxvolumespernode=3"]);
        let info = rig.identity.get_plugin_info(stowage_csi::proto::csi::GetPluginInfoRequest {}).await.unwrap();
        assert_eq!(info.into_inner().name, "csi-hostpath");
        let ready = rig.identity.probe(stowage_csi::proto::csi::ProbeRequest {}).await.unwrap();
        assert_eq!(ready.into_inner().ready, Some(true));
        let node = rig.node.node_get_info(stowage_csi::proto::csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
        assert_eq!((node.node_id.as_str(), node.max_volumes_per_node), ("node-1", 3));
        let place = node.accessible_topology.unwrap();
        assert_eq!(place.segments["topology.hostpath.csi/node"], "node-1");
        rig.stop().await;
    }
}

/// Writes more than a volume of this size can hold, and says how that ends.
fn write_too_much(path: &Path, bytes: u64) -> std::io::Error {
    let chunk = noise(MIB as usize, 7);
    let mut file = File::create(path).unwrap();
    for _ in 0..=bytes / MIB {
        if let Err(error) = file.write_all(&chunk).and_then(|()| file.sync_data()) {
            return error;
        }
    }
    panic!("more than {bytes} bytes fit");
}
