//! What a filesystem does.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use crate::fuse::rig::{Rig, errno};

#[tokio::test(flavor = "multi_thread")]
async fn links_names_and_attributes() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    let file = mount.join("file");
    fs::write(&file, "content").unwrap();
    fs::hard_link(&file, mount.join("twin")).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    symlink("file", mount.join("link")).unwrap();
    assert_eq!(
        fs::read_link(mount.join("link")).unwrap().to_str(),
        Some("file")
    );
    assert_eq!(fs::read_to_string(mount.join("link")).unwrap(), "content");

    chown(&file, Some(1001), Some(1002)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let seen = fs::metadata(mount.join("twin")).unwrap();
    assert_eq!(
        (seen.uid(), seen.gid(), seen.mode() & 0o7777),
        (1001, 1002, 0o640)
    );

    xattr::set(&file, "user.weka_capacity", b"4096").unwrap();
    let value = xattr::get(mount.join("twin"), "user.weka_capacity").unwrap();
    assert_eq!(value.as_deref(), Some(&b"4096"[..]));
    let names: Vec<_> = xattr::list(&file).unwrap().collect();
    assert_eq!(names, ["user.weka_capacity"]);
    xattr::remove(&file, "user.weka_capacity").unwrap();
    assert_eq!(xattr::get(&file, "user.weka_capacity").unwrap(), None);

    fs::create_dir_all(mount.join("a/b/c")).unwrap();
    fs::rename(mount.join("a/b"), mount.join("moved")).unwrap();
    assert!(mount.join("moved/c").is_dir());
    assert_eq!(
        errno(fs::remove_dir(mount.join("moved"))),
        Some(libc::ENOTEMPTY)
    );
    let mut names: Vec<_> = fs::read_dir(&mount)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".snapshots", "a", "file", "link", "moved", "twin"]);
    fs::remove_dir_all(mount.join("moved")).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(fs::read_to_string(mount.join("twin")).unwrap(), "content");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_hands_its_group_down() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    let shared = mount.join("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, None, Some(2000)).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o2770)).unwrap();
    fs::create_dir(shared.join("sub")).unwrap();
    fs::write(shared.join("file"), "").unwrap();
    let sub = fs::metadata(shared.join("sub")).unwrap();
    assert_eq!((sub.gid(), sub.mode() & 0o2000), (2000, 0o2000));
    assert_eq!(fs::metadata(shared.join("file")).unwrap().gid(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_writes_the_other_reads() {
    let mut rig = Rig::start(&["a", "b"], |_| {}).await;
    let mounts = [
        rig.mount("default", "a").await,
        rig.mount("default", "b").await,
    ];
    let mut reader = {
        fs::write(mounts[0].join("file"), "first").unwrap();
        fs::File::open(mounts[1].join("file")).unwrap()
    };
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    let mut writer = OpenOptions::new()
        .append(true)
        .open(mounts[0].join("file"))
        .unwrap();
    writer.write_all(b" second").unwrap();
    reader.seek(SeekFrom::Start(0)).unwrap();
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first second");
    // Both append, and nothing is lost.
    let mut other = OpenOptions::new()
        .append(true)
        .open(mounts[1].join("file"))
        .unwrap();
    other.write_all(b" third").unwrap();
    writer.write_all(b" fourth").unwrap();
    let text = fs::read_to_string(mounts[1].join("file")).unwrap();
    assert_eq!(text, "first second third fourth");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_lives_while_it_is_open() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mount.join("file"))
        .unwrap();
    fs::remove_file(mount.join("file")).unwrap();
    file.write_all(b"still").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still");
    let uid = rig.uid("default").await;
    let shown = rig.call("GET", &format!("fileSystems/{uid}"), None).await;
    assert_eq!(shown["used_total"], 0);
}
