use super::*;

/// A line of the kernel's table for a mount at this place below `/k`.
fn line(number: usize, path: &str) -> String {
    format!("{number} 1 0:{number} / /k/{path} rw shared:1 - fuse x rw\n")
}

fn noted(driver: &str, volume: &str) -> Note {
    Note {
        driver: driver.to_owned(),
        volume: Some(volume.to_owned()),
        handle: None,
    }
}

#[test]
fn mounts_of_one_driver_are_told_from_all_others() {
    let csi = "plugins/kubernetes.io/csi";
    let paths = [
        "pods/u1/volumes/kubernetes.io~csi/ours/mount".to_owned(),
        "pods/u1/volumes/kubernetes.io~csi/theirs/mount".to_owned(),
        "pods/u1/volumes/kubernetes.io~secret/token".to_owned(),
        "pods/u1/volume-subpaths/ours/main/0".to_owned(),
        "pods/u1/volume-subpaths/scratch/main/0".to_owned(),
        "pods/u2/volumes/kubernetes.io~csi/nobody/mount".to_owned(),
        format!("{csi}/a.example/0f/globalmount"),
        format!("{csi}/b.example/0f/globalmount"),
    ];
    let lines = paths.iter().enumerate();
    let text: String = lines.map(|(number, path)| line(number + 2, path)).collect();
    let table = MountTable::parse(format!("1 0 8:1 / / rw - ext4 x rw\n{text}")).unwrap();
    let note = |path: &Path| {
        let path = path.to_str().unwrap();
        match path {
            _ if path.contains("/ours/") => Some(noted("a.example", "ours")),
            _ if path.contains("/theirs/") => Some(noted("b.example", "theirs")),
            _ => None,
        }
    };
    let found = found("a.example", &table, Path::new("/k"), note);
    let mount = |path: &str, pod: Option<&str>, volume: Option<&str>| Mounted {
        path: path.into(),
        pod: pod.map(ToOwned::to_owned),
        volume: volume.map(ToOwned::to_owned),
    };
    assert_eq!(
        found,
        [
            mount(&paths[6], None, None),
            mount(&paths[3], Some("u1"), Some("ours")),
            mount(&paths[0], Some("u1"), Some("ours")),
            // Nobody knows whose it is: better ours than lost.
            mount(&paths[5], Some("u2"), None),
        ]
    );
}

#[test]
fn kubelets_are_found_wherever_they_mount() {
    let table: String = [
        "1 0 8:1 / / rw - ext4 x rw",
        "2 1 0:2 / /k/plugins/kubernetes.io/csi/pv/a/globalmount rw - nfs x rw",
        "3 1 0:3 / /k/pods/u1/volumes/kubernetes.io~csi/a/mount rw - nfs x rw",
        "4 1 0:4 / /snap/kubelet/pods/u1/volumes/kubernetes.io~csi/a/mount rw - nfs x rw",
        "5 1 0:5 / /other/pods/u1/volumes/kubernetes.io~secret/a rw - tmpfs x rw",
    ]
    .map(|line| format!("{line}\n"))
    .concat();
    let table = MountTable::parse(table).unwrap();
    let roots: Vec<_> = roots(&table).into_iter().collect();
    assert_eq!(roots, [Path::new("/k"), Path::new("/snap/kubelet")]);
}
