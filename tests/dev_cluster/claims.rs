//! Claims bound to volumes that a test makes on a driver, and the pods that use them.

use devcluster::testing::Namespace;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode,
};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, ListVolumesRequest, VolumeCapability,
};
use stowage_tests::{eventually, get};

use super::driver_on_node::DriverOnNode;

/// Where all of it happens.
pub const NODE: &str = "node-a";
pub const MIB: i64 = 1 << 20;

/// Makes a volume on the driver, and a claim that is bound to it.
pub fn claim(
    driver: &DriverOnNode,
    namespace: &Namespace,
    name: &str,
    size: i64,
    block: bool,
) -> String {
    let access = if block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume::default())
    };
    let request = CreateVolumeRequest {
        name: format!("{}-{name}", namespace.name()),
        capacity_range: Some(CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![VolumeCapability {
            access_type: Some(access),
            access_mode: Some(AccessMode {
                mode: access_mode::Mode::SingleNodeWriter.into(),
            }),
        }],
        ..CreateVolumeRequest::default()
    };
    let volume = driver.controller(async |mut controller| controller.create_volume(request).await);
    let volume = volume.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.capacity_bytes, size);
    let (pv, mode) = (
        format!("{}-{name}", namespace.name()),
        if block { "Block" } else { "Filesystem" },
    );
    let manifest = format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {pv}}}
spec:
  capacity: {{storage: "{size}"}}
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  csi: {{driver: {}, volumeHandle: "{}"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: {}}}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  storageClassName: ""
  volumeName: {pv}
  resources: {{requests: {{storage: "{size}"}}}}
"#,
        driver.name,
        volume.volume_id,
        namespace.name()
    );
    namespace.apply(&manifest).unwrap();
    eventually(&format!("claim {name} is bound"), || {
        get(namespace, "pvc", name).filter(|claim| claim["status"]["phase"] == "Bound")
    });
    volume.volume_id
}

/// Deletes the claim and its volume, which must then be gone from the driver.
pub fn remove(driver: &DriverOnNode, namespace: &Namespace, name: &str, volume_id: &str) {
    namespace.kubectl(&["delete", "pvc", name]).unwrap();
    let pv = format!("{}-{name}", namespace.name());
    namespace.kubectl(&["delete", "pv", &pv]).unwrap();
    // The kubelet may still be taking the last mount away.
    eventually("the volume can be deleted", || {
        let request = DeleteVolumeRequest {
            volume_id: volume_id.to_owned(),
            ..DeleteVolumeRequest::default()
        };
        driver
            .controller(async |mut controller| controller.delete_volume(request).await)
            .ok()
    });
    let list = ListVolumesRequest::default();
    let left = driver.controller(async |mut controller| controller.list_volumes(list).await);
    let mut volumes = left
        .unwrap()
        .into_inner()
        .entries
        .into_iter()
        .filter_map(|entry| entry.volume);
    assert!(!volumes.any(|volume| volume.volume_id == volume_id));
}

/// A claim for which the driver's sidecar is to make a volume.
pub fn ask(namespace: &Namespace, name: &str, class: &str, size: i64, block: bool) {
    let mode = if block { "Block" } else { "Filesystem" };
    let manifest = format!(
        r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  storageClassName: {class}
  resources: {{requests: {{storage: "{size}"}}}}
"#
    );
    namespace.apply(&manifest).unwrap();
}

/// A pod with one volume `data`.
pub struct Pod<'a> {
    pub name: &'a str,
    /// Source of the volume.
    pub volume: String,
    /// How the container sees it.
    pub mount: &'a str,
    /// The pod's securityContext.
    pub security: &'a str,
    pub script: &'a str,
    /// Where it runs.
    pub place: String,
}

const MOUNTED: &str = "volumeMounts: [{name: data, mountPath: /data}]";

impl<'a> Pod<'a> {
    pub fn new(name: &'a str, claim: &str, script: &'a str) -> Self {
        Self {
            name,
            volume: format!("persistentVolumeClaim: {{claimName: {claim}}}"),
            mount: MOUNTED,
            security: "{}",
            script,
            place: format!("nodeName: {NODE}"),
        }
    }

    /// Lets the scheduler put it on `node`: volumes that wait for their first pod need the scheduler.
    pub fn scheduled_to(mut self, node: &str) -> Self {
        self.place = format!("nodeSelector: {{kubernetes.io/hostname: {node}}}");
        self
    }

    /// Sees the volume as `/dev/data`.
    pub fn with_device(name: &'a str, claim: &str, script: &'a str) -> Self {
        Self {
            mount: "volumeDevices: [{name: data, devicePath: /dev/data}]",
            ..Self::new(name, claim, script)
        }
    }

    pub fn start(&self, namespace: &Namespace) {
        let Self {
            name,
            volume,
            mount,
            security,
            script,
            place,
        } = self;
        let manifest = format!(
            r"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {place}
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  securityContext: {security}
  volumes: [{{name: data, {volume}}}]
  containers:
    - name: main
      image: busybox
      command: [sh, -c, {script:?}]
      {mount}
"
        );
        namespace.apply(&manifest).unwrap();
    }

    /// Runs it to its end; returns what it printed.
    pub fn run(&self, namespace: &Namespace) -> String {
        self.start(namespace);
        eventually(&format!("pod {} ends", self.name), || {
            let phase = get(namespace, "pod", self.name)?["status"]["phase"]
                .as_str()?
                .to_owned();
            (phase == "Succeeded" || phase == "Failed").then_some(())
        });
        let log = namespace.kubectl(&["logs", self.name]).unwrap();
        namespace.kubectl(&["delete", "pod", self.name]).unwrap();
        log
    }
}
