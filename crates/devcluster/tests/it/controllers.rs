use devcluster::testing::ControlPlane;

use crate::eventually;

/// A volume that somebody made, and a claim for it.
fn volume_and_claim(name: &str, driver: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  claimRef: {{namespace: default, name: {name}}}
  csi: {{driver: {driver}, volumeHandle: {name}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  resources: {{requests: {{storage: 1Gi}}}}
"#
    )
}

fn pod(name: &str, claim: &str, node: &str) -> String {
    format!(
        r"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {node}
  containers: [{{name: main, image: none}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]
"
    )
}

fn apply(plane: &ControlPlane, manifest: &str) {
    let applied = plane.kubectl_with_input(&["apply", "-f", "-"], manifest);
    applied.expect("a good manifest");
}

/// A field that is there in the end.
fn field(plane: &ControlPlane, kind: &str, name: &str, path: &str) -> String {
    eventually(&format!("{path} of {kind} {name}"), || {
        let path = format!("jsonpath={path}");
        let seen = plane.kubectl(&["get", kind, name, "-o", &path]).ok();
        seen.filter(|text| !text.is_empty())
    })
}

#[test]
fn claims_are_bound_and_volumes_attached_at_nodes_that_are_only_objects() {
    let plane = &ControlPlane::start_with_scheduler().unwrap();
    let driver = "attached.csi.test";
    plane.add_node("attached-1", driver, &[]).unwrap();
    apply(plane, &volume_and_claim("attached", driver));
    eventually("a bound claim", || {
        let phase = field(plane, "pvc", "attached", "{.status.phase}");
        (phase == "Bound").then_some(())
    });
    let protected = field(plane, "pv", "attached", "{.metadata.finalizers[0]}");
    assert_eq!(protected, "kubernetes.io/pv-protection");

    apply(plane, &pod("attached", "attached", "nodeName: attached-1"));
    let wanted = eventually("a VolumeAttachment", || {
        let path = "jsonpath={range .items[*]}{.spec.attacher} {.spec.nodeName} \
                    {.spec.source.persistentVolumeName}{\"\\n\"}{end}";
        let all = plane.kubectl(&["get", "volumeattachments", "-o", path]);
        all.ok()?
            .lines()
            .find(|line| line.starts_with(driver))
            .map(str::to_owned)
    });
    assert_eq!(wanted, "attached.csi.test attached-1 attached");
}

#[test]
fn a_claim_that_waits_for_its_pod_gets_a_node() {
    let plane = &ControlPlane::start_with_scheduler().unwrap();
    let driver = "waiting.csi.test";
    let labels = [("waiting.csi.test/zone", "a")];
    plane.add_node("waiting-1", driver, &labels).unwrap();
    apply(
        plane,
        r"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waiting}
provisioner: waiting.csi.test
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
- matchLabelExpressions: [{key: waiting.csi.test/zone, values: [a]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: waiting}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: waiting
  resources: {requests: {storage: 1Gi}}
",
    );
    apply(plane, &pod("waiting", "waiting", ""));
    let path = r"{.metadata.annotations.volume\.kubernetes\.io/selected-node}";
    assert_eq!(field(plane, "pvc", "waiting", path), "waiting-1");
    let path = r"{.metadata.annotations.volume\.beta\.kubernetes\.io/storage-provisioner}";
    assert_eq!(field(plane, "pvc", "waiting", path), driver);
    let keys = "{.spec.drivers[0].topologyKeys[0]}";
    assert_eq!(field(plane, "csinode", "waiting-1", keys), labels[0].0);
}

#[test]
fn controllers_come_back_after_an_outage() {
    let plane = ControlPlane::start().unwrap();
    plane.stop().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    plane.start_again().unwrap();
    apply(&plane, &volume_and_claim("late", "late.csi.test"));
    let phase = || field(&plane, "pvc", "late", "{.status.phase}");
    eventually("a bound claim", || (phase() == "Bound").then_some(()));

    plane.stop_controllers().unwrap();
    apply(&plane, &volume_and_claim("later", "late.csi.test"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let phase = || field(&plane, "pvc", "later", "{.status.phase}");
    assert_eq!(phase(), "Pending");
    plane.start_controllers().unwrap();
    eventually("a bound claim", || (phase() == "Bound").then_some(()));
}
