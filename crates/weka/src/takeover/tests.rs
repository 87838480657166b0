use clap::{Args as _, Command};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::args::Args;

const NAME: &str =
    "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c";

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn facts() -> Facts {
    Facts {
        driver: "csi.weka.io".to_owned(),
        ..Facts::default()
    }
}

fn report(facts: &Facts) -> Report {
    let mut flags = Args::augment_args(Command::new("weka"));
    flags.build();
    let sample = json!({
        "kind": "CSIDriverDeployment", "metadata": {}, "spec": {
            "driverPerNodeTemplate": {"spec": {"containers": [{"args": ["--drivername=x"]}]}},
            "driverControllerTemplate": {"spec": {"containers": [{"args": ["--drivername=x", "--allowautofscreation"]}]}},
        },
    });
    let request = Request {
        instance: None,
        flags: &flags,
        sample: vec![sample],
    };
    check(facts, request)
}

/// A workload of the plugin.
fn plugin(kind: WorkloadKind, account: &str, words: &[&str]) -> Workload {
    let template = json!({"spec": {
        "serviceAccountName": account,
        "containers": [{"name": "wekafs", "image": "x", "args": words}],
    }});
    let metadata = json!({"name": account, "namespace": "weka"});
    let whole = json!({"metadata": metadata, "spec": {"selector": {}, "template": template}});
    match kind {
        WorkloadKind::DaemonSet => object::<k8s_openapi::api::apps::v1::DaemonSet>(whole).into(),
        WorkloadKind::Deployment | WorkloadKind::StatefulSet => {
            object::<k8s_openapi::api::apps::v1::Deployment>(whole).into()
        }
    }
}

fn binding(name: &str, role: &str, accounts: &[&str]) -> Binding {
    let subject =
        |name: &&str| json!({"kind": "ServiceAccount", "name": name, "namespace": "weka"});
    let subjects: Vec<_> = accounts.iter().map(subject).collect();
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    let whole = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
    object::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(whole).into()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_volume_is_judged_by_handle_mode_options_and_secrets() {
    let secret = json!({"name": "s", "namespace": "weka"});
    let dynamic = format!("dir/v1/fs/csi-volumes/{NAME}");
    let elsewhere = format!("dir/v1/fs/other/{NAME}");
    // Changes to a volume that needs nothing; what it needs; what one should know.
    for (change, needs, remark) in [
        (json!({}), "", ""),
        (
            json!({"csi": {"volumeHandle": "weka/v2/fs:x//csi-volumes/y"}}),
            "",
            "use the reclaim policy Retain",
        ),
        (
            json!({"csi": {"volumeHandle": "fs"}}),
            "is not a valid volume handle",
            "",
        ),
        (
            json!({"csi": {"volumeHandle": "x".repeat(2000)}}),
            "is 2000 bytes long",
            "",
        ),
        (
            json!({"csi": {"volumeHandle": elsewhere}}),
            "",
            "below the earlier dynamic path `other`",
        ),
        (
            json!({"csi": {"volumeHandle": "weka/v2/fs/home"}}),
            "",
            "use the reclaim policy Retain",
        ),
        (
            json!({"csi": {"volumeHandle": "weka/v2/fs/home"}, "persistentVolumeReclaimPolicy": "Retain"}),
            "",
            "",
        ),
        (json!({"volumeMode": "Block"}), "it is a block volume", ""),
        (
            json!({"accessModes": ["ReadOnlyMany"]}),
            "",
            "it is read-only",
        ),
        (
            json!({"accessModes": ["ReadWriteMany", "ReadOnlyMany"]}),
            "",
            "",
        ),
        (
            json!({"mountOptions": ["brandnew"]}),
            "",
            "`brandnew` is not known",
        ),
        (
            json!({"csi": {"volumeAttributes": {"mountOptions": "a b"}}}),
            "not allowed",
            "",
        ),
        (
            json!({"csi": {"nodePublishSecretRef": {"name": "gone", "namespace": "weka"}}}),
            "`weka/gone` (node-publish) does not exist",
            "",
        ),
        (
            json!({"csi": {"controllerExpandSecretRef": {"name": "bad", "namespace": "weka"}}}),
            "`weka/bad` (controller-expand): lacks",
            "",
        ),
        (
            json!({"csi": {"nodePublishSecretRef": null}}),
            "",
            "it names no secret: the driver uses no API",
        ),
    ] {
        let mut spec = json!({
            "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": "csi.weka.io", "volumeHandle": dynamic, "nodePublishSecretRef": secret},
        });
        for (field, value) in change.as_object().unwrap() {
            match value.as_object() {
                Some(parts) => parts
                    .iter()
                    .for_each(|(part, value)| spec[field][part] = value.clone()),
                None => spec[field] = value.clone(),
            }
        }
        let mut facts = facts();
        facts
            .volumes
            .push(object(json!({"metadata": {"name": "v"}, "spec": spec})));
        for (name, state) in [
            ("s", SecretState::Usable),
            ("gone", SecretState::Missing),
            ("bad", SecretState::Unusable("lacks".to_owned())),
        ] {
            let (namespace, name) = ("weka".to_owned(), name.to_owned());
            facts.secrets.insert(SecretName { namespace, name }, state);
        }
        let report = report(&facts);
        let volume = &report.volumes[0];
        let agrees = |texts: &[String], expected: &str| {
            texts.is_empty() == expected.is_empty()
                && texts.iter().all(|text| text.contains(expected))
        };
        assert!(agrees(&volume.needs, needs), "{change}: {volume:?}");
        assert!(agrees(&volume.remarks, remark), "{change}: {volume:?}");
        assert_eq!(report.clear, needs.is_empty(), "{change}");
    }
}

