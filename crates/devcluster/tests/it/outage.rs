use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use devcluster::testing::ApiServer;

use crate::eventually;

/// Tells a child of this test where to write which directory it uses.
const NOTE: &str = "STOWAGE_TEST_NOTE";

#[test]
fn a_stopped_server_refuses_and_comes_back_with_everything() {
    let server = ApiServer::start().unwrap();
    server.kubectl(&["create", "namespace", "kept"]).unwrap();
    let before = server.kubectl(&["config", "view"]).unwrap();
    for _ in 0..2 {
        server.stop().unwrap();
        let refused = server.kubectl(&["get", "namespaces"]).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("was refused"), "{refused}");
        server.start_again().unwrap();
        server.kubectl(&["get", "namespace", "kept"]).unwrap();
    }
    assert_eq!(server.kubectl(&["config", "view"]).unwrap(), before);
}

#[test]
fn a_frozen_server_keeps_callers_waiting() {
    let server = ApiServer::start().unwrap();
    server.freeze().unwrap();
    let started = Instant::now();
    let ask = ["get", "namespaces", "--request-timeout=2s"];
    let late = server.kubectl(&ask).unwrap_err().to_string();
    assert!(!late.contains("refused"), "{late}");
    assert!(started.elapsed().as_secs() >= 2, "{:?}", started.elapsed());
    server.thaw().unwrap();
    server.kubectl(&["get", "namespaces"]).unwrap();
}

#[test]
fn nothing_outlives_a_process_that_is_killed() {
    if let Some(note) = env::var_os(NOTE) {
        return wait_to_be_killed(Path::new(&note));
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "outage::nothing_outlives_a_process_that_is_killed",
        ])
        .env(NOTE, &note)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let directory = eventually("the child's directory", || {
        let noted = fs::read_to_string(&note).ok()?;
        noted.strip_suffix('\n').map(str::to_owned)
    });
    assert!(Path::new(&directory).exists());
    assert_eq!(processes_of(&directory), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of etcd and API server", || {
        (processes_of(&directory) == 0).then_some(())
    });
    eventually("the end of their files", || {
        (!Path::new(&directory).exists()).then_some(())
    });
}

/// The same test in the process that is killed.
fn wait_to_be_killed(note: &Path) {
    let server = ApiServer::start().expect("an API server");
    let directory = server.directory().display();
    fs::write(note, format!("{directory}\n")).expect("a note");
    std::thread::sleep(Duration::from_secs(600));
}

/// Servers that work in `directory`; the sweeper's shell does not count.
fn processes_of(directory: &str) -> usize {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains(directory) && !line.contains("sweeper"))
        .count()
}
