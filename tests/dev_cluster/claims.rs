//! Claims bound to volumes that a test makes on a driver.

use devcluster::testing::Namespace;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode,
};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, ListVolumesRequest, VolumeCapability,
};
pub use stowage_tests::claims::{MIB, Pod, ask};
use stowage_tests::{eventually, get};

use super::driver_on_node::DriverOnNode;

/// Where all of it happens.
pub const NODE: &str = "node-a";

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
