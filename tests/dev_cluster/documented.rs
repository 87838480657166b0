//! The commands of our guides that need a cluster, taken from the pages and typed as their readers type them: install.md, upgrade.md,
//! operator.md, snapshots.md, weka.md and simulators.md. On a cluster of its own, because there is one operator in a cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::process::capture;
use devcluster::testing::TestCluster;
use devcluster::testing::documented::{Block, Fate, blocks};
use devcluster::weka_sim::SimulatedWeka;
use stowage_tests::{OwnCluster, eventually, said, until_available, until_no_volume_is_left, x};

const CLUSTER: &str = "test-docs";

/// As pages name it in what this test is to run.
const THIS_FILE: &str = "tests/dev_cluster/documented.rs";

/// Helm's words in those of `./x chart`, which does the same.
const HELM: &str = r#"#!/bin/sh
verb=$1; shift
[ "$verb" = install ] && verb=upgrade
for word; do shift; [ "$word" = --create-namespace ] || set -- "$@" "$word"; done
HOME=$OWN_HOME exec "$STOWAGE_X" chart "$verb" "$@"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn copy(from: &Path, to: &Path) {
    capture(Command::new("cp").arg("-aL").arg(from).arg(to)).unwrap();
}

/// A reader: a directory as a checkout is, tools, and what is still to be tried.
struct Reader<'a> {
    cluster: &'a TestCluster,
    directory: tempfile::TempDir,
    left: Vec<(String, Block)>,
}

impl<'a> Reader<'a> {
    fn of(cluster: &'a TestCluster) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for part in ["deploy", "examples", "charts"] {
            copy(&root().join(part), directory.path());
        }
        let (tools, home) = (directory.path().join("bin"), directory.path().join("home"));
        fs::create_dir(&tools).unwrap();
        fs::create_dir_all(home.join(".kube")).unwrap();
        fs::copy(cluster.kubeconfig(), home.join(".kube/config")).unwrap();
        symlink(cluster.kubectl_program(), tools.join("kubectl")).unwrap();
        let program = PathBuf::from(x(CLUSTER).get_program());
        symlink(program.with_file_name("stowage"), tools.join("stowage")).unwrap();
        fs::write(tools.join("helm"), HELM).unwrap();
        fs::set_permissions(tools.join("helm"), fs::Permissions::from_mode(0o755)).unwrap();
        let pages = fs::read_dir(root().join("docs/guides")).unwrap();
        let ours = Fate::RunBy(vec![THIS_FILE.to_owned()]);
        let mut left = Vec::new();
        for page in pages.map(|it| it.unwrap().path()) {
            let name = page.file_name().unwrap().to_string_lossy().into_owned();
            let found = blocks(&fs::read_to_string(&page).unwrap()).into_iter();
            let found = found.filter(|it| it.fate.as_ref() == Some(&ours));
            left.extend(found.map(|it| (name.clone(), it)));
        }
        Self {
            cluster,
            directory,
            left,
        }
    }

    /// Takes the blocks of one part of a page that are this test's.
    fn take(&mut self, page: &str, heading: &str) -> Vec<Block> {
        let is_there = |(of, block): &mut (String, Block)| of == page && block.heading == heading;
        let taken: Vec<_> = self.left.extract_if(.., is_there).map(|it| it.1).collect();
        assert!(
            !taken.is_empty(),
            "{page} has nothing to run under `{heading}`"
        );
        taken
    }

    /// Types what stands in one part of a page; returns what was said.
    fn types(&mut self, page: &str, heading: &str) -> String {
        let (files, commands): (Vec<_>, Vec<_>) = self
            .take(page, heading)
            .into_iter()
            .partition(|it| it.language != "sh");
        for file in files {
            // Its first line is a comment that names it.
            let name = file.text.lines().next().unwrap().trim_start_matches("# ");
            self.write(
                name,
                &file.text.replace("registry.example/", "stowage.dev/"),
            );
        }
        let commands: String = commands.into_iter().map(|it| it.text).collect();
        let tools = self.directory.path().join("bin");
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euxo", "pipefail", "-c"])
            .arg(commands.replace("NAMESPACE", "default"))
            .current_dir(self.directory.path())
            .env("PATH", path)
            .env("HOME", self.directory.path().join("home"))
            .env("OWN_HOME", std::env::var_os("HOME").unwrap_or_default())
            .env("STOWAGE_CLUSTER", CLUSTER)
            .env("STOWAGE_X", x(CLUSTER).get_program())
            .env_remove("STOWAGE_KUBECONFIG")
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{page}, {heading}: {}",
            said(&output)
        );
        said(&output)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.path().join(file)).unwrap()
    }

    fn instances(&self) -> String {
        let all = ["get", "csidriverdeployments", "-A", "-o", "name"];
        self.cluster.kubectl(&all).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.directory.path().join(file), text).unwrap();
    }
}

