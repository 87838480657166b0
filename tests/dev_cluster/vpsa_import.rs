//! A share and its snapshot that somebody made at the array's console, before the cluster knew of the array.

use std::fs;

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::ARRAYS;
use stowage_tests::copies::{self, of_snapshot, ready};
use stowage_tests::{eventually, get, text};

use super::claims::Pod;
use super::vpsa_arrays::{NODES, Vpsas};

/// The record of the share: array and name, in letters that objects may have.
const RECORD: &str = "vpsa-1-made-before";

/// What is on the array already.
pub struct MadeBefore {
    snapshot: String,
}

/// Makes a share with a file in it, and a snapshot of that.
pub fn make(vpsas: &Vpsas) -> MadeBefore {
    let array = ARRAYS[0];
    let share = [
        ("name", "Made_Before"),
        ("capacity", "1"),
        ("pool", "pool-00010001"),
        ("block", "NO"),
    ];
    let made = vpsas.rest(array, "create", "volumes", &share);
    let volume = text(&made["vol_name"]);
    fs::write(vpsas.files(array, volume).join("file"), "from before\n").unwrap();
    let group = volume.replace("volume-", "cg-");
    let path = format!("consistency_groups/{group}/snapshots");
    let taken = vpsas.rest(array, "create", &path, &[("display_name", "nightly")]);
    MadeBefore {
        snapshot: text(&taken["snapshot_name"]).to_owned(),
    }
}

impl MadeBefore {
    /// A claim for the share, and a snapshot for the snapshot, as people write them by hand.
    fn objects(&self, namespace: &Namespace) -> String {
        let (snapshot, namespace) = (&self.snapshot, namespace.name());
        format!(
            "
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {namespace}-before
  # Kubernetes before 1.30 lets no driver delete a volume without it.
  annotations: {{pv.kubernetes.io/provisioned-by: csi.zadara.com}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Delete
  storageClassName: vpsa-gold
  csi: {{driver: csi.zadara.com, volumeHandle: {RECORD}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: before}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: vpsa-gold
  volumeName: {namespace}-before
  resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {{name: {namespace}-before}}
spec:
  deletionPolicy: Delete
  driver: csi.zadara.com
  source: {{snapshotHandle: vpsa-1-{snapshot}}}
  volumeSnapshotRef: {{name: before, namespace: {namespace}}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{name: before}}
spec:
  source: {{volumeSnapshotContentName: {namespace}-before}}
"
        )
    }

    /// What was there is used, restored from, and deleted as ours; but for the snapshot, which is left to whoever took it.
    pub fn is_used(&self, vpsas: &Vpsas, namespace: &Namespace) {
        eventually("the share has a record", || {
            let records = vpsas.names("externalvolume");
            records.iter().any(|it| it.ends_with(RECORD)).then_some(())
        });
        namespace.apply(&self.objects(namespace)).unwrap();
        let script = "cat /data/file; echo ours > /data/file";
        let found = Pod::new("before", "before", script);
        assert_eq!(found.scheduled_to(NODES[0]).run(namespace), "from before\n");
        let ours = vpsas.in_state("volume", RECORD, "Ready");
        assert_eq!(ours["spec"]["size"], "1Gi");
        eventually("its record is gone", || {
            vpsas.names("externalvolume").is_empty().then_some(())
        });

        ready(namespace, "volumesnapshot", "before");
        let source = of_snapshot("before");
        copies::claim(namespace, "again", "vpsa-gold", "2Gi", Some(&source));
        let found = Pod::new("again", "again", "cat /data/file");
        assert_eq!(found.scheduled_to(NODES[1]).run(namespace), "from before\n");

        let all = ["delete", "volumesnapshot", "before"];
        namespace.kubectl(&all).unwrap();
        let content = format!("{}-before", namespace.name());
        eventually("nothing in the cluster asks for the snapshot", || {
            get(namespace, "volumesnapshotcontent", &content)
                .is_none()
                .then_some(())
        });
        assert_eq!(
            vpsas.on_arrays()[0].snapshots,
            1,
            "the snapshot itself is theirs"
        );
        let path = format!("snapshots/{}", self.snapshot);
        vpsas.rest(ARRAYS[0], "delete", &path, &[]);
        eventually("the snapshot has no record", || {
            vpsas.names("snapshot").is_empty().then_some(())
        });
        namespace
            .kubectl(&["delete", "pvc", "before", "again"])
            .unwrap();
        eventually("the share is gone with its claim", || {
            let volume = get(namespace, "pv", &format!("{}-before", namespace.name()));
            (volume.is_none() && !is_there(vpsas)).then_some(())
        });
    }
}

fn is_there(vpsas: &Vpsas) -> bool {
    vpsas.on_arrays()[0].volumes > 0
}
