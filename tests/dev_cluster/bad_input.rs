//! Bad input: one clear sentence with the remedy, a code that is not 0, nothing half-made.

use std::fs;
use std::process::{Command, Output};

use devcluster::cluster::Cluster;
use stowage_tests::{said, x};

/// A cluster that none of these commands may make.
const NAME: &str = "test-refused";

fn refusal(command: &mut Command) -> String {
    let output: Output = command.output().unwrap();
    assert!(
        !output.status.success(),
        "{command:?} should fail: {}",
        said(&output)
    );
    assert!(
        !Cluster::named(NAME).unwrap().directory().exists(),
        "{command:?} left something behind"
    );
    let text = said(&output);
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn an_unknown_verb_or_option_is_refused() {
    assert!(refusal(x(NAME).arg("uq")).contains("unrecognized subcommand 'uq'"));
    assert!(refusal(x(NAME).args(["up", "--nodes", "many"])).contains("--nodes"));
    assert!(refusal(x(NAME).args(["up", "--nodes", "25"])).contains("24 is the most"));
    assert!(refusal(x("No_Name").arg("up")).contains("is not a valid cluster name"));
    assert!(refusal(x(NAME).args(["node", "stop", "node-a"])).contains("./x up"));
    assert!(refusal(x(NAME).args(["kubectl", "get", "nodes"])).contains("./x up"));
}

#[test]
fn binaries_that_are_not_there_are_named() {
    let empty = std::env::temp_dir();
    let text = refusal(x(NAME).arg("up").env("KUBEBUILDER_ASSETS", &empty));
    assert!(
        text.contains("KUBEBUILDER_ASSETS") && text.contains("kube-apiserver"),
        "{text}"
    );
}

#[test]
fn an_unreadable_kubeconfig_is_named() {
    for verb in ["test", "demo"] {
        let mut command = x(NAME);
        command
            .arg(verb)
            .env("STOWAGE_KUBECONFIG", "/does/not/exist");
        if verb == "test" {
            command.arg("--no-check");
        }
        let text = refusal(&mut command);
        assert!(
            text.contains("`/does/not/exist`") && text.contains("unset it"),
            "{text}"
        );
    }
}

#[test]
fn without_root_nothing_is_begun() {
    let x = x(NAME);
    // The program and its log must be reachable for the other user.
    let directory = std::env::temp_dir().join(format!("stowage-nobody-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let program = directory.join("xtask");
    fs::copy(x.get_program(), &program).unwrap();
    let own =
        |path: &std::path::Path| std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    own(&directory);
    own(&program);
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ])
        .arg(&program)
        .arg("up");
    let text = refusal(command.env("STOWAGE_CLUSTER", NAME).env("HOME", &directory));
    fs::remove_dir_all(&directory).unwrap();
    assert!(
        text.contains("needs root") && text.contains("sudo"),
        "{text}"
    );
}

#[test]
fn a_damaged_cache_is_noticed_and_named() {
    // A cache of its own, so that the real one stays whole: tools alone are enough to damage.
    let cache = tempfile::tempdir().unwrap();
    let real = devcluster::debian::tools_directory();
    let copy = cache.path().join("stowage").join(real.file_name().unwrap());
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(&real).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, copy.join(from.file_name().unwrap())).unwrap();
    }
    fs::write(copy.join("runc"), "damaged").unwrap();
    let kubernetes = devcluster::kubernetes::Kubernetes::already_there().unwrap();
    let mut command = x(NAME);
    command.arg("up").env("XDG_CACHE_HOME", cache.path());
    let text = refusal(command.env("KUBEBUILDER_ASSETS", kubernetes.directory()));
    assert!(
        text.contains("runc` is damaged") && text.contains("run again"),
        "{text}"
    );
}

#[test]
fn an_address_range_that_is_taken_is_not_used() {
    let link = "stow15";
    // Sits where the sixteenth cluster would: asked for by no test, so nobody else is disturbed.
    let ip = |arguments: &[&str]| {
        Command::new("ip")
            .args(arguments)
            .status()
            .unwrap()
            .success()
    };
    assert!(ip(&["link", "add", link, "type", "bridge"]));
    let picked = devcluster::network::Network::pick(&(0..15).collect::<Vec<u8>>());
    let taken = devcluster::network::Network::new(15).check_free();
    assert!(ip(&["link", "delete", link]));
    assert!(
        picked
            .unwrap_err()
            .to_string()
            .contains("./x down --cluster")
    );
    assert!(taken.unwrap_err().to_string().contains("`stow15`"));
    devcluster::network::Network::new(15).check_free().unwrap();
}
