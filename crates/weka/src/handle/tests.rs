use super::*;

fn dynamic(path: &str) -> DynamicPaths {
    DynamicPaths::new(path).unwrap()
}

const NAME: &str = "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380";
const DIR: &str =
    "csi-volumes/pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c";

#[test]
fn a_new_volume_gets_the_handle_it_always_got() {
    let handle = Handle::directory("default", "csi-volumes", NAME);
    assert_eq!(handle.as_str(), format!("dir/v1/default/{DIR}"));
    assert_eq!(handle.path(), Path::new(DIR));
    let handle = Handle::directory("default", "", "x");
    assert!(
        handle.as_str().starts_with("dir/v1/default//x-"),
        "{handle}"
    );
    assert_eq!(handle.path().components().count(), 1);
}

#[test]
fn volumes_of_every_backing_get_the_handles_they_always_got() {
    let object = name::object(NAME);
    let filesystem = Handle::filesystem_volume(&format!("csivol-{object}"));
    let snapshot = Handle::in_snapshot("default", &object, None);
    let directory = Handle::directory("default", "csi-volumes", NAME);
    let copy = name::object("pvc-11111111-2222-3333-4444-555555555555");
    let of_directory = Handle::in_snapshot("default", &copy, directory.written_inner());
    let of_copy = Handle::in_snapshot("default", "again", of_directory.written_inner());
    for (handle, text) in [
        (
            filesystem,
            "weka/v2/csivol-pvc-d00ba0fe-UFSZZCT55U6D".to_owned(),
        ),
        (
            snapshot,
            "weka/v2/default:pvc-d00ba0fe-UFSZZCT55U6D".to_owned(),
        ),
        (
            of_directory,
            format!("weka/v2/default:pvc-11111111-OGDMYFOFOZKD//{DIR}"),
        ),
        (of_copy, format!("weka/v2/default:again///{DIR}")),
    ] {
        assert_eq!(handle.as_str(), text);
        assert_eq!(Handle::parse(&text), Ok(handle));
    }
}

#[test]
fn every_form_in_use_is_read_and_written_back() {
    use Backing::{Directory, Filesystem, Hybrid, Snapshot};
    for (text, filesystem, backing, path) in [
        (format!("dir/v1/default/{DIR}"), "default", Directory, DIR),
        (
            "weka/v2/fs/some/dir".to_owned(),
            "fs",
            Directory,
            "some/dir",
        ),
        ("weka/v2/fs".to_owned(), "fs", Filesystem, ""),
        ("weka/v2/fs/".to_owned(), "fs", Filesystem, ""),
        ("fs/v1/filesystem".to_owned(), "filesystem", Filesystem, ""),
        (
            "weka/v1/fs:snap/dir".to_owned(),
            "fs",
            Hybrid,
            ".snapshots/snap/dir",
        ),
        ("weka/v2/fs:ap".to_owned(), "fs", Snapshot, ".snapshots/ap"),
        (
            format!("weka/v2/default:pvc-11111111-OGDMYFOFOZKD//{DIR}"),
            "default",
            Hybrid,
            &format!(".snapshots/pvc-11111111-OGDMYFOFOZKD/{DIR}"),
        ),
        ("dir/v1/fs//x".to_owned(), "fs", Directory, "x"),
        ("dir/v1/fs/a//b/./c".to_owned(), "fs", Directory, "a/b/c"),
    ] {
        let handle = Handle::parse(&text).unwrap();
        assert_eq!(handle.to_string(), text);
        assert_eq!(handle.filesystem(), filesystem, "{text}");
        assert_eq!(handle.backing(), backing, "{text}");
        assert_eq!(handle.path(), Path::new(path), "{text}");
    }
}

#[test]
fn what_is_no_handle_is_refused() {
    for text in [
        "",
        "x",
        "/dir/v1/fs/x",
        "dir/v1",
        "dir/v1/fs",
        "dir/v1/fs/",
        "dir/v1//x",
        "dir/1/fs/x",
        "weka/v2/",
        "weka/v2/:ap",
        "weka/v2/fs:",
        "weka/v2/fs:..",
        "weka/v2/fs:./x",
        "dir/v1/fs/a\0b",
    ] {
        let refused = Handle::parse(text);
        assert_eq!(refused, Err(HandleError::Malformed(text.to_owned())));
    }
    let long = format!("dir/v1/fs/{}", "x".repeat(1911));
    assert_eq!(Handle::parse(&long), Err(HandleError::TooLong(1921)));
    assert!(Handle::parse(&long[..1920]).is_ok());
}

