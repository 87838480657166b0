//! Expansions that stop half way: no image becomes shorter than what is in it, and neither do its copies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tonic::Code;

use crate::rig::{Rig, block, filesystem, from_snapshot, from_volume};
use crate::support::{MIB, isolated, noise, tool, unmount};

/// The image of the only volume there is.
fn only_image(rig: &Rig) -> PathBuf {
    let files = rig.files().into_iter();
    let mut images = files.filter(|path| path.extension().is_some_and(|found| found == "img"));
    let image = images.next().unwrap();
    assert!(images.next().is_none(), "there is one volume");
    image
}

fn length(image: &Path) -> u64 {
    fs::metadata(image).unwrap().len()
}

/// What a process leaves that dies between the image and the record.
fn die_half_way(rig: &Rig, bytes: u64) {
    let image = File::options().write(true).open(only_image(rig)).unwrap();
    image.set_len(bytes).unwrap();
}

/// A volume of 16 MiB whose expansion to 32 MiB died half way, with 24 MiB in it that its next pod wrote.
async fn overgrown(rig: &Rig, data: &[u8]) -> String {
    let (id, _) = rig.in_use("pvc", 16 * MIB, &filesystem("")).await;
    rig.unpublish(&id, "pvc").await.unwrap();
    rig.unstage(&id).await.unwrap();
    die_half_way(rig, 32 * MIB);
    rig.stage(&id, &filesystem("")).await.unwrap();
    let target = rig.publish(&id, "pvc", &filesystem("")).await.unwrap();
    fs::write(target.join("file"), data).unwrap();
    tool("sync", &["-f", target.to_str().unwrap()]);
    id
}

/// Whether a volume that no pod has can be used and holds this.
async fn holds(rig: &Rig, id: &str, data: &[u8]) {
    rig.stage(id, &filesystem("")).await.unwrap();
    let target = rig.publish(id, "reader", &filesystem("")).await.unwrap();
    assert!(fs::read(target.join("file")).unwrap() == data, "{id}");
    rig.unpublish(id, "reader").await.unwrap();
    rig.unstage(id).await.unwrap();
}

isolated! {
    async fn an_expansion_that_cannot_be_written_down_leaves_the_volume_as_it_was(directory: &Path) {
        let point = directory.join("disk");
        fs::create_dir(&point).unwrap();
        tool("mount", &["-t", "tmpfs", "-o", "size=128m,nr_inodes=100", "small", point.to_str().unwrap()]);
        let rig = Rig::start(directory, &[&format!("--statedir={}", point.display()), "--allow-volatile-statedir"]);
        let (id, target) = rig.in_use("pvc", 10 * MIB, &filesystem("")).await;
        let data = noise(4 * MIB as usize, 31);
        fs::write(target.join("file"), &data).unwrap();

        let fillers: Vec<_> = (0..1_000_000).map(|number| point.join(format!("filler-{number}"))).take_while(|path| File::create(path).is_ok()).collect();
        let status = rig.expand(&id, 20 * MIB).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(length(&only_image(&rig)), 10 * MIB, "nothing can have grown into what was added");

        // Another pod of it does not need what is full.
        rig.unpublish(&id, "pvc").await.unwrap();
        rig.unstage(&id).await.unwrap();
        rig.stage(&id, &filesystem("")).await.unwrap();
        for filler in fillers {
            fs::remove_file(filler).unwrap();
        }
        assert_eq!(rig.expand(&id, 12 * MIB).await.unwrap(), 12 * MIB as i64);
        assert_eq!(length(&only_image(&rig)), 12 * MIB);
        rig.unstage(&id).await.unwrap();
        holds(&rig, &id, &data).await;
        rig.delete(&id).await.unwrap();
        rig.stop().await;
        unmount(&point);
    }

    async fn a_volume_whose_expansion_died_half_way_is_not_cut_by_a_smaller_wish(directory: &Path) {
        let rig = Rig::start(directory, &["--capacity=1Gi"]);
        let data = noise(24 * MIB as usize, 37);
        let id = overgrown(&rig, &data).await;
        // A user who gives up the larger size: a claim may be lowered to anything above what it had.
        let granted = rig.expand(&id, 20 * MIB).await.unwrap();
        assert!(length(&only_image(&rig)) >= 32 * MIB, "{}", length(&only_image(&rig)));
        assert_eq!(granted, 32 * MIB as i64);
        rig.unpublish(&id, "pvc").await.unwrap();
        rig.unstage(&id).await.unwrap();
        holds(&rig, &id, &data).await;
        assert_eq!(rig.volumes().await[0].volume.as_ref().unwrap().capacity_bytes, 32 * MIB as i64);
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }

    async fn copies_of_a_volume_whose_expansion_died_half_way_are_whole(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let data = noise(24 * MIB as usize, 41);
        let id = overgrown(&rig, &data).await;
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        let group = rig.take_group("group", &[&id]).await.unwrap();
        let clone = rig.create_from("clone", 0, &filesystem(""), from_volume(&id)).await.unwrap();
        let mut copies = vec![clone.volume_id];
        for (name, snapshot) in [("one", &snapshot), ("two", &group.snapshots[0])] {
            assert!(snapshot.size_bytes >= 32 * MIB as i64, "{snapshot:?}");
            copies.push(rig.create_from(name, 0, &filesystem(""), from_snapshot(&snapshot.snapshot_id)).await.unwrap().volume_id);
        }
        for copy in copies {
            holds(&rig, &copy, &data).await;
            rig.delete(&copy).await.unwrap();
        }
        rig.delete_group(&group.group_snapshot_id, vec![group.snapshots[0].snapshot_id.clone()]).await.unwrap();
        rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        rig.put_away(&id, "pvc").await;
        rig.stop().await;
    }

    async fn a_raw_volume_whose_expansion_died_half_way_is_as_long_as_its_image(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("raw", 8 * MIB, &block()).await.unwrap().volume_id;
        die_half_way(&rig, 16 * MIB);
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        assert_eq!(snapshot.size_bytes, 16 * MIB as i64);
        rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        assert_eq!(rig.expand(&id, 12 * MIB).await.unwrap(), 16 * MIB as i64);
        assert_eq!(length(&only_image(&rig)), 16 * MIB);
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}
