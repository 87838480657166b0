use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

use super::{CrdGroup, crds};

fn schema(crd: &CustomResourceDefinition) -> Value {
    let version = crd.spec.versions.first().unwrap();
    let validation = version.schema.as_ref().unwrap();
    serde_json::to_value(validation.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

fn named(plural: &str) -> CustomResourceDefinition {
    let mut found = crds();
    found.retain(|crd| crd.spec.names.plural == plural);
    found.pop().unwrap()
}

/// Calls `check` for a schema and every schema below it, with the path to it.
fn walk(path: &str, schema: &Value, check: &mut dyn FnMut(&str, &Value)) {
    check(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            walk(&format!("{path}.{name}"), property, check);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&format!("{path}.{key}"), &schema[key], check);
        }
    }
}

#[test]
fn names_scopes_and_short_names_are_those_of_the_projects_that_made_them() {
    let found: Vec<_> = crds()
        .into_iter()
        .map(|crd| {
            let spec = crd.spec;
            let status = spec.versions[0].subresources.is_some();
            format!(
                "{} {} {} {:?} status={status}",
                crd.metadata.name.unwrap(),
                spec.names.kind,
                spec.scope,
                spec.names.short_names.unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            r#"csidriverdeployments.csidriver.storage.openshift.io CSIDriverDeployment Namespaced ["cdd"] status=true"#,
            r#"volumesnapshotclasses.snapshot.storage.k8s.io VolumeSnapshotClass Cluster ["vsclass", "vsclasses"] status=false"#,
            r#"volumesnapshotcontents.snapshot.storage.k8s.io VolumeSnapshotContent Cluster ["vsc", "vscs"] status=true"#,
            r#"volumesnapshots.snapshot.storage.k8s.io VolumeSnapshot Namespaced ["vs"] status=true"#,
            r#"volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io VolumeGroupSnapshotClass Cluster ["vgsclass", "vgsclasses"] status=false"#,
            r#"volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io VolumeGroupSnapshotContent Cluster ["vgsc", "vgscs"] status=true"#,
            r#"volumegroupsnapshots.groupsnapshot.storage.k8s.io VolumeGroupSnapshot Namespaced ["vgs"] status=true"#,
            r#"vscstorageclasses.storage.zadara.com VSCStorageClass Cluster ["vscsc"] status=true"#,
            "vpsas.storage.zadara.com VPSA Cluster [] status=true",
            "vscnodes.storage.zadara.com VSCNode Cluster [] status=true",
            "volumes.storage.zadara.com Volume Cluster [] status=true",
            "externalvolumes.storage.zadara.com ExternalVolume Cluster [] status=true",
            r#"volumeattachments.storage.zadara.com VolumeAttachment Cluster ["vas"] status=true"#,
            "snapshots.storage.zadara.com Snapshot Cluster [] status=true",
            "wekaclients.weka.weka.io WekaClient Namespaced [] status=true",
            "wekacontainers.weka.weka.io WekaContainer Namespaced [] status=true",
            "wekaclusters.weka.weka.io WekaCluster Namespaced [] status=true",
        ]
    );
}

#[test]
fn every_definition_in_a_protected_group_is_marked_as_approved() {
    for group in [CrdGroup::Snapshots, CrdGroup::GroupSnapshots] {
        for crd in group.crds() {
            assert!(crd.spec.group.ends_with(".k8s.io"));
            let annotations = crd.metadata.annotations.unwrap();
            let approval = &annotations["api-approved.kubernetes.io"];
            assert!(approval.starts_with("https://"), "{approval}");
        }
    }
}

#[test]
fn schemas_are_structural_and_use_only_keys_that_kubernetes_1_20_knows() {
    const KNOWN: [&str; 21] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxLength",
        "maximum",
        "minLength",
        "minimum",
        "nullable",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    ];
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        walk(kind, &schema(&crd), &mut |path, schema| {
            for key in schema.as_object().unwrap().keys() {
                assert!(KNOWN.contains(&key.as_str()), "{path}: {key}");
            }
            let typed = schema["type"].is_string();
            let int_or_string = schema["x-kubernetes-int-or-string"] == true;
            assert!(typed != int_or_string, "{path} needs one type: {schema}");
            let words = schema["enum"].as_array().into_iter().flatten();
            assert!(words.into_iter().all(Value::is_string), "{path}: {schema}");
            // A structural schema may only restrict inside `oneOf`, never describe.
            for branch in schema["oneOf"].as_array().into_iter().flatten() {
                let keys: Vec<_> = branch.as_object().unwrap().keys().collect();
                assert_eq!(keys, ["required"], "{path}");
            }
        });
    }
}