#[test]
fn commands_of_the_guides_do_what_they_say() {
    let own = OwnCluster::named(CLUSTER);
    own.run(&["up", "--nodes", "1"]);
    let cluster = TestCluster::named(CLUSTER).unwrap();
    let mut reader = Reader::of(&cluster);
    helm_installs_upgrades_and_goes_back(&mut reader);
    kubectl_does_so(&mut reader);
    a_simulated_array_serves_a_pod(&mut reader);
    the_operator_goes(&mut reader);
    let left = reader.left.iter();
    let left: Vec<_> = left
        .map(|(page, it)| format!("{page}:{}", it.line))
        .collect();
    assert!(left.is_empty(), "nobody runs {left:?}");
}

fn helm_installs_upgrades_and_goes_back(reader: &mut Reader) {
    let said = reader.types("install.md", "With Helm");
    assert!(said.contains("csi-operator   hostpath"), "{said}");
    until_available(reader.cluster, "csi-operator", "hostpath");
    reader.types("upgrade.md", "With Helm");
    reader.types("upgrade.md", "Going back");
    until_available(reader.cluster, "csi-operator", "hostpath");
    reader.types("install.md", "Uninstalling");
    assert_eq!(reader.instances(), "");
}

fn kubectl_does_so(reader: &mut Reader) {
    reader.types("install.md", "With kubectl");
    reader.types("snapshots.md", "Install, once per cluster");
    until_available(reader.cluster, "default", "hostpath");
    let said = reader.types(
        "operator.md",
        "The operator: a CSI driver from one resource",
    );
    assert!(said.contains("1 of 1 nodes ready."), "{said}");
    reader.types("operator.md", "Rights");
    let said = reader.types("operator.md", "What it keeps");
    assert!(
        // One release of kubectl says `annotate`.
        said.contains("daemonset.apps/hostpath-node annotat"),
        "{said}"
    );
    reader.types("upgrade.md", "With kubectl");
    until_available(reader.cluster, "default", "hostpath");
}

fn a_simulated_array_serves_a_pod(reader: &mut Reader) {
    // Its files go with the test.
    let array = SimulatedWeka::new(Some(reader.directory.path().join("weka")));
    reader.write("deploy/sim/weka.yaml", &array.manifest());
    reader.types("simulators.md", "In a cluster");
    array.wait(|| reader.cluster.command()).unwrap();
    until_available(reader.cluster, "csi-wekafs", "csi-wekafs");
    // What the patch has changed is in the sample now, or applying that again would take it back; the data of the cluster, too.
    let sample = reader.read("deploy/samples/weka.yaml");
    let sample = array.with_stand_ins(&sample, "").unwrap();
    reader.write("deploy/samples/weka.yaml", &sample);
    let secret = array.secret(
        || reader.cluster.command(),
        "csi-wekafs-api-secret",
        "csi-wekafs",
    );
    reader.write(
        "examples/dynamic_api/csi-wekafs-api-secret.yaml",
        &secret.unwrap(),
    );
    reader.types("weka.md", "Installing it");
    let read = ["exec", "my-csi-app-api", "--", "cat", "/data/temp.txt"];
    eventually("the pod writes to its volume", || {
        reader
            .cluster
            .kubectl(&read)
            .ok()
            .filter(|it| !it.is_empty())
    });
    let gone = ["delete", "pod/my-csi-app-api", "pvc/pvc-wekafs-dir-api"];
    reader.cluster.kubectl(&gone).unwrap();
    until_no_volume_is_left(reader.cluster);
}

fn the_operator_goes(reader: &mut Reader) {
    let said = reader.types("operator.md", "Keeping the drivers");
    assert!(said.contains("hostpath"), "{said}");
    // It comes back, and takes what it finds for its own.
    let operator = reader.directory.path().join("deploy/operator.yaml");
    let operator = operator.display().to_string();
    reader.cluster.kubectl(&["apply", "-f", &operator]).unwrap();
    eventually("the operator holds what it made", || {
        let held = ["get", "csidriverdeployments", "-A", "-o"];
        let held = [&held[..], &["jsonpath={.items[*].metadata.finalizers}"]].concat();
        let held = reader.cluster.kubectl(&held).ok()?;
        (held.split(' ').filter(|it| !it.is_empty()).count() == 2).then_some(())
    });
    reader.types("operator.md", "Removing the operator");
    let left = reader
        .cluster
        .kubectl(&["get", "csidrivers,daemonsets", "-A", "-o", "name"])
        .unwrap();
    assert!(
        !left.contains("hostpath") && !left.contains("wekafs-node"),
        "{left}"
    );
}
