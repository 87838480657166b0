use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::Mode;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::server::{Socket, SocketError};

use crate::socket::driver::{endpoint_in, folder};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().display().to_string();
    entries
        .map(|entry| name(entry.expect("an entry")))
        .collect()
}

#[test]
fn only_the_owner_may_connect_whatever_the_umask() {
    for umask in [0, 0o022, 0o077] {
        let folder = folder();
        let endpoint = endpoint_in(&folder);
        let before = rustix::process::umask(Mode::from_raw_mode(umask));
        let socket = Socket::bind(&endpoint).unwrap();
        rustix::process::umask(before);

        let found = fs::symlink_metadata(endpoint.path()).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(
            found.permissions().mode() & 0o7777,
            0o600,
            "umask {umask:o}"
        );
        assert_eq!(
            names(folder.path()),
            ["csi.sock"],
            "nothing beside the socket"
        );
        // It listens from the moment it has its name.
        UnixStream::connect(endpoint.path()).unwrap();
        drop(socket);
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    drop(UnixListener::bind(endpoint.path()).unwrap());
    UnixStream::connect(endpoint.path()).expect_err("nobody listens there");

    let _socket = Socket::bind(&endpoint).unwrap();
    UnixStream::connect(endpoint.path()).unwrap();
}

#[test]
fn any_other_file_is_refused_and_left_alone() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let path = endpoint.path();
    let refused = || {
        let error = Socket::bind(&endpoint).unwrap_err();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
        assert!(error.to_string().contains("csi.sock"), "{error}");
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(names(folder.path()).len(), 1);
    };

    fs::write(path, "somebody's data").unwrap();
    refused();
    assert_eq!(fs::read_to_string(path).unwrap(), "somebody's data");
    fs::remove_file(path).unwrap();

    fs::create_dir(path).unwrap();
    refused();
    fs::remove_dir(path).unwrap();

    // Where the link leads does not matter: a rename would replace the link.
    symlink("/nowhere", path).unwrap();
    refused();
    assert!(fs::symlink_metadata(path).unwrap().is_symlink());
}

#[test]
fn the_file_goes_with_the_socket() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    drop(Socket::bind(&endpoint).unwrap());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_successor_keeps_its_socket_when_the_old_server_ends() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let old = Socket::bind(&endpoint).unwrap();
    let _new = Socket::bind(&endpoint).unwrap();
    drop(old);
    UnixStream::connect(endpoint.path()).unwrap();
}

#[test]
fn a_missing_folder_is_said_clearly() {
    let folder = folder();
    let path = folder.path().join("gone/csi.sock");
    let error = Socket::bind(&Endpoint::try_from(path.as_path()).unwrap()).unwrap_err();
    let SocketError::Io { source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("gone/csi.sock"), "{error}");
}

#[test]
fn the_longest_path_can_be_bound() {
    let folder = folder();
    let room = 107 - folder.path().as_os_str().len() - "//x.sock".len();
    let deep = folder.path().join("d".repeat(room));
    fs::create_dir(&deep).unwrap();
    let path = deep.join("x.sock");
    assert_eq!(path.as_os_str().len(), 107);
    let _socket = Socket::bind(&Endpoint::try_from(path.as_path()).unwrap()).unwrap();
    UnixStream::connect(path).unwrap();
}
