//! A Helm release of WEKA's chart becomes one of ours by the commands of weka.md, while a pod writes to a volume of WEKA's plugin, and
//! goes back by those that are there for it. On a cluster of its own, because the chart brings the operator along.

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::copies::claim;
use stowage_tests::{eventually, get, pod_in_phase, said, text, until_volume_is_gone};

use super::weka_chart_release::{NAME, PROVISIONER, Site, cluster};
use super::weka_volumes::class;

/// One number after the other: it ends when one cannot be written.
const WRITE: &str = "i=0; while i=$((i+1)); echo $i >> /data/log; do usleep 50000; done; exit 1";

impl Site {
    /// The uids of what is there under the names of WEKA's objects.
    fn uids(&self) -> Vec<String> {
        let each = "jsonpath={range .items[*]}{.metadata.uid}{\"\\n\"}{end}";
        let words = ["get", "-f", "-", "--ignore-not-found", "-o", each];
        let uids = cluster().kubectl_with_input(&words, &self.plugin);
        uids.unwrap().lines().map(ToOwned::to_owned).collect()
    }

    fn assert_ours(&self, theirs: &[String]) {
        self.driver.wait();
        let left: Vec<_> = self.uids();
        assert!(!left.iter().any(|uid| theirs.contains(uid)), "{left:?}");
        for right in ["clusterrole", "clusterrolebinding", "role", "rolebinding"] {
            for name in ["csi-wekafs-controller", "csi-wekafs-node"] {
                let found = self.driver.try_kubectl(&["get", right, name]);
                assert!(found.is_err(), "{right} {name} is still there");
            }
        }
        eventually("no pod of the plugin is left", || {
            let path = "jsonpath={.items[*].spec.containers[*].name}";
            let names = self.driver.kubectl(&["get", "pods", "-o", path]);
            let is_ours = names
                .split(' ')
                .all(|it| ["wekafs", "csi-sidecar", "csi-operator", "operator"].contains(&it));
            is_ours.then_some(())
        });
        let object = driver_object();
        assert!(
            object["metadata"]["labels"]["stowage.dev/owner-uid"].is_string(),
            "{object:#}"
        );
        assert_eq!(object["spec"]["attachRequired"], true);
    }

    /// Helm does not know what the operator has made under the names of WEKA's objects, and changes nothing.
    fn assert_no_rollback_beside_the_instance(&self) {
        let before = self.uids();
        let back = ["chart", "rollback", NAME, "1", "--namespace", NAME];
        let refused = self.own.try_run(&back);
        assert!(!refused.status.success());
        let why = said(&refused);
        let words = "no ServiceAccount with the name \"csi-wekafs-node\" found";
        assert!(why.contains(words), "{why}");
        assert_eq!(self.uids(), before);
    }

    fn assert_theirs(&self) {
        self.until_plugin_runs();
        let object = driver_object();
        let metadata = &object["metadata"];
        assert_eq!(
            metadata["annotations"]["meta.helm.sh/release-name"], NAME,
            "{object:#}"
        );
        assert!(
            metadata["labels"]["stowage.dev/owner-uid"].is_null(),
            "{object:#}"
        );
        let kinds = "deployment,daemonset,serviceaccount,rolebinding,clusterrole,clusterrolebinding,csidriverdeployment";
        let left = cluster()
            .kubectl(&["get", kinds, "-A", "-o", "name"])
            .unwrap();
        let ours = ["csi-operator", "node-labels", "csidriverdeployment"];
        let ours: Vec<_> = left
            .lines()
            .filter(|line| ours.iter().any(|it| line.contains(it)))
            .collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
}

fn driver_object() -> Value {
    let object = cluster().kubectl(&["get", "csidriver", PROVISIONER, "-o", "json"]);
    serde_json::from_str(&object.unwrap()).unwrap()
}

/// A pod with the volume of a claim.
fn start_pod(pods: &Namespace, claim: &str, script: &str) {
    let manifest = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {claim}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]
  containers:
  - name: main
    image: busybox
    imagePullPolicy: IfNotPresent
    command: [sh, -c, {script:?}]
    volumeMounts: [{{name: data, mountPath: /data}}]
"
    );
    pods.apply(&manifest).unwrap();
}

