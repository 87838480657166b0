//! The plain manifests of `deploy/`, for those without Helm: what the chart stowage comes to.

use std::collections::BTreeMap;
use std::fs;

use stowage_chart::chart::Chart;
use stowage_chart::manifest::Manifest;
use stowage_chart::render::{Identity, Templates, no_cluster};

use super::{STOWAGE, olm, own};
use crate::workspace;

/// One template, with values of its own, is one file.
const TEMPLATES: &[(&str, &str, &str)] = &[
    (
        "prerequisites/03-service-account.yaml",
        "operator/service-account.yaml",
        "{}",
    ),
    ("prerequisites/04-rules.yaml", "operator/rules.yaml", "{}"),
    (
        "prerequisites/05-bindings.yaml",
        "operator/bindings.yaml",
        "{}",
    ),
    ("prerequisites/06-config.yaml", "operator/config.yaml", "{}"),
    ("prerequisites/07-roles.yaml", "operator/roles.yaml", "{}"),
    ("prerequisites/08-quota.yaml", "operator/quota.yaml", "{}"),
    ("operator.yaml", "operator/deployment.yaml", "{}"),
    (
        "draining.yaml",
        "operator/draining.yaml",
        r#"{"operator": {"draining": true}}"#,
    ),
    (
        "startup-taint.yaml",
        "operator/startup-taint.yaml",
        r#"{"operator": {"startupTaint": true}}"#,
    ),
    (
        "secrets-of-all-namespaces.yaml",
        "operator/secrets.yaml",
        r#"{"operator": {"secretsOfAllNamespaces": true}}"#,
    ),
    (
        "weka/rules.yaml",
        "weka-clients/rules.yaml",
        r#"{"wekaClients": {"enabled": true}}"#,
    ),
    (
        "weka/binding.yaml",
        "weka-clients/binding.yaml",
        r#"{"wekaClients": {"enabled": true}}"#,
    ),
    (
        "snapshot-controller.yaml",
        "snapshot-controller.yaml",
        r#"{"snapshotController": {"enabled": true}}"#,
    ),
];

/// A file of `deploy/samples`: the driver of these values, with what stands around its instance.
struct Sample {
    file: &'static str,
    values: &'static str,
    text: &'static str,
}