#[test]
fn a_volume_without_a_secret_names_none_although_it_has_the_annotations_of_one() {
    let annotations = json!({
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    });
    let csi =
        json!({"driver": "csi.weka.io", "volumeHandle": format!("dir/v1/fs/csi-volumes/{NAME}")});
    let mut facts = facts();
    let volume =
        json!({"metadata": {"name": "pv", "annotations": annotations}, "spec": {"csi": csi}});
    facts.volumes.push(object(volume));
    assert!(facts.secrets_named().is_empty());
}

#[test]
fn each_flag_carries_over_is_needless_or_has_a_reason() {
    for (word, carried, left_out) in [
        ("--allowautofscreation", "--allowautofscreation", ""),
        ("-allowautofscreation=T", "--allowautofscreation", ""),
        ("--allowautofscreation=false", "", ""),
        (
            "--keepthinprovisioningratioonexpand=0",
            "--keepthinprovisioningratioonexpand=false",
            "",
        ),
        (
            "--allowsnapshotsoflegacyvolumes",
            "--allowsnapshotsofdirectoryvolumes",
            "",
        ),
        ("--dynamic-path=/k8s/", "--dynamic-path=/k8s/", ""),
        ("--dynamic-path=csi-volumes", "", ""),
        ("--nodeid=$(KUBE_NODE_NAME)", "", ""),
        ("--tracingurl=x:1", "", "sends no traces"),
        ("--allowprotocolcontainers", "--allowprotocolcontainers", ""),
        ("--unheard-of", "", "does not know it"),
    ] {
        let mut facts = facts();
        facts.workloads.push(plugin(
            WorkloadKind::Deployment,
            "a",
            &[word, "--csimode=controller"],
        ));
        let report = report(&facts);
        let workload = &report.workloads[0];
        assert_eq!(workload.flags.join(" "), carried, "{word}");
        let reasons: Vec<_> = workload
            .left_out
            .iter()
            .map(|it| it.reason.as_str())
            .collect();
        assert_eq!(
            reasons.is_empty(),
            left_out.is_empty(),
            "{word}: {reasons:?}"
        );
        assert!(
            reasons.iter().all(|reason| reason.contains(left_out)),
            "{word}: {reasons:?}"
        );
        let spec = &report.manifest[0]["spec"]["driverControllerTemplate"]["spec"];
        let words = spec["containers"][0]["args"].as_array().unwrap();
        assert_eq!(words[0], "--drivername=csi.weka.io");
        let expected: Vec<_> = carried.split_whitespace().collect();
        assert_eq!(
            words[1..],
            expected,
            "{word}: the sample's own choice does not count"
        );
    }
}

#[test]
fn flags_with_which_the_driver_does_not_start_stand_in_the_way() {
    let mut facts = facts();
    facts.workloads.push(plugin(
        WorkloadKind::DaemonSet,
        "a",
        &["--csimode", "node", "--dynamic-path", "a/../b"],
    ));
    let report = report(&facts);
    assert!(!report.clear);
    assert!(
        report.needs[0].contains("--dynamic-path `a/../b`"),
        "{:?}",
        report.needs
    );
    assert_eq!(report.workloads[0].mode, "node");
}

