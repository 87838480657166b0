use std::collections::BTreeSet;

use devcluster::checksums;

use super::*;
use crate::release::parts;

/// The image around a binary that is there already: what is in it does not depend on ours.
fn around_any_binary() -> Rootfs {
    let directory = tempfile::tempdir().unwrap();
    let report = Report::silent(directory.path().join("log"));
    around(Path::new("/bin/true"), &report).unwrap()
}

fn layer() -> Vec<u8> {
    let mut layer = Vec::new();
    around_any_binary().write_tar(&mut layer).unwrap();
    layer
}

#[test]
fn the_image_has_the_tools_that_drivers_call_and_no_shell() {
    let layer = layer();
    let mut runs = BTreeSet::new();
    let mut links = BTreeSet::new();
    for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if entry.header().entry_type().is_symlink() {
            let to = entry.link_name().unwrap().unwrap();
            assert_eq!(to, Path::new("stowage"), "{}", path.display());
            links.insert(name.into_owned());
        } else if entry.header().entry_type().is_file()
            && entry.header().mode().unwrap() & 0o111 != 0
            && !name.contains(".so")
        {
            runs.insert(name.into_owned());
        }
    }
    let tools = debian::FOR_DRIVERS.iter().map(|(tool, _)| *tool);
    let expected: BTreeSet<String> = tools.chain(["stowage"]).map(str::to_owned).collect();
    assert_eq!(runs, expected);
    assert_eq!(links, BTreeSet::from(STANDS_FOR.map(str::to_owned)));
    for shell in ["sh", "bash", "dash", "busybox"] {
        assert!(!runs.contains(shell), "{shell}");
    }
}

#[test]
fn the_same_files_give_the_same_layer() {
    assert_eq!(checksums::of(&layer()), checksums::of(&layer()));
}

#[test]
fn every_package_that_the_image_has_something_of_is_listed() {
    let packages = parts::debian(&sources_of(&around_any_binary())).unwrap();
    let listed = parts::licences(&[], &packages);
    let of_tools = debian::FOR_DRIVERS.iter().map(|(_, package)| *package);
    for package in of_tools.chain([AUTHORITIES_PACKAGE.1, "libc6"]) {
        assert!(
            listed.contains(&format!("| {package} | ")),
            "{package}: {listed}"
        );
    }
}

#[test]
fn an_image_by_docker_has_the_same_labels_and_starts_the_same_program() {
    let dockerfile = include_str!("../../../Dockerfile");
    for (name, value) in labels() {
        let label = format!("{name}=\"{value}\"");
        assert!(dockerfile.contains(&label), "{label}");
    }
    assert!(dockerfile.contains(&format!("ENTRYPOINT [\"{PROGRAM}\"]")));
}

#[test]
fn the_image_trusts_what_debian_trusts() {
    let bundle = authorities(Path::new(DEBIAN_AUTHORITIES)).unwrap();
    let count = |text: &str| bundle.lines().filter(|line| *line == text).count();
    let begun = count("-----BEGIN CERTIFICATE-----");
    assert!(begun > 50, "{begun}");
    assert_eq!(begun, count("-----END CERTIFICATE-----"));
    assert!(authorities(Path::new("/no/such/directory")).is_err());
}
