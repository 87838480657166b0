//! `stowage migrate weka-legacy` and the script that calls it, as weka.md shows them: what they print, and their exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use devcluster::isolated;
use devcluster::testing::Running;
use serde_json::json;

use super::client::terminate;
use super::{Scene, eventually};

const STOWAGE: &str = env!("CARGO_BIN_EXE_stowage");
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../migration/migrate-legacy-csi-volumes.sh"
);
const VOLUME: &str =
    "pvc-e5379b17-4612-4fa3-aa57-64d5b37d7f57-1025f14ca92d2e18dd92a05efadf15a4972675f0";

/// `mount -t wekafs` finds the simulator's helper: only here, in mounts of our own.
fn install_helper(scene: &Scene) {
    let sockets = scene.path("sockets");
    let sockets = sockets.display();
    let place = scene.path("sbin");
    std::fs::create_dir(&place).unwrap();
    let program = place.join("wekafs/mount.wekafs");
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(STOWAGE, &program).unwrap();
    let script = format!(
        "#!/bin/sh\nSTOWAGE_SIM_WEKA_SOCKETS={sockets} exec {} \"$@\"\n",
        program.display()
    );
    stowage_sim::weka::mount_helper::install(&place, &script).unwrap();
}

/// A command for the migration of `default`, with nobody's environment.
fn migration(scene: &Scene, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("STOWAGE", STOWAGE);
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.args(words).arg("default");
    for (flag, name) in [
        ("--mount-base", "migration"),
        ("--proc-modules", "modules"),
        ("--proc-wekafs-interface", "interface"),
        ("--secret-file", "secret.yaml"),
    ] {
        command.arg(flag).arg(scene.path(name));
    }
    command
}

fn write_secret(scene: &Scene, password: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "csi-wekafs-api-secret" },
        "stringData": { "username": "admin", "password": password, "endpoints": scene.listen.to_string(), "scheme": "http" },
    });
    std::fs::write(scene.path("secret.yaml"), secret.to_string()).unwrap();
}

fn text(output: &Output) -> String {
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    said.concat()
}

/// A volume as drivers made them before there were quotas.
fn old_volume(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "user.weka_capacity", b"1073741824", none).unwrap();
}

/// What was printed, without times.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let plain = |line: &str| {
        let (time, rest) = line.split_at_checked(22).unwrap();
        assert!(time.starts_with('[') && time.ends_with("] "), "{line}");
        rest.to_owned()
    };
    text.lines().skip(1).map(plain).collect()
}

fn is_mounted(scene: &Scene) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.contains(scene.path("migration").to_str().unwrap())
}

isolated! {
    async fn the_lines_and_the_exit_code_of_a_migration_are_what_people_rely_on(_directory: &Path) {
        let scene = Scene::new();
        let modules = scene.path("modules").display().to_string();
        let interface = scene.path("interface").display().to_string();
        let stage = ["--proc-modules", &modules, "--proc-interface", &interface];
        let slow = ["--quota-delay", "3s"];
        let _cluster = scene.cluster(&[&stage[..], &slow].concat());
        let token = scene.log_in().await;
        let socket = scene.path("sockets/client.sock");
        eventually("a socket", || socket.exists().then_some(()));
        install_helper(&scene);
        let filesystems = scene.call("GET", "fileSystems", &token, None).await;
        let uid = filesystems[0]["uid"].as_str().unwrap();
        let volumes = scene.path("data/filesystems").join(uid).join("root/csi-volumes");
        old_volume(&volumes.join(VOLUME));

        // Wrong credentials, and none.
        write_secret(&scene, "hunter2-wrong");
        let refused = migration(&scene, STOWAGE, &["migrate", "weka-legacy"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused);
        assert!(said.contains("error: ") && said.contains("`password`") && !said.contains("hunter2"), "{said}");
        let refused = Command::new(STOWAGE).env_clear().args(["migrate", "weka-legacy", "default"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused).contains("WEKA_ENDPOINTS"), "{}", text(&refused));

        write_secret(&scene, "admin");
        let done = migration(&scene, SCRIPT, &[]).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", text(&done));
        assert_eq!(lines(&done), [
            "NOTICE     Initializing volume migration for filesystem default".to_owned(),
            "NOTICE     Successfully mounted filesystem default".to_owned(),
            "NOTICE     Starting Persistent Volume migration".to_owned(),
            format!("INFO       Processing directory '{VOLUME}'"),
            format!("INFO       Creating quota of 1073741824 bytes for directory {VOLUME}"),
            format!("INFO       Quota was successfully set for directory {VOLUME}"),
            "NOTICE     Migration process complete!".to_owned(),
            "NOTICE     1 directories migrated successfully".to_owned(),
            "NOTICE     0 directories skipped".to_owned(),
        ]);

        // A signal in the middle: nothing stays mounted, and the exit code says that something is left to do.
        old_volume(&volumes.join("pvc-2"));
        let mut child = migration(&scene, STOWAGE, &["migrate", "weka-legacy"]);
        let mut child = Running(child.stdout(Stdio::null()).spawn().unwrap());
        eventually("a mount", || is_mounted(&scene).then_some(()));
        terminate(&child);
        assert_eq!(child.0.wait().unwrap().code(), Some(1));
        assert!(!is_mounted(&scene));
        let done = migration(&scene, SCRIPT, &[]).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", text(&done));
        let counts = ["1 directories migrated successfully", "1 directories skipped"];
        assert!(counts.iter().all(|count| text(&done).contains(count)), "{}", text(&done));

        std::fs::create_dir(volumes.join("foreign")).unwrap();
        let failed = migration(&scene, SCRIPT, &[]).output().unwrap();
        assert_eq!(failed.status.code(), Some(1));
        assert_eq!(lines(&failed).last().unwrap(), "ERROR      1 directories failed: foreign");
        assert!(text(&failed).contains("2 directories skipped"));
        assert!(!is_mounted(&scene));
    }
}