#[test]
fn rights_to_secrets_are_for_the_operator_where_it_runs() {
    let grants = |facts: &Facts| {
        let steps = report(facts).steps.into_iter();
        let commands: Vec<_> = steps.flat_map(|step| step.commands).collect();
        let account = |command: &String| {
            let (_, rest) = command.split_once("--serviceaccount=")?;
            rest.split(' ').next().map(str::to_owned)
        };
        commands.iter().filter_map(account).collect::<Vec<_>>()
    };
    let mut facts = facts();
    let secret = json!({"csi.storage.k8s.io/provisioner-secret-name": "s", "csi.storage.k8s.io/provisioner-secret-namespace": "apart"});
    let class =
        json!({"metadata": {"name": "c"}, "provisioner": "csi.weka.io", "parameters": secret});
    facts.classes.push(object(class));
    assert_eq!(grants(&facts), ["csi-operator:csi-operator"]);
    let operator = json!({
        "metadata": {"name": "csi-operator", "namespace": "storage"},
        "spec": {"selector": {}, "template": {"spec": {
            "serviceAccountName": "csi-operator", "containers": [{"name": "csi-operator", "image": "x"}],
        }}},
    });
    let operator = object::<k8s_openapi::api::apps::v1::Deployment>(operator);
    facts.workloads.push(operator.into());
    assert_eq!(grants(&facts), ["storage:csi-operator"]);
}

