//! The instance that takes the plugin's place: the sample, with what carries over.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::facts::{Facts, Workload};
use super::flags::{LEGACY_DIRECTORY, Settings};
use super::report::{Instance, PluginWorkload};
use super::secrets::{ClassSecret, of_class};
use super::{classes, selinux, volumes};
use crate::handle::Handle;

/// Where the kubelet is as a rule.
const KUBELET: &str = "/var/lib/kubelet";

/// Flags of the sample that are an instance's own choice: what the plugin had counts.
const CHOICES: [&str; 3] = [
    "--allowautofscreation",
    "--allowautofsexpansion",
    "--managenodetopologylabels",
];

/// The mode of the plugin's server of figures.
const FIGURES: &str = "metricsserver";

/// A workload of the plugin, and what carries over of it.
type Source<'a> = (&'a Workload, &'a PluginWorkload);

/// All that decides about the instance.
pub(super) struct Plan<'a> {
    pub(super) facts: &'a Facts,
    pub(super) instance: &'a Instance,
    pub(super) plugin: &'a [&'a Workload],
    pub(super) workloads: &'a [PluginWorkload],
    pub(super) settings: &'a Settings,
}

impl Plan<'_> {
    /// Fills in the documents of the sample.
    pub(super) fn write(&self, mut sample: Vec<Value>) -> Vec<Value> {
        // A namespace that exists stays out of it: who deletes what is in a file must not delete the secrets there.
        let mut accounts = self.facts.accounts.iter();
        let exists = accounts.any(|it| it.namespace.as_deref() == Some(&*self.instance.namespace));
        sample.retain(|document| !(exists && document["kind"] == "Namespace"));
        for document in &mut sample {
            self.rename(document);
            if document["kind"] == "CSIDriverDeployment" {
                self.fill(&mut document["spec"]);
            }
        }
        sample
    }

    fn rename(&self, document: &mut Value) {
        let Instance { namespace, name } = self.instance;
        match document["kind"].as_str().unwrap_or_default() {
            "Namespace" => document["metadata"]["name"] = json!(namespace),
            "RoleBinding" => {
                document["metadata"]["namespace"] = json!(namespace);
                document["subjects"][0]["namespace"] = json!(self.facts.operator_namespace());
            }
            "CSIDriverDeployment" => {
                document["metadata"]["namespace"] = json!(namespace);
                document["metadata"]["name"] = json!(name);
            }
            "ClusterRole" => document["metadata"]["name"] = json!(format!("{name}-node-labels")),
            "ClusterRoleBinding" => {
                let labels = json!(format!("{name}-node-labels"));
                document["metadata"]["name"] = labels.clone();
                document["roleRef"]["name"] = labels;
                document["subjects"][0]["name"] = json!(format!("{name}-node"));
                document["subjects"][0]["namespace"] = json!(namespace);
            }
            _ => {}
        }
    }

    fn fill(&self, spec: &mut Value) {
        spec["driverName"] = json!(self.facts.driver);
        self.keep_driver_object(spec);
        let controllers = self.of_modes("controller");
        if let Some(replicas) = controllers
            .first()
            .and_then(|(workload, _)| workload.replicas)
        {
            spec["controllerReplicas"] = json!(replicas);
        }
        let legacy = self.plugin.iter().find_map(|it| it.legacy_secret());
        if let Some(secret) = legacy {
            spec["driverSecrets"] = json!([
                {"secretName": secret.name, "mountPath": LEGACY_DIRECTORY, "optional": true}
            ]);
        }
        if let Some(root) = self.plugin.iter().find_map(|it| kubelet_root(it)) {
            spec["kubeletRootDir"] = json!(root);
        }
        if self.has_secrets_by_claim() {
            spec["sidecars"]["secretAccess"] = json!("Cluster");
        }
        self.fill_template(
            "controller",
            &controllers,
            &mut spec["driverControllerTemplate"],
        );
        self.fill_node_templates(spec);
    }

    /// The plugin may have had two kinds of node pods, as we have: those for SELinux are a variant.
    fn fill_node_templates(&self, spec: &mut Value) {
        let (labelled, plain): (Vec<_>, Vec<_>) = self
            .of_modes("node")
            .into_iter()
            .partition(|(_, carried)| selinux::labels_mounts(carried));
        let template = &mut spec["driverPerNodeTemplate"];
        let untouched = template.clone();
        if plain.is_empty() || labelled.is_empty() {
            self.fill_template("node", &[plain, labelled].concat(), template);
            return;
        }
        let label = selinux::label(labelled[0].0);
        self.fill_template("node", &plain, template);
        selinux::drop_label(template, &label);
        let mut variant = untouched;
        self.fill_template("node", &labelled, &mut variant);
        spec["nodeVariants"] = selinux::variant(&label, variant);
    }

    /// Gives a template what workloads of the plugin had: the first of them says where it runs.
    fn fill_template(&self, mode: &str, sources: &[Source<'_>], template: &mut Value) {
        let pod = &mut template["spec"];
        self.arguments(mode, sources, &mut pod["containers"][0]["args"]);
        if let Some((workload, _)) = sources.iter().find(|(_, it)| it.mode != FIGURES) {
            place(workload, pod);
        }
        if sources
            .iter()
            .any(|(_, carried)| selinux::labels_mounts(carried))
        {
            selinux::show_kernel(pod);
        }
    }

    /// A CSIDriver object that is taken over stays as it is: most of it cannot be changed.
    fn keep_driver_object(&self, spec: &mut Value) {
        let Some(object) = &self.facts.csi_driver else {
            return;
        };
        let wanted = &object.spec;
        let kept = &mut spec["csiDriver"]["spec"];
        for (field, value) in [
            ("attachRequired", json!(wanted.attach_required)),
            ("podInfoOnMount", json!(wanted.pod_info_on_mount)),
            ("fsGroupPolicy", json!(wanted.fs_group_policy)),
            ("volumeLifecycleModes", json!(wanted.volume_lifecycle_modes)),
        ] {
            if !value.is_null() {
                kept[field] = value;
            }
        }
    }

    /// The workloads whose work one of ours does. Its server of figures comes last: the controller does its work.
    fn of_modes(&self, mode: &str) -> Vec<Source<'_>> {
        let both = self.plugin.iter().copied().zip(self.workloads);
        let of_mode = |(_, carried): &Source<'_>| {
            let is_figures = carried.mode == FIGURES && mode == "controller";
            carried.mode == mode || carried.mode == "all" || is_figures
        };
        let mut found: Vec<_> = both.filter(of_mode).collect();
        found.sort_by_key(|(_, carried)| carried.mode == FIGURES);
        found
    }

    fn arguments(&self, mode: &str, sources: &[Source<'_>], arguments: &mut Value) {
        let Some(words) = arguments.as_array_mut() else {
            return;
        };
        for word in words.iter_mut() {
            if word
                .as_str()
                .is_some_and(|it| it.starts_with("--drivername="))
            {
                *word = json!(format!("--drivername={}", self.facts.driver));
            }
        }
        if sources.iter().any(|(_, carried)| carried.mode != FIGURES) {
            words.retain(|word| !CHOICES.iter().any(|choice| word == choice));
        }
        let carried = sources
            .iter()
            .flat_map(|(_, carried)| carried.flags.iter().cloned());
        let earlier = self.earlier_paths().into_iter();
        let earlier = earlier.map(|path| format!("--earlier-dynamic-path={path}"));
        let labels = (mode == "node" && self.needs_labels())
            .then(|| "--managenodetopologylabels".to_owned());
        for flag in carried.chain(earlier).chain(labels) {
            if !words.iter().any(|word| *word == flag) {
                words.push(json!(flag));
            }
        }
    }

    fn earlier_paths(&self) -> BTreeSet<String> {
        let volumes = self.facts.volumes.iter();
        let handles = volumes.filter_map(|volume| {
            let csi = volume.spec.as_ref()?.csi.as_ref()?;
            Handle::parse(&csi.volume_handle).ok()
        });
        let paths = handles.filter_map(|handle| volumes::earlier_path(&handle, self.settings));
        // The root has a name, too.
        paths.map(|path| format!("/{}", path.display())).collect()
    }

    /// Whether volumes can be used on nodes with a label only.
    fn needs_labels(&self) -> bool {
        let label = format!("topology.{}/accessible", self.facts.driver);
        let mut volumes = self.facts.volumes.iter();
        volumes.any(|volume| {
            let affinity = volume
                .spec
                .as_ref()
                .and_then(|spec| spec.node_affinity.as_ref());
            let required = affinity.and_then(|affinity| affinity.required.as_ref());
            let terms = required
                .iter()
                .flat_map(|required| &required.node_selector_terms);
            let mut wishes = terms.flat_map(|term| term.match_expressions.iter().flatten());
            wishes.any(|wish| wish.key == label)
        })
    }

    fn has_secrets_by_claim(&self) -> bool {
        let classes = self.facts.classes.iter();
        let mut secrets = classes
            .filter_map(|class| class.parameters.as_ref())
            .flat_map(|parameters| of_class(parameters, &classes::PURPOSES))
            .flatten();
        secrets.any(|(_, secret)| matches!(secret, ClassSecret::ByClaim(_)))
    }
}

