//! What was on a volume is gone: it is never formatted a second time.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tonic::Code;

use crate::crash::entries;
use crate::rig::{Rig, filesystem, from_snapshot};
use crate::support::{MIB, isolated, tool};

fn volume_file(rig: &Rig, extension: &str) -> PathBuf {
    let files = entries(&rig.state.join("volumes")).into_iter();
    let mut found = files.filter(|path| path.extension().is_some_and(|is| is == extension));
    found.next().unwrap()
}

fn record(rig: &Rig) -> Value {
    serde_json::from_slice(&fs::read(volume_file(rig, "json")).unwrap()).unwrap()
}

/// Takes everything out of an image, as a backup does that was restored without its data.
fn empty(image: &Path) {
    let file = File::options().write(true).open(image).unwrap();
    let bytes = file.metadata().unwrap().len();
    file.set_len(0).unwrap();
    file.set_len(bytes).unwrap();
}

/// A volume cannot be staged, and why is said; nothing is written to it.
async fn is_lost(rig: &Rig, id: &str, kind: &str) {
    let image = volume_file(rig, "img");
    let status = rig.stage(id, &filesystem(kind)).await.unwrap_err();
    assert_eq!(status.code(), Code::DataLoss, "{status}");
    assert!(
        status.message().contains(image.to_str().unwrap()),
        "{status}"
    );
    assert_eq!(
        fs::metadata(&image).unwrap().blocks(),
        0,
        "{kind} was made again"
    );
}

isolated! {
    async fn a_volume_that_was_formatted_once_is_never_formatted_again(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        for (kind, bytes) in [("ext4", 32), ("xfs", 300), ("btrfs", 128)] {
            let (id, target) = rig.in_use(kind, bytes * MIB, &filesystem(kind)).await;
            fs::write(target.join("file"), kind).unwrap();
            rig.unpublish(&id, kind).await.unwrap();
            rig.unstage(&id).await.unwrap();
            let (image, backup) = (volume_file(&rig, "img"), directory.join("backup"));
            tool("cp", &["--sparse=always", image.to_str().unwrap(), backup.to_str().unwrap()]);

            empty(&image);
            is_lost(&rig, &id, kind).await;
            tool("cp", &["--sparse=always", backup.to_str().unwrap(), image.to_str().unwrap()]);
            rig.stage(&id, &filesystem(kind)).await.unwrap();
            let target = rig.publish(&id, kind, &filesystem(kind)).await.unwrap();
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), kind);
            rig.put_away(&id, kind).await;
        }
        rig.stop().await;
    }

    async fn a_copy_of_a_volume_that_was_formatted_is_not_formatted_either(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, _) = rig.in_use("pvc", 32 * MIB, &filesystem("")).await;
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        rig.put_away(&id, "pvc").await;
        let restored = rig.create_from("restored", 0, &filesystem(""), from_snapshot(&snapshot.snapshot_id)).await.unwrap().volume_id;
        empty(&volume_file(&rig, "img"));
        is_lost(&rig, &restored, "").await;
        rig.delete(&restored).await.unwrap();
        rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        rig.stop().await;
    }

    async fn a_volume_of_an_older_driver_is_marked_when_its_filesystem_is_seen(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("pvc", 32 * MIB, &filesystem("")).await.unwrap().volume_id;
        assert_eq!(record(&rig).get("formatted"), None, "nothing is in it yet");
        rig.stage(&id, &filesystem("")).await.unwrap();
        rig.unstage(&id).await.unwrap();
        // As that driver wrote it.
        let mut old = record(&rig);
        old.as_object_mut().unwrap().remove("formatted");
        fs::write(volume_file(&rig, "json"), old.to_string()).unwrap();
        rig.stage(&id, &filesystem("")).await.unwrap();
        assert_eq!(record(&rig)["formatted"], true);
        rig.unstage(&id).await.unwrap();
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}
