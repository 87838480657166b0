//! The one thing that can be changed about a volume: whether its device passes the page cache by.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use stowage_csi::proto::csi::{ControllerModifyVolumeRequest, CreateVolumeRequest};
use tonic::{Code, Status};

use crate::rig::{Rig, block, exactly, filesystem};
use crate::support::{MIB, isolated};

fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

async fn modify(rig: &Rig, id: &str, pairs: &[(&str, &str)]) -> Result<(), Status> {
    let request = ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: parameters(pairs),
        ..Default::default()
    };
    let mut controller = rig.controller.clone();
    controller.controller_modify_volume(request).await.map(drop)
}

/// What the kernel says of the loop device with this number: major and minor.
fn direct_io(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = format!("/sys/dev/block/{major}:{minor}/loop/dio");
    fs::read_to_string(&entry).unwrap().trim().to_owned()
}

isolated! {
    async fn direct_io_is_switched_on_and_off_under_a_mounted_filesystem(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let capability = filesystem("ext4");
        let id = rig.create("data", 64 * MIB, &capability).await.unwrap().volume_id;
        rig.stage(&id, &capability).await.unwrap();
        let file = rig.staging(&id).join("file");
        let device = || fs::metadata(rig.staging(&id)).unwrap().dev();
        fs::write(&file, "content").unwrap();
        assert_eq!(direct_io(device()), "0");

        for _ in 0..2 {
            modify(&rig, &id, &[("directIO", "true")]).await.unwrap();
            assert_eq!(direct_io(device()), "1");
        }
        // A parameter that is not named is left as it is.
        modify(&rig, &id, &[]).await.unwrap();
        modify(&rig, &id, &[("csi.storage.k8s.io/pvc/name", "x")]).await.unwrap();
        assert_eq!(direct_io(device()), "1");

        // The next device has it from the start.
        rig.unstage(&id).await.unwrap();
        rig.stage(&id, &capability).await.unwrap();
        assert_eq!(direct_io(device()), "1");
        assert_eq!(fs::read_to_string(&file).unwrap(), "content");

        modify(&rig, &id, &[("directIO", "false")]).await.unwrap();
        assert_eq!(direct_io(device()), "0");
        rig.unstage(&id).await.unwrap();
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }

    async fn direct_io_can_be_asked_for_from_the_start(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let request = |name: &str, pairs: &[(&str, &str)]| CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: exactly(32 * MIB),
            volume_capabilities: vec![block()],
            mutable_parameters: parameters(pairs),
            ..Default::default()
        };
        let mut controller = rig.controller.clone();
        let made = controller.create_volume(request("raw", &[("directIO", "true")])).await.unwrap();
        let id = made.into_inner().volume.unwrap().volume_id;
        rig.stage(&id, &block()).await.unwrap();
        rig.publish(&id, "pod", &block()).await.unwrap();
        assert_eq!(direct_io(fs::metadata(rig.target("pod")).unwrap().rdev()), "1");

        for pairs in [[("directIO", "perhaps")], [("iops", "1000")]] {
            let refused = controller.create_volume(request("no", &pairs)).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            let refused = modify(&rig, &id, &pairs).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
        rig.put_away(&id, "pod").await;
        let refused = modify(&rig, &id, &[("directIO", "true")]).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        rig.stop().await;
    }
}
