//! Manifests that were looked at by a person. After a change that is meant: `STOWAGE_UPDATE_GOLDEN=1 cargo test -p
//! stowage-operator --test it generator`, then review the difference as a change of the API.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stowage_operator::served::Versions;

use crate::generator::{CASES, Case};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn rendered(case: &Case) -> Vec<Value> {
    let objects = case.objects();
    objects
        .iter()
        .map(|object| object.manifest(Versions::NEWEST))
        .collect()
}

fn write(path: &Path, documents: &[Value]) {
    let documents = documents
        .iter()
        .map(|it| serde_saphyr::to_string(it).unwrap());
    let documents: Vec<_> = documents.collect();
    fs::write(path, documents.join("---\n")).unwrap();
}

/// Kind and name, to find a document by.
fn title(document: &Value) -> String {
    format!("{} {}", document["kind"], document["metadata"]["name"])
}

#[test]
fn manifests_are_those_that_were_reviewed() {
    for case in CASES {
        assert_reviewed(case.name, &rendered(&case));
    }
}

/// Compares with the manifests of a case, or writes them.
pub(crate) fn assert_reviewed(name: &str, rendered: &[Value]) {
    let path = directory().join(name).join("objects.yaml");
    if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
        write(&path, rendered);
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    let reviewed: Vec<Value> = serde_saphyr::from_multiple(&reviewed).unwrap();
    for (rendered, reviewed) in rendered.iter().zip(&reviewed) {
        assert_eq!(title(rendered), title(reviewed), "{name}: order of objects");
        assert_eq!(
            serde_saphyr::to_string(rendered).unwrap(),
            serde_saphyr::to_string(reviewed).unwrap(),
            "{name}"
        );
    }
    assert_eq!(rendered.len(), reviewed.len(), "{name}");
}

#[test]
fn pods_have_as_many_containers_as_promised() {
    let containers = |case: &Case| -> Vec<usize> {
        let documents = rendered(case);
        let workloads = documents
            .iter()
            .filter_map(|it| it.pointer("/spec/template/spec/containers"));
        workloads
            .map(|list| list.as_array().unwrap().len())
            .collect()
    };
    // The DaemonSet first, then the Deployment.
    assert_eq!(containers(&Case::new("seed-builtin")), [2, 2]);
    assert_eq!(containers(&Case::new("seed-upstream")), [2, 3]);
    assert_eq!(containers(&Case::new("every-node")), [2]);
}

#[test]
fn the_samples_in_deploy_are_valid() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples");
    let mut seen = 0;
    for entry in fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(&path).unwrap();
        let documents = manifest.split("\n---\n");
        for document in documents.filter(|text| text.contains("kind: CSIDriverDeployment")) {
            let instance = serde_saphyr::from_str(document).unwrap();
            let config = stowage_operator::config::OperatorConfig::default();
            let ports = stowage_operator::driver::valid::Ports::starting_at(9808);
            let valid =
                stowage_operator::driver_deployment::validate::validate(&instance, &config, ports);
            assert!(valid.is_ok(), "{name}: {:?}", valid.unwrap_err());
            // Without it, and without a filesystem type in the class, the kubelet ignores the fsGroup of pods.
            assert!(document.contains("fsGroupPolicy: File"), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// The instance of a sample for Weka.
fn weka_sample(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples");
    let manifest = fs::read_to_string(path.join(name)).unwrap();
    let mut documents = manifest.split("\n---\n");
    let instance = documents.find(|it| it.contains("kind: CSIDriverDeployment"));
    serde_saphyr::from_str(instance.unwrap()).unwrap()
}

/// Takes away what a template has for nodes with SELinux; whether that was anything.
fn without_selinux(template: &mut Value) -> bool {
    let pod = template["spec"].as_object_mut().unwrap();
    let shown = pod.remove("volumes");
    let driver = &mut pod["containers"][0];
    let mounted = driver.as_object_mut().unwrap().remove("volumeMounts");
    let arguments = driver["args"].as_array_mut().unwrap();
    let before = arguments.len();
    arguments.retain(|word| word != "--selinux-support");
    let is_labelled = arguments.len() < before;
    assert_eq!(
        (shown.is_some(), mounted.is_some()),
        (is_labelled, is_labelled)
    );
    is_labelled
}

#[test]
fn samples_for_selinux_are_the_sample_with_labels_on_all_nodes_or_on_some() {
    let plain = weka_sample("weka.yaml");
    let mut enforced = weka_sample("weka-selinux-enforced.yaml");
    for template in ["driverPerNodeTemplate", "driverControllerTemplate"] {
        assert!(
            without_selinux(&mut enforced["spec"][template]),
            "{template}"
        );
    }
    assert_eq!(enforced, plain);

    let mut mixed = weka_sample("weka-selinux-mixed.yaml");
    let spec = mixed["spec"].as_object_mut().unwrap();
    let mut variants = spec.remove("nodeVariants").unwrap();
    let label = &variants[0]["nodeLabel"];
    assert_eq!(label["key"], "csi.weka.io/selinux_enabled");
    assert_eq!(label["value"], "true");
    let template = &mut variants[0]["template"];
    assert!(without_selinux(template));
    assert_eq!(*template, plain["spec"]["driverPerNodeTemplate"]);
    let controller = spec["driverControllerTemplate"]["spec"]
        .as_object_mut()
        .unwrap();
    assert!(controller.remove("affinity").is_some());
    assert_eq!(mixed, plain);
}
