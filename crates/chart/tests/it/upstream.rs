//! The values of WEKA's own chart in ours: each has its name, or is refused by it, and the guide says so.

use serde_json::{Value, json};

use super::{at, instance, manifest, rendered};

const GUIDE: &str = include_str!("../../../../docs/guides/weka.md");

/// Values of WEKA's chart (2.8), as somebody may have set them.
fn kept() -> Value {
    let tolerations = json!([{"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"}]);
    let resources = json!({"wekafs": {"requests": {"cpu": "128m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "3Gi"}}});
    json!({
        "dynamicProvisionPath": "csi-volumes", "csiDriverName": "csi.weka.io", "csiDriverVersion": "2.8.8",
        "images": {
            "livenessprobesidecar": "x:1", "attachersidecar": "x:1", "provisionersidecar": "x:1", "registrarsidecar": "x:1",
            "resizersidecar": "x:1", "snapshottersidecar": "x:1", "csidriver": "x", "csidriverTag": "2.8.8",
        },
        "imagePullSecret": "", "nodeSelector": {}, "affinity": {}, "logLevel": 5, "useJsonLogging": false,
        "globalPluginTolerations": tolerations, "controllerPluginTolerations": tolerations, "nodePluginTolerations": tolerations,
        "controller": {
            "replicas": 2, "resources": resources, "maxConcurrentRequests": 5, "grpcRequestTimeoutSeconds": 30, "nodeSelector": {}, "affinity": {},
            "podLabels": {},
        },
        "node": {
            "maxConcurrentRequests": 5, "grpcRequestTimeoutSeconds": 30, "nodeSelector": {}, "affinity": {}, "podLabels": {},
            "livenessProbeEnabled": true, "resources": resources,
        },
        "legacyVolumeSecretName": "", "priorityClassName": "", "selinuxSupport": "off",
        "selinuxNodeLabel": "csi.weka.io/selinux_enabled", "kubeletPath": "/var/lib/kubelet", "metrics": {"enabled": true},
        "hostNetwork": false,
        "pluginConfig": {
            "fsGroupPolicy": "File", "allowInsecureHttps": false, "skipGarbageCollection": false, "waitForObjectDeletion": false,
            "manageNodeTopologyLabels": true, "setOwnershipOnDynamicFilesystems": false,
            "objectNaming": {"volumePrefix": "csivol-", "snapshotPrefix": "csisnp-", "seedSnapshotPrefix": "csisnp-seed-"},
            "allowedOperations": {
                "autoCreateFilesystems": true, "autoExpandFilesystems": true, "snapshotDirectoryVolumes": false,
                "snapshotVolumesWithoutQuotaEnforcement": false, "enforceDirVolTotalCapacity": false,
            },
            "mutuallyExclusiveMountOptions": ["readcache,writecache,coherent,forcedirect", "sync,async", "ro,rw"],
            "encryption": {"allowEncryptionWithoutKms": false},
            "mountProtocol": {
                "useNfs": false, "allowNfsFailback": false, "interfaceGroupName": "", "clientGroupName": "",
                "nfsProtocolVersion": "4.1", "wekafsContainerName": "",
            },
        },
    })
}

/// Sidecars of WEKA's chart that are one container here.
const RESOURCES: &str = "`resources` of containers other than `wekafs`";

/// Those that have no place here, and the word of the guide's table that names them.
const REFUSED: [(&str, &str); 20] = [
    ("controller.healthPort", "`controller.healthPort`"),
    ("controller.resources.csiProvisioner", RESOURCES),
    ("node.resources.livenessProbe", RESOURCES),
    ("controller.concurrency", "`controller.concurrency`"),
    ("node.concurrency", "`node.concurrency`"),
    (
        "controller.configureProvisionerLeaderElection",
        "`controller.configure...LeaderElection`",
    ),
    ("controller.labels", "`controller.labels`"),
    ("node.labels", "`node.labels`"),
    (
        "controller.terminationGracePeriodSeconds",
        "`terminationGracePeriodSeconds` of `controller` and `node`",
    ),
    (
        "node.terminationGracePeriodSeconds",
        "`terminationGracePeriodSeconds` of `controller` and `node`",
    ),
    ("node.livenessProbeTimeout", "`node.livenessProbeTimeout`"),
    (
        "node.healthProbeWekaTimeoutSeconds",
        "`node.healthProbeWekaTimeoutSeconds`",
    ),
    ("metricsServer", "`metricsServer`"),
    ("metrics.controllerPort", "ports of `metrics`"),
    (
        "pluginConfig.allowedOperations.allowAsyncObjectDeletion",
        "`pluginConfig.allowedOperations.allowAsyncObjectDeletion`",
    ),
    (
        "pluginConfig.apiTimeoutSeconds",
        "`pluginConfig.apiTimeoutSeconds`",
    ),
    ("tracingUrl", "`tracingUrl`"),
    (
        "tracingDeploymentIdentifier",
        "`tracingDeploymentIdentifier`",
    ),
    ("machineConfigLabels", "`machineConfigLabels`"),
    (
        "selinuxOcpRetainMachineConfig",
        "`selinuxOcpRetainMachineConfig`",
    ),
];

#[test]
fn values_of_wekas_chart_keep_their_names_or_are_refused_by_name() {
    rendered("csi-wekafsplugin", &kept()).unwrap();
    for (name, word) in REFUSED {
        let path: Vec<_> = name.split('.').map(str::to_owned).collect();
        let error = rendered("csi-wekafsplugin", &at(&path, json!("x"))).unwrap_err();
        let last = path.last().unwrap();
        let words = format!("Additional property {last} is not allowed");
        assert!(error.to_string().contains(&words), "{name}: {error}");
        assert!(GUIDE.contains(word), "the guide does not name {word}");
    }
}

#[test]
fn resources_are_those_of_the_drivers_container_in_either_form() {
    let plain = json!({"requests": {"cpu": "7m"}});
    for given in [plain.clone(), json!({"wekafs": plain})] {
        let own = json!({"controller": {"resources": given}, "node": {"resources": given}});
        let instance = instance(&manifest("csi-wekafsplugin", &own), "mine-instance-weka");
        for template in ["driverControllerTemplate", "driverPerNodeTemplate"] {
            let container = &instance["spec"][template]["spec"]["containers"][0];
            assert_eq!(container["resources"], plain, "{template}");
        }
    }
}