#[test]
fn only_what_nobody_else_uses_is_removed() {
    let mut facts = facts();
    facts.workloads = vec![
        plugin(WorkloadKind::DaemonSet, "node", &["--csimode=node"]),
        plugin(
            WorkloadKind::Deployment,
            "shared",
            &["--csimode=controller"],
        ),
        plugin(WorkloadKind::Deployment, "default", &[]),
        plugin(
            WorkloadKind::Deployment,
            "shared",
            &["--drivername=other.weka.io"],
        ),
    ];
    facts.bindings = vec![
        binding("own", "own", &["node"]),
        binding("of-shared", "of-shared", &["shared"]),
        binding("mixed", "mixed", &["node", "shared"]),
        binding("to-view", "view", &["node"]),
        binding("own-2", "busy", &["node"]),
        binding("others", "busy", &["somebody"]),
    ];
    let role = |name: &str| object(json!({"name": name}));
    facts.cluster_roles = ["own", "of-shared", "mixed", "busy", "unrelated"]
        .map(role)
        .into();
    let system =
        json!({"name": "view", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
    facts.cluster_roles.push(object(system));
    let account = |name: &str| object(json!({"name": name, "namespace": "weka"}));
    facts.accounts = ["node", "shared", "default", "somebody"]
        .map(account)
        .into();
    let report = report(&facts);
    let commands: Vec<_> = report
        .steps
        .iter()
        .flat_map(|step| &step.commands)
        .collect();
    assert_eq!(
        commands,
        [
            "kubectl delete deployment default --namespace=weka --cascade=foreground",
            "kubectl delete deployment shared --namespace=weka --cascade=foreground",
            "kubectl delete daemonset node --namespace=weka --cascade=foreground",
            "kubectl delete clusterrolebinding own",
            "kubectl delete clusterrolebinding to-view",
            "kubectl delete clusterrolebinding own-2",
            "kubectl delete clusterrole own",
            "kubectl delete serviceaccount node --namespace=weka",
            "kubectl apply -f weka.yaml",
        ]
    );
}

#[test]
fn a_class_is_judged_by_parameters_flags_and_secrets() {
    for (parameters, needs, remark) in [
        (
            json!({"volumeType": "dir/v1", "filesystemName": "fs"}),
            "",
            "names no secret",
        ),
        (
            json!({"volumeType": "dir/v1"}),
            "`filesystemName` is missing",
            "names no secret",
        ),
        (
            json!({"filesystemGroupName": "g"}),
            "--allowautofscreation",
            "names no secret",
        ),
        (
            json!({"filesystemName": "fs", "csi.storage.k8s.io/provisioner-secret-name": "s"}),
            "needs parameter",
            "",
        ),
        (
            json!({"filesystemName": "fs", "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}",
                "csi.storage.k8s.io/provisioner-secret-namespace": "weka"}),
            "",
            "depends on the claim",
        ),
    ] {
        let mut facts = facts();
        let class = json!({"metadata": {"name": "c"}, "provisioner": "csi.weka.io", "parameters": parameters});
        facts.classes.push(object(class));
        facts.workloads.push(plugin(
            WorkloadKind::Deployment,
            "a",
            &["--csimode=controller"],
        ));
        let report = report(&facts);
        let class = &report.classes[0];
        assert_eq!(class.needs.is_empty(), needs.is_empty(), "{class:?}");
        assert!(
            class.needs.iter().all(|text| text.contains(needs)),
            "{class:?}"
        );
        assert_eq!(class.remarks.is_empty(), remark.is_empty(), "{class:?}");
        assert!(
            class.remarks.iter().all(|text| text.contains(remark)),
            "{class:?}"
        );
    }
}

#[test]
fn an_object_that_is_promised_to_another_instance_stands_in_the_way() {
    let annotation = json!({"stowage.dev/adopt-by": "other/weka"});
    let mut facts = facts();
    facts.csi_driver = Some(object(json!({
        "metadata": {"name": "csi.weka.io", "annotations": annotation}, "spec": {},
    })));
    facts
        .workloads
        .push(plugin(WorkloadKind::DaemonSet, "a", &[]));
    let report = report(&facts);
    assert!(
        report.needs[0].contains("--instance other/weka"),
        "{:?}",
        report.needs
    );
    assert!(!report.clear);
}

#[test]
fn no_value_of_a_secret_is_kept() {
    let state = |data: Value| {
        let secret = object(json!({"stringData": {}, "data": data}));
        format!("{:?}", SecretState::of(Some(&secret)))
    };
    // `hidden`, `!!` and `ftp`.
    let whole = json!({"username": "aGlkZGVu", "password": "aGlkZGVu", "endpoints": "aGlkZGVu"});
    assert_eq!(state(whole.clone()), "Usable");
    for (key, value, expected) in [
        ("endpoints", "aGkgISE=", "`endpoints`"),
        ("scheme", "ZnRw", "`scheme`"),
        ("password", "", "`password`"),
    ] {
        let mut secret = whole.clone();
        secret[key] = json!(value);
        let state = state(secret);
        assert!(state.contains(expected), "{state}");
        assert!(
            !state.contains("hidden") && !state.contains("!!") && !state.contains("ftp"),
            "{state}"
        );
    }
    assert_eq!(SecretState::of(None), SecretState::Missing);
}

#[test]
fn pods_that_mount_by_nfs_keep_the_network_of_their_node_and_find_names_of_the_cluster() {
    let mut workloads = ["controller", "node"].map(|mode| {
        let kind = match mode {
            "node" => WorkloadKind::DaemonSet,
            _ => WorkloadKind::Deployment,
        };
        plugin(kind, mode, &[&format!("--csimode={mode}"), "--usenfs"])
    });
    for workload in &mut workloads {
        workload.pod.host_network = Some(true);
        // As the server fills it in.
        workload.pod.dns_policy = Some("ClusterFirst".to_owned());
    }
    let report = report(&Facts {
        workloads: workloads.into(),
        ..facts()
    });
    for template in ["driverControllerTemplate", "driverPerNodeTemplate"] {
        let pod = &report.manifest[0]["spec"][template]["spec"];
        assert_eq!(pod["hostNetwork"], true, "{pod}");
        assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet", "{pod}");
        let words = pod["containers"][0]["args"].to_string();
        assert!(words.contains("--usenfs"), "{words}");
    }
}

#[test]
fn node_pods_for_selinux_carry_over_as_all_of_them_or_as_those_of_some_nodes() {
    let node = |name: &str, words: &[&str], operator: &str| {
        let words = [&["--csimode=node"], words].concat();
        let mut workload = plugin(WorkloadKind::DaemonSet, name, &words);
        let wish = json!({"key": "example.com/selinux", "operator": operator, "values": ["true"]});
        workload.pod.affinity = object(json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [wish]}]},
        }}));
        workload
    };
    let spec = |workloads: Vec<Workload>| {
        let report = report(&Facts {
            workloads,
            ..facts()
        });
        report.manifest[0]["spec"].clone()
    };
    let labelled = || node("selinux", &["--selinux-support"], "In");
    let enforced = spec(vec![labelled()]);
    let pod = &enforced["driverPerNodeTemplate"]["spec"];
    assert_eq!(pod["containers"][0]["args"][1], "--selinux-support");
    assert_eq!(
        pod["containers"][0]["volumeMounts"][0]["mountPath"],
        "/sys/fs"
    );
    assert!(enforced["nodeVariants"].is_null());

    let mixed = spec(vec![labelled(), node("plain", &[], "NotIn")]);
    let plain = &mixed["driverPerNodeTemplate"]["spec"];
    assert!(!plain.to_string().contains("selinux"), "{plain}");
    let variant = &mixed["nodeVariants"][0];
    assert_eq!(
        variant["nodeLabel"],
        json!({"key": "example.com/selinux", "value": "true"})
    );
    let pod = &variant["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"][1], "--selinux-support");
    assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/sys/fs");
    assert_eq!(
        pod["affinity"]["nodeAffinity"],
        json!({}),
        "it is said once"
    );
}