const SAMPLES: &[Sample] = &[
    Sample {
        file: "hostpath.yaml",
        values: r#"{"drivers": {"hostpath": {
            "namespace": "default", "stateDirectory": "/var/lib/stowage/csi-hostpath",
            "storageClasses": [
                {"metadata": {"name": "my-default-class"}, "default": true, "allowVolumeExpansion": true},
                {"metadata": {"name": "my-non-default-class"}, "default": false, "allowVolumeExpansion": true}],
            "snapshotClasses": [{"metadata": {"name": "my-snapshot-class"}, "default": true, "deletionPolicy": "Delete"}]}}}"#,
        text: "\
# The embedded hostpath driver with one controller: all volumes live on the node where the controller runs.
{{ include \"stowage.hostpath\" (dict \"root\" . \"driver\" .Values.drivers.hostpath) }}
",
    },
    Sample {
        file: "hostpath-every-node.yaml",
        values: r#"{"drivers": {"hostpath": {
            "name": "hostpath-local", "namespace": "default", "layout": "everyNode",
            "csiDriverName": "local.hostpath.stowage.dev", "stateDirectory": "/var/lib/stowage/hostpath",
            "storageClasses": [{"metadata": {"name": "hostpath-local"},
                "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true}],
            "snapshotClasses": [{"metadata": {"name": "hostpath-local"}, "deletionPolicy": "Delete"}]}}}"#,
        text: "\
# The embedded hostpath driver on every node, each with the volumes of its own pods. No controller pod: the sidecar of
# a node makes the volumes of that node.
{{ include \"stowage.hostpath\" (dict \"root\" . \"driver\" .Values.drivers.hostpath) }}
",
    },
    Sample {
        file: "weka.yaml",
        values: r#"{"drivers": {"weka": {"namespace": "csi-wekafs"}}}"#,
        text: include_str!("samples/weka.tpl"),
    },
    Sample {
        file: "weka-selinux-enforced.yaml",
        values: r#"{"drivers": {"weka": {"namespace": "csi-wekafs", "selinuxSupport": "enforced"}}}"#,
        text: "\
# The Weka driver on a cluster where every node has SELinux (selinuxSupport: enforced), in place of the CSIDriverDeployment of
# weka.yaml: apply that first. Each node needs the policy: docs/guides/weka.md, \"SELinux\".
{{ include \"stowage.weka\" (dict \"root\" . \"driver\" .Values.drivers.weka) }}
",
    },
    Sample {
        file: "weka-selinux-mixed.yaml",
        values: r#"{"drivers": {"weka": {"namespace": "csi-wekafs", "selinuxSupport": "mixed"}}}"#,
        text: "\
# The Weka driver on a cluster where some nodes have SELinux (selinuxSupport: mixed), in place of the CSIDriverDeployment of
# weka.yaml: apply that first. Nodes with SELinux have the label csi.weka.io/selinux_enabled=true, and the policy:
# docs/guides/weka.md, \"SELinux\".
{{ include \"stowage.weka\" (dict \"root\" . \"driver\" .Values.drivers.weka) }}
",
    },
    Sample {
        file: "vpsa.yaml",
        values: r#"{"drivers": {"vpsa": {"namespace": "csi-vpsa"}}}"#,
        text: include_str!("samples/vpsa.tpl"),
    },
    Sample {
        file: "vpsa-node-loss.yaml",
        values: r#"{"drivers": {"vpsa": {"namespace": "csi-vpsa"}}}"#,
        text: "\
# Rights for `--node-loss-timeout` of the controller of deploy/samples/vpsa.yaml (docs/guides/vpsa.md, \"Nodes that are lost\"):
{{ include \"stowage.vpsa.nodeLossRights\" (dict \"root\" . \"driver\" .Values.drivers.vpsa) }}
",
    },
    Sample {
        file: "vpsa-topology.yaml",
        values: r#"{"drivers": {"vpsa": {"namespace": "csi-vpsa"}}}"#,
        text: "\
# What nodes need beside deploy/samples/vpsa.yaml where VPSAs are local to zones: with --topology-keys they read the labels of
# their Node.
{{ include \"stowage.vpsa.topologyRights\" (dict \"root\" . \"driver\" .Values.drivers.vpsa) }}
",
    },
];

/// Files of the operator that are not of the chart: its definition, and its namespace.
const BEFORE_THE_CHART: [&str; 2] = [
    "prerequisites/01-crd.yaml",
    "prerequisites/02-namespace.yaml",
];

/// Each file with what it should hold.
pub(super) fn files() -> anyhow::Result<Vec<(String, String)>> {
    let chart = Chart::load(&workspace::root().join(STOWAGE))?;
    let release = Identity::new("csi-operator", "stowage");
    let mut files = BTreeMap::new();
    for (file, template, values) in TEMPLATES {
        let templates = Templates::of(&chart, &own(values)?, &release, no_cluster())?;
        let texts = templates.render()?.texts;
        let text = texts.get(&format!("stowage/templates/{template}"));
        let text = text.map(String::as_str).unwrap_or_default();
        files.insert(format!("deploy/{file}"), tidy(text));
    }
    for sample in SAMPLES {
        let templates = Templates::of(&chart, &own(sample.values)?, &release, no_cluster())?;
        let text = templates.text(sample.text)?;
        files.insert(format!("deploy/samples/{}", sample.file), tidy(&text));
    }
    files.insert("deploy/kustomization.yaml".to_owned(), kustomization());
    files.extend(of_the_lifecycle_manager(&chart, &release)?);
    Ok(files.into_iter().collect())
}

/// The operator as one thing: what every installation has, in the order in which it is applied.
fn kustomization() -> String {
    let of_the_chart = TEMPLATES.iter().map(|(file, ..)| *file);
    let operator =
        of_the_chart.filter(|it| it.starts_with("prerequisites/") || *it == "operator.yaml");
    let resources: String = BEFORE_THE_CHART
        .into_iter()
        .chain(operator)
        .map(|file| format!("- {file}\n"))
        .collect();
    format!(
        "# The operator, for `kubectl apply -k deploy` and for overlays of your own. Drivers: samples/. Written by `./x check --fix`: do not edit.\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{resources}"
    )
}

fn of_the_lifecycle_manager(
    chart: &Chart,
    release: &Identity,
) -> anyhow::Result<Vec<(String, String)>> {
    let templates = Templates::of(chart, &own("{}")?, release, no_cluster())?;
    let manifest = Manifest::of(&templates.render()?)?;
    let definition = fs::read_to_string(
        workspace::root().join("deploy/crds/csidriver.storage.openshift.io.yaml"),
    )?;
    let example =
        r#"{{ include "stowage.hostpath" (dict "root" . "driver" .Values.drivers.hostpath) }}"#;
    let example = stowage_chart::from_yaml(&templates.text(example)?)?;
    olm::files(&manifest, &definition, &example)
}

/// No spaces at the ends of lines, and one line's end at the end.
fn tidy(text: &str) -> String {
    let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prerequisites_are_in_the_kustomization() {
        let text = kustomization();
        let listed: Vec<_> = text
            .lines()
            .filter_map(|it| it.strip_prefix("- prerequisites/"))
            .collect();
        let directory = fs::read_dir(workspace::root().join("deploy/prerequisites")).unwrap();
        let names = directory.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(listed, names, "in the order of their numbers");
        assert!(text.ends_with("\n- operator.yaml\n"), "{text}");
    }
}
