//! A CSI driver in a pod on one node, registered with that node's kubelet by the test itself, and reached through its
//! socket: what a sidecar will do later, in a few lines.

use std::path::PathBuf;
use std::time::Duration;

use devcluster::cluster::Cluster;
use devcluster::testing::Namespace;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::registration::{DriverRegistration, KubeletVerdict};
use stowage_csi::server::{Shutdown, Socket, serve};
use stowage_tests::{STOWAGE_IMAGE, eventually, ready_pods};
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::service::Routes;

/// A driver under test. Everything it made goes with it.
pub struct DriverOnNode<'a> {
    pub name: String,
    pub node: &'static str,
    namespace: &'a Namespace<'a>,
    cluster: &'a Cluster,
    runtime: Runtime,
    /// Short paths to the node's kubelet directory: a socket's path may have 107 bytes.
    short: tempfile::TempDir,
    _registration: DropGuard,
}

impl<'a> DriverOnNode<'a> {
    /// Starts the embedded driver on `node` and waits until its kubelet knows it.
    pub fn start(cluster: &'a Cluster, namespace: &'a Namespace<'a>, node: &'static str) -> Self {
        let name = format!("{}.stowage.dev", namespace.name());
        let kubelet = cluster
            .directory()
            .join("nodes")
            .join(node)
            .join("lib/kubelet");
        let short = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&kubelet, short.path().join("k")).unwrap();
        namespace.apply(&manifest(&name, node)).unwrap();
        ready_pods(namespace, "app=driver", 1);
        let runtime = Runtime::new().unwrap();
        let registration = register(&runtime, &name, &short.path().join("k/plugins_registry"));
        let driver = Self {
            name,
            node,
            namespace,
            cluster,
            runtime,
            short,
            _registration: registration,
        };
        eventually("the kubelet knows the driver", || {
            let path = "jsonpath={.spec.drivers[*].name}";
            let known = cluster
                .kubectl(&["get", "csinode", node, "-o", path])
                .ok()?;
            known.contains(&driver.name).then_some(())
        });
        driver
    }

    /// Calls the driver's controller service.
    pub fn controller<T>(&self, call: impl AsyncFnOnce(ControllerClient<Connection>) -> T) -> T {
        let socket = self
            .short
            .path()
            .join("k/plugins")
            .join(&self.name)
            .join("csi.sock");
        let endpoint = Endpoint::try_from(socket.as_path()).unwrap();
        self.runtime.block_on(async {
            // Inside the runtime: a connection is made on it.
            let connection = Connection::new(&endpoint, options());
            call(ControllerClient::new(connection)).await
        })
    }

    /// The driver's process, as the machine sees it.
    pub fn pid(&self) -> Option<nix::unistd::Pid> {
        let wanted = format!("--drivername={}", self.name);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut ours = numbers.filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .any(|argument| argument == wanted.as_bytes())
        });
        ours.next().map(nix::unistd::Pid::from_raw)
    }

    /// Files of its state directory.
    pub fn state(&self) -> PathBuf {
        let library = self
            .cluster
            .directory()
            .join("nodes")
            .join(self.node)
            .join("lib");
        library.join("stowage").join(&self.name)
    }
}

impl Drop for DriverOnNode<'_> {
    fn drop(&mut self) {
        // The namespace of the test goes by itself; this object belongs to the whole cluster.
        let _ = self
            .namespace
            .kubectl(&["delete", "csidriver", &self.name, "--ignore-not-found"]);
    }
}

/// Snapshots copy gigabytes; a driver that restarts is waited for.
fn options() -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_secs(120),
        patience: Duration::from_secs(60),
        metrics: ClientMetrics::default(),
    }
}

fn register(runtime: &Runtime, driver: &str, folder: &std::path::Path) -> DropGuard {
    let socket = format!("/var/lib/kubelet/plugins/{driver}/csi.sock");
    let registration = DriverRegistration::new(driver, &socket);
    let mut verdict = registration.verdict();
    let endpoint = Endpoint::try_from(folder.join(format!("{driver}-reg.sock")).as_path()).unwrap();
    let token = CancellationToken::new();
    let shutdown = Shutdown {
        token: token.clone(),
        grace: Duration::from_secs(1),
    };
    runtime.spawn(async move {
        let socket = Socket::bind(&endpoint).unwrap();
        let routes = Routes::new(registration.into_service());
        serve(socket, routes, ServerMetrics::default(), shutdown)
            .await
            .unwrap();
    });
    runtime.block_on(async {
        let registered = verdict.wait_for(|said| *said != KubeletVerdict::Pending);
        let said = tokio::time::timeout(Duration::from_secs(60), registered).await;
        assert_eq!(
            *said.expect("the kubelet asks").unwrap(),
            KubeletVerdict::Registered
        );
    });
    token.drop_guard()
}

fn manifest(name: &str, node: &str) -> String {
    format!(
        r"
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{name: {name}}}
spec:
  attachRequired: false
  podInfoOnMount: true
  fsGroupPolicy: File
  volumeLifecycleModes: [Persistent, Ephemeral]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: driver}}
spec:
  selector: {{matchLabels: {{app: driver}}}}
  template:
    metadata: {{labels: {{app: driver}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: {node}}}
      terminationGracePeriodSeconds: 5
      containers:
        - name: driver
          image: {STOWAGE_IMAGE}
          imagePullPolicy: IfNotPresent
          args:
            - driver
            - hostpath
            - --drivername={name}
            - --endpoint=unix:///csi/csi.sock
            - --nodeid=$(NODE_NAME)
            - --statedir=/state
            - --v=5
          env: [{{name: NODE_NAME, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}]
          terminationMessagePath: /tmp/termination-log
          securityContext: {{privileged: true}}
          volumeMounts:
            - {{name: socket, mountPath: /csi}}
            - {{name: state, mountPath: /state}}
            - {{name: kubelet, mountPath: /var/lib/kubelet, mountPropagation: Bidirectional}}
            - {{name: dev, mountPath: /dev}}
      volumes:
        - {{name: socket, hostPath: {{path: /var/lib/kubelet/plugins/{name}, type: DirectoryOrCreate}}}}
        - {{name: state, hostPath: {{path: /var/lib/stowage/{name}, type: DirectoryOrCreate}}}}
        - {{name: kubelet, hostPath: {{path: /var/lib/kubelet}}}}
        - {{name: dev, hostPath: {{path: /dev}}}}
"
    )
}
