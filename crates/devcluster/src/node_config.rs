//! Configuration files of a node's daemons, as pure functions.

use serde_json::json;

use crate::kubernetes::Kubernetes;
use crate::network::Network;

/// The image that holds a pod's namespaces.
pub const PAUSE_IMAGE: &str = "stowage.dev/pause:1";

/// Port of the image registry in the hub.
pub const REGISTRY_PORT: u16 = 5000;

/// Paths as they are inside a node.
pub const STATE: &str = "/run/node/state";
/// Unpacked tools, CNI plugins among them.
pub const TOOLS: &str = "/run/node/tools";
/// Kubernetes binaries.
pub const KUBERNETES: &str = "/run/node/kubernetes";

/// containerd's configuration.
pub fn containerd() -> String {
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# A machine without CAP_SYS_RESOURCE may not lower a process's score: without this every sandbox dies.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{TOOLS}"
conf_dir = "{STATE}/cni"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{STATE}/registries"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#
    )
}

/// Every image of every registry comes from the hub: nothing else can be reached, nothing else is tried.
pub fn registries(network: Network) -> String {
    let url = format!("http://{}:{REGISTRY_PORT}", network.hub());
    format!("server = \"{url}\"\n\n[host.\"{url}\"]\ncapabilities = [\"pull\", \"resolve\"]\n")
}

/// Pods get a routed pair of links each. No bridge: service traffic between two pods of a node then always
/// passes the node's IP stack, whether or not the kernel has br_netfilter.
pub fn cni(network: Network, node: usize) -> String {
    let config = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [[{"subnet": network.pods(node)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    format!("{config:#}\n")
}

/// kubelet's configuration. Reactions are fast, limits are off, nothing is evicted for a full disk.
pub fn kubelet(kubernetes: &Kubernetes, cgroup: &str, cgroup_v1: bool, gates: &[&str]) -> String {
    let on: serde_json::Map<String, serde_json::Value> = gates
        .iter()
        .map(|gate| ((*gate).to_owned(), json!(true)))
        .collect();
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": format!("{STATE}/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": format!("{STATE}/kubelet.crt"),
        "tlsPrivateKeyFile": format!("{STATE}/kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "30s",
        "nodeLeaseDurationSeconds": 8,
        "maxPods": 240,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "serializeImagePulls": false,
        "featureGates": on,
    });
    if cgroup_v1 && kubernetes.minor() >= 31 {
        config["failCgroupV1"] = json!(false);
    }
    format!("{config:#}\n")
}

/// kube-proxy's configuration. Connection tracking limits belong to the machine: hands off.
pub fn kube_proxy() -> String {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": format!("{STATE}/kube-proxy.kubeconfig")},
        "conntrack": {"maxPerCore": 0},
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    });
    format!("{config:#}\n")
}
