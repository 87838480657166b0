//! Volumes of every kind that the plugin makes, and what people do with them.

use stowage_tests::copies::{claim, of_claim, of_snapshot, ready, snapshot};
use stowage_tests::{cluster, eventually, get, pod_in_phase, until_no_volume_of};

use super::super::claims::Pod;
use super::super::weka_pair::NODES;
use super::super::weka_volumes::ROLES;
use super::{PLACE, PROVISIONER, Taken, WRITERS};

const TRASH: &str = ".__internal__wekafs-async-delete";

/// Kinds of volumes, and what the parameters of their classes are.
const KINDS: [(&str, &str, bool); 4] = [
    ("dir", "volumeType: dir/v1, filesystemName: default", true),
    ("fs", "filesystemGroupName: default", true),
    ("snap", "filesystemName: snapshots", true),
    // Its size is written at its directory: this class knows no API.
    (
        "xattr",
        "volumeType: dir/v1, filesystemName: default",
        false,
    ),
];

/// A directory that an administrator made, and its PersistentVolume.
const BY_HAND: &str = "by-hand";
const STATIC_VOLUME: &str = "weka-taken-static";

/// One number after the other: where a write fails, its number is missing.
const WRITE: &str =
    "cd /data; rm -f log; i=0; while true; do i=$((i+1)); echo $i >> log; usleep 50000; done";

/// A snapshot that the plugin takes, and what is restored from it when the plugin is gone.
const EARLIER: &str = "earlier";
pub(super) const RESTORED: &str = "restored-earlier";

/// Whether a volume has what a writer wrote.
pub(super) const LOOK: &str = "test -s /data/log && echo whole";