#[test]
fn no_path_leads_above_the_root() {
    for (text, path) in [
        ("dir/v1/fs/../../etc", "etc"),
        ("dir/v1/fs/a/../../../b", "b"),
        ("dir/v1/fs/..", ""),
        ("weka/v2/fs/csi-volumes/../../x", "x"),
        ("weka/v2/fs:ap/../../x", ".snapshots/ap/x"),
    ] {
        let handle = Handle::parse(text).unwrap();
        assert_eq!(handle.path(), Path::new(path), "{text}");
    }
}

#[test]
fn only_derived_names_below_the_dynamic_path_are_ours() {
    let origin = |text: &str| Handle::parse(text).unwrap().origin(&dynamic("csi-volumes"));
    assert_eq!(origin(&format!("dir/v1/fs/{DIR}")), Origin::Dynamic);
    assert_eq!(origin(&format!("weka/v2/fs/{DIR}")), Origin::Dynamic);
    assert_eq!(origin(&format!("dir/v1/fs//{DIR}/")), Origin::Dynamic);
    for text in [
        "dir/v1/fs/csi-volumes".to_owned(),
        "dir/v1/fs/csi-volumes/data".to_owned(),
        format!("dir/v1/fs/other/{}", name::directory(NAME)),
        format!("dir/v1/fs/csi-volumes/x/../{}", name::directory(NAME)),
        format!("dir/v1/fs/{DIR}/below"),
        format!("dir/v1/fs/{}", name::directory(NAME)),
    ] {
        assert_eq!(origin(&text), Origin::Static, "{text}");
    }
}

#[test]
fn volumes_below_an_earlier_dynamic_path_are_ours_too() {
    let name = name::directory(NAME);
    let paths = dynamic("new").or_earlier("/old/deep/").unwrap();
    let paths = paths.or_earlier("/").unwrap();
    for (text, expected) in [
        (format!("dir/v1/fs/new/{name}"), Origin::Dynamic),
        (format!("dir/v1/fs/old/deep/{name}"), Origin::Dynamic),
        (format!("dir/v1/fs//{name}"), Origin::Dynamic),
        (format!("dir/v1/fs/old/{name}"), Origin::Static),
        ("dir/v1/fs/old/deep/data".to_owned(), Origin::Static),
        (format!("dir/v1/fs/old/../{name}"), Origin::Static),
    ] {
        let handle = Handle::parse(&text).unwrap();
        assert_eq!(handle.origin(&paths), expected, "{text}");
    }
    let made = Handle::directory("fs", paths.current(), NAME).to_string();
    assert_eq!(made, format!("dir/v1/fs/new/{name}"));
}

#[test]
fn other_backings_are_ours_by_a_derived_name_whatever_the_prefix() {
    let object = name::object(NAME);
    for (text, expected) in [
        (format!("weka/v2/csivol-{object}"), Origin::Dynamic),
        (format!("weka/v2/other-{object}"), Origin::Dynamic),
        (format!("weka/v2/fs:{object}"), Origin::Dynamic),
        (format!("weka/v2/fs:{object}//{DIR}"), Origin::Dynamic),
        (format!("weka/v2/fs:{object}/data"), Origin::Dynamic),
        ("weka/v2/default".to_owned(), Origin::Static),
        ("weka/v2/default:nightly".to_owned(), Origin::Static),
        (format!("weka/v2/fs:nightly//{DIR}"), Origin::Static),
    ] {
        let handle = Handle::parse(&text).unwrap();
        assert_eq!(handle.origin(&dynamic("csi-volumes")), expected, "{text}");
    }
    let chosen = Handle::parse(&format!("weka/v2/fs:{object}/data")).unwrap();
    assert!(
        !chosen.has_own_path(&dynamic("csi-volumes")),
        "links are its own"
    );
}

#[test]
fn what_a_quota_is_on_shows_whose_volume_it_is() {
    let object = name::object(NAME);
    let of = |filesystem: &str, path: &str, dynamic_path: &str| {
        let handle = Handle::of_path(filesystem, path, &dynamic(dynamic_path));
        handle.map(|handle| handle.to_string())
    };
    let directory = Handle::directory("fs", "csi-volumes", NAME).to_string();
    assert_eq!(of("fs", &format!("/{DIR}"), "csi-volumes"), Some(directory));
    let (_, name) = DIR.split_once('/').unwrap();
    let of_root = Handle::directory("fs", "", NAME).to_string();
    assert_eq!(of("fs", &format!("/{name}"), ""), Some(of_root));
    let filesystem = format!("csivol-{object}");
    let volume = Handle::filesystem_volume(&filesystem).to_string();
    assert_eq!(of(&filesystem, "/", "csi-volumes"), Some(volume));
    assert_eq!(of("fs", "/", "csi-volumes"), None);
    assert_eq!(of("fs", "/home/somebody", "csi-volumes"), None);
    assert_eq!(of("fs", &format!("/trash/{name}"), "csi-volumes"), None);
}