#[test]
fn descriptions_have_no_line_breaks_left_from_doc_comments() {
    for crd in crds() {
        walk("", &schema(&crd), &mut |path, schema| {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(!text.replace("\n\n", "").contains('\n'), "{path}: {text:?}");
        });
    }
}

#[test]
fn required_fields_are_those_of_the_projects_that_made_them() {
    let mut found = Vec::new();
    for crd in crds() {
        walk(
            &crd.spec.names.plural,
            &schema(&crd),
            &mut |path, schema| {
                // Conditions are those of `meta/v1` in all kinds of these groups.
                let ours =
                    ["storage.zadara.com", "weka.weka.io"].contains(&crd.spec.group.as_str());
                if ours && path.ends_with("status.conditions.items") {
                    return;
                }
                if let Some(required) = schema["required"].as_array() {
                    let names: Vec<_> =
                        required.iter().map(|name| name.as_str().unwrap()).collect();
                    found.push(format!("{path}: {}", names.join(" ")));
                }
            },
        );
    }
    assert_eq!(
        found,
        [
            "csidriverdeployments: spec",
            "csidriverdeployments.spec: driverName driverPerNodeTemplate driverSocket nodeUpdateStrategy",
            "csidriverdeployments.status.children.items: lastGeneration name resource",
            "csidriverdeployments.status.conditions.items: status type",
            "csidriverdeployments.status.drain: progress",
            "csidriverdeployments.status.drain.nodes.items: name since",
            "csidriverdeployments.status.drain.stopped: generation node reason",
            "volumesnapshotclasses: deletionPolicy driver",
            "volumesnapshotcontents: spec",
            "volumesnapshotcontents.spec: deletionPolicy driver source volumeSnapshotRef",
            "volumesnapshotcontents.spec.volumeSnapshotRef: name namespace",
            "volumesnapshots: spec",
            "volumesnapshots.spec: source",
            "volumegroupsnapshotclasses: deletionPolicy driver",
            "volumegroupsnapshotcontents: spec",
            "volumegroupsnapshotcontents.spec: deletionPolicy driver source volumeGroupSnapshotRef",
            "volumegroupsnapshotcontents.spec.source.groupSnapshotHandles: volumeGroupSnapshotHandle volumeSnapshotHandles",
            "volumegroupsnapshotcontents.spec.volumeGroupSnapshotRef: name namespace",
            "volumegroupsnapshots: spec",
            "volumegroupsnapshots.spec: source",
            "volumegroupsnapshots.spec.source.selector.matchExpressions.items: key operator",
            "vscstorageclasses: spec",
            "vscstorageclasses.spec: displayName",
            "vscstorageclasses.spec.volumeFlags: compress dedupe encrypt",
            "vscstorageclasses.status.capacity: available total",
            "vscstorageclasses.status.counters: VPSA pools snapshots volumes",
            "vpsas: spec",
            "vpsas.spec: VSCStorageClassName",
            "vpsas.spec.tokenSecretRef: name",
            "vpsas.status.capacity: available total",
            "vpsas.status.counters: pools snapshots volumes",
            "vscnodes: spec",
            "vscnodes.spec: displayName",
            "vscnodes.spec.NAS: IP",
            "vscnodes.spec.block: IQN",
            "volumes: spec",
            "volumes.spec: VSCStorageClassName displayName size volumeType",
            "volumes.spec.cloneSource: kind name",
            "volumes.spec.flags: compress dedupe encrypt",
            "volumes.status.NAS: NFSExportPath autoExpandEnabled",
            "volumes.status.expansion: since",
            "externalvolumes: spec",
            "externalvolumes.spec: VSCStorageClassName displayName size volumeType",
            "externalvolumes.spec.cloneSource: kind name",
            "externalvolumes.spec.flags: compress dedupe encrypt",
            "externalvolumes.status.NAS: NFSExportPath autoExpandEnabled",
            "externalvolumes.status.expansion: since",
            "volumeattachments: spec",
            "volumeattachments.spec: VSCNodeName attachType readOnly volumeName",
            "volumeattachments.status.Block: lun target",
            "snapshots: spec",
            "snapshots.spec: displayName volumeID",
            "wekaclients: spec",
            "wekaclients.spec: image",
            "wekaclients.spec.portRange: basePort",
            "wekaclients.spec.targetCluster: name namespace",
            "wekacontainers: spec",
            "wekacontainers.spec: image mode name numCores",
            "wekacontainers.spec.portRange: basePort",
            "wekaclusters: spec",
        ]
    );
}