/// The writer has written since this was last asked, each number once, and is the pod that was started first.
fn assert_writes(pods: &Namespace, since: &mut u64) {
    let look = [
        "exec",
        "old",
        "--",
        "sh",
        "-c",
        "tail -n 1 /data/log; wc -l < /data/log",
    ];
    let (last, lines) = eventually("the pod writes", || {
        let said = pods.kubectl(&look).ok()?;
        let mut numbers = said.lines().map_while(|it| it.trim().parse::<u64>().ok());
        let numbers = (numbers.next()?, numbers.next()?);
        (numbers.0 > *since).then_some(numbers)
    });
    // One may be on its way while this is read.
    assert!(
        (last..=last + 2).contains(&lines),
        "{lines} lines up to {last}"
    );
    let pod = get(pods, "pod", "old").unwrap();
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    *since = last;
}

/// Makes a volume that a pod can use.
fn assert_provisions(pods: &Namespace, class: &str, name: &str) {
    claim(pods, name, class, "16Mi", None);
    start_pod(pods, name, "echo data > /data/file && cat /data/file");
    pod_in_phase(pods, name, "Succeeded");
}

fn volume(pods: &Namespace, claim: &str) -> String {
    eventually(&format!("claim {claim} is bound"), || {
        let claim = get(pods, "pvc", claim)?;
        let volume = text(&claim["spec"]["volumeName"]);
        (claim["status"]["phase"] == "Bound").then(|| volume.to_owned())
    })
}

/// Volumes of WEKA's plugin grow and are deleted.
fn assert_manages_old_volumes(pods: &Namespace) {
    let size = r#"{"spec": {"resources": {"requests": {"storage": "48Mi"}}}}"#;
    pods.kubectl(&["patch", "pvc", "old", "-p", size]).unwrap();
    let unused = volume(pods, "unused");
    pods.kubectl(&["delete", "pvc", "unused"]).unwrap();
    eventually("the claim has grown", || {
        let claim = get(pods, "pvc", "old")?;
        (claim["status"]["capacity"]["storage"] == "48Mi").then_some(())
    });
    until_volume_is_gone(cluster(), &unused);
}

#[test]
fn a_release_of_wekas_chart_is_upgraded_in_place_while_a_pod_writes_and_is_rolled_back() {
    let site = Site::start();
    let pods = cluster().namespace("weka-chart").unwrap();
    let class = class(&pods, &site.driver, "api", "default", Some(["secret"; 3]));
    for name in ["old", "unused"] {
        claim(&pods, name, &class, "32Mi", None);
    }
    start_pod(&pods, "old", WRITE);
    pod_in_phase(&pods, "old", "Running");
    let volumes = ["old", "unused"].map(|name| volume(&pods, name));
    let mut written = 0;
    assert_writes(&pods, &mut written);
    let theirs = site.uids();
    assert_eq!(theirs.len(), 11, "{theirs:?}");

    site.type_block(1);
    site.assert_ours(&theirs);
    assert_writes(&pods, &mut written);
    assert_eq!(["old", "unused"].map(|name| volume(&pods, name)), volumes);
    assert_provisions(&pods, &class, "new");
    assert_manages_old_volumes(&pods);

    site.assert_no_rollback_beside_the_instance();
    assert_writes(&pods, &mut written);
    site.type_block(2);
    site.assert_theirs();
    assert_writes(&pods, &mut written);
    assert_provisions(&pods, &class, "back");
    // What was made meanwhile is the plugin's, too.
    pods.kubectl(&["delete", "pod", "new"]).unwrap();
    let made = volume(&pods, "new");
    pods.kubectl(&["delete", "pvc", "new"]).unwrap();
    until_volume_is_gone(cluster(), &made);
}
