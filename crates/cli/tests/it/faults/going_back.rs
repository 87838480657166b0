//! Somebody goes back to the Go sidecars: what our process leaves behind is theirs to go on with.
//!
//! Their provisioner knows claims, objects and the driver, and no journal: whatever has no object is lost to it.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, VolumeCapability,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::faults::account::{Picture, Wrong, lost_volumes};
use crate::faults::cluster::{Cluster, create, delete};
use crate::faults::plan::{LONGEST_WAIT, Moment, Round, Size, rounds};
use crate::faults::replica::Role;
use crate::faults::scenario::{Cast, half_done, no_intents, tear_down};
use crate::faults::scene::{Fault, Scene};
use crate::faults::shared;
use crate::faults::size::Scale;

const GIB: i64 = 1 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn another_provisioner_takes_over_and_loses_nothing() {
    let scale = Scale::get();
    let name = "going-back";
    println!("{name}: seed {}", scale.seed);
    let setting = scale.scenario(name).setting;
    let mut scene = Scene::set(shared().await, setting).await;
    let size = Size {
        // Nobody would detach.
        attach: false,
        ..scale.size(4, 2)
    };
    let rounds = rounds(size, &mut scene.random);
    let mut cast = Cast::new(&scene);

    // First an ordinary end, in the middle of work.
    interrupt(&mut scene, &mut cast, &rounds[0]).await;
    scene.sidecar().terminate();
    cast.tell_of_fault();
    ends_with_nothing_half_made(&mut scene, "SIGTERM").await;

    // Then a kill, and the command that cleans up after it.
    interrupt(&mut scene, &mut cast, &rounds[1]).await;
    scene.strike(Fault::Killed(Role::Sidecar)).await;
    cast.tell_of_fault();
    let half_made = half_done(&scene).await.half_made;
    scene.sidecar().start(&["--resolve-intents-and-exit"]);
    ends_with_nothing_half_made(&mut scene, "--resolve-intents-and-exit").await;

    let upstream = Upstream::start(&scene);
    let expected = cast.finish(&mut scene).await;
    scene.settle(&expected).await;
    tear_down(&mut scene).await;
    upstream.0.abort();
    println!(
        "{name}: over: {} claims, volumes half made {half_made} times: nothing lost, nothing left",
        size.claims
    );
    scene.clear();
}

/// Starts the sidecar and new claims, and waits until it is in the middle of them.
async fn interrupt(scene: &mut Scene<'_>, cast: &mut Cast, round: &Round) {
    let create = "CreateVolume";
    let begun = scene.calls(create);
    cast.enter(round);
    scene.sidecar().start(&[]);
    let moment = Moment::InCall(create, LONGEST_WAIT);
    scene.wait_for(moment, begun).await;
}

/// The sidecar ends well; there is no volume that the next one would not know of.
async fn ends_with_nothing_half_made(scene: &mut Scene<'_>, how: &str) {
    let status = scene.sidecar().ended().await;
    let seen = scene.cluster.look().await.unwrap();
    let mut wrong = lost_volumes(&seen, &scene.storage());
    if !status.success() {
        wrong.push(Wrong {
            what: format!("after {how} the sidecar ended with {status}"),
            traces: vec!["ERROR".to_owned()],
        });
    }
    if !wrong.is_empty() {
        scene.fail(&wrong);
    }
    no_intents(scene).await;
}

/// Provisions and deletes the way the Go provisioner does, as far as these claims need it.
struct Upstream(JoinHandle<()>);

impl Upstream {
    fn start(scene: &Scene) -> Self {
        let options = ClientOptions {
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            metrics: ClientMetrics::default(),
        };
        let connection = Connection::new(&scene.endpoint(), options);
        let (cluster, driver) = (scene.cluster.clone(), ControllerClient::new(connection));
        Self(tokio::spawn(async move {
            loop {
                if let Ok(seen) = cluster.look().await {
                    provision(&cluster, driver.clone(), &seen).await;
                    reclaim(&cluster, driver.clone(), &seen).await;
                }
                sleep(Duration::from_millis(200)).await;
            }
        }))
    }
}

async fn provision(cluster: &Cluster, mut driver: ControllerClient<Connection>, seen: &Picture) {
    for (name, claim) in &seen.claims {
        let volume = format!("pvc-{}", claim.uid);
        if claim.bound_to.is_some() || claim.deleting || seen.volumes.contains_key(&volume) {
            continue;
        }
        let mode = AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        };
        let request = CreateVolumeRequest {
            name: volume.clone(),
            capacity_range: Some(CapacityRange {
                required_bytes: GIB,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(mode),
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }],
            ..CreateVolumeRequest::default()
        };
        let Ok(answer) = driver.create_volume(request).await else {
            continue;
        };
        let handle = answer.into_inner().volume.unwrap().volume_id;
        let object = json!({
            "metadata": {
                "name": volume,
                "annotations": {"pv.kubernetes.io/provisioned-by": cluster.driver},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "name": name,
                    "namespace": cluster.name,
                    "uid": claim.uid,
                },
                "csi": {"driver": cluster.driver, "volumeHandle": handle},
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": cluster.name,
            },
        });
        create(&cluster.volumes(), object).await;
    }
}

async fn reclaim(cluster: &Cluster, mut driver: ControllerClient<Connection>, seen: &Picture) {
    let released = seen
        .volumes
        .iter()
        .filter(|(_, volume)| volume.phase == "Released");
    for (name, volume) in released {
        let request = DeleteVolumeRequest {
            volume_id: volume.handle.clone(),
            secrets: BTreeMap::new(),
        };
        if driver.delete_volume(request).await.is_err() {
            continue;
        }
        delete(&cluster.volumes(), name).await;
        // The one that is set by ours and by theirs; nobody else guards these.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // It may be gone without.
        _ = cluster
            .volumes()
            .patch(name, &PatchParams::default(), &patch)
            .await;
    }
}