/// Where pods of the plugin run, and as what.
fn place(workload: &Workload, pod: &mut Value) {
    let from = &workload.pod;
    for (field, value) in [
        ("nodeSelector", json!(from.node_selector)),
        ("affinity", json!(from.affinity)),
        ("tolerations", json!(from.tolerations)),
        ("priorityClassName", json!(from.priority_class_name)),
        ("hostNetwork", json!(from.host_network)),
        ("dnsPolicy", json!(dns_policy(from))),
        ("imagePullSecrets", json!(from.image_pull_secrets)),
    ] {
        let empty = [json!(null), json!({}), json!([]), json!(""), json!(false)];
        if !empty.contains(&value) {
            pod[field] = value;
        }
    }
}

/// How names are found. On the node's network it is not the cluster's way by itself, and the plugin's controller does not ask for
/// it; endpoints in secrets may be names of Services.
fn dns_policy(pod: &PodSpec) -> Option<&str> {
    let is_default = |policy: &&str| *policy == "ClusterFirst";
    let given = pod.dns_policy.as_deref().filter(|it| !is_default(it));
    given.or_else(|| (pod.host_network == Some(true)).then_some("ClusterFirstWithHostNet"))
}

/// The kubelet's directory, if it is not the usual one.
fn kubelet_root(workload: &Workload) -> Option<String> {
    let volumes = workload.pod.volumes.iter().flatten();
    let mut paths = volumes.filter_map(|volume| volume.host_path.as_ref());
    let root = paths.find_map(|path| {
        path.path
            .trim_end_matches('/')
            .strip_suffix("/plugins_registry")
    })?;
    (root != KUBELET).then(|| root.to_owned())
}
