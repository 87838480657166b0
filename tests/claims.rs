//! Claims for which a driver makes volumes, and the pods that use them.

use devcluster::testing::Namespace;

use crate::{described, eventually_or, get, nodes};

/// Bytes of a mebibyte.
pub const MIB: i64 = 1 << 20;

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
    /// Its name.
    pub name: &'a str,
    /// Source of the volume.
    pub volume: String,
    /// How the container sees it.
    pub mount: &'a str,
    /// The pod's securityContext.
    pub security: &'a str,
    /// What its shell runs.
    pub script: &'a str,
    /// Where it runs.
    pub place: String,
}

const MOUNTED: &str = "volumeMounts: [{name: data, mountPath: /data}]";

impl<'a> Pod<'a> {
    /// On the first node, with the claim's volume as `/data`.
    pub fn new(name: &'a str, claim: &str, script: &'a str) -> Self {
        Self {
            name,
            volume: format!("persistentVolumeClaim: {{claimName: {claim}}}"),
            mount: MOUNTED,
            security: "{}",
            script,
            place: format!("nodeName: {}", nodes()[0]),
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

    /// Creates it.
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
        let has_ended = || {
            let phase = get(namespace, "pod", self.name)?["status"]["phase"]
                .as_str()?
                .to_owned();
            (phase == "Succeeded" || phase == "Failed").then_some(())
        };
        eventually_or(&format!("pod {} ends", self.name), has_ended, || {
            described(namespace, &["pod", self.name])
        });
        let log = namespace.kubectl(&["logs", self.name]).unwrap();
        namespace.kubectl(&["delete", "pod", self.name]).unwrap();
        log
    }
}
