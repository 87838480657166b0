//! `stowage sidecar node` as a process, beside `stowage driver hostpath` as another.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use devcluster::testing::{Running, eventually, http_get};
use stowage_api::termination::{Cause, Termination};
use tempfile::TempDir;

use crate::port::Port;

struct Process(Running);

impl Process {
    fn signal(&self, name: &str) {
        let sent = Command::new("/bin/kill")
            .args([name, &self.0.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    fn ended(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        let mut complaint = String::new();
        let stderr = self.0.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut complaint).unwrap();
        (status.unwrap(), complaint)
    }
}

/// One machine's folders.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("registration")).unwrap();
        fs::write(folder.path().join("termination-log"), "").unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn flag(&self, flag: &str, name: &str) -> String {
        format!("{flag}={}", self.path(name).display())
    }

    fn stowage(&self, args: &[String]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
        command.args(args).env_clear().current_dir(self.0.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Process(Running(child.unwrap()))
    }

    fn driver(&self, name: &str) -> Process {
        self.stowage(&[
            "driver".to_owned(),
            "hostpath".to_owned(),
            self.flag("--endpoint", "csi.sock"),
            self.flag("--statedir", "state"),
            format!("--drivername={name}"),
            "--nodeid=here".to_owned(),
        ])
    }

    fn sidecar(&self, more: &[&str]) -> Process {
        let mut args = vec![
            "sidecar".to_owned(),
            "node".to_owned(),
            self.flag("--csi-address", "csi.sock"),
            self.flag("--kubelet-registration-path", "csi.sock"),
            self.flag("--plugin-registration-path", "registration"),
            self.flag("--termination-log", "termination-log"),
        ];
        args.extend(more.iter().map(ToString::to_string));
        self.stowage(&args)
    }

    fn is_registered(&self, driver: &str) -> bool {
        let socket = self.path(&format!("registration/{driver}-reg.sock"));
        fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket())
    }

    fn last_words(&self) -> String {
        fs::read_to_string(self.path("termination-log")).unwrap()
    }
}

/// The status code of a GET, or none where nobody answers.
fn healthz(port: u16) -> Option<u16> {
    let answer = http_get(port, "/healthz").ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn a_driver_is_registered_watched_and_at_the_end_taken_off_the_node() {
    let (node, kept) = (Node::new(), Port::keep());
    let port = kept.number;
    let mut sidecar = node.sidecar(&[&format!("--health-port={port}")]);
    eventually("no driver is no life", || healthz(port) == Some(500));
    assert!(!node.is_registered("x.csi"));

    let driver = node.driver("x.csi");
    eventually("the driver is registered", || node.is_registered("x.csi"));
    eventually("the driver is alive", || healthz(port) == Some(200));

    // `kill -9` leaves the driver's socket behind.
    driver.signal("-KILL");
    eventually("its end is seen", || healthz(port) == Some(500));
    assert!(node.is_registered("x.csi"));
    let _driver = node.driver("x.csi");
    eventually("the driver is back", || healthz(port) == Some(200));

    sidecar.signal("-TERM");
    eventually("its socket goes first", || !node.is_registered("x.csi"));
    let (status, log) = sidecar.ended();
    assert!(status.success(), "{log}");
    assert_eq!(node.last_words(), "");
}

#[test]
fn another_driver_than_expected_ends_the_process_with_both_names() {
    let node = Node::new();
    let _driver = node.driver("other.csi");
    let mut sidecar = node.sidecar(&["--driver-name=mine.csi", "--health-port=0"]);
    let (status, log) = sidecar.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    for words in [log.as_str(), &node.last_words()] {
        assert!(
            words.contains("`mine.csi`") && words.contains("`other.csi`"),
            "{words}"
        );
    }
    let cause = Cause::DriverNameMismatch {
        expected: "mine.csi".to_owned(),
        reported: "other.csi".to_owned(),
    };
    assert_eq!(Termination::read(&node.last_words()).cause, Some(cause));
    assert!(!node.is_registered("other.csi"));
}

#[test]
fn what_keeps_it_from_starting_is_in_the_termination_message() {
    let node = Node::new();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut sidecar = node.sidecar(&[&format!("--health-port={port}")]);
    let (status, log) = sidecar.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    let words = node.last_words();
    assert!(
        words.contains(&format!("port {port} is already in use")),
        "{words}"
    );
    assert!(words.contains("--health-port"), "{words}");
    assert!(log.contains(&words), "{log}");
}

#[test]
fn the_http_endpoint_says_whether_the_driver_is_alive_and_no_port_is_opened_unasked() {
    let (node, kept) = (Node::new(), Port::keep());
    let port = kept.number;
    // Whoever holds livenessprobe's default port holds nobody up.
    let _taken = TcpListener::bind("0.0.0.0:9808");
    let _sidecar = node.sidecar(&[
        &format!("--http-endpoint=127.0.0.1:{port}"),
        "--probe-timeout=500ms",
    ]);
    eventually("no driver is no life", || healthz(port) == Some(500));
    let driver = node.driver("x.csi");
    eventually("the driver is alive", || healthz(port) == Some(200));
    // It hangs, but its socket is there.
    driver.signal("-STOP");
    eventually("a driver that hangs is not alive", || {
        healthz(port) == Some(500)
    });
    driver.signal("-CONT");
    eventually("the driver is back", || healthz(port) == Some(200));
}

#[test]
fn a_taken_port_ends_the_process_only_where_the_probe_is_asked_for_on_it() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let (node, kept) = (Node::new(), Port::keep());
    let port = kept.number;
    let http = format!("--http-endpoint=0.0.0.0:{taken}");
    let metrics = format!("--metrics-address=127.0.0.1:{taken}");
    // Here it is: the only port that could answer.
    let mut sidecar = node.sidecar(&[&http]);
    let (status, log) = sidecar.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(node.last_words().contains("--http-endpoint"), "{log}");
    // Here it is for metrics.
    let _driver = node.driver("x.csi");
    let health = format!("--health-port={port}");
    let mut sidecar = node.sidecar(&[&health, &http, &metrics]);
    eventually("the driver is registered", || node.is_registered("x.csi"));
    eventually("the driver is alive", || healthz(port) == Some(200));
    sidecar.signal("-TERM");
    let (status, log) = sidecar.ended();
    assert!(status.success(), "{log}");
    let said = log.matches("is already in use by another process").count();
    assert_eq!(said, 2, "{log}");
}

#[test]
fn one_port_serves_the_probe_and_the_metrics() {
    let (node, kept) = (Node::new(), Port::keep());
    let port = kept.number;
    let flags = [
        format!("--health-port={port}"),
        format!("--http-endpoint=:{port}"),
    ];
    let _sidecar = node.sidecar(&[&flags[0], &flags[1]]);
    let _driver = node.driver("x.csi");
    eventually("the driver is alive", || healthz(port) == Some(200));
}

#[test]
fn an_exec_probe_of_old_manifests_ends_at_once_and_well() {
    let node = Node::new();
    let mut probe = node.sidecar(&["--mode=kubelet-registration-probe"]);
    assert!(probe.ended().0.success());
}