impl Taken<'_> {
    pub(super) fn make_classes(&self) {
        for (kind, parameters, has_secret) in KINDS {
            let name = format!("{PLACE}-{kind}");
            let secrets = ROLES.map(|role| {
                let key = format!("csi.storage.k8s.io/{role}-secret");
                format!(", {key}-name: secret, {key}-namespace: {PLACE}")
            });
            let secrets = if has_secret {
                secrets.concat()
            } else {
                String::new()
            };
            let class = format!(
                "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {name}}}\n\
                 provisioner: {PROVISIONER}\nallowVolumeExpansion: true\nparameters: {{{parameters}{secrets}}}\n"
            );
            self.pods.apply(&class).unwrap();
        }
        let secret = "csi.storage.k8s.io/snapshotter-secret";
        let class = format!(
            "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {{name: {PLACE}}}\n\
             driver: {PROVISIONER}\ndeletionPolicy: Delete\n\
             parameters: {{{secret}-name: secret, {secret}-namespace: {PLACE}}}\n"
        );
        self.pods.apply(&class).unwrap();
    }

    /// Has the plugin make volumes of every kind, and pods write to all of them.
    pub(super) fn fill(&self) {
        for (kind, ..) in KINDS {
            claim(self.pods, kind, &class(kind), "32Mi", None);
        }
        for (number, (kind, ..)) in KINDS.iter().enumerate() {
            self.start_writer(kind, NODES[number % 2]);
        }
        claim(
            self.pods,
            "hybrid",
            &class("dir"),
            "32Mi",
            Some(&of_claim("dir")),
        );
        self.start_writer("hybrid", NODES[0]);
        for writer in WRITERS {
            pod_in_phase(self.pods, writer, "Running");
        }
        // What the plugin has not removed yet when it is stopped.
        let handle = self.handle("dir");
        let volume = handle.strip_prefix("dir/v1/default/").unwrap();
        let files = self.array.files(volume).unwrap();
        let root = files.ancestors().nth(2).unwrap().to_owned();
        std::fs::create_dir_all(root.join(TRASH).join("left/below")).unwrap();
        std::fs::write(root.join(TRASH).join("left/below/file"), "data").unwrap();
        std::fs::create_dir_all(root.join(BY_HAND)).unwrap();
        std::fs::write(root.join(BY_HAND).join("file"), "was there\n").unwrap();
        self.make_static_volume();
    }

    /// A volume that no provisioner made: its claim is called like its directory.
    fn make_static_volume(&self) {
        let manifest = format!(
            "\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {STATIC_VOLUME}}}
spec:
  storageClassName: ''
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  capacity: {{storage: 32Mi}}
  csi: {{driver: {PROVISIONER}, volumeHandle: dir/v1/default/{BY_HAND}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {BY_HAND}}}
spec:
  storageClassName: ''
  volumeName: {STATIC_VOLUME}
  accessModes: [ReadWriteMany]
  resources: {{requests: {{storage: 32Mi}}}}
"
        );
        self.pods.apply(&manifest).unwrap();
    }

    /// Has the plugin take a snapshot.
    pub(super) fn take_snapshot(&self) {
        snapshot(self.pods, EARLIER, "dir", PLACE);
        ready(self.pods, "volumesnapshot", EARLIER);
    }

    fn start_writer(&self, claim: &str, node: &str) {
        Pod::new(claim, claim, WRITE)
            .scheduled_to(node)
            .start(self.pods);
    }

    /// What people do with volumes: of each of the plugin's that the array can copy.
    pub(super) fn use_volumes(&self) {
        let kinds = ["dir", "fs", "snap", "hybrid"];
        for kind in kinds {
            snapshot(self.pods, &format!("of-{kind}"), kind, PLACE);
            claim(
                self.pods,
                &format!("clone-{kind}"),
                &class(kind),
                "32Mi",
                Some(&of_claim(kind)),
            );
        }
        for kind in kinds {
            ready(self.pods, "volumesnapshot", &format!("of-{kind}"));
            let source = of_snapshot(&format!("of-{kind}"));
            claim(
                self.pods,
                &format!("restored-{kind}"),
                &class(kind),
                "64Mi",
                Some(&source),
            );
        }
        let source = of_snapshot(EARLIER);
        claim(self.pods, RESTORED, &class("dir"), "64Mi", Some(&source));
        for kind in WRITERS {
            let size = r#"{"spec": {"resources": {"requests": {"storage": "48Mi"}}}}"#;
            self.pods
                .kubectl(&["patch", "pvc", kind, "-p", size])
                .unwrap();
        }
        let copies = kinds.map(|kind| [format!("restored-{kind}"), format!("clone-{kind}")]);
        let copies = [copies.as_flattened(), &[RESTORED.to_owned()]].concat();
        for copy in &copies {
            let look = Pod::new(copy, copy, LOOK);
            look.scheduled_to(NODES[1]).start(self.pods);
        }
        let look = Pod::new(BY_HAND, BY_HAND, "cat /data/file");
        assert_eq!(look.scheduled_to(NODES[0]).run(self.pods), "was there\n");
        for copy in &copies {
            pod_in_phase(self.pods, copy, "Succeeded");
        }
        for kind in WRITERS {
            eventually(&format!("claim {kind} has grown"), || {
                let claim = get(self.pods, "pvc", kind)?;
                (claim["status"]["capacity"]["storage"] == "48Mi").then_some(())
            });
        }
        // Whoever makes a directory in a filesystem looks into its trash first.
        claim(self.pods, "new", &class("dir"), "16Mi", None);
        eventually("the trash of the plugin is empty", || {
            self.array
                .files(&format!("{TRASH}/left"))
                .is_none()
                .then_some(())
        });
    }

    /// Deletes all volumes, by whoever runs the driver now.
    pub(super) fn remove(&self) {
        self.pods.kubectl(&["delete", "pod", "--all"]).unwrap();
        self.pods
            .kubectl(&["delete", "volumesnapshot", "--all"])
            .unwrap();
        self.pods.kubectl(&["delete", "pvc", "--all"]).unwrap();
        delete_static_volume();
        until_no_volume_of(cluster(), PROVISIONER);
        for (kind, ..) in KINDS {
            cluster()
                .kubectl(&["delete", "storageclass", &class(kind)])
                .unwrap();
        }
        cluster()
            .kubectl(&["delete", "volumesnapshotclass", PLACE])
            .unwrap();
    }
}

pub(super) fn class(kind: &str) -> String {
    let kind = if kind == "hybrid" { "dir" } else { kind };
    format!("{PLACE}-{kind}")
}

/// Nobody deletes it when its claim is gone.
pub(super) fn delete_static_volume() {
    let delete = ["delete", "pv", STATIC_VOLUME];
    let how = ["--ignore-not-found", "--wait=false"];
    let _ = cluster().kubectl(&[&delete[..], &how].concat());
}
