//! The rules of the manifests that people apply are enough for everything, and what is measured meanwhile.

use devcluster::testing::ApiServer;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use stowage_api::snapshot::names::CONTROLLER_LEASE;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, eventually};

use crate::groups::{group, members, ready};
use crate::scene::{Scene, controller};

const CONTROLLER: &str = include_str!("../../../../deploy/snapshot-controller.yaml");
const DRIVER: &str =
    include_str!("../../../../deploy/without-operator/hostpath-one-controller.yaml");

/// What upstream's csi-snapshotter and external-provisioner are given, unchanged.
const UPSTREAM: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: upstream}
rules:
  - {apiGroups: [''], resources: [events], verbs: [list, watch, create, update, patch]}
  - {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotclasses], verbs: [get, list, watch]}
  - {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents], verbs: [get, list, watch, update, patch]}
  - {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents/status], verbs: [update, patch]}
  - {apiGroups: [groupsnapshot.storage.k8s.io], resources: [volumegroupsnapshotclasses], verbs: [get, list, watch]}
  - {apiGroups: [groupsnapshot.storage.k8s.io], resources: [volumegroupsnapshotcontents], verbs: [get, list, watch, update, patch]}
  - {apiGroups: [groupsnapshot.storage.k8s.io], resources: [volumegroupsnapshotcontents/status], verbs: [update, patch]}
  - {apiGroups: [''], resources: [persistentvolumes], verbs: [get, list, watch, create, patch, delete]}
  - {apiGroups: [''], resources: [persistentvolumeclaims], verbs: [get, list, watch, update]}
  - {apiGroups: [storage.k8s.io], resources: [storageclasses, csinodes, volumeattachments], verbs: [get, list, watch]}
  - {apiGroups: [''], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: upstream}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: upstream}
subjects: [{kind: User, name: upstream}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: upstream}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, watch, list, delete, update, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: upstream}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: upstream}
subjects: [{kind: User, name: upstream}]
";

/// Applies the accounts and rules of a manifest in a namespace.
fn apply_rules(server: &ApiServer, manifest: &str, namespace: &str) {
    let rules: Vec<_> = manifest
        .split("\n---\n")
        .filter(|document| {
            let kinds = ["kind: ServiceAccount\n", "Role\n", "RoleBinding\n"];
            kinds.iter().any(|kind| document.contains(kind))
        })
        .collect();
    assert!(rules.len() >= 4, "a manifest without rules");
    let rules = rules.join("\n---\n");
    let apply = ["apply", "--namespace", namespace, "-f", "-"];
    server.kubectl_with_input(&apply, &rules).unwrap();
}

fn kubeconfig(rig: &Rig, user: &str) -> String {
    let file = rig.server.kubeconfig_of(user).unwrap();
    // A colon would end the path: several files may be named.
    let plain = file.with_file_name(user.replace(':', "-"));
    std::fs::copy(&file, &plain).unwrap();
    format!("--kubeconfig={}", plain.display())
}

/// Waits until the rules are in force: the controller ends at once if it may not list leases.
async fn in_force(server: &'static ApiServer, account: &str) {
    let account = format!("--as={account}");
    eventually("the rules are in force", async || {
        let account = account.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let lists = ["auth", "can-i", "list", "leases", "-A", &account];
            let writes = [
                "auth",
                "can-i",
                "create",
                "leases",
                "-n",
                "kube-system",
                &account,
            ];
            server.kubectl(&lists).is_ok() && server.kubectl(&writes).is_ok()
        });
        asked.await.unwrap().then_some(())
    })
    .await;
}

/// Takes, reads and deletes a snapshot and a group.
async fn whole_life(scene: &Scene) {
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    rig.group_snapshot_class().await;
    scene.claim("data", json!({"app": "shop"})).await;
    scene.claim("logs", json!({"app": "shop"})).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.ready("monday").await;
    rig.event("monday", "SnapshotReady", "").await;
    scene.delete("monday").await;
    scene.gone("monday").await;
    group(scene, "nightly").await;
    ready(scene, "nightly").await;
    members(scene).await;
    let groups = scene.groups();
    let deleted = groups.delete("nightly", &DeleteParams::default()).await;
    deleted.unwrap();
    scene.group_is_gone("nightly").await;
    scene.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_rules_are_enough_for_a_whole_life() {
    let mut scene = Scene::quiet().await;
    let rig = &scene.rig;
    apply_rules(rig.server, CONTROLLER, "kube-system");
    let own = format!("namespace: {}", rig.namespace);
    let driver = DRIVER.replace("namespace: storage", &own);
    apply_rules(rig.server, &driver, &rig.namespace);
    let account = "system:serviceaccount:kube-system:snapshot-controller";
    let own_lease = "--leader-election-namespace=kube-system";
    let flags = ["--leader-election", "--enable-distributed-snapshotting"];
    in_force(rig.server, account).await;
    let user = kubeconfig(rig, account);
    let flags = [flags[0], flags[1], own_lease, &user];
    let started = controller(rig, &flags);
    let account = format!("system:serviceaccount:{}:hostpath", rig.namespace);
    let sidecar = rig.sidecar(run, &["--leader-election", &kubeconfig(rig, &account)]);
    (scene.controller, scene.sidecar) = (Some(started), Some(sidecar));
    whole_life(&scene).await;

    let metrics = &scene.controller.as_ref().unwrap().metrics;
    for operation in ["CreateSnapshot", "CreateSnapshotAndReady", "DeleteSnapshot"] {
        let line = format!(
            "snapshot_controller_operation_total_seconds_count{{driver_name=\"{}\",operation_name=\"{operation}\",\
             snapshot_type=\"dynamic\",operation_status=\"success\"}}",
            scene.rig.name
        );
        // The controller learns that the last ones are gone after this test did.
        eventually(&line, async || {
            metrics.encode().unwrap().contains(&line).then_some(())
        })
        .await;
    }
    // Snapshots that other tests left behind are in flight as well.
    let text = metrics.encode().unwrap();
    assert!(
        text.contains("\nsnapshot_controller_operations_in_flight "),
        "{text}"
    );
    let leases = Api::<Lease>::namespaced(scene.rig.client.clone(), "kube-system");
    scene.end().await;
    // Others look there.
    leases
        .delete(CONTROLLER_LEASE, &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_rules_are_enough_for_the_sidecar() {
    let mut scene = Scene::quiet().await;
    apply_rules(scene.rig.server, UPSTREAM, &scene.rig.namespace);
    scene.controller = Some(controller(&scene.rig, &[]));
    let user = kubeconfig(&scene.rig, "upstream");
    scene.sidecar = Some(scene.rig.sidecar(run, &["--leader-election", &user]));
    whole_life(&scene).await;
    scene.end().await;
}
