//! Another snapshot controller in the same cluster.

use std::error::Error;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use stowage_api::snapshot::names::CONTROLLER_LEASE;
use stowage_sidecar::controller::run;
use stowage_snapshot_controller::ControllerError;
use stowage_snapshot_controller::rival::Rival;
use stowage_stage::{create, eventually};

use crate::scene::{Scene, controller};

async fn lease(scene: &Scene, namespace: &str, renewed: Timestamp) -> Api<Lease> {
    let leases = Api::namespaced(scene.rig.client.clone(), namespace);
    let object = json!({
        "metadata": {"name": CONTROLLER_LEASE},
        "spec": {
            "holderIdentity": "snapshot-controller-0",
            "leaseDurationSeconds": 15,
            "renewTime": MicroTime(renewed),
        },
    });
    create::<Lease>(&leases, object).await;
    leases
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_does_not_start_beside_another() {
    let scene = Scene::quiet().await;
    for (namespace, flags) in [
        ("kube-system", ["--leader-election"].as_slice()),
        ("kube-system", &[]),
        (scene.rig.namespace.as_str(), &["--leader-election"]),
    ] {
        eventually("the namespace is there", async || {
            let namespaces =
                Api::<k8s_openapi::api::core::v1::Namespace>::all(scene.rig.client.clone());
            namespaces.get_opt(namespace).await.unwrap()
        })
        .await;
        let leases = lease(&scene, namespace, Timestamp::now()).await;
        let ended = controller(&scene.rig, flags).ended().await;
        let error = ended.unwrap_err();
        let Some(Rival::AtWork {
            holder,
            namespace: found,
        }) = rival(&*error)
        else {
            panic!("{error}");
        };
        assert_eq!(
            (holder.as_str(), found.as_str()),
            ("snapshot-controller-0", namespace)
        );
        leases
            .delete(CONTROLLER_LEASE, &DeleteParams::default())
            .await
            .unwrap();
    }
    scene.end().await;
}

fn rival<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a Rival> {
    match error.downcast_ref() {
        Some(ControllerError::Rival(rival)) => Some(rival),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_renews_and_replicas_of_our_own_are_no_rivals() {
    let mut scene = Scene::quiet().await;
    let old = Timestamp::now() - std::time::Duration::from_secs(600);
    let leases = lease(&scene, "kube-public", old).await;
    let first = controller(&scene.rig, &["--leader-election"]);
    let own = Api::<Lease>::namespaced(scene.rig.client.clone(), &scene.rig.namespace);
    eventually("the first holds the lease", async || {
        own.get_opt(CONTROLLER_LEASE).await.unwrap()
    })
    .await;
    // The second waits, and takes over when the first ends.
    scene.controller = Some(controller(&scene.rig, &["--leader-election"]));
    scene.sidecar = Some(scene.rig.sidecar(run, &[]));
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", serde_json::Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.ready("monday").await;
    first.stop().await.unwrap();
    scene.snapshot("tuesday", "data", json!({})).await;
    scene.ready("tuesday").await;
    leases
        .delete(CONTROLLER_LEASE, &DeleteParams::default())
        .await
        .unwrap();
    scene.end().await;
}