#[test]
fn every_source_is_exactly_one_of_two() {
    for (plural, fields) in [
        (
            "volumesnapshots",
            ["persistentVolumeClaimName", "volumeSnapshotContentName"],
        ),
        ("volumesnapshotcontents", ["volumeHandle", "snapshotHandle"]),
        (
            "volumegroupsnapshots",
            ["selector", "volumeGroupSnapshotContentName"],
        ),
        (
            "volumegroupsnapshotcontents",
            ["volumeHandles", "groupSnapshotHandles"],
        ),
    ] {
        let schema = schema(&named(plural));
        let source = &schema["properties"]["spec"]["properties"]["source"];
        let expected = fields.map(|field| serde_json::json!({"required": [field]}));
        assert_eq!(source["oneOf"], Value::from(expected.to_vec()), "{plural}");
        for field in fields {
            assert!(source["properties"][field].is_object(), "{plural}: {field}");
        }
    }
}

#[test]
fn sizes_and_times_have_the_wire_types_of_the_kubernetes_project() {
    let field = |plural: &str, name: &str| {
        let mut found = schema(&named(plural))["properties"]["status"]["properties"][name].take();
        found.as_object_mut().unwrap().remove("description");
        found
    };
    let text = serde_json::json!({"type": "string", "format": "date-time"});
    let nanoseconds = serde_json::json!({"type": "integer", "format": "int64"});
    let quantity = serde_json::json!({"x-kubernetes-int-or-string": true});
    let bytes = serde_json::json!({"type": "integer", "format": "int64", "minimum": 0.0});
    assert_eq!(field("volumesnapshots", "creationTime"), text);
    assert_eq!(field("volumesnapshots", "restoreSize"), quantity);
    assert_eq!(field("volumesnapshotcontents", "creationTime"), nanoseconds);
    assert_eq!(field("volumesnapshotcontents", "restoreSize"), bytes);
    assert_eq!(field("volumegroupsnapshots", "creationTime"), text);
    assert_eq!(field("volumegroupsnapshotcontents", "creationTime"), text);
}

/// Kubernetes' own suite and older clients ask for group snapshots in the versions before `v1`.
#[test]
fn group_snapshots_are_served_in_every_version_that_clients_ask_for() {
    for crd in CrdGroup::GroupSnapshots.crds() {
        let versions = &crd.spec.versions;
        let shown: Vec<_> = versions
            .iter()
            .map(|version| (version.name.as_str(), version.served, version.storage))
            .collect();
        assert_eq!(
            shown,
            [
                ("v1", true, true),
                ("v1beta1", true, false),
                ("v1beta2", true, false)
            ]
        );
        let same = |one: &CustomResourceDefinitionVersion| {
            one.schema == versions[0].schema && one.subresources == versions[0].subresources
        };
        assert!(versions.iter().all(same), "nothing converts them");
        assert_eq!(crd.spec.conversion, None);
    }
    for group in [CrdGroup::DriverDeployments, CrdGroup::Snapshots] {
        assert!(group.crds().iter().all(|crd| crd.spec.versions.len() == 1));
    }
}
