//! One inode number for a file, wherever one looks.

use std::os::unix::fs::MetadataExt;

use crate::fuse::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn stat_on_every_node_and_the_rest_api_agree() {
    let mut rig = Rig::start(&["a", "b"], |_| {}).await;
    let mounts = [
        rig.mount("default", "a").await,
        rig.mount("default", "b").await,
    ];
    std::fs::create_dir_all(mounts[0].join("csi-volumes/pvc")).unwrap();
    for path in ["/", "/csi-volumes", "/csi-volumes/pvc"] {
        let known = rig.inode(path).await;
        for mount in &mounts {
            let seen = std::fs::metadata(mount.join(path.trim_start_matches('/'))).unwrap();
            assert_eq!(seen.ino(), known, "{path}");
        }
    }
    let before = rig.inode("/csi-volumes/pvc").await;
    std::fs::rename(mounts[1].join("csi-volumes/pvc"), mounts[1].join("moved")).unwrap();
    assert_eq!(rig.inode("/moved").await, before);
    assert!(!mounts[0].join("csi-volumes/pvc").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_show_as_fuse_wekafs_with_the_name_of_the_filesystem() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.try_mount("default", "ro,noexec").await.unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == mount.to_str())
        .unwrap();
    let fields: Vec<_> = line.split(' ').collect();
    assert_eq!((fields[0], fields[2]), ("default", "fuse.wekafs"));
    assert!(
        fields[3].contains("ro") && fields[3].contains("noexec"),
        "{line}"
    );
    assert!(std::fs::write(mount.join("file"), "x").is_err());
}
